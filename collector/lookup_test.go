package collector_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/collector"
	"github.com/shapeserver/shapeserver/shape"
)

// A commit is in the stream before other sessions see it. A partition that was made in the transaction, with a row, is asked
// for until the catalogue shows the transaction.
func TestLookUpWaitsUntilTheTransactionIsVisible(t *testing.T) {
	for name, tt := range map[string]struct {
		after        time.Duration
		awaited      bool
		got, unseen  []shape.Handle
		looks, twice int
	}{
		"at once": {got: []shape.Handle{"leaf", "root"}, looks: 1, twice: 2},
		"in 40 s": {after: 40 * time.Second, got: []shape.Handle{"leaf", "root"}, looks: 21, twice: 22},
		// The second look-up in the transaction does not wait again; the shapes that may miss something are named.
		"not before it is confirmed": {after: time.Hour, awaited: true, got: []shape.Handle{"leaf"}, unseen: []shape.Handle{"root", "root"}, looks: 11, twice: 12},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(collector.Options{SuspendAfter: time.Hour})
				w.above = map[uint32][]uint32{2: {1}}
				root := table(1, "root")
				root.Kind = 'p'
				w.c.Restore("root", definition(root))
				w.c.Restore("leaf", definition(table(2, "leaf")))
				w.c.Restore("other", definition(table(3, "other")))
				w.visible, w.awaited = time.Now().Add(tt.after), tt.awaited
				in := make(chan changes.Event)
				stop := w.run(t, in)
				ev := txn(10, relation(2, "leaf"), 7)
				ev.Fragment.Last = false
				in <- ev
				time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
				synctest.Wait()
				require.Equal(t, tt.looks, w.looks)
				require.ElementsMatch(t, tt.got, slices.Collect(maps.Keys(w.got)))
				last := txn(10, relation(2, "leaf"), 8)
				last.Fragment.Changes[0].Index = 1
				in <- last
				synctest.Wait()
				require.Equal(t, tt.twice, w.looks)
				require.Equal(t, []uint64{7, 8}, w.got["leaf"])
				require.Equal(t, tt.unseen, w.unseen)
				if tt.unseen != nil { // what was answered then is not kept
					w.visible = time.Time{}
					w.c.Restore("later", definition(root))
					in <- txn(20, last.Fragment.Changes[0].Relation, 9)
					synctest.Wait()
					require.Equal(t, []uint64{9}, w.got["later"])
					require.Nil(t, last.Fragment.Changes[0].Relation.Layouts)
				}
				stop()
			})
		})
	}
}

// A partition that is detached is announced again, unchanged, before its next change, which is not its old root's.
func TestAnnouncedAgainAsksForAncestorsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: time.Hour})
		w.above = map[uint32][]uint32{2: {1}}
		root := table(1, "root")
		root.Kind = 'p'
		w.c.Restore("root", definition(root))
		w.c.Restore("leaf", definition(table(2, "leaf")))
		in := make(chan changes.Event)
		stop := w.run(t, in)
		attached := relation(2, "leaf")
		in <- txn(10, attached, 7)
		in <- txn(20, attached, 8)
		synctest.Wait()
		w.above = nil
		detached := relation(2, "leaf")
		in <- txn(30, detached, 9)
		synctest.Wait()
		require.Equal(t, map[shape.Handle][]uint64{"root": {7, 8}, "leaf": {7, 8, 9}}, w.got)
		w.above = map[uint32][]uint32{2: {1}}
		in <- txn(40, relation(2, "leaf"), 10) // attached again
		synctest.Wait()
		require.Equal(t, map[shape.Handle][]uint64{"root": {7, 8, 10}, "leaf": {7, 8, 9, 10}}, w.got)
		stop()
	})
}

// An announced partition has the tables above it compared. When rows came or went with a partition, their shapes get nothing
// more, also not of the transaction that is open; the partition's own go on. A look that saw a transaction serves it again.
func TestMovedRowsEndTheRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: time.Hour})
		w.above = map[uint32][]uint32{2: {5, 1}, 3: {1}, 4: {6}}
		for oid, name := range map[uint32]string{1: "root", 6: "other"} {
			root := table(oid, name)
			root.Kind = 'p'
			w.c.Restore(shape.Handle(name), definition(root))
		}
		w.c.Restore("leaf", definition(table(2, "leaf")))
		in := make(chan changes.Event)
		stop := w.run(t, in)
		w.under = changes.Snapshot{Xmin: 31, Xmax: 31}
		leaf := relation(2, "leaf")
		in <- txn(10, leaf, 7)
		in <- txn(20, relation(3, "second"), 8)
		in <- txn(30, relation(4, "alien"), 9)
		synctest.Wait()
		require.Equal(t, [][]uint32{{1}, {6}}, w.compared)
		require.Equal(t, map[shape.Handle][]uint64{"root": {7, 8}, "other": {9}, "leaf": {7}}, w.got)

		begun := txn(40, leaf, 10)
		begun.Fragment.Last = false
		in <- begun
		synctest.Wait()
		w.moved, w.under = "root", everything
		last := txn(40, relation(3, "second"), 11)
		last.Fragment.Changes[0].Index = 1
		in <- last
		in <- txn(50, relation(2, "leaf"), 12)
		in <- txn(60, relation(4, "alien"), 13)
		synctest.Wait()
		require.Equal(t, [][]uint32{{1}, {6}, {1}, {6}}, w.compared)
		require.Equal(t, map[shape.Handle][]uint64{"root": {7, 8, 10}, "other": {9, 13}, "leaf": {7, 10, 12}}, w.got)
		require.Empty(t, w.unseen, "who compared has them removed")
		require.EqualValues(t, 30, w.c.LastSeen(), "the effects of 40 are not to be seen until the shape is gone")
		w.c.Unregister("root")
		synctest.Wait()
		require.EqualValues(t, 60, w.c.LastSeen())
		stop()
	})
}

// B111: under REPLICA IDENTITY FULL an announcement does not tell the primary key, so the catalogue is asked, once for each
// announcement of a relation that has shapes. What it says reaches the consumers with the change, also of shapes that the
// change does not concern.
func TestAnnouncementsBringTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(collector.Options{SuspendAfter: time.Hour})
		w.keys = map[uint32]changes.Layout{1: {Key: []string{"id"}}}
		w.c.Restore("h", definition(table(1, "items")))
		in := make(chan changes.Event)
		stop := w.run(t, in)
		items, other := relation(1, "items"), relation(2, "other")
		in <- txn(10, items, 7)
		in <- txn(20, items, 8)
		in <- txn(30, other, 9)
		synctest.Wait()
		require.Equal(t, w.keys, items.Layouts)
		require.Nil(t, other.Layouts, "it has no shapes")
		require.Equal(t, 1, w.asked)
		w.keys = map[uint32]changes.Layout{1: {}}
		again := relation(1, "items")
		in <- txn(40, again, 10)
		synctest.Wait()
		require.Equal(t, w.keys, again.Layouts)
		require.Equal(t, []uint64{7, 8, 10}, w.got["h"])
		require.Equal(t, 2, w.asked)
		stop()
	})
}
