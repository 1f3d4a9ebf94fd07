package collector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/collector"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/where"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var int4 = &where.Type{OID: 23, Schema: "pg_catalog", Name: "int4", Kind: where.KindBase}

func table(oid uint32, name string) *shape.Table {
	return &shape.Table{OID: oid, Schema: "public", Name: name, Kind: 'r', Key: []int{0}, Columns: []shape.Column{
		{Column: where.Column{Name: "id", Type: int4, TypeMod: -1}},
	}}
}

func relation(oid uint32, name string) *changes.Relation {
	return &changes.Relation{OID: oid, Schema: "public", Name: name, Identity: changes.IdentityFull, Columns: []changes.Column{
		{Name: "id", TypeOID: 23, TypeMod: -1, Key: true},
	}}
}

func definition(t *shape.Table) *shape.Definition {
	return &shape.Definition{Table: t, Columns: []int{0}, Replica: shape.ReplicaDefault, Log: shape.LogFull}
}

// fakeConsumer is a consumer that notes what it gets and answers close requests like the real one.
type fakeConsumer struct {
	handle  shape.Handle
	world   *world
	mailbox chan changes.Delivery
	done    chan struct{}
}

func (f *fakeConsumer) Mailbox() chan<- changes.Delivery { return f.mailbox }
func (f *fakeConsumer) Done() <-chan struct{}            { return f.done }

func (f *fakeConsumer) run() {
	defer close(f.done)
	for {
		var d changes.Delivery
		select {
		case <-f.world.quit:
			return
		case d = <-f.mailbox:
		}
		if d.Close != 0 {
			f.world.c.Closed(f.handle, d.Close)
			return
		}
		f.world.note(f.handle, d)
		d.Receipt.Applied()
	}
}

// world is everything around a collector under test.
type world struct {
	c    *collector.Collector
	wg   sync.WaitGroup
	quit chan struct{}

	mu       sync.Mutex
	got      map[shape.Handle][]uint64 // the key of every change, in the order of arrival
	failing  map[shape.Handle]bool
	size     int
	above    map[uint32][]uint32
	keys     map[uint32]changes.Layout
	visible  time.Time        // until then the catalogue shows no transaction
	awaited  bool             // answer of Awaited
	looks    int              // calls of Ancestors
	asked    int              // calls of Layouts
	moved    shape.Handle     // whom ComparePartitions cuts off
	compared [][]uint32       // its arguments
	under    changes.Snapshot // of its answer
	unseen   []shape.Handle
	stalled  []shape.Handle
}

func newWorld(opts collector.Options) *world {
	w := &world{got: make(map[shape.Handle][]uint64), quit: make(chan struct{}), failing: make(map[shape.Handle]bool), size: 4}
	opts.OnStalled = func(h shape.Handle) { w.stalled = append(w.stalled, h) }
	w.under = everything
	opts.OnUnseen = func(h shape.Handle) {
		w.unseen = append(w.unseen, h)
		w.c.Cut(h)
	}
	w.c = collector.New(w, w, opts)
	return w
}

func (w *world) note(h shape.Handle, d changes.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range d.Changes {
		row := ch.New
		if row == nil {
			row = ch.Old
		}
		n, err := strconv.ParseUint(string(row[0].Bytes), 10, 64)
		if err != nil {
			panic(err)
		}
		w.got[h] = append(w.got[h], n)
	}
}

func (w *world) start(h shape.Handle) *fakeConsumer {
	f := &fakeConsumer{handle: h, world: w, mailbox: make(chan changes.Delivery, w.size), done: make(chan struct{})}
	w.wg.Go(f.run)
	return f
}

// Resume implements collector.Consumers.
func (w *world) Resume(h shape.Handle) (collector.Inbox, error) {
	w.mu.Lock()
	failing := w.failing[h]
	w.mu.Unlock()
	if failing {
		return nil, errors.New("gone")
	}
	return w.start(h), nil
}

