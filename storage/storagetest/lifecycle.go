package storagetest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

func testCreate(t *testing.T, s storage.Store) {
	require.Empty(t, s.Handles())
	_, err := s.Open("1-1")
	require.ErrorIs(t, err, storage.ErrNotFound)
	l := create(t, s, "1-1")
	require.Equal(t, shape.Handle("1-1"), l.Handle())
	st, _ := l.State()
	require.Equal(t, storage.State{Last: shapelog.SnapshotEnd}, st)
	_, err = s.Create("1-1")
	require.ErrorIs(t, err, storage.ErrExists)
	create(t, s, "2-2")
	require.ElementsMatch(t, []shape.Handle{"1-1", "2-2"}, s.Handles())
	again, err := s.Open("1-1")
	require.NoError(t, err)
	require.Same(t, l, again)
}

func testHandleNeverComesBack(t *testing.T, s storage.Store) {
	require.NoError(t, s.Remove("1-1"), "removing what is not there")
	create(t, s, "1-1")
	require.NoError(t, s.Remove("1-1"))
	require.NoError(t, s.Remove("1-1"), "removing twice")
	_, err := s.Open("1-1")
	require.ErrorIs(t, err, storage.ErrNotFound)
	_, err = s.Create("1-1")
	require.ErrorIs(t, err, storage.ErrExists)
	require.Empty(t, s.Handles())
}

func testRemove(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"), item(1, 50))
	appendAll(t, l, entry(5, 0, 50))
	st, changed := l.State()
	require.NoError(t, st.Err)
	require.NoError(t, s.Remove("1-1"))
	requireWoken(t, changed)
	st, _ = l.State()
	require.ErrorIs(t, st.Err, storage.ErrRemoved)
	require.ErrorIs(t, l.Append([]shapelog.Entry{entry(6, 0, 50)}), storage.ErrRemoved)
	require.ErrorIs(t, l.Commit(), storage.ErrRemoved)
	require.ErrorIs(t, readErr(t.Context(), l, shapelog.SnapshotEnd, st.Last), storage.ErrRemoved)
	require.ErrorIs(t, readErr(t.Context(), l, shapelog.Before, shapelog.SnapshotChunk(0)), storage.ErrRemoved)
	_, err := l.NewSnapshot(someSnapshot, 1)
	require.Error(t, err)
}

func testRemoveDuringSnapshot(t *testing.T, s storage.Store) {
	for _, rows := range []int{0, 1, 500} { // before it is seen, in memory, in files
		h := shape.Handle(string(rune('1'+rows%7)) + "-1")
		l := create(t, s, h)
		w := begin(t, l)
		for i := range rows {
			require.NoError(t, w.Write(item(i, 300)))
		}
		body, err := l.Read(t.Context(), shapelog.SnapshotChunk(rows), shapelog.SnapshotChunk(rows+1)) // far ahead
		require.NoError(t, err)
		var wg sync.WaitGroup
		var got error
		wg.Go(func() { _, got = body.WriteTo(&bytes.Buffer{}, nil) })
		require.NoError(t, s.Remove(h))
		wg.Wait()
		require.ErrorIs(t, got, storage.ErrRemoved)
		require.NoError(t, body.Close())
		var werr error
		for i := 0; werr == nil && i < 10_000; i++ { // a writer may notice late, but it must
			werr = w.Write(item(i, 300))
		}
		require.ErrorIs(t, werr, storage.ErrRemoved)
		require.Error(t, w.Finish(snapshotEnd))
		w.Abort()
		st, _ := l.State()
		require.ErrorIs(t, st.Err, storage.ErrRemoved)
		_, err = s.Open(h)
		require.ErrorIs(t, err, storage.ErrNotFound)
	}
}

func testBodyOutlivesRemoval(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"), item(1, 400), item(2, 900), item(3, 50))
	appendAll(t, l, entry(5, 0, 700), entry(5, 2, 700), entry(6, 0, 100))
	type open struct {
		want string
		body storage.Body
	}
	var bodies []open
	for _, p := range walk(t, l) {
		b, err := l.Read(t.Context(), p.After, p.End)
		require.NoError(t, err)
		bodies = append(bodies, open{p.Body, b})
	}
	require.Greater(t, len(bodies), 3)
	require.NoError(t, s.Remove("1-1"))
	for _, o := range bodies {
		var buf bytes.Buffer
		_, err := o.body.WriteTo(&buf, nil)
		if err == nil {
			require.Equal(t, o.want, buf.String())
		} else {
			require.ErrorIs(t, err, storage.ErrRemoved)
		}
		require.NoError(t, o.body.Close())
	}
}

func testCancelledRead(t *testing.T, s storage.Store) {
	l := create(t, s, "1-1")
	cause := errors.New("client went away")
	for _, begun := range []bool{false, true} {
		if begun {
			begin(t, l)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		body, err := l.Read(ctx, shapelog.Before, shapelog.SnapshotChunk(0))
		require.NoError(t, err)
		require.Equal(t, int64(-1), body.Size())
		_, err = body.WriteTo(&bytes.Buffer{}, func() error { cancel(cause); return nil })
		require.ErrorIs(t, err, cause)
		require.NoError(t, body.Close())
	}
	failed := errors.New("connection reset")
	body, err := l.Read(t.Context(), shapelog.Before, shapelog.SnapshotChunk(0))
	require.NoError(t, err)
	_, err = body.WriteTo(&bytes.Buffer{}, func() error { return failed })
	require.ErrorIs(t, err, failed)
	require.NoError(t, body.Close())
}

func testConfirmed(t *testing.T, s storage.Store) {
	require.Zero(t, s.Confirmed())
	require.NoError(t, s.SetConfirmed(changes.LSN(0x16B374D848)))
	require.Equal(t, changes.LSN(0x16B374D848), s.Confirmed())
	require.NoError(t, s.Sync())
	require.Equal(t, changes.LSN(0x16B374D848), s.Confirmed())
}

func testSize(t *testing.T, s storage.Store) {
	l := create(t, s, "1-1")
	require.Zero(t, l.Size())
	complete(t, l, item(1, 400), item(2, 900))
	n := l.Size()
	require.InDelta(t, 1300, n, 100)
	appendAll(t, l, entry(5, 0, 700), entry(5, 2, 700), entry(6, 0, 100))
	require.InDelta(t, n+1500, l.Size(), 100)
}
