package shapecache_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
)

// TestLifeUnderTraffic is the model of collector.TestModel on the real thing (I2, I8): real consumers over a real store are
// suspended and resumed all the time, also in the middle of transactions, die because their log is taken away, are
// removed and made anew, while transactions run. Every log has, in order and once, whole transactions from its shape's
// making to now.
func TestLifeUnderTraffic(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, 3*time.Millisecond)
	w.mu.Lock()
	w.read = func(_ context.Context, sink snapshot.Sink) error { // of an empty table, that saw all there was
		if err := sink.Register(); err != nil {
			return err
		}
		return sink.Begin(changes.Snapshot{Xmin: w.lsn + 1, Xmax: w.lsn + 1}, changes.LSN(w.lsn+1))
	}
	w.mu.Unlock()
	type life struct {
		shape *shapecache.Shape
		want  []int
	}
	const tables = 4
	lives := make([]*life, tables+1)
	born := func(oid uint32) { lives[oid] = &life{shape: w.ready(definition(oid))} }
	for oid := range uint32(tables) {
		born(oid + 1)
	}
	next := 0
	for range 500 {
		oid := uint32(1 + rng.IntN(tables))
		var parts [][]int
		for range 1 + rng.IntN(3) {
			var ids []int
			for range rng.IntN(4) {
				ids = append(ids, next)
				next++
			}
			parts = append(parts, ids)
		}
		w.commitParts(oid, func() {
			if rng.IntN(8) == 0 {
				time.Sleep(time.Duration(rng.IntN(12)) * time.Millisecond) //nolint:forbidigo // gives the sweep its chances
			}
		}, parts...)
		for _, ids := range parts {
			lives[oid].want = append(lives[oid].want, ids...)
		}
		switch rng.IntN(40) {
		case 0: // its log is taken away behind everybody's back, and its consumer dies of it
			require.NoError(t, w.store.Remove(lives[oid].shape.Handle))
			w.commit(oid, next)
			next++
			w.gone(lives[oid].shape)
			born(oid)
		case 1:
			w.cleaner.Remove(lives[oid].shape.Handle, shape.ReasonDeleted)
			w.gone(lives[oid].shape)
			born(oid)
		case 2:
			w.commit(oid, -1) // TRUNCATE
			w.gone(lives[oid].shape)
			born(oid)
		case 3, 4, 5:
			time.Sleep(time.Duration(rng.IntN(15)) * time.Millisecond) //nolint:forbidigo // gives the sweep its chances
		}
	}
	w.applied()
	var kept []shape.Handle
	for _, l := range lives[1:] {
		require.Equal(t, l.want, w.ids(l.shape), "seed %d, %s", seed, l.shape.Handle)
		kept = append(kept, l.shape.Handle)
	}
	w.clean(kept...)
}

// gone waits until a shape is nowhere.
func (w *world) gone(s *shapecache.Shape) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		st, _ := s.Log.State()
		_, found := w.cache.Lookup(s.Handle)
		return !found && st.Err != nil && w.cleaner.Wait(w.t.Context(), s.Handle) == nil
	}, 10*time.Second, time.Millisecond)
	st, _ := s.Log.State()
	require.ErrorIs(w.t, st.Err, storage.ErrRemoved)
}

// commitParts sends a transaction in fragments of these ids, with between called before each but the first.
func (w *world) commitParts(oid uint32, between func(), parts ...[]int) {
	w.lsn += 10
	rel := relationOf(oid)
	index := uint64(0)
	txn := &changes.Txn{CommitLSN: changes.LSN(w.lsn), Xid: changes.Xid(w.lsn)}
	for i, ids := range parts {
		f := &changes.Fragment{Txn: txn, First: i == 0, Last: i == len(parts)-1, EndLSN: changes.LSN(w.lsn + 1)}
		for _, id := range ids {
			f.Changes = append(f.Changes, changes.Change{
				Op: changes.Insert, Relation: rel, Index: index,
				New: changes.Row{{Kind: changes.Text, Bytes: strconv.AppendInt(nil, int64(id), 10)}},
			})
			index++
		}
		if i > 0 {
			between()
		}
		w.events <- changes.Event{Fragment: f}
	}
}
