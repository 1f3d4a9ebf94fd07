package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/storage"
)

// smallBody is up to what size, in bytes, a part of a log is read before its headers are sent. Then a log that is removed
// in that moment gives a clean 409, and the response is one write.
const smallBody = 64 << 10

// buffers hold the small bodies while they are sent.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// sendArray sends a JSON array of at most one item as the whole body.
func sendArray(w http.ResponseWriter, r *http.Request, item []byte) *failure {
	body := make([]byte, 0, len(item)+2)
	body = append(append(append(body, '['), item...), ']')
	return sendWhole(w, r, body)
}

func sendWhole(w http.ResponseWriter, r *http.Request, body []byte) *failure {
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
	return nil
}

// sendSmall reads the whole part, and sends it with what comes after it. head sets the headers; it is called only when
// nothing can fail any more.
func sendSmall(w http.ResponseWriter, r *http.Request, part storage.Body, tail []byte, head func(coding)) *failure {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	buf.Reset()
	defer buffers.Put(buf)
	if err := writeArray(buf, part, tail, nil); err != nil {
		return fromError(err, errInternal)
	}
	head(identity)
	return sendWhole(w, r, buf.Bytes())
}

// wholeSize is the length of the array that holds a part of size bytes and the item tail, which may be empty.
func wholeSize(size int64, tail []byte) int64 {
	if size > 0 && len(tail) > 0 {
		size++
	}
	return size + 2 + int64(len(tail))
}

// writeArray writes the array of a part and the item tail, which may be empty.
func writeArray(w io.Writer, part storage.Body, tail []byte, flush func() error) error {
	if _, err := w.Write([]byte{'['}); err != nil {
		return err
	}
	n, err := part.WriteTo(w, flush)
	if err != nil {
		return err
	}
	end := make([]byte, 0, len(tail)+2)
	if n > 0 && len(tail) > 0 {
		end = append(end, ',')
	}
	_, err = w.Write(append(append(end, tail...), ']'))
	return err
}

// whole returns the array of a part of known size and the item tail, compressed if it is large enough for that.
func (s *server) whole(part storage.Body, tail []byte, c coding) ([]byte, coding, error) {
	size := wholeSize(part.Size(), tail)
	var out bytes.Buffer
	if c == identity || size < minCompressed {
		out.Grow(int(size))
		err := writeArray(&out, part, tail, nil)
		return out.Bytes(), identity, err
	}
	err := s.encoders.whole(c, &out, func(w io.Writer) error { return writeArray(w, part, tail, nil) })
	return out.Bytes(), c, err
}

// stream sends a part of any size as it is read, compressed if an encoder is free; head sets the headers. When the part
// cannot be read to its end the connection is cut, so that what was sent is not taken for the whole (B163).
func (s *server) stream(w http.ResponseWriter, r *http.Request, part storage.Body, tail []byte, c coding, head func(coding)) {
	to, flush := io.Writer(w), flusher(w)
	var enc encoder
	if c != identity {
		if enc = s.encoders.stream(c, w); enc == nil {
			c = identity
		} else {
			defer s.encoders.endStream(c, enc)
			to, flush = enc, func() error { return errors.Join(enc.Flush(), flusher(w)()) }
		}
	}
	head(c)
	if size := part.Size(); size >= 0 && enc == nil {
		w.Header()["Content-Length"] = []string{strconv.FormatInt(wholeSize(size, tail), 10)}
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	err := writeArray(to, part, tail, flush)
	if err == nil && enc != nil {
		err = enc.Close()
	}
	if err != nil {
		s.cut(r.Context(), w, err)
	}
}

// unreadable returns the failure for an error of reading a shape's log.
func (s *server) unreadable(h shape.Handle, err error) *failure {
	s.endDamaged(h, err)
	return fromError(err, errInternal)
}

// endDamaged reports whether err says that a log is damaged. Such a log fails for every request that comes, so its shape
// ends: the next request is answered from a new one.
func (s *server) endDamaged(h shape.Handle, err error) bool {
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) {
		return false
	}
	s.backend.Damaged(h)
	return true
}

// flusher returns what a Body calls before it waits for more.
func flusher(w http.ResponseWriter) func() error {
	if rw, ok := w.(*responseWriter); ok {
		return rw.flush
	}
	return http.NewResponseController(w).Flush
}

// cut ends a response that has begun and cannot be completed. It does not return.
func (s *server) cut(ctx context.Context, w http.ResponseWriter, err error) {
	if s.endDamaged(shape.Handle(w.Header().Get("Electric-Handle")), err) {
		s.opts.Logger.ErrorContext(ctx, "shape log is corrupt", "request_id", w.Header().Get("X-Request-Id"), "error", err)
	} else {
		// Mostly a client that went away, or a shape that was removed while it was read.
		s.opts.Logger.DebugContext(ctx, "response cut off", "request_id", w.Header().Get("X-Request-Id"), "error", err)
	}
	panic(http.ErrAbortHandler)
}
