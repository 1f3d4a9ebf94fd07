package shapecache_test

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
)

// Suspending and resuming leaves nothing behind, however often (I8, I9): 20 000 cycles of real consumers, or as many as
// SHAPESERVER_TEST_CYCLES says (make soak/suspend runs a million), keep no goroutine and no memory, and change no log.
func TestSuspendAndResumeLeakNothing(t *testing.T) {
	const shapes = 400
	cycles := 20_000
	if text := os.Getenv("SHAPESERVER_TEST_CYCLES"); text != "" {
		var err error
		cycles, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	w := newWorld(t, 4*time.Millisecond)
	kept := make([]shape.Handle, shapes)
	relations := make([]*changes.Relation, shapes)
	for i := range shapes {
		kept[i] = w.ready(definition(uint32(i + 1))).Handle
		relations[i] = relationOf(uint32(i + 1))
	}
	asleep := func() {
		t.Helper()
		require.Eventually(t, func() bool { return w.cache.Awake() == 0 }, 30*time.Second, time.Millisecond, "consumers must fall asleep")
	}
	// An update that changes nothing wakes a consumer and puts nothing into its log.
	row := changes.Row{{Kind: changes.Text, Bytes: []byte("-1")}}
	cycle := func() {
		t.Helper()
		w.lsn += 10
		f := &changes.Fragment{Txn: &changes.Txn{CommitLSN: changes.LSN(w.lsn), Xid: changes.Xid(w.lsn)}, First: true, Last: true, EndLSN: changes.LSN(w.lsn + 1)}
		for i, rel := range relations {
			f.Changes = append(f.Changes, changes.Change{Op: changes.Update, Relation: rel, Index: uint64(i), Old: row, New: row})
		}
		w.events <- changes.Event{Fragment: f}
		w.applied()
		asleep()
	}
	measure := func() (goroutines int, heap int64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), int64(m.HeapAlloc)
	}
	asleep()
	for range 5 { // buffers find their size
		cycle()
	}
	goroutines, heap := measure()
	for range cycles / shapes {
		cycle()
	}
	afterGoroutines, afterHeap := measure()
	require.LessOrEqual(t, afterGoroutines, goroutines+3) // the store's come and go
	t.Logf("%d cycles: heap %+d bytes, goroutines %+d", cycles, afterHeap-heap, afterGoroutines-goroutines)
	require.Less(t, afterHeap-heap, int64(1<<20), "52 bytes a cycle of 20 000 would be too many")
	first := kept[0] // of table 1; clean sorts
	w.clean(kept...)
	w.commit(1, 7)
	w.applied()
	s, ok := w.cache.Lookup(first)
	require.True(t, ok)
	require.Equal(t, []int{7}, w.ids(s))
}
