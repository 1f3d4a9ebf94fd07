package shapecache_test

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
)

func idsIn(t *testing.T, body storage.Body) []int {
	t.Helper()
	var buf bytes.Buffer
	buf.WriteByte('[')
	_, err := body.WriteTo(&buf, nil)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	buf.WriteByte(']')
	var items []struct {
		Value struct{ ID string } `json:"value"`
	}
	require.NoError(t, json.Unmarshal(buf.Bytes(), &items))
	var out []int
	for _, it := range items {
		n, err := strconv.Atoi(it.Value.ID)
		require.NoError(t, err)
		out = append(out, n)
	}
	return out
}

func TestFiftyFirstRequestsMakeOneShape(t *testing.T) {
	w := newWorld(t, -1)
	var wg sync.WaitGroup
	handles := make(chan shape.Handle, 50)
	for range 50 {
		wg.Go(func() {
			s, err := w.cache.GetOrCreate(t.Context(), definition(1))
			if err == nil {
				handles <- s.Handle
			}
		})
	}
	wg.Wait()
	close(handles)
	count := make(map[shape.Handle]int)
	for h := range handles {
		count[h]++
	}
	require.Len(t, count, 1)
	s := w.ready(definition(1))
	require.Equal(t, 50, count[s.Handle])
	require.Equal(t, 1, w.snapshots)
	w.clean(s.Handle)
}

func TestCallerThatLeavesDoesNotStopTheCreation(t *testing.T) {
	w := newWorld(t, -1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.cache.GetOrCreate(ctx, definition(1))
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	s := w.ready(definition(1))
	require.Equal(t, 1, w.snapshots)
	w.clean(s.Handle)
}

func TestFailedRegistrationLeavesNothing(t *testing.T) {
	w := newWorld(t, -1)
	w.mu.Lock()
	w.putErr = errInjected
	w.mu.Unlock()
	_, err := w.cache.GetOrCreate(t.Context(), definition(1))
	require.ErrorIs(t, err, errInjected)
	w.clean()
	w.mu.Lock()
	w.putErr = nil
	w.mu.Unlock()
	s := w.ready(definition(1))
	w.clean(s.Handle)
}

// TestSnapshotThatDoesNotComeToItsEnd lets the making of the snapshot end in every way there is. Whoever waits is told at
// once, nothing is left, and the next request gets another shape that works.
func TestSnapshotThatDoesNotComeToItsEnd(t *testing.T) {
	begin := func(sink snapshot.Sink) error {
		if err := sink.Register(); err != nil {
			return err
		}
		return sink.Begin(changes.Snapshot{Xmin: 1, Xmax: 1}, 1)
	}
	for name, end := range map[string]struct {
		acquire func(context.Context) error
		read    func(context.Context, snapshot.Sink) error
	}{
		"publication fails":                {acquire: func(context.Context) error { return errInjected }},
		"publication panics":               {acquire: func(context.Context) error { panic("boom") }},
		"publication's goroutine is ended": {acquire: func(context.Context) error { runtime.Goexit(); return nil }},
		"query fails":                      {read: func(context.Context, snapshot.Sink) error { return errInjected }},
		"query panics":                     {read: func(context.Context, snapshot.Sink) error { panic("boom") }},
		"goroutine is ended":               {read: func(context.Context, snapshot.Sink) error { runtime.Goexit(); return nil }},
		"fails after registering":          {read: func(_ context.Context, s snapshot.Sink) error { _ = s.Register(); return errInjected }},
		"panics after beginning":           {read: func(_ context.Context, s snapshot.Sink) error { _ = begin(s); panic("boom") }},
		"schema changed": {read: func(context.Context, snapshot.Sink) error {
			return &snapshot.Error{Message: "changed", Class: snapshot.ErrSchemaChanged}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, -1)
			w.mu.Lock()
			w.acquire, w.read = end.acquire, end.read
			w.mu.Unlock()
			s, err := w.cache.GetOrCreate(t.Context(), definition(1))
			require.NoError(t, err)
			began := time.Now()
			require.Error(t, w.cache.AwaitSnapshotStart(t.Context(), s))
			require.Less(t, time.Since(began), 5*time.Second)
			w.clean()
			_, ok := w.cache.Lookup(s.Handle)
			require.False(t, ok)

			w.mu.Lock()
			w.acquire, w.read = nil, nil
			w.mu.Unlock()
			again := w.ready(definition(1))
			require.NotEqual(t, s.Handle, again.Handle)
			w.commit(1, 7)
			w.applied()
			require.Equal(t, []int{7}, w.ids(again))
			w.clean(again.Handle)
		})
	}
}

