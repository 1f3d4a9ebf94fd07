package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// maxRestarts bounds how often a server may end within one case, so that one that cannot start is noticed.
const maxRestarts = 40

// arena is a server built with failpoints, on a database of its own, which is started again whenever it ends.
type arena struct {
	db      *pgtest.DB
	pool    *pgxpool.Pool
	srv     *process
	orders  string // the folder of the failpoints' orders
	metrics string // where the server's figures are
	idle    map[string]float64

	// Of watch alone, while it runs; restarts may be read meanwhile.
	restarts atomic.Int32
}

func newArena(t *testing.T) *arena {
	t.Helper()
	db := pgtest.New(t)
	port := freePort(t)
	a := startWithFailpoints(t, db, "SHAPESERVER_PROMETHEUS_PORT="+strconv.Itoa(port),
		"SHAPESERVER_ENABLE_INTEGRATION_TESTING=true", "SHAPESERVER_LONG_POLL_TIMEOUT=1s",
		"SHAPESERVER_SHAPE_SUSPEND_AFTER=150ms", "SHAPESERVER_RECONCILE_PERIOD=300ms",
		"SHAPESERVER_PUBLICATION_LINGER=50ms", "SHAPESERVER_DB_POOL_SIZE=6", "SHAPESERVER_SHUTDOWN_TIMEOUT=2s")
	a.pool, a.metrics = db.Pool(t), "http://127.0.0.1:"+strconv.Itoa(port)+"/metrics"
	// The pools fill up and the start's work ends; this is what an idle server has.
	a.settle(t, 0)
	a.idle = a.figures(t)
	return a
}

// startWithFailpoints starts a server that takes orders.
func startWithFailpoints(t *testing.T, db *pgtest.DB, env ...string) *arena {
	t.Helper()
	a := &arena{db: db, orders: t.TempDir()}
	a.srv = newProcess(t, db, append(env, "FAILPOINTS_DIR="+a.orders)...)
	a.srv.bin, a.srv.mayPanic = failpointBinary(t), true
	a.srv.start(t)
	return a
}

// watch starts the server again whenever it has ended, until the function that it returns is called. That gives what went
// wrong.
func (a *arena) watch(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	a.restarts.Store(0)
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.srv.exited:
			}
			if a.restarts.Add(1) > maxRestarts {
				failed = fmt.Errorf("the server ended %d times", maxRestarts)
				return
			}
			a.srv.cmd = nil
			if failed = a.srv.run(); failed != nil {
				return
			}
		}
	})
	return func() error {
		cancel()
		wg.Wait()
		return failed
	}
}

// kill ends the server as a crash does, while watch is on.
func (a *arena) kill(t testing.TB) {
	t.Helper()
	before := a.restarts.Load()
	require.NoError(t, syscall.Kill(int(a.srv.pid.Load()), syscall.SIGKILL))
	require.Eventually(t, func() bool { return a.restarts.Load() > before }, startTimeout, time.Millisecond)
}

