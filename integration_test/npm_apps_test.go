package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// inNpmRuntimes runs a test of an application of js/ on a database of its own, in Node and in Chromium. In Chromium the
// page is of another origin than the server, and the application sends a header of its own, so that the browser asks the
// server first (a preflight request).
func inNpmRuntimes(t *testing.T, app, schema string, test func(*testing.T, *pgtest.DB, *npmClient)) {
	for runtime := range npmRuntimes {
		t.Run(runtime, func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, schema)
			port := freePort(t)
			srv := startServer(t, db, "SHAPESERVER_PROMETHEUS_PORT="+strconv.Itoa(port))
			c := startNpm(t, runtime, app, srv.url, map[string]any{"table": "items"}, map[string]any{"headers": map[string]string{"X-App": "a test"}})
			test(t, db, c)
			preflights := strings.Contains(fetch(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", port)), `shapeserver_http_requests_total{method="OPTIONS",status="204"}`)
			require.Equal(t, runtime == "chromium", preflights)
		})
	}
}

// The npm client in a browser sees every change and refetches after a TRUNCATE, past the browser's own cache; it follows
// event streams, and asks for subsets by POST.
func TestNpmClientInChromium(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, title text); INSERT INTO items VALUES (1, 'tea')")
	port := freePort(t)
	metrics := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	srv := startServer(t, db, "SHAPESERVER_PROMETHEUS_PORT="+strconv.Itoa(port))
	params := map[string]any{"table": "items"}
	c := startNpm(t, "chromium", "client", srv.url, params, map[string]any{"headers": map[string]string{"X-App": "a test"}})
	c.awaitRows(t, "1=tea")
	db.Exec(t, "INSERT INTO items VALUES (2, 'milk')")
	c.awaitChange(t, "insert", "2")
	c.awaitRows(t, "1=tea", "2=milk")
	db.Exec(t, "UPDATE items SET title = 'oat milk' WHERE id = 2")
	c.awaitChange(t, "update", "2")
	c.awaitRows(t, "1=tea", "2=oat milk")
	db.Exec(t, "DELETE FROM items WHERE id = 1")
	c.awaitChange(t, "delete", "1")
	c.awaitRows(t, "2=oat milk")
	for i := range 3 {
		db.Exec(t, fmt.Sprintf("TRUNCATE items; INSERT INTO items VALUES (%d, 'again')", i))
		c.await(t, "must-refetch", func(e npmEvent) bool { return e.Control == "must-refetch" })
		c.awaitRows(t, fmt.Sprintf("%d=again", i))
	}
	require.Contains(t, fetch(t, metrics), `shapeserver_http_requests_total{method="OPTIONS",status="204"}`)

	subsets := startNpm(t, "chromium", "client", srv.url, params, map[string]any{"log": "changes_only", "subsetMethod": "POST", "liveSse": true})
	require.Equal(t, map[string]string{"2": "again"}, subsets.subset(t, map[string]any{"where": "id = $1", "params": map[string]any{"1": "2"}}))
	db.Exec(t, "INSERT INTO items VALUES (3, 'streamed')")
	subsets.awaitRows(t, "2=again", "3=streamed")
	require.Contains(t, fetch(t, metrics), `shapeserver_http_live_requests{kind="sse"} 1`)
	require.NotContains(t, subsets.stderr.String(), "long polling")
}

// A React component shows a shape and its changes, another shape when its properties change, and the shape that replaces
// a rotated one.
func TestNpmReact(t *testing.T) {
	schema := "CREATE TABLE items (id int PRIMARY KEY, title text); INSERT INTO items VALUES (1, 'tea'), (2, 'milk')"
	inNpmRuntimes(t, "react", schema, func(t *testing.T, db *pgtest.DB, c *npmClient) {
		c.awaitRows(t, "1=tea", "2=milk")
		db.Exec(t, "INSERT INTO items VALUES (3, 'bread')")
		c.awaitRows(t, "1=tea", "2=milk", "3=bread")
		db.Exec(t, "UPDATE items SET title = 'oat milk' WHERE id = 2")
		c.awaitRows(t, "1=tea", "2=oat milk", "3=bread")
		db.Exec(t, "DELETE FROM items WHERE id = 3")
		c.awaitRows(t, "1=tea", "2=oat milk")

		c.send(t, map[string]any{"table": "items", "where": "title LIKE $1", "params": []string{"oat%"}})
		c.awaitRows(t, "2=oat milk")
		db.Exec(t, "UPDATE items SET title = 'oat cake' WHERE id = 1")
		c.awaitRows(t, "1=oat cake", "2=oat milk")
		db.Exec(t, "TRUNCATE items; INSERT INTO items VALUES (7, 'rye'), (8, 'oats')")
		c.awaitRows(t, "8=oats")
	})
}

