package storagetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

// Disk is where a store under test keeps its data.
type Disk struct {
	// Open opens the store; the one before is closed or has crashed.
	Open func(t *testing.T) storage.Store
	// Crash is a power failure: what was not synced may be lost. The store is not used after.
	Crash func(t *testing.T, s storage.Store)
	// Work does what the store does in the background, such as sealing chunks. May be nil.
	Work func(t *testing.T, s storage.Store)
}

// RunDurable checks a store over restarts. newDisk makes an empty disk; chunks are of ChunkBytes.
func RunDurable(t *testing.T, newDisk func(t *testing.T) Disk) {
	t.Helper()
	t.Run("restart", func(t *testing.T) { testRestart(t, newDisk(t)) })
	t.Run("crash in a snapshot", func(t *testing.T) { testCrashInSnapshot(t, newDisk(t)) })
	t.Run("crash in a big transaction", func(t *testing.T) { testCrashInTransaction(t, newDisk(t)) })
	t.Run("removal is durable", func(t *testing.T) { testRemovalIsDurable(t, newDisk(t)) })
	t.Run("chunks are the same after restarts", func(t *testing.T) { testChunksStay(t, newDisk(t)) })
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("model/seed=%d", seed), func(t *testing.T) {
			m := &model{t: t, disk: newDisk(t), rng: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a test's choice
			m.run(250)
		})
	}
}

func (d Disk) work(t *testing.T, s storage.Store) {
	if d.Work != nil {
		d.Work(t, s)
	}
}

func (d Disk) reopen(t *testing.T, s storage.Store, crash bool) storage.Store {
	t.Helper()
	if crash {
		d.Crash(t, s)
	} else {
		require.NoError(t, s.Close())
	}
	return d.Open(t)
}

func testRestart(t *testing.T, d Disk) {
	s := d.Open(t)
	l := complete(t, create(t, s, "1-1"), item(1, 900), item(2, 200), item(3, 20_000))
	es := someEntries(50)
	appendAll(t, l, es...)
	small := complete(t, create(t, s, "2-2"), item(1, 50))
	require.NoError(t, s.SetConfirmed(99))
	require.NoError(t, s.Sync())
	parts, smallParts := walk(t, l), walk(t, small)
	state, _ := l.State()
	size := l.Size()
	for _, crash := range []bool{false, true, true, false} {
		s = d.reopen(t, s, crash)
		require.Equal(t, changes.LSN(99), s.Confirmed())
		require.ElementsMatch(t, []shape.Handle{"1-1", "2-2"}, s.Handles())
		l, err := s.Open("1-1")
		require.NoError(t, err)
		st, _ := l.State()
		require.Equal(t, state, st)
		snap, lsn, ok := l.Snapshot()
		require.True(t, ok)
		require.Equal(t, someSnapshot, snap)
		require.Equal(t, changes.LSN(77), lsn)
		require.Equal(t, parts, walk(t, l))
		require.Equal(t, size, l.Size())
		CheckEntries(t, l, es)
		small, err := s.Open("2-2")
		require.NoError(t, err)
		require.Equal(t, smallParts, walk(t, small))
		_, err = s.Create("1-1")
		require.ErrorIs(t, err, storage.ErrExists)
		_, err = l.NewSnapshot(someSnapshot, 1)
		require.Error(t, err)
		d.work(t, s)
	}
	require.NoError(t, s.Close())
}

func testCrashInSnapshot(t *testing.T, d Disk) {
	for i, rows := range []int{0, 1, 5, 200} {
		s := d.Open(t)
		h := shape.Handle(fmt.Sprintf("%d-1", i))
		l := create(t, s, h)
		w := begin(t, l)
		for j := range rows {
			require.NoError(t, w.Write(item(j, 300)))
		}
		require.NoError(t, s.Sync())
		s = d.reopen(t, s, true)
		require.Contains(t, s.Handles(), h)
		l, err := s.Open(h)
		require.NoError(t, err)
		st, _ := l.State()
		require.Equal(t, storage.SnapshotPending, st.Phase)
		require.Zero(t, st.Chunks)
		_, _, ok := l.Snapshot()
		require.False(t, ok)
		require.Zero(t, l.Size())
		_, err = l.NewSnapshot(someSnapshot, 1)
		require.ErrorIs(t, err, storage.ErrSnapshotFailed)
		require.NoError(t, s.Remove(h))
		require.NoError(t, s.Close())
	}
}

