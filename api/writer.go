package api

import (
	"io"
	"net/http"
	"time"
)

const (
	// progressBytes is how much a client must accept within Options.WriteTimeout.
	progressBytes = 256 << 10
	// deadlineSlack is how old a write deadline may get before it is renewed; renewing costs more than a small write.
	deadlineSlack = time.Second
)

// responseWriter gives every write a deadline, so that a client that stops reading holds its goroutine, its permit and
// what the response has open no longer than the timeout (B167). It remembers what was sent for the access log.
type responseWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	renewed time.Time // when the deadline was last set
	status  int       // 0 before the header is written
	bytes   int64     // of the body
}

func newResponseWriter(w http.ResponseWriter, timeout time.Duration) *responseWriter {
	return &responseWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// renew moves the deadline. A writer without deadlines, as tests have, is used without.
func (w *responseWriter) renew() {
	now := time.Now()
	if now.Sub(w.renewed) < deadlineSlack {
		return
	}
	w.renewed = now
	_ = w.control.SetWriteDeadline(now.Add(w.timeout))
}

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	w.renew()
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *responseWriter) Write(p []byte) (int, error) {
	var written int
	for {
		if w.status == 0 {
			w.WriteHeader(http.StatusOK)
		}
		w.renew()
		part := p[written:min(len(p), written+progressBytes)]
		n, err := w.ResponseWriter.Write(part)
		written += n
		w.bytes += int64(n)
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// ReadFrom implements io.ReaderFrom, so that files are sent by the kernel. It hands net/http one piece after another,
// each with a deadline of its own, unwrapping a LimitedReader because the kernel path understands only one of them.
func (w *responseWriter) ReadFrom(src io.Reader) (int64, error) {
	inner, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(writerOnly{w}, src)
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	limit, limited := src.(*io.LimitedReader)
	var total int64
	for {
		piece := &io.LimitedReader{R: src, N: progressBytes}
		if limited {
			piece.R, piece.N = limit.R, min(limit.N, progressBytes)
		}
		if piece.N <= 0 {
			return total, nil
		}
		w.renew()
		n, err := inner.ReadFrom(piece)
		total += n
		w.bytes += n
		if limited {
			limit.N -= n
		}
		if err != nil || n == 0 || piece.N > 0 { // a piece with something left: src has ended
			return total, err
		}
	}
}

// flush sends what is buffered, with a deadline.
func (w *responseWriter) flush() error {
	w.renew()
	return w.control.Flush()
}

// writerOnly hides ReadFrom from io.Copy.
type writerOnly struct{ io.Writer }
