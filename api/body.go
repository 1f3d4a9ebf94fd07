package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

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
func sendSmall(w http.ResponseWriter, r *http.Request, part storage.Body, tail []byte, head func()) *failure {
	buf := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	buf.Reset()
	defer buffers.Put(buf)
	buf.WriteByte('[')
	n, err := part.WriteTo(buf, nil)
	if err != nil {
		return fromError(err, errInternal)
	}
	if n > 0 && len(tail) > 0 {
		buf.WriteByte(',')
	}
	buf.Write(tail)
	buf.WriteByte(']')
	head()
	return sendWhole(w, r, buf.Bytes())
}

// stream sends a part of any size as it is read. When it cannot be read to its end the connection is cut, so that what was
// sent is not taken for the whole (B163).
func (s *server) stream(w http.ResponseWriter, r *http.Request, part storage.Body, tail []byte) {
	size := part.Size()
	if size >= 0 {
		whole := size + 2 + int64(len(tail))
		if size > 0 && len(tail) > 0 {
			whole++
		}
		w.Header()["Content-Length"] = []string{strconv.FormatInt(whole, 10)}
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	_, err := w.Write([]byte{'['})
	var n int64
	if err == nil {
		n, err = part.WriteTo(w, flusher(w))
	}
	if err == nil {
		if n > 0 && len(tail) > 0 {
			tail = append([]byte{','}, tail...)
		}
		_, err = w.Write(append(tail, ']'))
	}
	if err != nil {
		s.cut(r.Context(), w, err)
	}
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
	var corrupt *storage.CorruptError
	if errors.As(err, &corrupt) {
		s.opts.Logger.ErrorContext(ctx, "shape log is corrupt", "request_id", w.Header().Get("X-Request-Id"), "error", err)
	} else {
		// Mostly a client that went away, or a shape that was removed while it was read.
		s.opts.Logger.DebugContext(ctx, "response cut off", "request_id", w.Header().Get("X-Request-Id"), "error", err)
	}
	panic(http.ErrAbortHandler)
}
