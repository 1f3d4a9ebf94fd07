package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// isReadError tells an error of reading a file from one of writing to where it is sent.
func isReadError(err error) bool {
	var pathErr *fs.PathError
	return errors.As(err, &pathErr) && (pathErr.Op == "read" || pathErr.Op == "seek")
}

// bytesBody is a part that is in memory.
type bytesBody struct {
	bytes  []byte
	pooled *[]byte // goes back to the pool
}

// Size implements storage.Body.
func (b *bytesBody) Size() int64 { return int64(len(b.bytes)) }

// WriteTo implements storage.Body.
func (b *bytesBody) WriteTo(w io.Writer, _ func() error) (int64, error) {
	if len(b.bytes) == 0 {
		return 0, nil
	}
	n, err := w.Write(b.bytes)
	return int64(n), err //nolint:wrapcheck // the writer's own error
}

// Close implements storage.Body.
func (b *bytesBody) Close() error {
	b.bytes = nil
	if b.pooled != nil {
		putBuffer(b.pooled)
		b.pooled = nil
	}
	return nil
}

// fileBody is a part of one file that does not change.
type fileBody struct {
	log  *log
	file readFile
	path string
	pos  int64
	n    int64
}

// Size implements storage.Body.
func (b *fileBody) Size() int64 { return b.n }

// WriteTo implements storage.Body.
func (b *fileBody) WriteTo(w io.Writer, _ func() error) (int64, error) {
	return b.log.copySection(w, b.file, b.path, b.pos, b.n)
}

// Close implements storage.Body.
func (b *fileBody) Close() error {
	if err := b.file.Close(); err != nil {
		return fmt.Errorf("close chunk: %w", err)
	}
	return nil
}

// buffers are of ioBytes, or more if an item is. One that an unusual item made big is not kept.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, ioBytes)
	return &b
}}

func getBuffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

func putBuffer(b *[]byte) {
	if cap(*b) <= 4*ioBytes {
		buffers.Put(b)
	}
}
