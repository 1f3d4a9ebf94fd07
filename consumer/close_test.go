package consumer

import (
	"context"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/storage/logstore"
)

// answers notes the answers to close requests.
type answers struct{ closed, refused chan changes.Token }

func (a answers) Closed(_ shape.Handle, t changes.Token)  { a.closed <- t }
func (a answers) Refused(_ shape.Handle, t changes.Token) { a.refused <- t }

type receipt struct{ wg *sync.WaitGroup }

func (r receipt) Applied() { r.wg.Done() }

// B017: a consumer that has a part of a transaction does not close, since no successor would know the entry that is held
// back, nor that there is something to make visible.
func TestOpenTransactionRefusesToClose(t *testing.T) {
	store, err := logstore.Open("store", logstore.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	log, err := store.Create("1-1")
	require.NoError(t, err)
	w, err := log.NewSnapshot(changes.Snapshot{Xmin: 1, Xmax: 1}, 1)
	require.NoError(t, err)
	require.NoError(t, w.Finish([]byte(`{"headers":{"control":"snapshot-end"}}`)))

	said := answers{make(chan changes.Token, 1), make(chan changes.Token, 1)}
	c := New("1-1", define(nil), log, said, Options{})
	var running, applied sync.WaitGroup
	running.Go(func() { c.Finish(c.Run(context.WithoutCancel(t.Context()))) })
	txn, relation := &changes.Txn{CommitLSN: 100, Xid: 7}, itemsRelation()
	deliver := func(commit bool, ids ...string) {
		var list []*changes.Change
		for i, id := range ids {
			index := uint64(i)
			if commit {
				index += 10
			}
			list = append(list, &changes.Change{Op: changes.Insert, Relation: relation, Index: index, New: row(id, "t", "1")})
		}
		applied.Add(1)
		c.Mailbox() <- changes.Delivery{Txn: txn, Changes: list, Commit: commit, Receipt: receipt{&applied}}
	}
	deliver(false, "1", "2")
	c.Mailbox() <- changes.Delivery{Close: 5}
	require.EqualValues(t, 5, <-said.refused)
	deliver(true, "3")
	c.Mailbox() <- changes.Delivery{Close: 6}
	require.EqualValues(t, 6, <-said.closed)
	running.Wait()
	applied.Wait()
	require.ErrorIs(t, c.Cause(), ErrSuspended)
	st, _ := log.State()
	require.Equal(t, storage.SnapshotComplete, st.Phase)
	require.Equal(t, "100_20", st.Last.String())

	// What closes a transaction may be empty for this shape: then too everything is visible.
	c = New("1-1", define(nil), log, said, Options{})
	running.Go(func() { c.Finish(c.Run(context.WithoutCancel(t.Context()))) })
	txn = &changes.Txn{CommitLSN: 200, Xid: 8}
	deliver(false, "4")
	c.Mailbox() <- changes.Delivery{Close: 7}
	require.EqualValues(t, 7, <-said.refused)
	deliver(true)
	c.Mailbox() <- changes.Delivery{Close: 8}
	require.EqualValues(t, 8, <-said.closed)
	running.Wait()
	st, _ = log.State()
	require.Equal(t, "200_0", st.Last.String())
}