// arm gives an order for a point.
func (a *arena) arm(t testing.TB, p failpoint.Point, order string) {
	t.Helper()
	path := filepath.Join(a.orders, string(p))
	_ = os.Remove(a.hit(p)) // of an earlier case
	require.NoError(t, os.WriteFile(path+".new", []byte(order), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// reached says whether an order was carried out.
func (a *arena) reached(p failpoint.Point) bool {
	_, err := os.Stat(a.hit(p))
	return err == nil
}

func (a *arena) hit(p failpoint.Point) string { return filepath.Join(a.orders, string(p)+".hit") }

// figures reads the server's metrics, with the labels in the names; nil when it does not answer.
func (a *arena) figures(t testing.TB) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.metrics, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	figures := map[string]float64{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			figures[name] = n
		}
	}
	return figures
}

// settle waits until the server has exactly so many shapes and nothing else is left of any: of rows, logs, routes, holds,
// published tables, slots, connections, permits, requests, folders of files, goroutines; and until it is idle.
func (a *arena) settle(t testing.TB, shapes int) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections() // each is a goroutine of the server
	var problems []string
	deadline := time.Now().Add(40 * time.Second)
	for problems = a.leftovers(t, shapes); len(problems) > 0; problems = a.leftovers(t, shapes) {
		if time.Now().After(deadline) {
			t.Fatalf("with %d shapes, this does not settle:\n  %s", shapes, strings.Join(problems, "\n  "))
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (a *arena) leftovers(t testing.TB, shapes int) (problems []string) {
	t.Helper()
	expect := func(what string, got, want float64) {
		if got != want {
			problems = append(problems, fmt.Sprintf("%s: %v, want %v", what, got, want))
		}
	}
	began := time.Now()
	f := a.figures(t)
	if f == nil {
		return []string{"the server does not answer"}
	}
	n := float64(shapes)
	for name, want := range map[string]float64{
		"shapeserver_shapes": n, "shapeserver_records_routes": n, "shapeserver_records_publication_holds": n, "shapeserver_records_logs": n,
		"shapeserver_shapes_removing": 0, "shapeserver_transactions_waiting": 0, "shapeserver_shapes_awake": 0,
		`shapeserver_http_live_requests{kind="long_poll"}`: 0, `shapeserver_http_live_requests{kind="sse"}`: 0,
		`shapeserver_http_admission_permits{kind="initial"}`: 0, `shapeserver_http_admission_permits{kind="existing"}`: 0,
	} {
		expect(name, f[name], want)
	}
	var rows, unfinished, published, slots, senders, busy, connections float64
	err := a.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM shapeserver.shapes), (SELECT count(*) FROM shapeserver.shapes WHERE state <> 'active'),
		(SELECT count(*) FROM pg_publication_tables), (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()),
		(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'walsender'),
		(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'shapeserver' AND backend_type = 'client backend' AND state <> 'idle'),
		(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'shapeserver' AND backend_type = 'client backend')`,
		pgx.QueryExecModeExec).Scan(&rows, &unfinished, &published, &slots, &senders, &busy, &connections)
	if err != nil {
		return append(problems, err.Error())
	}
	expect("status rows", rows, n)
	expect("status rows that do not say active", unfinished, 0)
	expect("published tables", published, min(n, 1))
	expect("replication slots", slots, 1)
	expect("replication connections", senders, 1)
	expect("connections that do something", busy, 0)
	if connections > 7 { // the pools' size, and the lock of the stream
		expect("connections", connections, 7)
	}
	dirs, err := os.ReadDir(filepath.Join(a.srv.setting("SHAPESERVER_STORAGE_DIR"), "files"))
	if err != nil || len(dirs) > shapes {
		problems = append(problems, fmt.Sprintf("%d folders of files (%v)", len(dirs), err))
	}
	// A goroutine for each connection of a pool, for each kept-alive connection of this test, and a few of pebble come and go.
	if a.idle != nil && f["go_goroutines"] > a.idle["go_goroutines"]+8 {
		expect("goroutines, which were as many at the start", f["go_goroutines"], a.idle["go_goroutines"])
	}
	if len(problems) > 0 {
		return problems
	}
	select {
	case <-t.Context().Done():
	case <-time.After(100 * time.Millisecond):
	}
	later := a.figures(t)
	if share := (later["process_cpu_seconds_total"] - f["process_cpu_seconds_total"]) / time.Since(began).Seconds(); later == nil || share > 0.5 {
		problems = append(problems, fmt.Sprintf("the server takes %.0f%% of a processor", 100*share))
	}
	return problems
}

// removeShapes deletes every shape of a table, by whatever handle it has now.
func (a *arena) removeShapes(t testing.TB, table string) {
	t.Helper()
	rows, err := a.pool.Query(t.Context(), "SELECT handle FROM shapeserver.shapes WHERE table_name = $1", pgx.QueryExecModeExec, table)
	require.NoError(t, err)
	handles, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, h := range handles {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodDelete, a.srv.url+"/v1/shape?handle="+url.QueryEscape(h), http.NoBody)
			if err != nil {
				return
			}
			res, err := http.DefaultClient.Do(req) // it may die of what it is asked to do
			if err == nil {
				res.Body.Close()
			}
		})
	}
	wg.Wait()
}

// setting returns what a setting of the server is, empty when it is not set.
func (p *process) setting(name string) string {
	for _, v := range p.env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// writer runs transactions on a table, one after another, whenever it is not paused.
type writer struct {
	mu   sync.Mutex // held by a transaction; whoever pauses holds it
	stop func() error
}

func startWriter(t *testing.T, database, table string, keys int) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{}
	done := make(chan error, 1)
	conn, err := pgx.Connect(ctx, database)
	require.NoError(t, err)
	go func() {
		done <- func() error {
			defer conn.Close(context.WithoutCancel(ctx))
			pace := time.NewTicker(2 * time.Millisecond) // leaves the server some of the machine
			defer pace.Stop()
			for n := 1; ; n++ {
				select {
				case <-ctx.Done():
					return nil
				case <-pace.C:
				}
				sql := fmt.Sprintf("BEGIN; INSERT INTO %[1]s VALUES (%[2]d, %[3]d, 'w%[2]d'); UPDATE %[1]s SET v = v || '+', k = (k + 1) %% %[4]d WHERE id %% 97 = %[5]d; "+
					"DELETE FROM %[1]s WHERE id = %[6]d; COMMIT", table, 1_000_000+n, n%keys, keys, n%97, 1_000_000+n-50)
				if err := w.write(ctx, conn, sql); err != nil {
					return err
				}
			}
		}()
	}()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	return w
}

// write runs one transaction to its end, also when the writer is told to stop: Postgres may commit one whose client has gone,
// at some later time.
func (w *writer) write(ctx context.Context, conn *pgx.Conn, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// crowd are clients that follow shapes of one table.
type crowd struct {
	folds []*Fold
	stop  func() error
}

// follow starts a client for each shape.
func (a *arena) follow(ctx context.Context, table string, shapes int) *crowd {
	c := &crowd{}
	for i := range shapes {
		f := NewFold(a.srv.url, shape("table", table, "where", fmt.Sprintf("k = %d", i)))
		f.Retry = true
		c.folds = append(c.folds, f)
	}
	c.start(ctx)
	return c
}

func (c *crowd) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	errs := make([]error, len(c.folds))
	for i, f := range c.folds {
		wg.Go(func() {
			if err := f.Follow(ctx, func() bool { return f.Err() != nil }); ctx.Err() == nil {
				errs[i] = err
			}
		})
	}
	c.stop = func() error {
		cancel()
		wg.Wait()
		for i, f := range c.folds {
			errs = append(errs, f.Err())
			if errs[i] != nil {
				errs[i] = fmt.Errorf("client %d: %w", i, errs[i])
			}
		}
		return errors.Join(errs...)
	}
}
