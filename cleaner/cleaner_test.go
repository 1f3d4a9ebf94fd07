package cleaner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/cleaner"
	"github.com/shapeserver/shapeserver/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// books is every record of every shape, and notes what happens to them in order.
type books struct {
	mu        sync.Mutex
	status    map[shape.Handle]bool
	found     map[shape.Handle]bool // can be found in the registry
	routes    map[shape.Handle]bool
	published map[shape.Handle]bool
	logs      map[shape.Handle]bool
	orphans   []shape.Handle
	events    []string
	fail      map[string]int // how often a step still fails
}

func newBooks(handles ...shape.Handle) *books {
	b := &books{fail: make(map[string]int)}
	for _, m := range []*map[shape.Handle]bool{&b.status, &b.found, &b.routes, &b.published, &b.logs} {
		*m = make(map[shape.Handle]bool)
		for _, h := range handles {
			(*m)[h] = true
		}
	}
	return b
}

func (b *books) do(what string, h shape.Handle, m map[shape.Handle]bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail[what] > 0 {
		b.fail[what]--
		b.events = append(b.events, fmt.Sprintf("%s %s failed", what, h))
		return errors.New("injected")
	}
	b.events = append(b.events, fmt.Sprintf("%s %s", what, h))
	if m != nil {
		delete(m, h)
	}
	return nil
}

func (b *books) list(m map[shape.Handle]bool) []shape.Handle {
	b.mu.Lock()
	defer b.mu.Unlock()
	var hs []shape.Handle
	for h := range m {
		hs = append(hs, h)
	}
	slices.Sort(hs)
	return hs
}

func (b *books) empty() bool {
	return len(b.list(b.status))+len(b.list(b.found))+len(b.list(b.routes))+len(b.list(b.published))+len(b.list(b.logs)) == 0
}

func (b *books) records() cleaner.Records {
	return cleaner.Records{Status: statusBook{b}, Consumers: consumerBook{b}, Router: routeBook{b}, Publications: publicationBook{b}, Logs: logBook{b}}
}

type (
	statusBook      struct{ *books }
	consumerBook    struct{ *books }
	routeBook       struct{ *books }
	publicationBook struct{ *books }
	logBook         struct{ *books }
)

func (b statusBook) Remove(_ context.Context, hs ...shape.Handle) error {
	for _, h := range hs {
		if err := b.do("status", h, b.status); err != nil {
			return err
		}
	}
	return nil
}

func (b statusBook) Handles(context.Context) ([]shape.Handle, error) { return b.list(b.status), nil }

func (b consumerBook) Forget(h shape.Handle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.found, h)
}
func (b consumerBook) Stop(_ context.Context, h shape.Handle) error { return b.do("stop", h, nil) }
func (b consumerBook) Discard(h shape.Handle)                       { _ = b.do("discard", h, nil) }
func (b consumerBook) Handles() []shape.Handle                      { return b.list(b.found) }
func (b consumerBook) Orphans() []shape.Handle                      { return b.orphans }

func (b routeBook) Cut(shape.Handle) {}

func (b routeBook) Unregister(h shape.Handle) { _ = b.do("unregister", h, b.routes) }
func (b routeBook) Handles() []shape.Handle   { return b.list(b.routes) }

func (b publicationBook) Release(h shape.Handle)  { _ = b.do("release", h, b.published) }
func (b publicationBook) Handles() []shape.Handle { return b.list(b.published) }

func (b logBook) Remove(h shape.Handle) error { return b.do("log", h, b.logs) }
func (b logBook) Handles() []shape.Handle     { return b.list(b.logs) }

// run runs a cleaner over the books until the test's bubble is idle for long.
func run(t *testing.T, b *books, opts cleaner.Options, act func(*cleaner.Cleaner)) {
	t.Helper()
	c := cleaner.New(b.records(), opts)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	act(c)
	cancel()
	wg.Wait()
}

func TestRemoveTakesTheStepsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks("1-1")
		run(t, b, cleaner.Options{}, func(c *cleaner.Cleaner) {
			c.Remove("1-1", shape.ReasonDeleted)
			require.Empty(t, b.list(b.found), "it cannot be found from the moment Remove returns")
			require.NoError(t, c.Wait(t.Context(), "1-1"))
		})
		require.Equal(t, []string{"status 1-1", "stop 1-1", "unregister 1-1", "discard 1-1", "release 1-1", "log 1-1"}, b.events)
		require.True(t, b.empty())
	})
}

