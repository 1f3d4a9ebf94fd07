package logstore

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/storage"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// snapshotWriter implements storage.SnapshotWriter. It begins in memory; a snapshot that outgrows it goes on in files,
// one a chunk, and so does one that is small as a whole never touch one.
type snapshotWriter struct {
	log  *log
	live *live

	buf      []byte // the open chunk; with files, as much of it as is not written yet
	inFiles  bool
	inMemory int // bytes of all chunks while there are no files

	weight int64 // of the open chunk: its items' bytes and one more each
	size   int64 // bytes of the open chunk
	crc    uint32
	chunks []snapChunk // the complete ones

	file   vfs.File // of the open chunk; made when the first bytes are written
	syncer *syncer  // of the complete chunks' files; made with the first

	first bool // nothing was shown to the readers yet
	done  bool
	err   error
}

// NewSnapshot implements storage.Log.
func (l *log) NewSnapshot(snap changes.Snapshot, lsn changes.LSN) (storage.SnapshotWriter, error) {
	if err := l.ended(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.begun {
		complete, live := l.meta.complete, l.live
		l.mu.Unlock()
		if complete || live != nil {
			return nil, errors.New("begin snapshot: it was begun before")
		}
		return nil, errRecovered
	}
	l.begun = true
	l.meta.snap, l.meta.lsn = snap, lsn
	lv := &live{}
	l.live = lv
	l.state.Update(func(st storage.State) (storage.State, bool) {
		st.Phase, st.Chunks = storage.SnapshotWriting, 1
		return st, true
	})
	l.mu.Unlock()
	if err := l.ended(); err != nil {
		lv.end(err)
		return nil, err
	}
	return &snapshotWriter{log: l, live: lv, first: true}, nil
}

// Write implements storage.SnapshotWriter.
func (w *snapshotWriter) Write(json []byte) error {
	if w.err == nil && w.done {
		w.err = errors.New("write snapshot: it is finished")
	}
	if w.err == nil {
		w.err = w.write(json)
	}
	return w.err
}

func (w *snapshotWriter) write(json []byte) error {
	if !w.inFiles && w.inMemory+len(json)+1 > w.log.store.opts.SmallSnapshotBytes {
		if err := w.moveToFiles(); err != nil {
			return err
		}
	}
	w.add(json)
	switch {
	case w.weight >= w.log.store.opts.ChunkBytes:
		return w.closeChunk()
	case w.first || w.shownLess(showBytes):
		return w.show()
	}
	return nil
}

func (w *snapshotWriter) add(json []byte) {
	if w.size > 0 {
		w.buf = append(w.buf, ',')
		w.size++
	}
	w.buf = append(w.buf, json...)
	w.size += int64(len(json))
	w.weight += int64(len(json)) + 1
	w.inMemory += len(json) + 1
}

// shownLess reports that n bytes or more are not shown to the readers yet.
func (w *snapshotWriter) shownLess(n int) bool {
	if w.inFiles {
		return len(w.buf) >= n
	}
	v := w.live.view.Load()
	return w.size-v.open.size >= int64(n)
}

// show lets the readers see everything that was written.
func (w *snapshotWriter) show() error {
	if err := w.log.ended(); err != nil {
		return err
	}
	w.first = false
	c := liveChunk{size: w.size, file: w.inFiles}
	if w.inFiles {
		if err := w.flush(); err != nil {
			return err
		}
	} else {
		c.mem = w.buf
	}
	return w.update(func(v *liveView) { v.open = c })
}

func (w *snapshotWriter) update(f func(*liveView)) error {
	var err error
	w.live.view.Update(func(v liveView) (liveView, bool) {
		if err = v.err; err != nil {
			return v, false
		}
		f(&v)
		return v, true
	})
	return err
}

// flush writes what is buffered to the open chunk's file.
func (w *snapshotWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if w.file == nil {
		f, err := w.log.createFile(snapshotName(len(w.chunks)))
		if err != nil {
			return err
		}
		w.file = f
	}
	if err := w.log.store.space.snapshots(len(w.buf)); err != nil {
		return fmt.Errorf("write snapshot chunk %d: %w", len(w.chunks), err)
	}
	w.crc = crc32.Update(w.crc, castagnoli, w.buf)
	if _, err := w.file.Write(w.buf); err != nil {
		return fmt.Errorf("write snapshot chunk %d: %w", len(w.chunks), err)
	}
	w.buf = w.buf[:0]
	return nil
}

// closeChunk ends the open chunk and begins the next.
func (w *snapshotWriter) closeChunk() error {
	if err := w.show(); err != nil {
		return err
	}
	if err := w.endChunk(); err != nil {
		return err
	}
	err := w.update(func(v *liveView) {
		v.closed = append(v.closed[:len(v.closed):len(v.closed)], v.open)
		v.open = liveChunk{file: w.inFiles}
	})
	if err != nil {
		return err
	}
	w.log.state.Update(func(st storage.State) (storage.State, bool) {
		st.Chunks++
		return st, true
	})
	return nil
}

// endChunk notes the open chunk among the complete ones.
func (w *snapshotWriter) endChunk() error {
	w.chunks = append(w.chunks, snapChunk{size: w.size, crc: w.crc, file: w.inFiles, intact: true})
	w.size, w.weight, w.crc = 0, 0, 0
	if !w.inFiles {
		w.buf = nil // the readers have it
		return nil
	}
	if w.file == nil {
		return nil
	}
	if w.syncer == nil {
		w.syncer = newSyncer(max(1, int(unsyncedBytes/max(1, w.log.store.opts.ChunkBytes))))
	}
	f := w.file
	w.file = nil
	return w.syncer.add(f)
}

// moveToFiles writes what is in memory to files, where the readers find it from then on.
func (w *snapshotWriter) moveToFiles() error {
	v := w.live.view.Load()
	open, weight := w.buf, w.weight
	w.inFiles, w.inMemory = true, 0
	w.chunks = nil
	for _, c := range v.closed {
		w.buf = append([]byte(nil), c.mem...) // vfs.File.Write may change what it is given
		w.size = c.size
		if err := w.flush(); err != nil {
			return err
		}
		if err := w.endChunk(); err != nil {
			return err
		}
	}
	w.buf = append([]byte(nil), open...)
	w.size, w.weight = int64(len(open)), weight
	if err := w.flush(); err != nil {
		return err
	}
	shown := v.open.size > 0
	return w.update(func(v *liveView) {
		closed := make([]liveChunk, len(v.closed))
		for i, c := range v.closed {
			closed[i] = liveChunk{size: c.size, file: true}
		}
		v.closed = closed
		v.open = liveChunk{file: true}
		if shown {
			v.open.size = w.size
		}
	})
}

// Finish implements storage.SnapshotWriter. Readers see the end before it is on the disk, so that a first response does not wait
// for an fsync; a crash in between leaves a log that is incomplete and will be removed.
func (w *snapshotWriter) Finish(json []byte) error {
	if w.err == nil && w.done {
		w.err = errors.New("finish snapshot: it is finished")
	}
	if w.err == nil {
		w.err = w.finish(json)
	}
	return w.err
}

func (w *snapshotWriter) finish(json []byte) error {
	l := w.log
	w.add(json)
	if err := w.show(); err != nil {
		return err
	}
	if err := w.endChunk(); err != nil {
		return err
	}
	b := l.store.db.NewBatch()
	l.mu.Lock()
	m := l.meta
	l.mu.Unlock()
	m.complete, m.chunks = true, w.chunks
	if !w.inFiles {
		v := w.live.view.Load()
		for i, c := range append(v.closed[:len(v.closed):len(v.closed)], v.open) {
			m.chunks[i].crc = crc32.Checksum(c.mem, castagnoli)
			if err := b.Set(snapshotKey(l.id, i), c.mem, nil); err != nil {
				return fmt.Errorf("finish snapshot: %w", errors.Join(err, b.Close()))
			}
		}
	} else {
		if err := w.complete(m); err != nil {
			return errors.Join(err, b.Close())
		}
		if err := w.syncFiles(); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	if err := b.Set(handleKey(keyMeta, l.handle), m.encode(), nil); err != nil {
		return fmt.Errorf("finish snapshot: %w", errors.Join(err, b.Close()))
	}
	if err := l.applySnapshot(b); err != nil {
		return fmt.Errorf("finish snapshot: %w", err)
	}
	if !w.inFiles {
		if err := w.complete(m); err != nil {
			return err
		}
	}
	w.done = true
	return nil
}

// applySnapshot writes the record of a complete snapshot, unless the log was removed.
func (l *log) applySnapshot(b *pebble.Batch) error {
	if err := l.store.enter(); err != nil {
		return errors.Join(err, b.Close())
	}
	defer l.store.leave()
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if l.removed {
		return errors.Join(storage.ErrRemoved, b.Close())
	}
	if err := l.store.space.appends(b.Len()); err != nil {
		return errors.Join(err, b.Close())
	}
	return l.store.apply(b, pebble.NoSync)
}

// complete shows the readers that the snapshot is complete.
func (w *snapshotWriter) complete(m meta) error {
	l := w.log
	err := w.update(func(v *liveView) {
		v.closed = append(v.closed[:len(v.closed):len(v.closed)], v.open)
		v.open = liveChunk{}
		v.done = true
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.meta, l.live = m, nil // who reads it has it
	l.state.Update(func(st storage.State) (storage.State, bool) {
		st.Phase, st.Chunks = storage.SnapshotComplete, len(m.chunks)
		return st, true
	})
	l.mu.Unlock()
	return nil
}

func (w *snapshotWriter) syncFiles() error {
	if w.syncer != nil {
		if err := w.syncer.wait(); err != nil {
			return err
		}
	}
	s := w.log.store
	if err := syncDir(s.fs, w.log.filePath()); err != nil {
		return err
	}
	return syncDir(s.fs, s.path(filesName))
}

// Abort implements storage.SnapshotWriter.
func (w *snapshotWriter) Abort() {
	if w.done {
		return
	}
	w.done = true
	l := w.log
	l.end(storage.ErrSnapshotFailed)
	if w.file != nil {
		_ = w.file.Close() // the file is deleted
	}
	if w.syncer != nil {
		w.syncer.abandon()
	}
	w.file, w.buf = nil, nil
	if w.inFiles {
		if err := l.store.fs.RemoveAll(l.filePath()); err != nil {
			// Best effort: removing the log tries again.
			l.store.opts.Logger.Warn("delete files of a failed snapshot", "handle", l.handle, "error", err)
		}
	}
}