// everything is a snapshot that sees every transaction of the tests.
var everything = changes.Snapshot{Xmin: 1<<31 - 1, Xmax: 1<<31 - 1}

// ComparePartitions implements collector.Catalog.
func (w *world) ComparePartitions(_ context.Context, oids []uint32) (changes.Snapshot, error) {
	w.compared = append(w.compared, oids)
	if w.moved != "" {
		w.c.Cut(w.moved)
	}
	return w.under, nil
}

// Awaited implements collector.Catalog.
func (w *world) Awaited(context.Context) (bool, error) { return w.awaited, nil }

// Ancestors implements collector.Catalog.
func (w *world) Ancestors(_ context.Context, oid uint32) ([]uint32, changes.Snapshot, error) {
	w.looks++
	if time.Now().Before(w.visible) {
		return nil, changes.Snapshot{Xmin: 1, Xmax: 1}, nil
	}
	return w.above[oid], everything, nil
}

// Layouts implements collector.Catalog.
func (w *world) Layouts(context.Context, []uint32) (map[uint32]changes.Layout, changes.Snapshot, error) {
	w.asked++
	return w.keys, everything, nil
}

// txn makes a transaction of one fragment that inserts the ids into the relation.
func txn(lsn uint64, r *changes.Relation, ids ...uint64) changes.Event {
	f := &changes.Fragment{Txn: &changes.Txn{CommitLSN: changes.LSN(lsn), Xid: changes.Xid(lsn)}, First: true, Last: true, EndLSN: changes.LSN(lsn + 1)}
	for i, id := range ids {
		f.Changes = append(f.Changes, changes.Change{Op: changes.Insert, Relation: r, Index: uint64(i), New: changes.Row{{Kind: changes.Text, Bytes: strconv.AppendUint(nil, id, 10)}}})
	}
	return changes.Event{Fragment: f}
}

// run runs the collector until the returned function is called, which ends the consumers too.
func (w *world) run(t *testing.T, in <-chan changes.Event) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.c.Run(ctx, in) })
	return func() {
		cancel()
		wg.Wait()
		close(w.quit)
		w.wg.Wait()
	}
}

func TestProgressFollowsCommitOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: -1})
		in := make(chan changes.Event)
		items, other := relation(1, "items"), relation(2, "other")
		slow := &fakeConsumer{handle: "slow", world: w, mailbox: make(chan changes.Delivery, 4), done: make(chan struct{})}
		w.c.Register("slow", definition(table(1, "items")), slow)
		w.c.Register("fast", definition(table(2, "other")), w.start("fast"))
		stop := w.run(t, in)
		in <- txn(10, items, 1)
		in <- txn(20, other, 2)
		in <- changes.Event{WALEnd: 30}
		synctest.Wait()
		require.Equal(t, []uint64{2}, w.got["fast"])
		require.Zero(t, w.c.LastSeen(), "the first transaction is not applied, so neither counts")
		require.Equal(t, 3, w.c.Waiting())
		d := <-slow.mailbox
		d.Receipt.Applied()
		synctest.Wait()
		require.EqualValues(t, 20, w.c.LastSeen())
		require.Zero(t, w.c.Waiting())
		stop()
	})
}

func TestReplayAfterReconnectIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: time.Hour})
		in := make(chan changes.Event)
		items := relation(1, "items")
		w.c.Restore("h", definition(table(1, "items")))
		stop := w.run(t, in)
		in <- txn(10, items, 1)
		whole := txn(20, items, 2, 3, 4).Fragment
		part := *whole
		part.Changes, part.Last = whole.Changes[:2], false
		in <- changes.Event{Fragment: &part}
		// The connection breaks here; Postgres sends again what was not confirmed.
		in <- txn(10, items, 1)
		in <- changes.Event{Fragment: whole}
		synctest.Wait()
		require.Equal(t, []uint64{1, 2, 3, 4}, w.got["h"])
		require.EqualValues(t, 20, w.c.LastSeen())
		stop()
	})
}

