package api

import (
	"bufio"
	"io"
	"sync"
)

// eventBuffer is the size, in bytes, of what is gathered before it is written to a stream.
const eventBuffer = 16 << 10

var eventBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, eventBuffer) }}

// eventWriter turns JSON objects joined by commas, as storage keeps them, into events: "data: {…}" and an empty line. The
// objects may come in pieces of any size. They hold no line breaks, which JSON escapes in strings and the encoder writes
// nowhere else.
type eventWriter struct {
	out     *bufio.Writer
	depth   int  // of braces and brackets
	quoted  bool // inside a string
	escaped bool // after a backslash
}

func newEventWriter(w io.Writer) *eventWriter {
	out := eventBuffers.Get().(*bufio.Writer) //nolint:forcetypeassert // the pool holds nothing else
	out.Reset(w)
	return &eventWriter{out: out}
}

// release gives the buffer back; what was not flushed is lost.
func (e *eventWriter) release() {
	e.out.Reset(nil)
	eventBuffers.Put(e.out)
}

// Write implements io.Writer. What it takes may stay in the buffer.
func (e *eventWriter) Write(p []byte) (int, error) {
	start := 0
	for i := 0; i < len(p); i++ {
		if e.quoted {
			if i = e.skipString(p, i); i == len(p) {
				break
			}
			continue
		}
		switch p[i] {
		case '"':
			e.quoted = true
		case '{', '[':
			if e.depth == 0 {
				start = i
				if _, err := e.out.WriteString("data: "); err != nil {
					return 0, err
				}
			}
			e.depth++
		case '}', ']':
			if e.depth--; e.depth == 0 {
				if _, err := e.out.Write(p[start : i+1]); err != nil {
					return 0, err
				}
				if _, err := e.out.WriteString("\n\n"); err != nil {
					return 0, err
				}
				start = i + 1
			}
		}
	}
	if e.depth > 0 {
		if _, err := e.out.Write(p[start:]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// skipString returns where the string that p[i] stands in ends: the index of its closing quote, or len(p).
func (e *eventWriter) skipString(p []byte, i int) int {
	for ; i < len(p); i++ {
		switch {
		case e.escaped:
			e.escaped = false
		case p[i] == '\\':
			e.escaped = true
		case p[i] == '"':
			e.quoted = false
			return i
		}
	}
	return i
}
