package status_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/migrations"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	history     = status.History{SystemID: "7", Timeline: 1}
	goesOn      = func(status.History) error { return nil }
	errStopping = errors.New("stopping")
)

func open(t testing.TB) (*pgtest.DB, *pgxpool.Pool) {
	t.Helper()
	db := pgtest.New(t)
	require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
	return db, db.Pool(t)
}

func take(t testing.TB, pool *pgxpool.Pool, owner string) status.Claim {
	t.Helper()
	claim, _, err := status.Take(t.Context(), pool, "default", owner, history, goesOn)
	require.NoError(t, err)
	return claim
}

// run starts a Store and returns what stops it and gives Run's error.
func run(t testing.TB, s *status.Store) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel(errStopping)
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

func row(h shape.Handle) status.Row {
	return status.Row{
		Handle: h, Identity: "identity of " + string(h), IdentityHash: -5, TableOID: 4_000_000_000, Schema: "public", Table: `it"ems`,
		Columns: []string{"id", `a,"b"\{}`, "é", ""}, Replica: shape.ReplicaDefault, Log: shape.LogFull,
		CreatedAt: time.Date(2024, 3, 1, 12, 0, 0, 123456000, time.UTC),
	}
}

func handles(t testing.TB, s *status.Store) []shape.Handle {
	t.Helper()
	list, err := s.Handles(t.Context())
	require.NoError(t, err)
	return list
}

func TestRowsComeBackAsTheyWere(t *testing.T) {
	_, pool := open(t)
	s := status.New(pool, take(t, pool, "a"), status.Options{})
	run(t, s)
	where := `"c" = 'x\'`
	one, two := row("1-1"), row("1-2")
	two.Explicit, two.Where, two.Replica, two.Log = true, &where, shape.ReplicaFull, shape.LogChangesOnly
	two.CreatedAt = two.CreatedAt.Add(time.Second)
	require.NoError(t, s.Put(t.Context(), two))
	require.NoError(t, s.Put(t.Context(), one))
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	for i, want := range []status.Row{one, two} {
		got := list[i]
		assert.WithinDuration(t, want.CreatedAt, got.CreatedAt, 0)
		assert.WithinDuration(t, want.CreatedAt, got.LastUsedAt, 0)
		want.CreatedAt, want.LastUsedAt, got.CreatedAt, got.LastUsedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		assert.Equal(t, want, got)
	}
}

// Another stream in the same database is not seen and not touched.
func TestStreamsAreApart(t *testing.T) {
	_, pool := open(t)
	a := status.New(pool, take(t, pool, "a"), status.Options{})
	claim, lost, err := status.Take(t.Context(), pool, "other", "b", history, goesOn)
	require.NoError(t, err)
	require.Error(t, lost, "the first start on a stream takes nothing up")
	b := status.New(pool, claim, status.Options{})
	run(t, a)
	run(t, b)
	require.NoError(t, a.Put(t.Context(), row("1-1")))
	require.NoError(t, b.Put(t.Context(), row("1-2")))
	require.NoError(t, b.Remove(t.Context(), "1-1"))
	assert.Equal(t, []shape.Handle{"1-1"}, handles(t, a))
	assert.Equal(t, []shape.Handle{"1-2"}, handles(t, b))
}

func TestRemoveCanBeRepeated(t *testing.T) {
	_, pool := open(t)
	s := status.New(pool, take(t, pool, "a"), status.Options{})
	run(t, s)
	require.NoError(t, s.Remove(t.Context()))
	require.NoError(t, s.Put(t.Context(), row("1-1")))
	require.NoError(t, s.Put(t.Context(), row("1-2")))
	for range 2 {
		require.NoError(t, s.Remove(t.Context(), "1-1", "9-9"))
	}
	assert.Equal(t, []shape.Handle{"1-2"}, handles(t, s))
}

// I5: a handle cannot come twice, and trying spoils nobody else's row.
func TestOneBadRowSpoilsNoOther(t *testing.T) {
	_, pool := open(t)
	s := status.New(pool, take(t, pool, "a"), status.Options{})
	stop := run(t, s)
	require.NoError(t, s.Put(t.Context(), row("1-0")))
	require.ErrorIs(t, stop(), errStopping)

	s = status.New(pool, s.Claim(), status.Options{})
	results := make([]chan error, 20)
	for i := range results {
		results[i] = make(chan error, 1)
		r := row(shape.Handle(fmt.Sprintf("1-%d", i)))
		go func() { results[i] <- s.Put(t.Context(), r) }()
	}
	run(t, s)
	require.Error(t, <-results[0])
	for _, r := range results[1:] {
		require.NoError(t, <-r)
	}
	assert.Len(t, handles(t, s), 20)
}

func TestMarks(t *testing.T) {
	_, pool := open(t)
	s := status.New(pool, take(t, pool, "a"), status.Options{})
	run(t, s)
	require.NoError(t, s.Put(t.Context(), row("1-1")))
	used := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s.Completed("1-1", used)
	s.Used("1-1", used)
	s.Used("1-1", used.Add(-time.Hour)) // late news does not set it back
	s.Used("9-9", used)
	require.NoError(t, s.Remove(t.Context(), "9-9")) // behind the marks
	list, err := s.List(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, used, list[0].LastUsedAt, 0)
	var state string
	var completed time.Time
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT state, snapshot_completed_at FROM shapeserver.shapes").Scan(&state, &completed))
	assert.Equal(t, "active", state)
	assert.WithinDuration(t, used, completed, 0)
}

