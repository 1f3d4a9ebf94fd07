package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// The client over event streams, which end every two seconds here: it sees every change once, the end of its shape, and
// what was written while the server was down, and never falls back to long polls.
func TestNpmClientOverSSE(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, title text); INSERT INTO items VALUES (0, 'tea')")
	port := freePort(t)
	srv := startServer(t, db, "SHAPESERVER_SSE_LIFETIME=2s", "SHAPESERVER_SSE_KEEPALIVE=1s", fmt.Sprintf("SHAPESERVER_PROMETHEUS_PORT=%d", port))
	c := followWithNpm(t, srv.url, map[string]any{"table": "items"}, map[string]any{"liveSse": true})
	c.awaitRows(t, "0=tea")
	metrics := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	streaming := func() bool {
		return strings.Contains(fetch(t, metrics), `shapeserver_http_live_requests{kind="sse"} 1`)
	}
	require.Eventually(t, streaming, time.Minute, 20*time.Millisecond, "the client never opened an event stream")

	const changes = 40
	for i := 1; i <= changes; i++ { // for longer than a stream lasts
		db.Exec(t, fmt.Sprintf("INSERT INTO items VALUES (%d, 'x'); UPDATE items SET title = 'n%d' WHERE id = %d; DELETE FROM items WHERE id = %d", i, i, i, i-1))
		<-time.After(80 * time.Millisecond)
	}
	c.awaitRows(t, fmt.Sprintf("%d=n%d", changes, changes))
	inserts := map[string]int{}
	for _, e := range c.seen {
		if e.Event == "change" && e.Operation == "insert" {
			inserts[e.Key]++
		}
	}
	require.Len(t, inserts, changes+1)
	for key, n := range inserts {
		require.Equal(t, 1, n, key)
	}

	db.Exec(t, "TRUNCATE items; INSERT INTO items VALUES (7, 'again')")
	c.await(t, "must-refetch", func(e npmEvent) bool { return e.Control == "must-refetch" })
	c.awaitRows(t, "7=again")
	srv.stop(t)
	db.Exec(t, "INSERT INTO items VALUES (8, 'while down')")
	srv.start(t)
	c.awaitRows(t, "7=again", "8=while down")
	require.Eventually(t, streaming, time.Minute, 20*time.Millisecond, "the client gave up event streams")
	require.NotContains(t, c.stderr.String(), "long polling")
}

// The client's column mapper: names in camel case for the application, the table's own on the wire, in clauses, columns
// and subsets.
func TestNpmClientWithColumnMapper(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE items (id int PRIMARY KEY, title text, created_by text, sort_order int);
		INSERT INTO items SELECT i, 'title ' || i, 'u' || i % 2, 10 - i FROM generate_series(1, 6) i`)
	srv := startServer(t, db)
	params := map[string]any{
		"table": "items", "where": "createdBy = $1", "params": []string{"u1"}, "columns": []string{"id", "title", "createdBy", "sortOrder"},
	}
	c := followWithNpm(t, srv.url, params, map[string]any{"columnMapper": true})
	c.awaitRows(t, "1=title 1", "3=title 3", "5=title 5")
	db.Exec(t, "UPDATE items SET created_by = 'u1', sort_order = 99 WHERE id = 2")
	e := c.awaitChange(t, "insert", "2")
	require.Equal(t, map[string]any{"id": 2.0, "title": "title 2", "createdBy": "u1", "sortOrder": 99.0}, e.Value)

	changes := followWithNpm(t, srv.url, params, map[string]any{"columnMapper": true, "log": "changes_only", "offset": "now"})
	ref := func(column string) map[string]any { return map[string]any{"type": "ref", "column": column} }
	got := changes.subset(t, map[string]any{
		"whereExpr": map[string]any{"type": "func", "name": "lt", "args": []any{ref("sortOrder"), map[string]any{"type": "val", "paramIndex": 1}}},
		"params":    map[string]any{"1": "50"}, "orderByExpr": []any{map[string]any{"column": "sortOrder", "direction": "asc"}}, "limit": 2,
	})
	require.Equal(t, map[string]string{"5": "title 5", "3": "title 3"}, got)
	got = changes.subset(t, map[string]any{"where": "sortOrder = 99", "orderBy": "createdBy, sortOrder DESC"})
	require.Equal(t, map[string]string{"5": "title 5", "3": "title 3", "2": "title 2"}, got)
}

// staleCache stands between client and server and keeps the first answer to offset=-1 for ever, whatever it is told, as a
// badly set up CDN does; only another URL gets past it.
type staleCache struct {
	next http.Handler

	mu      sync.Mutex
	kept    map[string]*httptest.ResponseRecorder // by query
	expired []string                              // values of expired_handle that came
	stale   int                                   // answers from the cache
}

func (c *staleCache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c.mu.Lock()
	if e := q.Get("expired_handle"); e != "" {
		c.expired = append(c.expired, e)
	}
	q.Del("expired_handle") // a cache that takes it for noise
	key := q.Encode()
	kept := c.kept[key]
	if kept != nil {
		c.stale++
	}
	c.mu.Unlock()
	switch {
	case q.Get("offset") != "-1":
		c.next.ServeHTTP(w, r)
		return
	case kept == nil:
		kept = httptest.NewRecorder()
		c.next.ServeHTTP(kept, r)
		c.mu.Lock()
		c.kept[key] = kept
		c.mu.Unlock()
	}
	for name, values := range kept.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(kept.Code)
	_, _ = io.Copy(w, bytes.NewReader(kept.Body.Bytes())) // a client that is gone needs no answer
}

// A client that has seen its handle expire says so (expired_handle), does not take an old answer of a cache for the new
// shape, and gets past the cache.
func TestNpmClientWithAnExpiredHandle(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, title text); INSERT INTO items VALUES (1, 'old')")
	srv := startServer(t, db)
	target, err := url.Parse(srv.url)
	require.NoError(t, err)
	cache := &staleCache{next: httputil.NewSingleHostReverseProxy(target), kept: map[string]*httptest.ResponseRecorder{}}
	front := httptest.NewServer(cache)
	defer front.Close()
	defer front.CloseClientConnections()

	c := followWithNpm(t, front.URL, map[string]any{"table": "items"}, map[string]any{})
	c.awaitRows(t, "1=old")
	first := get(t, srv.url, "table", "items", "offset", "-1").header.Get("electric-handle")
	for i := range 3 {
		db.Exec(t, fmt.Sprintf("TRUNCATE items; INSERT INTO items VALUES (%d, 'new')", i))
		c.await(t, "must-refetch", func(e npmEvent) bool { return e.Control == "must-refetch" })
		c.awaitRows(t, fmt.Sprintf("%d=new", i))
	}
	db.Exec(t, "INSERT INTO items VALUES (10, 'live')")
	c.awaitRows(t, "10=live", "2=new")

	// A second client begins at the answer that the cache has from the very beginning, whose shape is gone.
	late := followWithNpm(t, front.URL, map[string]any{"table": "items"}, map[string]any{})
	late.awaitRows(t, "10=live", "2=new")
	cache.mu.Lock()
	defer cache.mu.Unlock()
	require.Contains(t, cache.expired, first)
	require.Positive(t, cache.stale)
}