func TestRemoveResumesAfterAnyFailure(t *testing.T) {
	for _, step := range []string{"status", "stop", "log"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooks("1-1", "2-2")
				b.fail[step] = 3
				run(t, b, cleaner.Options{}, func(c *cleaner.Cleaner) {
					c.Remove("1-1", shape.ReasonTruncated)
					c.Remove("1-1", shape.ReasonDeleted)
					require.NoError(t, c.Wait(t.Context(), "1-1"))
					require.Zero(t, c.Pending())
				})
				require.Contains(t, b.events, step+" 1-1 failed")
				require.Equal(t, "log 1-1", b.events[len(b.events)-1])
				require.Equal(t, []shape.Handle{"2-2"}, b.list(b.logs), "others are not touched")
			})
		})
	}
}

// Only a status row that is gone keeps the shape from coming back after a crash.
func TestAwaitDurableWaitsForTheStatusRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks("a")
		b.fail["status"] = 3
		b.fail["stop"] = 1000
		c := cleaner.New(b.records(), cleaner.Options{RetryMin: 10 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.Run(ctx) })
		c.Remove("a", shape.ReasonDeleted)
		require.NoError(t, c.AwaitDurable(t.Context(), "a"))
		require.Empty(t, b.list(b.status))
		require.Positive(t, c.Pending(), "the rest of the removal is not waited for")
		require.NoError(t, c.AwaitDurable(t.Context(), "unknown"))
		cancel()
		wg.Wait()

		c = cleaner.New(b.records(), cleaner.Options{}) // does not run
		c.Remove("b", shape.ReasonDeleted)
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.ErrorIs(t, c.AwaitDurable(short, "b"), context.DeadlineExceeded)
	})
}

func TestOneStuckRemovalDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks("1-1", "2-2")
		run(t, b, cleaner.Options{}, func(c *cleaner.Cleaner) {
			b.mu.Lock()
			b.fail["stop"] = 1 // whichever comes first
			b.mu.Unlock()
			c.Remove("1-1", shape.ReasonStalled)
			c.Remove("2-2", shape.ReasonStalled)
			began := time.Now()
			for c.Pending() > 1 {
				synctest.Wait()
				if c.Pending() > 1 {
					time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
				}
			}
			require.Less(t, time.Since(began), 20*time.Millisecond)
			require.NoError(t, c.Wait(t.Context(), "1-1"))
			require.NoError(t, c.Wait(t.Context(), "2-2"))
		})
		require.True(t, b.empty())
	})
}

type watched struct {
	done  chan struct{}
	cause error
}

func (w *watched) Handle() shape.Handle  { return "1-1" }
func (w *watched) Done() <-chan struct{} { return w.done }
func (w *watched) Cause() error          { return w.cause }

func TestWatchRemovesShapeOfDeadConsumer(t *testing.T) {
	meant := errors.New("suspended")
	opts := cleaner.Options{ReasonOf: func(cause error) (shape.Reason, bool) { return shape.ReasonConsumerDied, !errors.Is(cause, meant) }}
	for _, tc := range []struct {
		name    string
		cause   error
		removed bool
	}{{"panic", errors.New("panic: boom"), true}, {"suspended", meant, false}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooks("1-1")
				run(t, b, opts, func(c *cleaner.Cleaner) {
					w := &watched{done: make(chan struct{})}
					var wg sync.WaitGroup
					wg.Go(func() { c.Watch(t.Context(), w) })
					synctest.Wait()
					w.cause = tc.cause
					close(w.done)
					wg.Wait()
					synctest.Wait()
				})
				require.Equal(t, tc.removed, b.empty())
			})
		})
	}
}

// TestReconcileFindsWhatACrashLeft leaves every subset of the records of a shape behind, and a healthy shape beside it.
func TestReconcileFindsWhatACrashLeft(t *testing.T) {
	for left := range 16 {
		t.Run(fmt.Sprintf("%04b", left), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooks("1-1", "9-9")
				delete(b.found, "1-1")
				for i, m := range []map[shape.Handle]bool{b.status, b.routes, b.published, b.logs} {
					if left&(1<<i) == 0 {
						delete(m, "1-1")
					}
				}
				run(t, b, cleaner.Options{ReconcileInterval: time.Minute}, func(*cleaner.Cleaner) {
					time.Sleep(90 * time.Second) //nolint:forbidigo // virtual time
					synctest.Wait()
				})
				for _, m := range []map[shape.Handle]bool{b.status, b.routes, b.published, b.logs, b.found} {
					require.Equal(t, []shape.Handle{"9-9"}, b.list(m))
				}
				for _, e := range b.events {
					require.NotContains(t, e, "9-9")
				}
			})
		})
	}
}
