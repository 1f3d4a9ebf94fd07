package logstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/shapeserver/shapeserver/internal/notify"
	"github.com/shapeserver/shapeserver/storage"
)

// live is a snapshot while it is being written, for its readers.
type live struct {
	view notify.Var[liveView]
}

// liveView is one moment of it. Bytes that can be seen do not change, so a view stays right; only whether they are in
// memory or in a file may.
type liveView struct {
	closed []liveChunk // the complete chunks; a view's own, never written to
	open   liveChunk   // the chunk behind them, as far as it can be seen
	done   bool        // there is no open chunk and there will be none
	err    error       // nothing more will come
}

type liveChunk struct {
	mem  []byte // the bytes, unless they are in a file
	size int64
	file bool
}

func (v *liveView) size() int64 {
	n := v.open.size
	for _, c := range v.closed {
		n += c.size
	}
	return n
}

func (lv *live) size() int64 {
	v := lv.view.Load()
	return v.size()
}

func (lv *live) end(why error) {
	lv.view.Update(func(v liveView) (liveView, bool) {
		if v.done || v.err != nil {
			return v, false
		}
		v.err = why
		return v, true
	})
}

// liveBody reads a chunk of a snapshot that is being written, or is about to be.
type liveBody struct {
	ctx  context.Context //nolint:containedctx // Read is given it for the waits in WriteTo
	log  *log
	n    int
	file readFile
}

// Size implements storage.Body.
func (b *liveBody) Size() int64 { return -1 }

// WriteTo implements storage.Body.
func (b *liveBody) WriteTo(w io.Writer, flush func() error) (written int64, err error) {
	lv, err := b.begin(flush)
	if err != nil {
		return 0, err
	}
	if lv == nil {
		return b.writeComplete(w)
	}
	for {
		v, changed := lv.view.Get()
		var c liveChunk
		closed := false
		switch {
		case b.n < len(v.closed):
			c, closed = v.closed[b.n], true
		case b.n == len(v.closed) && !v.done:
			c = v.open
		case v.done:
			return written, nil // the snapshot ended before this chunk
		}
		if c.size > written {
			n, err := b.copy(w, c, written)
			written += n
			if err != nil {
				return written, err
			}
			continue // there may be more by now
		}
		if closed {
			return written, nil
		}
		if v.err != nil {
			return written, v.err
		}
		if err := b.wait(changed, flush); err != nil {
			return written, err
		}
	}
}

// writeComplete writes the chunk of a snapshot that was completed before this body saw anything of it.
func (b *liveBody) writeComplete(w io.Writer) (int64, error) {
	body, err := b.log.readSnapshot(b.ctx, uint64(b.n)) //nolint:gosec // not negative
	if err != nil {
		return 0, err
	}
	n, err := body.WriteTo(w, nil)
	if cerr := body.Close(); err == nil {
		err = cerr
	}
	return n, err //nolint:wrapcheck // a body's own error
}

// begin waits until the snapshot has begun. It gives nil when it is complete.
func (b *liveBody) begin(flush func() error) (*live, error) {
	for {
		st, changed := b.log.State()
		b.log.mu.Lock()
		lv, complete := b.log.live, b.log.meta.complete
		b.log.mu.Unlock()
		switch {
		case lv != nil:
			return lv, nil
		case st.Err != nil:
			return nil, st.Err
		case complete:
			return nil, nil //nolint:nilnil // see above
		}
		if err := b.wait(changed, flush); err != nil {
			return nil, err
		}
	}
}

func (b *liveBody) wait(changed <-chan struct{}, flush func() error) error {
	if flush != nil {
		if err := flush(); err != nil {
			return err
		}
	}
	select {
	case <-changed:
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	case <-b.log.store.closing:
		return ErrClosed
	}
}

// copy writes what can be seen of the chunk behind its first pos bytes.
func (b *liveBody) copy(w io.Writer, c liveChunk, pos int64) (int64, error) {
	if !c.file {
		n, err := w.Write(c.mem[pos:c.size])
		return int64(n), err //nolint:wrapcheck // the writer's own error
	}
	path := b.log.filePath(snapshotName(b.n))
	if b.file == nil {
		f, err := b.log.store.openFile(path)
		if err != nil {
			return 0, b.log.fileError(path, -1, err)
		}
		b.file = f
	}
	return b.log.copySection(w, b.file, path, pos, c.size-pos)
}

// Close implements storage.Body.
func (b *liveBody) Close() error {
	if b.file == nil {
		return nil
	}
	f := b.file
	b.file = nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("close chunk: %w", err)
	}
	return nil
}

// fileError says what an error of reading a file of the log means: that the log was removed, or that it is damaged.
func (l *log) fileError(path string, pos int64, err error) error {
	if e := l.ended(); e != nil {
		return e
	}
	var corrupt *storage.CorruptError
	if errors.As(err, &corrupt) {
		return err
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("%w: raise the limit of open files (ulimit -n)", err) // says nothing about the file
	}
	return &storage.CorruptError{Path: path, Pos: pos, Err: err}
}
