package logstore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

// Read implements storage.Log. What fits into 64 KiB, and every file, is opened and checked before it returns, so that the
// errors of such a part are Read's; the first read of a file after a start reads it all for its check sum.
func (l *log) Read(ctx context.Context, from, end shapelog.Offset) (storage.Body, error) {
	l.load()
	if err := l.ended(); err != nil {
		return nil, err
	}
	switch {
	case end.Compare(from) <= 0 || end == shapelog.SnapshotEnd:
		return &bytesBody{}, nil
	case end.IsSnapshot():
		return l.readSnapshot(ctx, end.Op())
	default:
		return l.readEntries(from, end)
	}
}

func (l *log) readSnapshot(ctx context.Context, n uint64) (storage.Body, error) {
	l.mu.Lock()
	complete, chunks := l.meta.complete, l.meta.chunks
	var c snapChunk
	if complete && n < uint64(len(chunks)) {
		c = chunks[n]
	}
	lv := l.live
	l.mu.Unlock()
	switch {
	case !complete && n > 1<<31:
		return nil, fmt.Errorf("read snapshot chunk %d: there cannot be so many", n)
	case !complete:
		if lv != nil {
			v := lv.view.Load()
			if n < uint64(len(v.closed)) {
				return l.readClosed(int(n), v.closed[n]) //nolint:gosec // checked above
			}
		}
		return &liveBody{ctx: ctx, log: l, n: int(n)}, nil //nolint:gosec // checked above
	case n >= uint64(len(chunks)):
		return &bytesBody{}, nil
	case c.file:
		return l.snapshotFile(int(n), c) //nolint:gosec // checked above
	default:
		return l.snapshotBytes(int(n), c) //nolint:gosec // checked above
	}
}

// readClosed reads a complete chunk of a snapshot that is still being written.
func (l *log) readClosed(n int, c liveChunk) (storage.Body, error) {
	if !c.file {
		return &bytesBody{bytes: c.mem}, nil
	}
	return l.snapshotFile(n, snapChunk{size: c.size, file: true, intact: true})
}

func (l *log) snapshotFile(n int, c snapChunk) (storage.Body, error) {
	path := l.filePath(snapshotName(n))
	f, err := l.openChecked(path, c.size, c.intact, func(f readFile) error {
		return checkSum(f, c.size, c.crc)
	})
	if err != nil {
		return nil, err
	}
	if !c.intact {
		l.mu.Lock()
		l.meta.chunks[n].intact = true
		l.mu.Unlock()
	}
	return &fileBody{log: l, file: f, path: path, n: c.size}, nil
}

// openChecked opens a file that must have a size, and runs check on it unless it is known to be intact. Many who ask
// at once share one check.
func (l *log) openChecked(path string, size int64, intact bool, check func(readFile) error) (readFile, error) {
	f, err := l.store.openFile(path)
	if err != nil {
		return nil, l.fileError(path, -1, err)
	}
	n, err := fileSize(f)
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("file has %d bytes, not %d", n, size)
	}
	if err == nil && !intact {
		_, err, _ = l.store.checks.Do(path, func() (any, error) { return nil, check(f) })
	}
	if err != nil {
		return nil, errors.Join(l.fileError(path, -1, err), f.Close())
	}
	return f, nil
}

var errCheckSum = errors.New("check sum differs")

// checkSum compares the first n bytes of a file with their check sum.
func checkSum(f readFile, n int64, want uint32) error {
	buf := getBuffer()
	defer putBuffer(buf)
	var crc uint32
	b := (*buf)[:cap(*buf)]
	for pos := int64(0); pos < n; {
		m, err := f.ReadAt(b[:min(int64(len(b)), n-pos)], pos)
		crc = crc32.Update(crc, castagnoli, b[:m])
		pos += int64(m)
		if err != nil && (!errors.Is(err, io.EOF) || pos < n) {
			return fmt.Errorf("read: %w", err)
		}
	}
	if crc != want {
		return errCheckSum
	}
	return nil
}

