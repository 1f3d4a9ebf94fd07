package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/failpoint"
)

// order is a failure at one point.
type order struct {
	failpoint.Info

	action string // error, panic, kill, or a delay
}

func (o order) String() string { return string(o.Point) + " " + o.action }

// Whatever step of a shape's life fails, dies or takes the process with it: afterwards all clients have what Postgres has,
// and nothing is left over (I1 to I8). Every point is reached with SIGKILL and with a gentler failure, with one shape, and
// one of each large part with 200. SHAPESERVER_TEST_CRASH=all, which is make test/crash, runs every point with every
// failure, with 1 and with 200 shapes.
func TestFailpoints(t *testing.T) {
	if os.Getenv("SHAPESERVER_TEST_CRASH") == "all" {
		for _, shapes := range []int{1, 200} {
			for _, p := range failpoint.All() {
				t.Run(fmt.Sprintf("%d shapes/%s", shapes, p.Point), func(t *testing.T) {
					a := newArena(t)
					for _, action := range []string{"error", "delay 300ms", "panic", "kill"} {
						if action != "error" || p.Fails {
							a.play(t, shapes, order{p, action})
						}
					}
				})
			}
		}
		return
	}
	parts := map[failpoint.Part][]failpoint.Info{}
	for _, p := range failpoint.All() {
		parts[p.Part] = append(parts[p.Part], p)
	}
	for part, points := range parts {
		t.Run(string(part), func(t *testing.T) {
			a := newArena(t)
			var kills, others []order
			for i, p := range points {
				kills = append(kills, order{p, "kill"})
				if p.Fails && i%3 != 2 {
					others = append(others, order{p, "error"})
				} else {
					others = append(others, order{p, "panic"})
				}
			}
			a.play(t, 1, kills...)
			a.play(t, 1, others...)
			if part == failpoint.Creating || part == failpoint.Delivering || part == failpoint.Removing {
				a.play(t, 200, order{points[len(points)/2], "kill"})
			}
		})
	}
}

// play carries out orders of one part, one after another, on a table of its own that is written to and has so many shapes
// with a client each, and requires what must hold afterwards.
func (a *arena) play(t *testing.T, shapes int, orders ...order) {
	t.Helper()
	began := time.Now()
	stopWatching := a.watch(t.Context())
	defer func() {
		if err := stopWatching(); err != nil {
			t.Error(err)
		}
	}()
	table := "f" + fmt.Sprint(began.UnixNano())
	a.db.Exec(t, fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, k int NOT NULL, v text); INSERT INTO %[1]s SELECT i, i %% %d, 'v' || i FROM generate_series(1, %d) i",
		table, shapes, max(400, 3*shapes)))
	w := startWriter(t, a.db.URL, table, shapes)
	defer func() { require.NoError(t, w.stop()) }()
	creating := orders[0].Part == failpoint.Creating
	if creating {
		a.arm(t, orders[0].Point, orders[0].action)
	}
	c := a.follow(t.Context(), table, shapes)
	defer func() { _ = c.stop() }() // what it says was looked at, unless the test has failed already
	for i, o := range orders {
		a.carryOut(t, o, i > 0 || !creating, table, shapes, c, w)
	}
	a.whole(t, table, shapes)
	require.NoError(t, w.stop())
	require.NoError(t, c.stop())
	sql := make([]string, shapes)
	for i := range sql {
		sql[i] = fmt.Sprintf("SELECT * FROM %s WHERE k = %d", table, i)
	}
	for i, want := range queries(t, a.db, sql...) {
		f := c.folds[i]
		requireBecomes(t, f, want)
		if i%67 == 0 {
			late := NewFold(a.srv.url, f.params)
			late.Retry = true
			requireBecomes(t, late, want)
			require.Equal(t, f.Handle, late.Handle)
		}
	}
	a.settle(t, shapes)
	a.removeShapes(t, table)
	a.settle(t, 0)
	a.db.Exec(t, "DROP TABLE "+table)
	names := make([]string, len(orders))
	for i, o := range orders {
		names[i] = o.String()
	}
	t.Logf("%d shapes, %d restarts, %s: %s", shapes, a.restarts.Load(), time.Since(began).Round(time.Millisecond), strings.Join(names, ", "))
}

