package shapecache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/snapshot"
)

// A definition whose snapshot fails at once, again and again, costs a bounded number of queries however often it is asked
// for; whoever asks is told what went wrong; other definitions are made meanwhile, and this one once it can be.
func TestFailuresAreNotRetriedInAStorm(t *testing.T) {
	for _, failure := range []*snapshot.Error{
		{Message: "permission denied", Class: snapshot.ErrUnavailable},
		{Message: "statement timeout", Class: snapshot.ErrUnexpected},
		{Message: "changed", Class: snapshot.ErrSchemaChanged}, // again and again
	} {
		t.Run(failure.Message, func(t *testing.T) {
			w := newWorld(t, -1)
			w.mu.Lock()
			w.read = func(context.Context, snapshot.Sink) error { return failure }
			w.mu.Unlock()
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			var asked, refused atomic.Int64
			var clients sync.WaitGroup
			for range 4 {
				clients.Go(func() {
					for ; ctx.Err() == nil; asked.Add(1) {
						s, err := w.cache.GetOrCreate(ctx, definition(1))
						if err == nil {
							err = w.cache.AwaitSnapshotStart(ctx, s)
						}
						var failed *shapecache.FailedError
						switch {
						case err == nil:
							t.Error("a snapshot that cannot be")
						case errors.As(err, &failed):
							refused.Add(1)
							if errors.Is(failed.Err, snapshot.ErrSchemaChanged) == errors.Is(err, failure.Class) {
								t.Errorf("the error's chain must have %v unless it means to fetch again: %v", failure.Class, err)
							}
							<-time.After(time.Millisecond)
						}
					}
				})
			}
			clients.Wait()
			w.mu.Lock()
			tries := w.snapshots
			w.mu.Unlock()
			// Pauses of 25…50, 50…100, 100…200 ms, and so on, and three tries that are free when the table changed.
			require.LessOrEqual(t, tries, 15)
			require.Greater(t, tries, 2, "it must be tried again")
			require.Greater(t, refused.Load(), int64(10*tries))
			w.clean()

			w.mu.Lock()
			w.read = nil
			w.mu.Unlock()
			w.ready(definition(2))
			w.ready(definition(1))
		})
	}
}