func TestRestOfOpenTransactionIsNotForNewShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: time.Hour})
		in := make(chan changes.Event)
		items := relation(1, "items")
		stop := w.run(t, in)
		whole := txn(20, items, 2, 3).Fragment
		first, second := *whole, *whole
		first.Changes, first.Last = whole.Changes[:1], false
		second.Changes, second.First = whole.Changes[1:], false
		in <- changes.Event{Fragment: &first}
		synctest.Wait()
		w.c.Register("h", definition(table(1, "items")), w.start("h"))
		in <- changes.Event{Fragment: &second}
		in <- txn(30, items, 5)
		synctest.Wait()
		require.Equal(t, []uint64{5}, w.got["h"])
		require.True(t, w.c.Missed("h", changes.Snapshot{Xmin: 20, Xmax: 21, Xip: []uint64{20}}),
			"a snapshot that did not see the open transaction would lose it")
		require.False(t, w.c.Missed("h", changes.Snapshot{Xmin: 21, Xmax: 31, Xip: []uint64{30}}),
			"what came after the registration is delivered")
		require.True(t, w.c.Missed("h", changes.Snapshot{Xmin: 20, Xmax: 20}),
			"xmax is one past the highest id that had completed: higher ids may have committed in the WAL")
		require.True(t, w.c.Missed("h", changes.Snapshot{Xmin: 5, Xmax: 7}))
		require.False(t, w.c.Missed("h", changes.Snapshot{Xmin: 21, Xmax: 21}), "30 is delivered")
		require.True(t, w.c.Missed("h", changes.Snapshot{Xmin: 1, Xmax: 1}))
		require.False(t, w.c.Missed("h", changes.Snapshot{Xmin: 1 << 31, Xmax: 1 << 31}), "ids of the epoch before are old")

		now := w.c.Now()
		require.True(t, w.c.UnseenBefore(now, changes.Snapshot{Xmin: 21, Xmax: 31, Xip: []uint64{30}}), "readers may have it")
		require.False(t, w.c.UnseenBefore(now, changes.Snapshot{Xmin: 31, Xmax: 31}))
		in <- txn(40, items, 6)
		synctest.Wait()
		require.False(t, w.c.UnseenBefore(now, changes.Snapshot{Xmin: 31, Xmax: 31}), "40 came later")
		require.False(t, w.c.UnseenBefore(now, changes.Snapshot{Xmin: 31, Xmax: 41, Xip: []uint64{40}}))
		require.True(t, w.c.UnseenBefore(w.c.Now(), changes.Snapshot{Xmin: 31, Xmax: 31}))
		require.False(t, w.c.UnseenBefore(w.c.Now(), changes.Snapshot{Xmin: 41, Xmax: 41}))
		stop()
	})
}

func TestTruncateReachesShapesOfPartitionAndRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: time.Hour})
		w.above = map[uint32][]uint32{2: {1}}
		root := table(1, "root")
		root.Kind = 'p'
		root.Partitions = []uint32{2}
		w.c.Restore("root", definition(root))
		w.c.Restore("leaf", definition(table(2, "leaf")))
		w.c.Restore("other", definition(table(3, "other")))
		in := make(chan changes.Event)
		stop := w.run(t, in)
		in <- txn(10, relation(2, "leaf"), 7)
		synctest.Wait()
		require.Equal(t, map[shape.Handle][]uint64{"root": {7}, "leaf": {7}}, w.got)
		stop()
	})
}

