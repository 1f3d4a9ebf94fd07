package shapecache_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/cleaner"
	"github.com/shapeserver/shapeserver/collector"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/status"
	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/storage/logstore"
	"github.com/shapeserver/shapeserver/where"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var int4 = &where.Type{OID: 23, Schema: "pg_catalog", Name: "int4", Kind: where.KindBase}

func definition(oid uint32) *shape.Definition {
	t := &shape.Table{OID: oid, Schema: "public", Name: "t" + strconv.Itoa(int(oid)), Kind: 'r', Key: []int{0}, Columns: []shape.Column{
		{Column: where.Column{Name: "id", Type: int4, TypeMod: -1}, NotNull: true},
	}}
	return &shape.Definition{Table: t, Columns: []int{0}, Replica: shape.ReplicaDefault, Log: shape.LogFull}
}

// world is a cache with a real store, collector and cleaner; Postgres is played by fakes that can fail, hang and panic.
type world struct {
	t         *testing.T
	store     *logstore.Store
	cache     *shapecache.Cache
	collector *collector.Collector
	cleaner   *cleaner.Cleaner
	events    chan changes.Event
	lsn       uint64

	mu        sync.Mutex
	rows      map[shape.Handle]bool
	holds     map[shape.Handle]bool
	putErr    error
	acquire   func(context.Context) error
	read      func(ctx context.Context, sink snapshot.Sink) error
	snapshots int
}

func newWorld(t *testing.T, suspendAfter time.Duration) *world {
	t.Helper()
	store, err := logstore.Open("store", logstore.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	w := &world{t: t, store: store, events: make(chan changes.Event), rows: make(map[shape.Handle]bool), holds: make(map[shape.Handle]bool)}
	w.cache = shapecache.New(shapecache.Records{Status: w, Logs: store, Publications: (*publications)(w), Snapshots: (*snapshots)(w)},
		shapecache.Options{RetryMin: 50 * time.Millisecond, RetryMax: 200 * time.Millisecond})
	w.collector = collector.New(w.cache, w, collector.Options{SuspendAfter: suspendAfter, FlushInterval: time.Millisecond})
	w.cleaner = cleaner.New(cleaner.Records{
		Status: w, Consumers: w.cache, Router: w.collector, Publications: (*publications)(w), Logs: store,
	}, cleaner.Options{ReconcileInterval: time.Hour, RetryMin: time.Millisecond, ReasonOf: shapecache.ReasonOf})
	w.cache.Connect(w.collector, w.cleaner)

	// The stages of the server, upstream first.
	var groups []func()
	for _, run := range []func(context.Context) error{
		func(ctx context.Context) error { return w.collector.Run(ctx, w.events) },
		w.cache.Run,
		w.cleaner.Run,
		func(ctx context.Context) error { return w.collector.RunFlush(ctx, store, func(changes.LSN) {}) },
		store.Run,
	} {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var wg sync.WaitGroup
		wg.Go(func() { _ = run(ctx) })
		groups = append(groups, func() { cancel(); wg.Wait() })
	}
	<-w.cache.Started()
	t.Cleanup(func() {
		for _, stop := range groups {
			stop()
		}
		require.NoError(t, store.Close())
	})
	return w
}

// Put implements shapecache.Status.
func (w *world) Put(_ context.Context, row status.Row) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.putErr != nil {
		return w.putErr
	}
	w.rows[row.Handle] = true
	return nil
}

// Completed implements shapecache.Status.
func (w *world) Completed(shape.Handle, time.Time) {}

// Used implements shapecache.Status.
func (w *world) Used(shape.Handle, time.Time) {}

// Remove implements cleaner.Status.
func (w *world) Remove(_ context.Context, handles ...shape.Handle) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range handles {
		delete(w.rows, h)
	}
	return nil
}

// Handles implements cleaner.Status.
func (w *world) Handles(context.Context) ([]shape.Handle, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.rows)), nil
}

// ComparePartitions implements collector.Catalog.
func (w *world) ComparePartitions(context.Context, []uint32) (changes.Snapshot, error) {
	return everything, nil
}

// Awaited implements collector.Catalog.
func (w *world) Awaited(context.Context) (bool, error) { return false, nil }

// Ancestors implements collector.Catalog.
func (w *world) Ancestors(context.Context, uint32) ([]uint32, changes.Snapshot, error) {
	return nil, everything, nil
}

// Layouts implements collector.Catalog.
func (w *world) Layouts(context.Context, []uint32) (map[uint32]changes.Layout, changes.Snapshot, error) {
	return nil, everything, nil
}

// everything is a snapshot that sees every transaction of the tests.
var everything = changes.Snapshot{Xmin: 1<<31 - 1, Xmax: 1<<31 - 1}

type publications world