func TestSlowSnapshotIsWaitedForWithinTheRequest(t *testing.T) {
	w := newWorld(t, -1)
	release := make(chan struct{})
	w.mu.Lock()
	w.acquire = func(ctx context.Context) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	w.mu.Unlock()
	s, err := w.cache.GetOrCreate(t.Context(), definition(1))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.cache.AwaitSnapshotStart(ctx, s), context.DeadlineExceeded)
	close(release)
	require.NoError(t, w.cache.AwaitSnapshotStart(t.Context(), s))
	w.clean(s.Handle)
}

func TestShapeThatIsRemovedWhileItIsBeingMade(t *testing.T) {
	w := newWorld(t, -1)
	entered := make(chan struct{}, 1)
	w.mu.Lock()
	w.acquire = func(ctx context.Context) error {
		entered <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	w.mu.Unlock()
	s, err := w.cache.GetOrCreate(t.Context(), definition(1))
	require.NoError(t, err)
	<-entered
	w.cleaner.Remove(s.Handle, shape.ReasonDeleted)
	require.ErrorIs(t, w.cache.AwaitSnapshotStart(t.Context(), s), shapecache.ErrGone)
	w.clean()
}

func TestTruncateEndsTheShapeAndNothingElse(t *testing.T) {
	w := newWorld(t, -1)
	one, two := w.ready(definition(1)), w.ready(definition(2))
	w.commit(1, 5)
	w.commit(1, -1)
	w.commit(1, 6)
	w.commit(2, 7)
	w.applied()
	w.clean(two.Handle)
	st, _ := one.Log.State()
	require.ErrorIs(t, st.Err, storage.ErrRemoved)
	require.Equal(t, []int{7}, w.ids(two))
}

func TestConsumerWhoseLogFailsIsRemoved(t *testing.T) {
	w := newWorld(t, -1)
	s := w.ready(definition(1))
	require.NoError(t, w.store.Remove(s.Handle)) // behind everybody's back
	w.commit(1, 1)
	w.applied() // the stream goes on
	w.clean()
}

func TestShapeWithoutConsumerIsReported(t *testing.T) {
	w := newWorld(t, -1)
	s := w.ready(definition(1))
	log, err := w.store.Create("1-1")
	require.NoError(t, err)
	orphan := &shapecache.Shape{Handle: "1-1", Definition: s.Definition, Log: log}
	require.ErrorIs(t, w.cache.AwaitSnapshotStart(t.Context(), orphan), shapecache.ErrGone)
	w.clean(s.Handle)
}

// TestSuspensionChangesNoByte suspends and resumes real consumers all the time under traffic (I8).
func TestSuspensionChangesNoByte(t *testing.T) {
	w := newWorld(t, 4*time.Millisecond)
	one, two := w.ready(definition(1)), w.ready(definition(2))
	var want1, want2 []int
	for i := range 400 {
		w.commit(uint32(1+i%2), i)
		if i%2 == 0 {
			want1 = append(want1, i)
		} else {
			want2 = append(want2, i)
		}
		if i%7 == 0 {
			time.Sleep(time.Duration(i%13) * time.Millisecond) //nolint:forbidigo // gives the sweep its chances
		}
	}
	w.applied()
	require.Equal(t, want1, w.ids(one))
	require.Equal(t, want2, w.ids(two))
	w.clean(one.Handle, two.Handle)
}

func TestEvictRemovesTheLeastRecentlyUsed(t *testing.T) {
	w := newWorld(t, -1)
	var all []*shapecache.Shape
	for oid := range uint32(5) {
		all = append(all, w.ready(definition(oid+1)))
	}
	for _, i := range []int{0, 3} {
		_, ok := w.cache.Lookup(all[i].Handle)
		require.True(t, ok)
	}
	w.cache.Evict(t.Context(), 2)
	w.clean(all[0].Handle, all[3].Handle)
}
