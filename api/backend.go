package api

import (
	"context"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/snapshot"
)

// Health is what /v1/health says (protocol.md §14.1).
type Health string

// The states of a server.
const (
	HealthStarting Health = "starting" // connecting, or the database is down
	HealthWaiting  Health = "waiting"  // another instance holds the lock; shapes that exist can be read
	HealthActive   Health = "active"
)

// SubsetSink takes a subset: its coordinates, then its rows. Errors of it end the reading.
type SubsetSink interface {
	// Begin is called once, before the first row. lsn is a position in the WAL before which everything that the snapshot
	// saw was committed.
	Begin(snap changes.Snapshot, lsn changes.LSN) error
	// Row gets one row as a log item, valid only during the call.
	Row(json []byte) error
}

// Backend is what the HTTP front needs of the rest of the server. Its methods may be called from any goroutine.
//
// An error that has a ClientMessage() string gives its own text to the client (protocol.md §3.3); the text of any other
// error is only logged.
type Backend interface {
	// Ready returns nil as soon as shapes can be created. It waits until ctx ends; then, or at once when waiting
	// cannot help, it returns an error with the reason as its ClientMessage.
	Ready(ctx context.Context) error

	// Health returns the state without waiting.
	Health() Health

	// StorageFull reports, without waiting, that the disk has no room for new shapes.
	StorageFull() bool

	// Table returns the table as the catalogue describes it; fresh asks the database, otherwise an answer that is
	// some seconds old will do. A table that cannot have shapes gives inspector.ErrUndefinedTable; any other error
	// means that the database cannot be asked now.
	Table(ctx context.Context, schema, name string, fresh bool) (*shape.Table, error)

	// Lookup returns the live shape of a handle, and notes that it was used. It does no I/O.
	Lookup(h shape.Handle) (*shapecache.Shape, bool)

	// Find returns the live shape of a definition. It does no I/O and makes nothing.
	Find(d *shape.Definition) (*shapecache.Shape, bool)

	// GetOrCreate returns the live shape of a definition, which it makes if there is none: once, however many
	// callers ask. It does not wait for the snapshot. It gives shapecache.ErrNotReady when shapes cannot be made
	// now, shapecache.ErrGone when the shape went away meanwhile.
	GetOrCreate(ctx context.Context, d *shape.Definition) (*shapecache.Shape, error)

	// AwaitSnapshotStart returns nil once the shape's log can be read. It gives shapecache.ErrGone when the shape was
	// removed or what it selects is gone, an error with a ClientMessage when the snapshot failed, and ctx's error
	// when that ends first.
	AwaitSnapshotStart(ctx context.Context, s *shapecache.Shape) error

	// ReadSubset reads some rows of a shape into the sink, from a snapshot that saw every transaction whose effects a
	// reader of the shape's log may have had when ReadSubset was called. It gives shapecache.ErrNotReady, an error of
	// package snapshot, the sink's as it is, or ctx's. After a snapshot.ErrSchemaChanged a look-up of the table gives
	// what it is now.
	ReadSubset(ctx context.Context, s *shapecache.Shape, q snapshot.Subset, to SubsetSink) error

	// AwaitGone returns nil when a handle that is not found is over for good, whatever crashes: at once for one whose
	// removal is not going on. It gives ctx's error when that ends first.
	AwaitGone(ctx context.Context, h shape.Handle) error

	// Leaving reports whether a shape is being removed. What LastSeen said before Leaving said no is true of the shape.
	Leaving(h shape.Handle) bool
	// LastSeen returns the commit LSN up to which every transaction is committed to the logs of all shapes that it
	// touches; 0 while it is not known. It never goes back.
	LastSeen() changes.LSN
	// CaughtUp reports whether everything has come again that clients may have had before the server was restarted: until
	// then an offset beyond a log may well be one that the log had.
	CaughtUp() bool

	// Delete removes a shape. When it returns nil the handle is not found any more and its readers are woken. It gives
	// shapecache.ErrGone for a handle that is not there.
	Delete(ctx context.Context, h shape.Handle) error

	// Damaged ends a shape whose log cannot be read any more. It does not wait, and may be called again.
	Damaged(h shape.Handle)
}
