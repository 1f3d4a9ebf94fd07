package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
)

var (
	// ErrNotFound reports that there is no log of that handle: it was removed, or never made. The caller should
	// answer must-refetch; trying again cannot help.
	ErrNotFound = errors.New("shape log not found")
	// ErrExists reports that a log of that handle was made before, perhaps one since removed.
	ErrExists = errors.New("shape log exists")
	// ErrRemoved reports that the log was removed while it was being used. Readers should end the response,
	// writers should stop.
	ErrRemoved = errors.New("shape log removed")
	// ErrSnapshotFailed reports that the log's snapshot was aborted; the log will be removed.
	ErrSnapshotFailed = errors.New("shape snapshot failed")
)

// CorruptError reports data on disk that is not what was written, and where. The shape is lost and should be removed;
// others are not touched.
type CorruptError struct {
	Path string
	Pos  int64 // bytes from the beginning of the file; -1 when it is not one place
	Err  error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt data in %s at byte %d: %v", e.Path, e.Pos, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// Store keeps the logs of all shapes. Its methods may be called from any goroutine.
type Store interface {
	// Create makes an empty log whose snapshot has not begun. It gives ErrExists for a handle that the store has
	// ever had and still remembers. The log survives a crash after the next Sync.
	Create(h shape.Handle) (Log, error)

	// Open returns the log of a handle, or ErrNotFound. All callers get the same Log.
	Open(h shape.Handle) (Log, error)

	// Handles lists every log in the store, in no order, also the incomplete ones.
	Handles() []shape.Handle

	// Remove deletes a log. Before it returns the removal is durable (I5), Open gives ErrNotFound, and everyone
	// who waits on the log is woken with ErrRemoved; the bytes may be deleted after. Bodies that are open stay
	// readable or fail with ErrRemoved. Removing what is not there is no error.
	Remove(h shape.Handle) error

	// Confirmed returns the position last given to SetConfirmed, zero in a new store.
	Confirmed() changes.LSN

	// SetConfirmed records, in the order of the commits, that everything up to lsn has been committed to the logs it
	// belongs to. It is durable after the next Sync, together with all commits before it: never without them. What
	// is appended and not yet committed is not covered.
	SetConfirmed(lsn changes.LSN) error

	// Sync makes everything durable that was appended, created or set before the call.
	Sync() error

	// Close syncs and closes. No Log may be used afterwards.
	Close() error
}

// Phase is how far a log's snapshot is.
type Phase int

// The phases of a snapshot, in order.
const (
	SnapshotPending  Phase = iota // not begun: nothing can be read
	SnapshotWriting               // begun: chunks 0 … State.Chunks-1 can be read, the last one while it grows
	SnapshotComplete              // all there
)

// State is what a Log's readers wait on.
type State struct {
	Phase  Phase
	Chunks int             // snapshot chunks begun so far; the last of them is open unless Phase is SnapshotComplete
	Last   shapelog.Offset // offset of the last visible entry; shapelog.SnapshotEnd while there is none
	Err    error           // ErrRemoved, ErrSnapshotFailed: the end, nothing more will come
}

// Log is one shape's log. NewSnapshot, Append and Commit are the shape's own (one goroutine for Append and Commit, one
// for the SnapshotWriter; the two may be different and run at once); all other methods may be called from any
// goroutine.
type Log interface {
	Handle() shape.Handle

	// State returns the state and a channel that is closed when it next changes.
	State() (State, <-chan struct{})

	// NewSnapshot begins the snapshot and moves to SnapshotWriting. snap, and lsn, the write position when it was
	// taken, are kept with the log. It may be called once.
	NewSnapshot(snap changes.Snapshot, lsn changes.LSN) (SnapshotWriter, error)

	// Snapshot returns what NewSnapshot was given, also after a restart; ok is false before.
	Snapshot() (snap changes.Snapshot, lsn changes.LSN, ok bool)

	// Append adds entries, whose offsets must ascend and be real (not 0_n). Those at or below State.Last are
	// skipped: they are a replay, and I3 says they are the same. Readers see none of the rest before Commit. After
	// a crash, what was appended and not committed is gone or is replaced by the same entries. The Log keeps no
	// reference to entries. After an error the Log takes no more.
	Append(entries []shapelog.Entry) error

	// Commit makes everything appended visible at once and wakes those who wait. Durable after Store.Sync.
	Commit() error

	// Range says what a request that has everything up to after gets: the part (after, end], and whether it is a
	// closed chunk, which never changes; a snapshot chunk that is still growing, or may not come, is not closed yet.
	// It is never ahead of State. end is, for after = Before: 0_0; for 0_n with a chunk n+1, or while the
	// snapshot is being written: 0_(n+1); else the end of the first closed log chunk that ends after after, or
	// State.Last (protocol.md §6.3). It does not wait.
	Range(after shapelog.Offset) (end shapelog.Offset, closed bool)

	// Read opens the part (after, end] that Range gave. For a snapshot chunk that is still growing, the Body waits for
	// more until the chunk ends; a snapshot chunk that turns out not to exist, because the snapshot ended before
	// it, is an empty Body.
	Read(ctx context.Context, after, end shapelog.Offset) (Body, error)

	// Size returns the bytes the log takes on disk, about.
	Size() int64
}

// Trimmer is a Log that keeps something in memory for those who read its end, and can let go of it. A shape that is
// suspended calls it. Nothing changes for readers but the time a read takes.
type Trimmer interface {
	// Trim lets go of what can be read from the disk again. It may be called from any goroutine.
	Trim()
}

// SnapshotWriter writes a log's snapshot, row by row. It is used by one goroutine.
type SnapshotWriter interface {
	// Write adds one item. A chunk closes right after the item that brings it to the size limit. Readers see items
	// in groups of some tens of kilobytes, the first at once.
	Write(json []byte) error
	// Finish adds the closing item, snapshot-end, to the last chunk, and moves to SnapshotComplete; readers may see
	// that before Finish returns. The complete snapshot survives a crash after the next Sync; a log without it is
	// incomplete and must be removed. After an error, Abort it and remove the log.
	Finish(json []byte) error
	// Abort ends an unfinished snapshot: readers get ErrSnapshotFailed. It may follow an error of Write or Finish;
	// after a successful Finish it does nothing.
	Abort()
}

// Body is a part of a log: JSON objects joined by commas, without brackets around them, possibly empty.
type Body interface {
	// Size returns the length in bytes, or -1 while it is not known because the part is still growing.
	Size() int64
	// WriteTo writes the part. From a file it uses io.Copy, so that a net/http response sends it with sendfile.
	// flush, when not nil, is called before each wait for more. An error of the log is told apart from one of w: it is
	// ErrRemoved, ErrSnapshotFailed, a *CorruptError or the context's cause.
	WriteTo(w io.Writer, flush func() error) (int64, error)
	// Close releases what the Body holds. Every Body must be closed.
	Close() error
}