func testCrashInTransaction(t *testing.T, d Disk) {
	s := d.Open(t)
	l := complete(t, create(t, s, "1-1"))
	es := someEntries(30)
	appendAll(t, l, es...)
	before := walk(t, l)
	var big []shapelog.Entry
	for i := range uint64(60) {
		big = append(big, entry(90_000, 2*i, 20_000))
	}
	for _, synced := range []bool{true, false} {
		for _, e := range big[:50] {
			require.NoError(t, l.Append([]shapelog.Entry{e}))
		}
		if synced {
			require.NoError(t, s.Sync())
		}
		d.work(t, s)
		s = d.reopen(t, s, synced)
		var err error
		l, err = s.Open("1-1")
		require.NoError(t, err)
		require.Equal(t, before, walk(t, l), "synced %v", synced)
	}
	appendAll(t, l, big...)
	d.work(t, s)
	CheckEntries(t, l, append(es, big...))
	require.NoError(t, s.Sync())
	s = d.reopen(t, s, true)
	l, err := s.Open("1-1")
	require.NoError(t, err)
	CheckEntries(t, l, append(es, big...))
	require.NoError(t, s.Close())
}

func testRemovalIsDurable(t *testing.T, d Disk) {
	s := d.Open(t)
	for i := range 40 {
		l := complete(t, create(t, s, shape.Handle(fmt.Sprintf("%d-1", i))), item(1, 100), item(2, 500*i))
		appendAll(t, l, someEntries(i)...)
		d.work(t, s)
	}
	for i := range 40 {
		if i%4 != 0 {
			require.NoError(t, s.Remove(shape.Handle(fmt.Sprintf("%d-1", i))))
		}
		if i%10 == 9 {
			d.work(t, s)
		}
		if i%13 == 12 {
			s = d.reopen(t, s, i%2 == 0)
		}
	}
	s = d.reopen(t, s, true)
	d.work(t, s)
	require.Len(t, s.Handles(), 10)
	for i := range 40 {
		h := shape.Handle(fmt.Sprintf("%d-1", i))
		l, err := s.Open(h)
		if i%4 != 0 {
			require.ErrorIs(t, err, storage.ErrNotFound)
			_, err = s.Create(h)
			require.ErrorIs(t, err, storage.ErrExists)
			continue
		}
		require.NoError(t, err)
		CheckEntries(t, l, someEntries(i))
	}
	require.NoError(t, s.Close())
}

// testChunksStay is case B050: what was closed once is the same for ever.
func testChunksStay(t *testing.T, d Disk) {
	s := d.Open(t)
	l := complete(t, create(t, s, "1-1"), item(1, 1200))
	es := someEntries(400)
	known := []Part{}
	for i := 0; i < len(es); i += 20 {
		appendAll(t, l, es[i:i+20]...)
		if i%3 == 0 {
			d.work(t, s)
		}
		if i%80 == 60 {
			require.NoError(t, s.Sync())
			s = d.reopen(t, s, i%160 == 60)
			var err error
			l, err = s.Open("1-1")
			require.NoError(t, err)
		}
		var closed []Part
		for _, p := range walk(t, l) {
			if p.Closed {
				closed = append(closed, p)
			}
		}
		require.GreaterOrEqual(t, len(closed), len(known))
		require.Equal(t, known, closed[:len(known)])
		known = append(known, closed[len(known):]...)
	}
	require.Greater(t, len(known), 20)
	require.NoError(t, s.Close())
}
