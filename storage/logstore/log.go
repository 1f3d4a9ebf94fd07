package logstore

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/notify"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

// log implements storage.Log. Where it ends is read by Open for all logs at once, or, when that failed, when it is first
// asked for.
type log struct {
	store  *Store
	handle shape.Handle
	id     uint64
	state  notify.Var[storage.State]
	loaded atomic.Bool

	// writeMu is held while the log's keys are written, so that none is written after stopWriting.
	writeMu sync.Mutex
	removed bool     // nothing may be written any more
	failed  error    // the first error of Append or Commit
	pending *pending // nil while nothing is appended and not committed

	mu     sync.Mutex // guards what follows; taken after writeMu; never held over I/O
	meta   meta
	begun  bool    // NewSnapshot was called, perhaps before a restart
	live   *live   // the snapshot while it is being written
	last   mark    // end of what is visible
	chunks []chunk // complete log chunks up to last
	newest *newest // the newest entries, when somebody waits for them
}

var (
	_ storage.Log     = (*log)(nil)
	_ storage.Trimmer = (*log)(nil)
)

// errRecovered is why the snapshot of a log that was incomplete at the start cannot be begun again.
var errRecovered = fmt.Errorf("%w: it was being written when the server ended", storage.ErrSnapshotFailed)

// newLog makes the log of a new record.
func newLog(s *Store, h shape.Handle, m meta) *log {
	l := &log{store: s, handle: h, id: m.id, meta: m, last: mark{off: shapelog.SnapshotEnd}}
	l.loaded.Store(true)
	l.state.Set(storage.State{Last: shapelog.SnapshotEnd})
	return l
}

// recoverLog makes the log of a record that was on the disk.
func recoverLog(s *Store, h shape.Handle, m meta) *log {
	l := newLog(s, h, m)
	l.loaded.Store(false)
	l.begun = true
	if m.complete {
		l.state.Set(storage.State{Phase: storage.SnapshotComplete, Chunks: len(m.chunks), Last: shapelog.SnapshotEnd})
	}
	return l
}

// Handle implements storage.Log.
func (l *log) Handle() shape.Handle { return l.handle }

// State implements storage.Log. When the log's end cannot be read, Err is the *storage.CorruptError.
func (l *log) State() (storage.State, <-chan struct{}) {
	l.load()
	return l.state.Get()
}

// Snapshot implements storage.Log.
func (l *log) Snapshot() (changes.Snapshot, changes.LSN, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live == nil && !l.meta.complete {
		return changes.Snapshot{}, 0, false
	}
	return l.meta.snap, l.meta.lsn, true
}

// Size implements storage.Log. What pebble saves by compression, or takes for records, is left out.
func (l *log) Size() int64 {
	l.load()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.last.pos
	for _, c := range l.meta.chunks {
		n += c.size
	}
	if l.live != nil {
		n += l.live.size()
	}
	return n
}

// Range implements storage.Log.
func (l *log) Range(from shapelog.Offset) (end shapelog.Offset, closed bool) {
	l.load()
	l.mu.Lock()
	defer l.mu.Unlock()
	if from == shapelog.Before || from.IsSnapshot() {
		var n uint64
		if from != shapelog.Before {
			n = from.Op() + 1
		}
		complete, chunks := l.snapshotChunksLocked()
		switch {
		case n < uint64(complete): //nolint:gosec // not negative
			return shapelog.At(0, n), true
		case from == shapelog.Before || !l.meta.complete:
			return shapelog.At(0, n), false
		case n < uint64(chunks): //nolint:gosec // not negative
			return shapelog.At(0, n), false
		}
	}
	if i := l.chunkBehind(from); i < len(l.chunks) {
		return l.chunks[i].end, true
	}
	return l.last.off, false
}

// snapshotChunksLocked returns how many chunks of the snapshot are complete, and how many have begun.
func (l *log) snapshotChunksLocked() (complete, begun int) {
	switch {
	case l.meta.complete:
		return len(l.meta.chunks), len(l.meta.chunks)
	case l.live != nil:
		n := len(l.live.view.Load().closed)
		return n, n + 1
	default:
		return 0, 0
	}
}

// chunkBehind returns the index of the first complete log chunk that ends after off. l.mu is held.
func (l *log) chunkBehind(off shapelog.Offset) int {
	return sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].end.Compare(off) > 0 })
}

// startLocked returns where chunk i begins; i may be the number of complete chunks, for the tail.
func (l *log) startLocked(i int) mark {
	if i == 0 {
		return mark{off: shapelog.SnapshotEnd}
	}
	return mark{off: l.chunks[i-1].end, pos: l.chunks[i-1].pos}
}

func (l *log) snapshotComplete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meta.complete
}

// Trim implements storage.Trimmer.
func (l *log) Trim() {
	l.dropNewest()
	l.store.hot.remove(l)
}

// load looks up where the log ends, once. When that fails the log ends with the error.
func (l *log) load() {
	if l.loaded.Load() {
		return
	}
	if l.store.enter() != nil {
		return // the store is closed: whoever asks finds out when reading
	}
	defer l.store.leave()
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.loadLocked()
}

// loadLocked is load for a caller that has entered the store and holds writeMu.
func (l *log) loadLocked() {
	if l.loaded.Load() || l.removed {
		return
	}
	last, chunks, err := l.findEnd()
	if err != nil {
		l.failed = l.corrupt(err)
		l.loaded.Store(true)
		l.end(l.failed)
		return
	}
	l.setEnd(last, chunks)
}

// setEnd notes where the log ends. Nobody writes to the log meanwhile.
func (l *log) setEnd(last mark, chunks []chunk) {
	l.mu.Lock()
	l.last, l.chunks = last, chunks
	l.state.Update(func(st storage.State) (storage.State, bool) {
		st.Last = last.off
		return st, true
	})
	l.mu.Unlock()
	l.loaded.Store(true)
}

func (l *log) corrupt(err error) error {
	return &storage.CorruptError{Path: l.store.path(dbName), Pos: -1, Err: err}
}

// stopWriting makes sure that nothing is written under the log's id any more.
func (l *log) stopWriting() {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.removed = true
	l.dropPending()
}

// end tells everyone that nothing more will come, and why. The first reason stays, except that removal replaces any.
func (l *log) end(why error) {
	l.state.Update(func(st storage.State) (storage.State, bool) {
		if st.Err != nil && !errors.Is(why, storage.ErrRemoved) {
			return st, false
		}
		st.Err = why
		return st, true
	})
	// After the state: NewSnapshot enters its live first and looks at the state then, so one of the two sees the other.
	l.mu.Lock()
	lv := l.live
	l.mu.Unlock()
	if lv != nil {
		lv.end(why)
	}
	if errors.Is(why, storage.ErrRemoved) {
		l.Trim()
	}
}

// ended returns why nothing more will come, or nil.
func (l *log) ended() error { return l.state.Load().Err }