// A consumer that is slow to answer a close request holds the sender up once the buffer is full. It answers in the end, and
// a successor gets everything in order; or it dies, and its shape owes the receipts.
func TestFullBufferWaitsForTheAnswer(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("dies=%t", dies), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(collector.Options{SuspendAfter: 40 * time.Millisecond})
				in := make(chan changes.Event)
				slow := &fakeConsumer{handle: "h", world: w, mailbox: make(chan changes.Delivery, 4), done: make(chan struct{})}
				w.c.Register("h", definition(table(1, "items")), slow)
				stop := w.run(t, in)
				request := <-slow.mailbox
				require.NotZero(t, request.Close)
				const many = 1024 + 10
				sent := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					defer close(sent)
					for n := range uint64(many) {
						in <- txn(n+1, relation(1, "items"), n)
					}
				})
				synctest.Wait()
				select {
				case <-sent:
					require.Fail(t, "the sender did not wait")
				default:
				}
				if dies {
					close(slow.done)
					wg.Wait()
					synctest.Wait()
					require.Zero(t, w.c.LastSeen())
					require.Empty(t, w.got["h"], "what a dead consumer leaves is not for a successor")
					w.c.Unregister("h")
				} else {
					w.c.Closed("h", request.Close)
					close(slow.done)
					wg.Wait()
					synctest.Wait()
					require.Len(t, w.got["h"], many)
					require.True(t, slices.IsSorted(w.got["h"]))
				}
				require.EqualValues(t, many, w.c.LastSeen())
				stop()
			})
		})
	}
}

func TestDeadConsumerOwesItsReceiptsUntilUnregistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: -1})
		in := make(chan changes.Event)
		items := relation(1, "items")
		dead := &fakeConsumer{mailbox: make(chan changes.Delivery, 1), done: make(chan struct{})}
		w.c.Register("h", definition(table(1, "items")), dead)
		stop := w.run(t, in)
		close(dead.done)
		for n := range uint64(5) {
			in <- txn(n+1, items, n)
		}
		synctest.Wait()
		require.Zero(t, w.c.LastSeen(), "the shape is not durably gone yet")
		w.c.Unregister("h")
		require.EqualValues(t, 5, w.c.LastSeen())
		in <- txn(9, items, 9)
		synctest.Wait()
		require.EqualValues(t, 9, w.c.LastSeen())
		stop()
	})
}

func TestStalledConsumerHoldsUpNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: -1, StallLimit: time.Second})
		in := make(chan changes.Event)
		items := relation(1, "items")
		stuck := &fakeConsumer{mailbox: make(chan changes.Delivery, 1), done: make(chan struct{})}
		w.c.Register("stuck", definition(table(1, "items")), stuck)
		began := time.Now()
		stop := w.run(t, in)
		for n := range uint64(10) {
			in <- txn(n+1, items, n)
		}
		synctest.Wait()
		require.Equal(t, []shape.Handle{"stuck"}, w.stalled)
		require.Less(t, time.Since(began), 2*time.Second)
		stop()
	})
}

// fakeStore counts syncs and notes the position of each.
type fakeStore struct {
	set, synced changes.LSN
	syncs       int
}

func (s *fakeStore) SetConfirmed(lsn changes.LSN) error { s.set = lsn; return nil }
func (s *fakeStore) Sync() error                        { s.synced = s.set; s.syncs++; return nil }

func TestConfirmedNeverPassesWhatIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: -1, FlushInterval: 10 * time.Millisecond})
		in := make(chan changes.Event)
		store := &fakeStore{}
		var confirmed changes.LSN
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = w.c.RunFlush(ctx, store, func(lsn changes.LSN) {
				require.Equal(t, store.synced, lsn)
				require.Greater(t, lsn, confirmed)
				confirmed = lsn
			})
		})
		stop := w.run(t, in)
		for n := range uint64(100) {
			in <- txn(10*n+10, relation(1, "items"), n)
			time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
		}
		in <- changes.Event{WALEnd: 5000}
		synctest.Wait()
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		require.EqualValues(t, 5000, confirmed)
		require.Less(t, store.syncs, 20, "one sync serves what arrives meanwhile")
		stop()
		cancel()
		wg.Wait()
	})
}
