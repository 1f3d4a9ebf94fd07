package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// cachedClients is how many clients follow one shape through a cache in these tests.
const cachedClients = 200

// Two hundred clients follow one shape through a real cache with the configuration that we ship. What they cost the server
// depends on the number of writes and not on theirs; nobody misses a change; when the shape is rotated everyone recovers;
// and what the cache still has of the old shape leads nobody in a circle.
func TestCaches(t *testing.T) {
	for name, start := range proxies {
		t.Run(name, func(t *testing.T) {
			c := newCached(t, start)
			c.join(t)
			c.idle(t)
			c.writes(t)
			c.rotate(t)
			c.joinLate(t)
			c.differentSecret(t)
		})
	}
}

// cached is a server with clients that follow it through a cache.
type cached struct {
	db      *pgtest.DB
	srv     *process
	metrics string // URL of the server's metrics
	url     string // of the cache
	folds   []*Fold
}

const cachedSecret = "open sesame & more"

func newCached(t *testing.T, start func(*testing.T, string) string) *cached {
	t.Helper()
	c := &cached{db: pgtest.New(t)}
	c.db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items SELECT i, repeat('x', 100) FROM generate_series(1, 150) i")
	port := freePort(t)
	c.metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	c.srv = startServer(t, c.db, "SHAPESERVER_PROMETHEUS_PORT="+strconv.Itoa(port), "SHAPESERVER_LONG_POLL_TIMEOUT=4s",
		"SHAPESERVER_INSECURE=false", "SHAPESERVER_SECRET="+cachedSecret)
	c.url = start(t, strings.TrimPrefix(c.srv.url, "http://"))
	transport := &http.Transport{MaxIdleConnsPerHost: cachedClients, DialContext: (&net.Dialer{}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	for range cachedClients {
		f := NewFold(c.url, shape("table", "items", "secret", cachedSecret))
		f.client = &http.Client{Transport: transport}
		c.folds = append(c.folds, f)
	}
	return c
}

// cost runs what the clients do and returns how many requests reached the server meanwhile.
func (c *cached) cost(t *testing.T, do func()) int {
	t.Helper()
	before := countedGETs(t, c.metrics)
	do()
	return countedGETs(t, c.metrics) - before
}

// all runs one step of every client at once, and beside them what writes to the database.
func (c *cached) all(t *testing.T, step func(context.Context, *Fold) error, writers ...func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, write := range writers {
		conn, err := pgx.Connect(ctx, c.db.URL)
		require.NoError(t, err)
		defer conn.Close(context.WithoutCancel(ctx))
		group.Go(func() error { return write(ctx, conn) })
	}
	for _, f := range c.folds {
		group.Go(func() error { return step(ctx, f) })
	}
	require.NoError(t, group.Wait())
	for i, f := range c.folds {
		require.NoError(t, f.Err(), "client %d", i)
	}
}

// same requires that every client has what Postgres has.
func (c *cached) same(t *testing.T) {
	t.Helper()
	want := query(t, c.db, "SELECT id, v FROM items")
	first := c.folds[0].Rows
	for i, f := range c.folds {
		if !reflect.DeepEqual(f.Rows, first) || i == 0 { // two hundred comparisons with Postgres's text take long
			require.True(t, want.matches(f), "client %d: %s", i, want.differences(f))
		}
	}
}

func (c *cached) join(t *testing.T) {
	t.Helper()
	began := time.Now()
	n := c.cost(t, func() { c.all(t, func(ctx context.Context, f *Fold) error { return f.CatchUp(ctx) }) })
	t.Logf("%d clients joined in %s with %d requests to the server", cachedClients, since(began), n)
	require.LessOrEqual(t, n, 20)
	c.same(t)
}

// idle lets every client long-poll until a write comes that is later than the server's patience, so that all of them get an
// answer without data first.
func (c *cached) idle(t *testing.T) {
	t.Helper()
	var empty atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	n := c.cost(t, func() {
		c.all(t, func(ctx context.Context, f *Fold) error {
			counted := false
			return f.Follow(ctx, func() bool {
				_, ok := f.Rows[`"public"."items"/"1000"`]
				if !ok && !counted && f.Cursor != "" {
					counted = true
					if empty.Add(1) == cachedClients {
						close(all)
					}
				}
				return ok
			})
		}, func(ctx context.Context, conn *pgx.Conn) error {
			select {
			case <-all:
			case <-ctx.Done():
				return ctx.Err()
			}
			_, err := conn.Exec(ctx, "INSERT INTO items VALUES (1000, 'first')")
			return err
		})
	})
	t.Logf("an answer without data, and then one change, for each of them in %s: %d requests to the server", since(began), n)
	require.LessOrEqual(t, n, 30)
	c.same(t)
}

func (c *cached) writes(t *testing.T) {
	t.Helper()
	const writes = 60
	asked := c.requests()
	began := time.Now()
	n := c.cost(t, func() {
		c.all(t, func(ctx context.Context, f *Fold) error {
			return f.Follow(ctx, func() bool { _, ok := f.Rows[`"public"."items"/"3000"`]; return ok })
		}, func(ctx context.Context, conn *pgx.Conn) error {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for i := range writes {
				sql := fmt.Sprintf("INSERT INTO items VALUES (%d, 'new'); UPDATE items SET v = v || 'y' WHERE id = %d; DELETE FROM items WHERE id = %d",
					2000+i, 1+i, 61+i)
				if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil { // one transaction
					return err
				}
				select {
				case <-pace.C:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			_, err := conn.Exec(ctx, "INSERT INTO items VALUES (3000, 'last')")
			return err
		})
	})
	t.Logf("%d transactions reached all clients in %s: %d requests of clients, %d of them to the server",
		writes+1, since(began), c.requests()-asked, n)
	require.LessOrEqual(t, n, 3*writes+30)
	c.same(t)
}

func (c *cached) requests() (n int) {
	for _, f := range c.folds {
		n += f.Requests
	}
	return n
}

// rotate truncates the table while all clients wait for a change.
func (c *cached) rotate(t *testing.T) {
	t.Helper()
	for _, f := range c.folds {
		f.Requests, f.Refetched = 0, 0
	}
	most := 0
	began := time.Now()
	n := c.cost(t, func() {
		c.all(t, func(ctx context.Context, f *Fold) error {
			return f.Follow(ctx, func() bool { return len(f.Rows) == 1 })
		}, func(ctx context.Context, conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, "TRUNCATE items"); err != nil {
				return err
			}
			_, err := conn.Exec(ctx, "INSERT INTO items VALUES (1, 'again')")
			return err
		})
	})
	for i, f := range c.folds {
		require.GreaterOrEqual(t, f.Refetched, 1, "client %d", i)
		most = max(most, f.Requests)
	}
	t.Logf("rotated in %s: at most %d requests of a client, %d to the server", since(began), most, n)
	require.LessOrEqual(t, most, 12)
	require.LessOrEqual(t, n, 40)
	c.same(t)
}

// joinLate begins anew with clients that know nothing, so that the cache gives them the first page of the shape that is
// gone: they must find to the new one, in a few steps and without asking one thing twice.
func (c *cached) joinLate(t *testing.T) {
	t.Helper()
	for _, f := range c.folds {
		*f = Fold{base: f.base, params: f.params, client: f.client, Offset: "-1", Rows: map[string]Row{}}
	}
	most, refetched := 0, 0
	began := time.Now()
	n := c.cost(t, func() {
		c.all(t, func(ctx context.Context, f *Fold) error {
			return f.Follow(ctx, func() bool { return len(f.Rows) == 1 })
		})
	})
	for _, f := range c.folds {
		most, refetched = max(most, f.Requests), refetched+f.Refetched
	}
	t.Logf("joined on the old first page in %s: at most %d requests of a client, %d to the server", since(began), most, n)
	require.Positive(t, refetched, "the cache no longer had the old first page, so this test shows nothing")
	require.LessOrEqual(t, most, 60+12) // the changes of the old shape may still be there, and lie on the way
	require.LessOrEqual(t, n, 60+40)
	c.same(t)
}

func since(began time.Time) time.Duration { return time.Since(began).Round(10 * time.Millisecond) }

// differentSecret asks for what the cache has, without the secret and with a wrong one.
func (c *cached) differentSecret(t *testing.T) {
	t.Helper()
	for _, wrong := range []string{"", "&secret=", "&secret=open+sesame", "&secret=open%20sesame%20%26%20more%20"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/v1/shape?offset=-1&table=items"+wrong, http.NoBody)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusUnauthorized, res.StatusCode, wrong)
	}
}

// followEvents sends the lines of an event stream to events until it ends.
func followEvents(ctx context.Context, client *http.Client, url string, events chan<- string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if t := res.Header.Get("Content-Type"); t != "text/event-stream" {
		return fmt.Errorf("HTTP %d with %s", res.StatusCode, t)
	}
	s := bufio.NewScanner(res.Body)
	for s.Scan() {
		events <- s.Text()
	}
	return s.Err()
}

// Event streams come through the shipped configurations event by event, and Varnish makes one of many.
func TestCachesLetEventStreamsThrough(t *testing.T) {
	const streams = 20
	for name, start := range proxies {
		t.Run(name, func(t *testing.T) {
			c := newCached(t, start)
			f := c.folds[0]
			require.NoError(t, f.CatchUp(t.Context()))
			q := shape("table", "items", "secret", cachedSecret, "offset", f.Offset, "handle", f.Handle, "live", "true", "live_sse", "true")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			events := make(chan string, 100*streams)
			for range streams {
				go func() { _ = followEvents(ctx, f.client, c.url+"/v1/shape?"+q.Encode(), events) }() // what is missing fails below
			}
			for i := range 3 {
				key := fmt.Sprintf(`"id":"%d"`, 5000+i)
				c.db.Exec(t, fmt.Sprintf("INSERT INTO items VALUES (%d, 'event')", 5000+i))
				for got := 0; got < streams; {
					select {
					case line := <-events:
						if strings.Contains(line, key) {
							got++
						}
					case <-ctx.Done():
						t.Fatalf("only %d of %d streams have event %d", got, streams, i)
					}
				}
			}
			open := gauge(t, c.metrics, `shapeserver_http_live_requests{kind="sse"}`)
			t.Logf("%d event streams are %d at the server", streams, open)
			if name == "varnish" {
				require.Equal(t, 1, open)
			} else {
				require.Equal(t, streams, open)
			}
		})
	}
}
