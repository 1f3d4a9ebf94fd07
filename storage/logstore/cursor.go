package logstore

import (
	"errors"
	"fmt"
	"io"
)

// cursor goes through the entries of a log up to a position. It holds nothing open in between, since a reader may be
// slow: an iterator would keep what it saw in memory and on the disk. So a chunk may be sealed under it.
type cursor struct {
	log *log
	at  mark  // the next entry is behind it
	end int64 // the position to stop at: the end of an entry
}

// filePart is the part of a range that is in one file.
type filePart struct {
	chunk chunk
	pos   int64 // in the file
	n     int64 // without a comma at the end
	last  bool  // the range ends in this file
}

// inFile returns the next part if it is in a file.
func (c *cursor) inFile() (filePart, bool) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	i := c.chunkLocked()
	if i == len(l.chunks) || !l.chunks[i].sealed {
		return filePart{}, false
	}
	start, stop := l.startLocked(i).pos, min(c.end, l.chunks[i].pos)
	return filePart{chunk: l.chunks[i], pos: c.at.pos - start, n: stop - c.at.pos - 1, last: stop == c.end}, true
}

// chunkLocked returns the index of the chunk that the next entry is in. l.mu is held.
func (c *cursor) chunkLocked() int {
	lo, hi := 0, len(c.log.chunks)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); c.log.chunks[mid].pos > c.at.pos { //nolint:gosec // not negative
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// fill appends entries from pebble, each with a comma behind it, until there are ioBytes or the end, or the next is in
// a file. It may append nothing, when a chunk was sealed just now. The caller has entered.
func (c *cursor) fill(buf *[]byte) (err error) {
	l := c.log
	l.mu.Lock()
	i := c.chunkLocked()
	through, stop := l.last.off, c.end
	if i < len(l.chunks) {
		through, stop = l.chunks[i].end, min(c.end, l.chunks[i].pos)
	}
	l.mu.Unlock()
	it, err := l.entries(c.at.off, through)
	if err != nil {
		return err
	}
	begin := c.at.pos
	bad := error(nil)
	for ok := it.First(); ok && len(*buf) < ioBytes && c.at.pos < stop; ok = it.Next() {
		off, pos, json, err := readEntry(it)
		if err == nil && pos != c.at.pos+int64(len(json))+1 {
			err = errors.New("entries are missing")
		}
		if err != nil {
			bad = err
			break
		}
		*buf = append(append(*buf, json...), ',')
		c.at = mark{off: off, pos: pos}
	}
	if cerr := it.Close(); bad == nil {
		bad = cerr
	}
	if bad == nil && c.at.pos == begin && begin < stop {
		bad = errors.New("entries are missing")
	}
	if bad == nil || (c.at.pos == begin && l.sealedMeanwhile(i)) {
		return nil
	}
	if e := l.ended(); e != nil {
		return e
	}
	return l.corrupt(fmt.Errorf("read entries behind %s: %w", c.at.off, bad))
}

// readAll reads everything into one buffer, without a comma at the end. The caller has entered.
func (c *cursor) readAll(buf *[]byte) error {
	for c.at.pos < c.end {
		p, ok := c.inFile()
		if !ok {
			if err := c.fill(buf); err != nil {
				return err
			}
			continue
		}
		f, err := c.log.openSealed(p.chunk)
		if err != nil {
			return err
		}
		n := len(*buf)
		*buf = append(*buf, make([]byte, p.n)...)
		_, err = f.ReadAt((*buf)[n:], p.pos)
		if errors.Is(err, io.EOF) {
			err = nil // ReadAt may say so when it has read everything; short reads are caught by the file's size
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return c.log.fileError(c.log.filePath(chunkName(p.chunk.end)), p.pos, err)
		}
		*buf = append(*buf, ',')
		c.pass(p)
	}
	*buf = (*buf)[:len(*buf)-1]
	return nil
}

// pass moves behind a part.
func (c *cursor) pass(p filePart) {
	c.at.pos += p.n + 1
	c.at.off = p.chunk.end // when the part ends before the chunk does, the cursor is at its end and off unused
}

// entriesBody is a part of a log that is not in one file, and too big for a buffer.
type entriesBody struct {
	cursor cursor
}

// Size implements storage.Body.
func (b *entriesBody) Size() int64 { return b.cursor.end - b.cursor.at.pos - 1 }

// WriteTo implements storage.Body.
func (b *entriesBody) WriteTo(w io.Writer, _ func() error) (written int64, err error) {
	buf := getBuffer()
	defer func() { putBuffer(buf) }()
	c := b.cursor // a copy, so that Size stays
	for c.at.pos < c.end {
		var n int64
		if p, ok := c.inFile(); ok {
			n, err = b.copyFile(w, &c, p)
		} else {
			*buf = (*buf)[:0]
			n, err = b.copyEntries(w, &c, buf)
		}
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (b *entriesBody) copyEntries(w io.Writer, c *cursor, buf *[]byte) (int64, error) {
	if err := c.log.store.enter(); err != nil {
		return 0, err
	}
	err := c.fill(buf)
	c.log.store.leave()
	if err != nil {
		return 0, err
	}
	out := *buf
	if c.at.pos == c.end && len(out) > 0 {
		out = out[:len(out)-1]
	}
	if len(out) == 0 {
		return 0, nil
	}
	n, err := w.Write(out)
	return int64(n), err //nolint:wrapcheck // the writer's own error
}

func (b *entriesBody) copyFile(w io.Writer, c *cursor, p filePart) (int64, error) {
	f, err := c.log.openSealed(p.chunk)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	n, err := c.log.copySection(w, f, c.log.filePath(chunkName(p.chunk.end)), p.pos, p.n)
	if err != nil {
		return n, err
	}
	c.pass(p)
	if c.at.pos < c.end {
		m, err := w.Write([]byte{','})
		return n + int64(m), err //nolint:wrapcheck // the writer's own error
	}
	return n, nil
}

// Close implements storage.Body.
func (b *entriesBody) Close() error { return nil }
