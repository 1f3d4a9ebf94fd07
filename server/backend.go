package server

import (
	"context"
	"errors"
	"time"

	"github.com/shapeserver/shapeserver/api"
	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/collector"
	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/replication"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/snapshot"
)

// freshTable is how old a catalogue answer may be for a request that may create a shape, and staleTable for others. The
// short time bounds what a burst of first requests costs the database to a few look-ups a second for each table.
const (
	freshTable = 250 * time.Millisecond
	staleTable = 10 * time.Second
)

// backend serves the API from the current session.
type backend struct{ s *Server }

var _ api.Backend = (*backend)(nil)

// notReadyError is why shapes cannot be served now, in a text for clients.
type notReadyError struct{ reason string }

// Error implements error.
func (e *notReadyError) Error() string { return "not ready: " + e.reason }

// ClientMessage is the text of the 503.
func (e *notReadyError) ClientMessage() string { return e.reason }

// Unwrap makes the error a shapecache.ErrNotReady.
func (e *notReadyError) Unwrap() error { return shapecache.ErrNotReady }

// Ready implements api.Backend.
func (b *backend) Ready(ctx context.Context) error {
	for {
		core, changed := b.s.core.Get()
		if core != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &notReadyError{b.s.notReadyReason()}
		}
	}
}

// notReadyReason says, in the words of protocol.md §3.3, what the server is waiting for.
func (s *Server) notReadyReason() string {
	status, _ := s.stream.Status()
	switch status.State {
	case replication.WaitingForLock:
		return "Timeout waiting for Postgres lock acquisition"
	case replication.CreatingSlot:
		return "Timeout waiting for replication client to be ready. Check that you don't have pending transactions in the database. " +
			"The server has to wait for all pending transactions to commit or rollback before it can create the replication slot."
	case replication.Connecting, replication.Streaming:
	}
	if reason := s.waitingFor.Load(); reason != nil {
		return *reason
	}
	return "Timeout waiting for replication client to be ready"
}

// Health implements api.Backend.
func (b *backend) Health() api.Health {
	if b.s.core.Load() != nil {
		if status, _ := b.s.stream.Status(); status.State == replication.Streaming {
			return api.HealthActive
		}
		return api.HealthStarting
	}
	if status, _ := b.s.stream.Status(); status.State == replication.WaitingForLock {
		return api.HealthWaiting
	}
	return api.HealthStarting
}

// StorageFull implements api.Backend.
func (b *backend) StorageFull() bool { return b.s.store.Full() }

// Table implements api.Backend.
func (b *backend) Table(ctx context.Context, schema, name string, fresh bool) (*shape.Table, error) {
	age := staleTable
	if fresh {
		age = freshTable
	}
	t, err := b.s.tables.Table(ctx, schema, name, age)
	core := b.s.core.Load()
	switch {
	case core == nil:
	case err == nil:
		core.tableSeen(ctx, t)
	case errors.Is(err, inspector.ErrUndefinedTable):
		core.tableGone(ctx, schema, name)
	}
	return t, err
}

// Lookup implements api.Backend.
func (b *backend) Lookup(h shape.Handle) (*shapecache.Shape, bool) {
	core := b.s.core.Load()
	if core == nil {
		return nil, false
	}
	return core.cache.Lookup(h)
}

// Find implements api.Backend.
func (b *backend) Find(d *shape.Definition) (*shapecache.Shape, bool) {
	core := b.s.core.Load()
	if core == nil {
		return nil, false
	}
	return core.cache.Find(d)
}

// GetOrCreate implements api.Backend.
func (b *backend) GetOrCreate(ctx context.Context, d *shape.Definition) (*shapecache.Shape, error) {
	core := b.s.core.Load()
	if core == nil {
		return nil, &notReadyError{b.s.notReadyReason()}
	}
	return core.cache.GetOrCreate(ctx, d)
}

// AwaitSnapshotStart implements api.Backend.
func (b *backend) AwaitSnapshotStart(ctx context.Context, s *shapecache.Shape) error {
	core := b.s.core.Load()
	if core == nil {
		return shapecache.ErrGone
	}
	return core.cache.AwaitSnapshotStart(ctx, s)
}

// ReadSubset implements api.Backend.
func (b *backend) ReadSubset(ctx context.Context, sh *shapecache.Shape, q snapshot.Subset, to api.SubsetSink) error {
	core := b.s.core.Load()
	if core == nil {
		return &notReadyError{b.s.notReadyReason()}
	}
	if err := core.publication.Settled(ctx, sh.Definition.Table.OID); err != nil {
		return err
	}
	err := b.s.subsets.ReadSubset(ctx, sh.Definition, q, &subsetSink{SubsetSink: to, stream: core.collector})
	if errors.Is(err, snapshot.ErrSchemaChanged) {
		b.s.tables.Forget(q.Table.OID)
	}
	return err
}

// subsetSink has the snapshot taken again while it has not seen what a reader of the shape's log may have had already: the
// reader would put rows of before in the place of what it has.
type subsetSink struct {
	api.SubsetSink
	stream *collector.Collector
	asked  collector.Moment
}

var _ snapshot.Sink = (*subsetSink)(nil)

// Register implements snapshot.Sink. The stream has delivered to the shape since before its own snapshot, so there is
// nothing to register.
func (s *subsetSink) Register() error {
	s.asked = s.stream.Now()
	return nil
}

// Begin implements snapshot.Sink.
func (s *subsetSink) Begin(snap changes.Snapshot, lsn changes.LSN) error {
	if s.stream.UnseenBefore(s.asked, snap) {
		return snapshot.ErrAgain
	}
	return s.SubsetSink.Begin(snap, lsn)
}

// AwaitGone implements api.Backend.
func (b *backend) AwaitGone(ctx context.Context, h shape.Handle) error {
	core := b.s.core.Load()
	if core == nil {
		return nil
	}
	return core.cleaner.AwaitDurable(ctx, h)
}

// Leaving implements api.Backend.
func (b *backend) Leaving(h shape.Handle) bool {
	core := b.s.core.Load()
	if core == nil {
		return false
	}
	_, ok := core.cache.Lookup(h)
	return !ok
}

// LastSeen implements api.Backend.
func (b *backend) LastSeen() changes.LSN {
	core := b.s.core.Load()
	if core == nil {
		return 0
	}
	return core.collector.LastSeen()
}

// CaughtUp implements api.Backend.
func (b *backend) CaughtUp() bool {
	core := b.s.core.Load()
	return core != nil && core.collector.Applied() >= core.info.WALPosition
}

// Damaged implements api.Backend.
func (b *backend) Damaged(h shape.Handle) {
	core := b.s.core.Load()
	if core == nil {
		return // its next reader finds the damage again
	}
	if _, ok := core.cache.Lookup(h); ok {
		core.cleaner.Remove(h, shape.ReasonStorageFailed)
	}
}

// deleteTimeout bounds how long a DELETE waits for the removal, which goes on without it.
const deleteTimeout = 5 * time.Second

// Delete implements api.Backend.
func (b *backend) Delete(ctx context.Context, h shape.Handle) error {
	core := b.s.core.Load()
	if core == nil {
		return &notReadyError{b.s.notReadyReason()}
	}
	if _, ok := core.cache.Lookup(h); !ok {
		return shapecache.ErrGone
	}
	core.cleaner.Remove(h, shape.ReasonDeleted)
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if core.cleaner.Wait(ctx, h) != nil {
		return &notReadyError{"The shape is being removed, but its record is not deleted yet"}
	}
	return nil
}