// A TanStack collection has the rows of a shape and follows it. What a user changes in it is there at once, is sent to the
// application's own interface, and counts as persisted when the stream has the transaction that the interface names.
func TestNpmTanStackCollection(t *testing.T) {
	schema := "CREATE TABLE items (id int PRIMARY KEY, title text); INSERT INTO items VALUES (1, 'tea')"
	inNpmRuntimes(t, "tanstack", schema, func(t *testing.T, db *pgtest.DB, c *npmClient) {
		c.awaitRows(t, "1=tea")
		db.Exec(t, "INSERT INTO items VALUES (2, 'milk')")
		c.awaitRows(t, "1=tea", "2=milk")

		write := func(operation string, value map[string]any, sql string, optimistic, persisted []string) {
			t.Helper()
			c.send(t, map[string]any{"operation": operation, "value": value})
			shown := false
			var call npmEvent
			c.await(t, operation+", shown and sent", func(e npmEvent) bool { // in either order
				shown = shown || e.Event == "rows" && e.has(optimistic...)
				if e.Event == "write" {
					call = e
				}
				return shown && call.Event != ""
			})
			require.Equal(t, operation, call.Operation)
			require.Equal(t, value, call.Value)
			c.send(t, map[string]any{"n": call.N, "txid": execForTxid(t, db, sql)})
			e := c.await(t, "persisted "+operation, func(e npmEvent) bool { return e.Event == "persisted" })
			require.Equal(t, operation, e.Operation)
			require.True(t, e.has(persisted...), "%v", e.Rows)
		}
		// What Postgres makes of a row replaces what the user saw.
		write("insert", map[string]any{"id": 3.0, "title": "bread"}, "INSERT INTO items VALUES (3, 'rye bread')",
			[]string{"1=tea", "2=milk", "3=bread"}, []string{"1=tea", "2=milk", "3=rye bread"})
		write("update", map[string]any{"id": 2.0, "title": "oat milk"}, "UPDATE items SET title = 'oat milk (1 l)' WHERE id = 2",
			[]string{"1=tea", "2=oat milk", "3=rye bread"}, []string{"1=tea", "2=oat milk (1 l)", "3=rye bread"})
		write("delete", map[string]any{"id": 1.0}, "DELETE FROM items WHERE id = 1",
			[]string{"2=oat milk (1 l)", "3=rye bread"}, []string{"2=oat milk (1 l)", "3=rye bread"})

		db.Exec(t, "TRUNCATE items; INSERT INTO items VALUES (9, 'again')")
		c.awaitRows(t, "9=again")
		write("insert", map[string]any{"id": 10.0, "title": "new"}, "INSERT INTO items VALUES (10, 'new')",
			[]string{"10=new", "9=again"}, []string{"10=new", "9=again"})
	})
}

// execForTxid runs SQL in a transaction and returns the transaction's id as the documentation of the collection says.
func execForTxid(t *testing.T, db *pgtest.DB, sql string) int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }() // after a commit there is nothing to take back
	var text string
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id()::xid::text AS txid").Scan(&text))
	_, err = tx.Exec(t.Context(), sql)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	txid, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return txid
}

// The npm client behind the caches of deploy/, with compressed bodies: it sees every change, and refetches after each
// TRUNCATE though the cache still has the first page of the shape that is gone.
func TestNpmClientThroughCaches(t *testing.T) {
	for name, start := range proxies {
		t.Run(name, func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, title text, v text)")
			rows := func(from, to int, title string) (want []string) {
				db.Exec(t, fmt.Sprintf("INSERT INTO items SELECT i, '%s', repeat('x', 100) FROM generate_series(%d, %d) i", title, from, to))
				for i := from; i <= to; i++ {
					want = append(want, fmt.Sprintf("%d=%s", i, title))
				}
				return want
			}
			want := rows(100, 149, "first")
			srv := startServer(t, db)
			front := start(t, strings.TrimPrefix(srv.url, "http://"))
			c := followWithNpm(t, front, map[string]any{"table": "items"}, map[string]any{"responses": true})
			compressed := func(what string) {
				t.Helper()
				c.await(t, what+", compressed", func(e npmEvent) bool { return e.Event == "response" && e.Status == 200 && e.Coding != "" })
			}
			compressed("the first page")
			c.awaitRows(t, want...)
			want = append(want, rows(150, 179, "more")...)
			compressed("changes")
			c.awaitRows(t, want...)
			db.Exec(t, "UPDATE items SET title = 'changed' WHERE id >= 150; DELETE FROM items WHERE id < 150")
			for i, row := range want[50:] {
				want[i] = strings.Replace(row, "more", "changed", 1)
			}
			want = want[:30]
			c.awaitRows(t, want...)
			for i := range 3 {
				db.Exec(t, "TRUNCATE items")
				want = rows(200, 229, fmt.Sprintf("again %d", i))
				c.await(t, "must-refetch", func(e npmEvent) bool { return e.Control == "must-refetch" })
				c.awaitRows(t, want...)
			}
			late := followWithNpm(t, front, map[string]any{"table": "items"}, map[string]any{})
			late.awaitRows(t, want...) // begins at what the cache has
		})
	}
}
