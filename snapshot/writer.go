package snapshot

import (
	"bytes"
	"fmt"

	"github.com/shapeserver/shapeserver/shapelog"
)

// rowWriter is what COPY's data is written to: it turns rows into log items and hands them to the Sink.
type rowWriter struct {
	enc     *shapelog.Encoder
	sink    Sink
	text    copyText
	started func() // called once, before the first row; nil afterwards
	partial []byte // the beginning of a row whose end has not come yet
	json    []byte
	sinkErr error // what the Sink returned, so that Read can tell it from Postgres's errors
	rows    int64
}

// Write takes data as it comes. Postgres sends a row a message, but that is not promised, so rows may be cut anywhere.
func (w *rowWriter) Write(p []byte) (int, error) {
	if w.started != nil {
		w.started()
		w.started = nil
	}
	n := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			w.partial = append(w.partial, p...)
			return n, nil
		}
		line := p[:end]
		if len(w.partial) > 0 {
			w.partial = append(w.partial, line...)
			line = w.partial
		}
		if err := w.line(line); err != nil {
			return 0, err
		}
		w.partial = w.partial[:0]
		p = p[end+1:]
		if len(p) == 0 {
			return n, nil
		}
	}
}

func (w *rowWriter) line(line []byte) error {
	row, err := w.text.parse(line)
	if err != nil {
		return fmt.Errorf("read row %d: %w", w.rows+1, err)
	}
	w.rows++
	w.json = w.enc.AppendInsert(w.json[:0], shapelog.Position{}, row, shapelog.KeyChange{})
	if err := w.sink.Row(w.json); err != nil {
		w.sinkErr = fmt.Errorf("write row %d: %w", w.rows, err)
		return w.sinkErr
	}
	return nil
}
