package storagetest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

func testPhases(t *testing.T, s storage.Store) {
	l := create(t, s, "1-1")
	_, _, ok := l.Snapshot()
	require.False(t, ok)
	_, changed := l.State()
	w := begin(t, l)
	requireWoken(t, changed)
	st, changed := l.State()
	require.Equal(t, storage.State{Phase: storage.SnapshotWriting, Chunks: 1, Last: shapelog.SnapshotEnd}, st)
	snap, lsn, ok := l.Snapshot()
	require.True(t, ok)
	require.Equal(t, someSnapshot, snap)
	require.Equal(t, changes.LSN(77), lsn)
	_, err := l.NewSnapshot(someSnapshot, 1)
	require.Error(t, err, "a snapshot is begun once")
	require.NoError(t, w.Finish(snapshotEnd))
	requireWoken(t, changed)
	st, _ = l.State()
	require.Equal(t, storage.State{Phase: storage.SnapshotComplete, Chunks: 1, Last: shapelog.SnapshotEnd}, st)
	snap, lsn, ok = l.Snapshot()
	require.True(t, ok)
	require.Equal(t, someSnapshot, snap)
	require.Equal(t, changes.LSN(77), lsn)
	require.Error(t, w.Write(item(1, 50)))
	require.Equal(t, string(snapshotEnd), read(t, l, shapelog.Before, shapelog.SnapshotChunk(0)))
}

func testSnapshotChunks(t *testing.T, s storage.Store) {
	for i, sizes := range [][]int{
		{},
		{50},
		{ChunkBytes - 1},                       // reaches the limit with the one byte more that an item counts
		{ChunkBytes - 2, 20},                   // does not
		{499, 499, 20},                         // 500 + 500
		{498, 499, 20, 20},                     // 499 + 500, then over it
		{3000, 3000, 20},                       // an item over the limit is not split
		{ChunkBytes - 1, ChunkBytes - 1},       // the closing item alone in the last chunk
		{200, 5000, 300, 400, 500, 600, 70000}, // beyond what is kept in memory
	} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			var want []string
			var chunk [][]byte
			n := 0
			rows := make([][]byte, len(sizes))
			for j, size := range sizes {
				rows[j] = item(j, size)
				chunk = append(chunk, rows[j])
				if n += size + 1; n >= ChunkBytes {
					want, chunk, n = append(want, join(chunk...)), nil, 0
				}
			}
			want = append(want, join(append(chunk, snapshotEnd)...))
			l := complete(t, create(t, s, shape.Handle(fmt.Sprintf("%d-7", i))), rows...)
			st, _ := l.State()
			require.Equal(t, len(want), st.Chunks)
			after := shapelog.Before
			for j, w := range want {
				end, closed := l.Range(after)
				require.Equal(t, shapelog.SnapshotChunk(j), end)
				require.True(t, closed)
				require.Equal(t, w, read(t, l, after, end))
				after = end
			}
			end, closed := l.Range(after)
			require.Equal(t, shapelog.SnapshotEnd, end)
			require.False(t, closed)
			require.Empty(t, read(t, l, after, end))
		})
	}
}

func testFirstRow(t *testing.T, s storage.Store) {
	l := create(t, s, "1-1")
	w := begin(t, l)
	require.NoError(t, w.Write(item(1, 60)))
	end, closed := l.Range(shapelog.Before)
	require.Equal(t, shapelog.SnapshotChunk(0), end)
	require.False(t, closed)
	body, err := l.Read(t.Context(), shapelog.Before, end)
	require.NoError(t, err)
	r, pipe := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := body.WriteTo(pipe, nil)
		_ = pipe.CloseWithError(err) // never fails
	})
	got := make([]byte, 60)
	_, err = io.ReadFull(r, got)
	require.NoError(t, err)
	require.Equal(t, string(item(1, 60)), string(got))
	require.NoError(t, w.Finish(snapshotEnd))
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, ","+string(snapshotEnd), string(rest))
	wg.Wait()
	require.NoError(t, body.Close())
}

// testFollowSnapshot has readers on every chunk, also on ones that never come, while the snapshot is written.
func testFollowSnapshot(t *testing.T, s storage.Store) {
	const chunks = 60
	l := create(t, s, "1-1")
	got := make([]strings.Builder, chunks)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			after := shapelog.Before
			if i > 0 {
				after = shapelog.SnapshotChunk(i - 1)
			}
			flushed := 0
			body, err := l.Read(t.Context(), after, shapelog.SnapshotChunk(i))
			if err == nil {
				_, err = body.WriteTo(&got[i], func() error { flushed++; return nil })
			}
			if err == nil {
				err = body.Close()
			}
			if err != nil {
				t.Errorf("read chunk %d: %v", i, err)
			}
		})
	}
	w := begin(t, l)
	var items [][]byte
	for i := range 400 {
		items = append(items, item(i, 50+i%500))
		require.NoError(t, w.Write(items[i]))
	}
	require.NoError(t, w.Finish(snapshotEnd))
	wg.Wait()
	st, _ := l.State()
	var all []string
	for i := range got {
		if i < st.Chunks {
			require.NotEmpty(t, got[i].String(), "chunk %d", i)
			require.Equal(t, read(t, l, shapelog.Before, shapelog.SnapshotChunk(i)), got[i].String(), "chunk %d, read again", i)
			all = append(all, got[i].String())
			continue
		}
		require.Empty(t, got[i].String(), "chunk %d of %d", i, st.Chunks)
	}
	if st.Chunks <= chunks {
		require.Equal(t, join(append(items, snapshotEnd)...), strings.Join(all, ","))
	}
}

func testAbort(t *testing.T, s storage.Store) {
	for _, rows := range []int{0, 3, 500} {
		h := shape.Handle(fmt.Sprintf("%d-1", rows))
		l := create(t, s, h)
		w := begin(t, l)
		for i := range rows {
			require.NoError(t, w.Write(item(i, 300)))
		}
		st, changed := l.State()
		body, err := l.Read(t.Context(), shapelog.Before, shapelog.SnapshotChunk(st.Chunks-1))
		require.NoError(t, err)
		w.Abort()
		w.Abort()
		requireWoken(t, changed)
		st, _ = l.State()
		require.ErrorIs(t, st.Err, storage.ErrSnapshotFailed)
		_, err = body.WriteTo(&bytes.Buffer{}, nil)
		require.ErrorIs(t, err, storage.ErrSnapshotFailed)
		require.NoError(t, body.Close())
		require.ErrorIs(t, readErr(t.Context(), l, shapelog.Before, shapelog.SnapshotChunk(0)), storage.ErrSnapshotFailed)
		require.Contains(t, s.Handles(), h, "its owner removes it")
		require.NoError(t, s.Remove(h))
	}
}

func testAbortAfterFinish(t *testing.T, s storage.Store) {
	l := create(t, s, "1-1")
	w := begin(t, l)
	require.NoError(t, w.Write(item(1, 50)))
	require.NoError(t, w.Finish(snapshotEnd))
	w.Abort()
	st, _ := l.State()
	require.NoError(t, st.Err)
	require.Equal(t, join(item(1, 50), snapshotEnd), read(t, l, shapelog.Before, shapelog.SnapshotChunk(0)))
}