// snapshotBytes reads a chunk that is in the pebble store.
func (l *log) snapshotBytes(n int, c snapChunk) (storage.Body, error) {
	if err := l.store.enter(); err != nil {
		return nil, err
	}
	defer l.store.leave()
	v, closer, err := l.store.db.Get(snapshotKey(l.id, n))
	if err != nil {
		if e := l.ended(); e != nil {
			return nil, e
		}
		return nil, l.corrupt(fmt.Errorf("read snapshot chunk %d: %w", n, err))
	}
	buf := getBuffer()
	// Copied, because a body may be held for long, and a value that is held keeps a memtable or a table from going.
	*buf = append(*buf, v...)
	if err := closer.Close(); err != nil {
		return nil, l.corrupt(fmt.Errorf("read snapshot chunk %d: %w", n, err))
	}
	if int64(len(*buf)) != c.size || crc32.Checksum(*buf, castagnoli) != c.crc {
		return nil, l.corrupt(fmt.Errorf("read snapshot chunk %d: %w", n, errCheckSum))
	}
	return &bytesBody{bytes: *buf, pooled: buf}, nil
}

// readEntries reads entries, from wherever they are: the newest ones in memory, those of the open chunk, and of
// chunks not sealed yet, in pebble, the rest in files.
func (l *log) readEntries(from, end shapelog.Offset) (storage.Body, error) {
	l.mu.Lock()
	b, ok := l.newest.find(from, end)
	l.mu.Unlock()
	if ok {
		return &bytesBody{bytes: b}, nil
	}
	if err := l.store.enter(); err != nil {
		return nil, err
	}
	defer l.store.leave()
	start, err := l.position(from)
	if err != nil {
		return nil, err
	}
	stop, err := l.position(end)
	if err != nil {
		return nil, err
	}
	if stop <= start {
		return &bytesBody{}, nil
	}
	c := cursor{log: l, at: mark{off: from, pos: start}, end: stop}
	if p, ok := c.inFile(); ok && p.last {
		f, err := l.openSealed(p.chunk)
		if err != nil {
			return nil, err
		}
		return &fileBody{log: l, file: f, path: l.filePath(chunkName(p.chunk.end)), pos: p.pos, n: p.n}, nil
	}
	if stop-start > ioBytes {
		return &entriesBody{cursor: c}, nil
	}
	buf := getBuffer()
	if err := c.readAll(buf); err != nil {
		putBuffer(buf)
		return nil, err
	}
	return &bytesBody{bytes: *buf, pooled: buf}, nil
}

// position returns where the entries up to and with off end. The caller has entered.
func (l *log) position(off shapelog.Offset) (int64, error) {
	for {
		l.mu.Lock()
		last := l.last
		i := l.chunkBehind(off)
		start := l.startLocked(i)
		var c chunk
		if i < len(l.chunks) {
			c = l.chunks[i]
		}
		l.mu.Unlock()
		switch {
		case off.Compare(start.off) <= 0:
			return start.pos, nil
		case off.Compare(last.off) >= 0:
			return last.pos, nil
		case c.sealed:
			return l.positionInFile(c, start, off)
		}
		pos, err := l.positionInPebble(start, off)
		if err != nil {
			return 0, err
		}
		if !l.sealedMeanwhile(i) {
			return pos, nil
		}
	}
}

// sealedMeanwhile reports that chunk i has gone to a file, so that its entries may be missing in pebble.
func (l *log) sealedMeanwhile(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return i < len(l.chunks) && l.chunks[i].sealed
}

func (l *log) positionInPebble(start mark, off shapelog.Offset) (pos int64, err error) {
	it, err := l.entries(start.off, off)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = l.corrupt(fmt.Errorf("find entry: %w", cerr))
		}
	}()
	if !it.Last() {
		return start.pos, nil
	}
	_, pos, _, err = readEntry(it)
	if err != nil {
		return 0, l.corrupt(err)
	}
	return pos, nil
}

// entries returns an iterator over the entries in (from, through].
func (l *log) entries(from, through shapelog.Offset) (*pebble.Iterator, error) {
	lower := logKey(l.id, kindEntry)
	if from.Compare(shapelog.SnapshotEnd) > 0 {
		lower = next(offsetKey(l.id, kindEntry, from))
	}
	it, err := l.store.db.NewIter(&pebble.IterOptions{
		LowerBound: lower,
		UpperBound: next(offsetKey(l.id, kindEntry, through)),
	})
	if err != nil {
		return nil, l.corrupt(fmt.Errorf("read entries: %w", err))
	}
	return it, nil
}