// carryOut gives an order and does what brings the server to its point, until it was there.
func (a *arena) carryOut(t *testing.T, o order, arm bool, table string, shapes int, c *crowd, w *writer) {
	t.Helper()
	restarts := a.restarts.Load()
	if arm {
		_ = os.Remove(a.hit(o.Point)) // of an earlier case
		a.whole(t, table, shapes)
	}
	give := func() {
		if arm {
			a.arm(t, o.Point, o.action)
			arm = false
		}
	}
	asleep := func() bool { f := a.figures(t); return f != nil && f["shapeserver_shapes_awake"] == 0 }
	deadline := time.Now().Add(60 * time.Second)
	for first := true; !a.reached(o.Point); first = false {
		if time.Now().After(deadline) {
			t.Fatalf("%s was not reached", o)
		}
		switch o.Part {
		case failpoint.Creating:
			give()
			if arm = false; !first || a.countRows(t, table) == shapes { // they are there: make them again
				// Without clients, so that the table leaves the publication and has to join it again.
				require.NoError(t, c.stop())
				a.unpublish(t, table)
				c.start(t.Context())
			}
			a.await(o)
		case failpoint.Delivering:
			give()
			a.await(o)
		case failpoint.Suspending:
			give()
			w.mu.Lock()
			a.await(o)
			w.mu.Unlock()
		case failpoint.Resuming:
			w.mu.Lock()
			require.Eventually(t, asleep, 20*time.Second, 10*time.Millisecond, "consumers must fall asleep")
			give()
			w.mu.Unlock()
			a.await(o)
		case failpoint.Removing:
			give()
			if first && o.action == "kill" {
				w.mu.Lock() // not in the middle of its transactions, which would wait
				a.db.Exec(t, "TRUNCATE "+table)
				w.mu.Unlock()
			} else {
				a.removeShapes(t, table)
			}
			a.await(o)
		case failpoint.Unused:
			require.NoError(t, c.stop())
			give()
			a.removeShapes(t, table)
			a.await(o)
			c.start(t.Context())
		case failpoint.Starting:
			give()
			if !a.reached(o.Point) {
				a.kill(t)
			}
			a.await(o)
		}
	}
	if o.action == "kill" {
		require.Eventually(t, func() bool { return a.restarts.Load() > restarts }, startTimeout, time.Millisecond, "%s: the server must have been killed", o)
	}
}

// await waits a while for a point to be reached.
func (a *arena) await(o order) {
	for deadline := time.Now().Add(2 * time.Second); !a.reached(o.Point) && time.Now().Before(deadline); {
		<-time.After(2 * time.Millisecond)
	}
}

// whole waits until there is a row that says active for each shape of a table, and the server has them all.
func (a *arena) whole(t *testing.T, table string, shapes int) {
	t.Helper()
	require.Eventually(t, func() bool {
		f := a.figures(t)
		return f != nil && f["shapeserver_shapes"] == float64(shapes) && f["shapeserver_shapes_removing"] == 0 && a.countRows(t, table) == shapes
	}, time.Minute, 5*time.Millisecond, "the shapes are not made")
}

// unpublish removes every shape of a table, and waits until no table is published. The server may die of it and have to be
// asked again.
func (a *arena) unpublish(t *testing.T, table string) {
	t.Helper()
	require.Eventually(t, func() bool {
		a.removeShapes(t, table)
		var published int
		require.NoError(t, a.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_publication_tables", pgx.QueryExecModeExec).Scan(&published))
		return published == 0
	}, time.Minute, 20*time.Millisecond, "tables stay published")
}

func (a *arena) countRows(t *testing.T, table string) (n int) {
	t.Helper()
	require.NoError(t, a.pool.QueryRow(t.Context(), "SELECT count(*) FROM shapeserver.shapes WHERE table_name = $1 AND state = 'active'",
		pgx.QueryExecModeExec, table).Scan(&n))
	return n
}