func (p *publications) Acquire(ctx context.Context, h shape.Handle, _ *shape.Table) error {
	p.mu.Lock()
	hook := p.acquire
	p.mu.Unlock()
	if hook != nil {
		if err := hook(ctx); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[h] = true
	return nil
}

func (p *publications) Restore(h shape.Handle, _ *shape.Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[h] = true
}

func (p *publications) Release(h shape.Handle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holds, h)
}

func (p *publications) Handles() []shape.Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.holds))
}

type snapshots world

func (s *snapshots) Read(ctx context.Context, _ *shape.Definition, enc *shapelog.Encoder, sink snapshot.Sink) error {
	s.mu.Lock()
	s.snapshots++
	hook := s.read
	s.mu.Unlock()
	if hook != nil {
		return hook(ctx, sink)
	}
	return readRows(enc, sink, 3)
}

// readRows is a snapshot of n rows that saw no transaction of the stream.
func readRows(enc *shapelog.Encoder, sink snapshot.Sink, n int) error {
	if err := sink.Register(); err != nil {
		return err
	}
	if err := sink.Begin(changes.Snapshot{Xmin: 1, Xmax: 1}, 1); err != nil {
		return err
	}
	for i := range n {
		row := changes.Row{{Kind: changes.Text, Bytes: strconv.AppendInt(nil, int64(-1-i), 10)}}
		if err := sink.Row(enc.AppendInsert(nil, shapelog.Position{}, row, shapelog.KeyChange{})); err != nil {
			return err
		}
	}
	return nil
}

func relationOf(oid uint32) *changes.Relation {
	return &changes.Relation{
		OID: oid, Schema: "public", Name: "t" + strconv.Itoa(int(oid)), Identity: changes.IdentityFull,
		Columns: []changes.Column{{Name: "id", TypeOID: 23, TypeMod: -1, Key: true}},
	}
}

// commit sends a transaction that inserts the ids into the table.
func (w *world) commit(oid uint32, ids ...int) {
	w.lsn += 10
	rel := relationOf(oid)
	f := &changes.Fragment{Txn: &changes.Txn{CommitLSN: changes.LSN(w.lsn), Xid: changes.Xid(w.lsn)}, First: true, Last: true, EndLSN: changes.LSN(w.lsn + 1)}
	for i, id := range ids {
		op := changes.Insert
		if id < 0 {
			op = changes.Truncate
		}
		f.Changes = append(f.Changes, changes.Change{
			Op: op, Relation: rel, Index: uint64(i),
			New: changes.Row{{Kind: changes.Text, Bytes: strconv.AppendInt(nil, int64(id), 10)}},
		})
	}
	w.events <- changes.Event{Fragment: f}
}

// applied waits until everything sent has been applied by everybody.
func (w *world) applied() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.collector.LastSeen() == changes.LSN(w.lsn) }, 10*time.Second, time.Millisecond)
}

// clean waits until nothing is left of any shape but these.
func (w *world) clean(kept ...shape.Handle) {
	w.t.Helper()
	same := func(hs []shape.Handle) bool {
		slices.Sort(hs)
		slices.Sort(kept)
		return slices.Equal(hs, kept)
	}
	require.Eventually(w.t, func() bool {
		rows, err := w.Handles(w.t.Context())
		return err == nil && same(rows) && same(w.cache.Handles()) && same(w.collector.Handles()) &&
			same((*publications)(w).Handles()) && same(w.store.Handles()) && w.cleaner.Pending() == 0
	}, 10*time.Second, time.Millisecond, "records are left over")
}

// ready makes a shape and waits for its snapshot.
func (w *world) ready(def *shape.Definition) *shapecache.Shape {
	w.t.Helper()
	var s *shapecache.Shape
	require.Eventually(w.t, func() bool {
		var err error
		s, err = w.cache.GetOrCreate(w.t.Context(), def)
		var failed *shapecache.FailedError
		if !errors.As(err, &failed) { // a failure of before is waited for
			require.NoError(w.t, err)
		}
		return err == nil
	}, 10*time.Second, time.Millisecond)
	require.NoError(w.t, w.cache.AwaitSnapshotStart(w.t.Context(), s))
	require.Eventually(w.t, func() bool { st, _ := s.Log.State(); return st.Phase == storage.SnapshotComplete }, 10*time.Second, time.Millisecond)
	return s
}

// ids returns the ids in the log behind the snapshot, in order.
func (w *world) ids(s *shapecache.Shape) []int {
	w.t.Helper()
	st, _ := s.Log.State()
	var out []int
	for after := shapelog.SnapshotEnd; after.Compare(st.Last) < 0; {
		end, _ := s.Log.Range(after)
		body, err := s.Log.Read(w.t.Context(), after, end)
		require.NoError(w.t, err)
		out = append(out, idsIn(w.t, body)...)
		after = end
	}
	return out
}

var errInjected = errors.New("injected")

var _ shapecache.Router = (*collector.Collector)(nil)