func TestTakeOver(t *testing.T) {
	_, pool := open(t)
	first, lost, err := status.Take(t.Context(), pool, "default", "a", history, func(status.History) error {
		return errors.New("not to be asked on a new stream")
	})
	require.NoError(t, err)
	require.Error(t, lost)
	assert.Equal(t, int64(1), first.Epoch)
	a := status.New(pool, first, status.Options{})
	stopA := run(t, a)
	require.NoError(t, a.Put(t.Context(), row("1-1")))

	second, lost, err := status.Take(t.Context(), pool, "default", "b", history, func(was status.History) error {
		assert.Equal(t, history, was)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, lost)
	assert.Equal(t, int64(2), second.Epoch)
	b := status.New(pool, second, status.Options{})
	run(t, b)
	assert.Equal(t, []shape.Handle{"1-1"}, handles(t, b), "what the first left is taken up")

	// Whatever the first one tries, nothing comes of it.
	require.ErrorIs(t, a.Remove(t.Context(), "1-1"), status.ErrFenced)
	require.ErrorIs(t, stopA(), status.ErrFenced)
	assert.Equal(t, []shape.Handle{"1-1"}, handles(t, b))
	require.NoError(t, b.Put(t.Context(), row("1-2")))

	moved := errors.New("another cluster")
	_, lost, err = status.Take(t.Context(), pool, "default", "c", status.History{SystemID: "8", Timeline: 1}, func(status.History) error { return moved })
	require.NoError(t, err)
	require.ErrorIs(t, lost, moved)
	assert.Empty(t, handles(t, b), "a lost history's rows are gone in the same transaction")
}

func TestFencedPutAndEveryoneBehindIt(t *testing.T) {
	_, pool := open(t)
	s := status.New(pool, take(t, pool, "a"), status.Options{})
	take(t, pool, "b")
	results := make(chan error, 10)
	for i := range 10 {
		go func() { results <- s.Put(t.Context(), row(shape.Handle(fmt.Sprintf("1-%d", i)))) }()
	}
	stop := run(t, s)
	for range 10 {
		select {
		case err := <-results:
			require.ErrorIs(t, err, status.ErrFenced)
		case <-time.After(10 * time.Second):
			require.Fail(t, "a writer hangs")
		}
	}
	require.ErrorIs(t, stop(), status.ErrFenced)
	require.ErrorIs(t, s.Put(t.Context(), row("2-1")), status.ErrFenced, "nor does one hang that comes after the end")
	assert.Empty(t, handles(t, s))
}

func TestStopAnswersEverybody(t *testing.T) {
	db, pool := open(t)
	s := status.New(pool, take(t, pool, "a"), status.Options{})
	// A lock on the stream's row holds up the first batch; a second waits behind it.
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), "BEGIN; SELECT FROM shapeserver.streams FOR UPDATE")
	require.NoError(t, err)
	stop := run(t, s)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- s.Put(t.Context(), row("1-1")) }()
	for waiting := 0; waiting == 0; {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting))
	}
	go func() { second <- s.Put(t.Context(), row("1-2")) }()
	require.ErrorIs(t, stop(), errStopping)
	require.Error(t, <-first)
	require.ErrorIs(t, <-second, errStopping)
	require.ErrorIs(t, s.Put(t.Context(), row("1-3")), errStopping)
}

// A caller that leaves has its answer, and the row may be there all the same.
func TestCallerGone(t *testing.T) {
	_, pool := open(t)
	s := status.New(pool, take(t, pool, "a"), status.Options{})
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	require.ErrorIs(t, s.Put(ctx, row("1-1")), gone)
	run(t, s)
	require.NoError(t, s.Remove(t.Context(), "1-1")) // behind the row
	assert.Empty(t, handles(t, s))
}

func TestDatabaseAway(t *testing.T) {
	_, pool := open(t)
	claim := take(t, pool, "a")
	dead, err := pgxpool.New(t.Context(), "postgres://postgres@127.0.0.1:1/nowhere?sslmode=disable")
	require.NoError(t, err)
	defer dead.Close()
	s := status.New(dead, claim, status.Options{})
	stop := run(t, s)
	require.Error(t, s.Put(t.Context(), row("1-1")))
	require.ErrorIs(t, stop(), errStopping, "Run outlives it")
}

// Through a transaction-mode pooler there are no named statements: the mode that the pool must have then.
func TestWithoutNamedStatements(t *testing.T) {
	db, pool := open(t)
	cfg, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	unnamed, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer unnamed.Close()
	s := status.New(unnamed, take(t, unnamed, "a"), status.Options{})
	stop := run(t, s)
	for i := range 3 {
		require.NoError(t, s.Put(t.Context(), row(shape.Handle(fmt.Sprintf("1-%d", i)))))
	}
	s.Used("1-1", time.Now())
	require.NoError(t, s.Remove(t.Context(), "1-0"))
	assert.Len(t, handles(t, s), 2)
	list, err := status.New(pool, s.Claim(), status.Options{}).List(t.Context())
	require.NoError(t, err)
	assert.Len(t, list, 2)
	require.ErrorIs(t, stop(), errStopping)
}

// BenchmarkPut is sixteen callers that each make one shape after the other.
func BenchmarkPut(b *testing.B) {
	db, _ := open(b)
	cfg, err := pgxpool.ParseConfig(db.URL)
	require.NoError(b, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // as the server has it
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	s := status.New(pool, take(b, pool, "a"), status.Options{})
	run(b, s)
	next := make(chan int)
	go func() {
		for i := range b.N {
			next <- i
		}
		close(next)
	}()
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 16 {
		wg.Go(func() {
			for i := range next {
				if err := s.Put(b.Context(), row(shape.Handle(fmt.Sprintf("1-%d", i)))); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "shapes/s")
}
