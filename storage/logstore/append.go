package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

// pending is what is appended and not committed. Most transactions fit into one batch, and the batch is the commit: it
// is in the write-ahead log whole or not at all. Of a bigger one, batches are written as they fill; the first has
// the mark "u", behind which Open deletes what it finds, and the last deletes that mark.
type pending struct {
	batch   *pebble.Batch
	last    mark
	start   int64   // where the chunk of last begins
	chunks  []chunk // complete since the last commit
	spilled bool
}

// Append implements storage.Log. Up to 256 KiB stay in memory until Commit.
func (l *log) Append(entries []shapelog.Entry) error {
	return l.write(func() error {
		if len(entries) == 0 {
			return nil
		}
		if l.pending == nil {
			l.mu.Lock()
			l.pending = &pending{last: l.last, start: l.startLocked(len(l.chunks)).pos}
			l.mu.Unlock()
		}
		prev := shapelog.Before
		for i := range entries {
			e := &entries[i]
			if e.Offset.Tx() == 0 || e.Offset.IsInf() {
				return fmt.Errorf("append: %s is no offset of an entry", e.Offset)
			}
			if e.Offset.Compare(prev) <= 0 {
				return fmt.Errorf("append: %s comes after %s", e.Offset, prev)
			}
			prev = e.Offset
			if e.Offset.Compare(l.pending.last.off) <= 0 {
				continue // a replay
			}
			if err := l.add(e); err != nil {
				return fmt.Errorf("append %s: %w", e.Offset, err)
			}
		}
		return nil
	})
}

func (l *log) add(e *shapelog.Entry) error {
	p := l.pending
	if p.batch == nil {
		p.batch = l.store.db.NewBatch()
	}
	p.last.off = e.Offset
	p.last.pos += int64(len(e.JSON)) + 1
	op := p.batch.SetDeferred(offsetKeyLen, entryHead+len(e.JSON))
	putOffsetKey(op.Key, l.id, kindEntry, e.Offset)
	binary.BigEndian.PutUint64(op.Value, uint64(p.last.pos)) //nolint:gosec // not negative
	copy(op.Value[entryHead:], e.JSON)
	if err := op.Finish(); err != nil {
		return fmt.Errorf("fill batch: %w", err)
	}
	if p.last.pos-p.start >= l.store.opts.ChunkBytes {
		err := errors.Join(
			p.batch.Set(offsetKey(l.id, kindBound, e.Offset), encodeBound(p.last.pos, false), nil),
			p.batch.Set(unsealedKey(l.id, e.Offset), nil, nil))
		if err != nil {
			return fmt.Errorf("fill batch: %w", err)
		}
		p.chunks = append(p.chunks, chunk{end: e.Offset, pos: p.last.pos})
		p.start = p.last.pos
	}
	if p.batch.Len() >= spillBytes {
		return l.spill()
	}
	return nil
}

// spill writes what is pending, not to be seen before the commit.
func (l *log) spill() error {
	p := l.pending
	if !p.spilled {
		l.mu.Lock()
		committed := l.last
		l.mu.Unlock()
		if err := p.batch.Set(idKey(keyUncommit, l.id), committed.encode(), nil); err != nil {
			return fmt.Errorf("mark: %w", err)
		}
		p.spilled = true
	}
	if err := l.store.space.appends(p.batch.Len()); err != nil {
		return err
	}
	b := p.batch
	p.batch = nil
	return l.store.apply(b, pebble.NoSync)
}

// Commit implements storage.Log.
func (l *log) Commit() error {
	var grown int64
	err := l.write(func() error {
		p := l.pending
		l.pending = nil
		if p == nil || (p.batch == nil && !p.spilled) {
			return nil
		}
		if p.batch == nil {
			p.batch = l.store.db.NewBatch()
		}
		if p.spilled {
			if err := p.batch.Delete(idKey(keyUncommit, l.id), nil); err != nil {
				return fmt.Errorf("commit: %w", err)
			}
		} else if err := l.store.space.appends(p.batch.Len()); err != nil {
			return errors.Join(fmt.Errorf("commit: %w", err), p.batch.Close())
		}
		fresh := l.freshen(p)
		if err := l.store.apply(p.batch, pebble.NoSync); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		l.mu.Lock()
		l.last = p.last
		l.chunks = append(l.chunks, p.chunks...)
		l.newest = fresh
		l.state.Update(func(st storage.State) (storage.State, bool) { // under mu: Range is never ahead of State
			st.Last = p.last.off
			return st, true
		})
		l.mu.Unlock()
		grown = fresh.size()
		for _, c := range p.chunks {
			l.store.work.addSeal(l, c.end)
		}
		return nil
	})
	l.store.hot.set(l, grown)
	return err
}

// write runs f with what every write needs; its first error is the last.
func (l *log) write(f func() error) error {
	if err := l.store.enter(); err != nil {
		return err
	}
	defer l.store.leave()
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.loadLocked()
	switch {
	case l.removed:
		return storage.ErrRemoved
	case l.failed != nil:
		return l.failed
	}
	if err := f(); err != nil {
		l.failed = err
		l.dropPending()
		return err
	}
	return nil
}

// dropPending forgets what is not committed. writeMu is held.
func (l *log) dropPending() {
	if l.pending != nil && l.pending.batch != nil {
		_ = l.pending.batch.Close() // it was not applied: there is nothing to fail
	}
	l.pending = nil
}
