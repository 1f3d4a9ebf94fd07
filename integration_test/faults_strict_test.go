package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// Faults of classes 7 and 9 on a server with the settings of production, except that it gives up a connection without a request
// after a second. Postgres is its own, because the last of them stops it.
func TestStrictFaults(t *testing.T) {
	db := pgtest.NewServer(t, pgtest.ServerOptions{}).NewDB(t)
	port := freePort(t)
	srv := startServer(t, db, "SHAPESERVER_TCP_READ_TIMEOUT=1s", "SHAPESERVER_LONG_POLL_TIMEOUT=3s", "SHAPESERVER_SCHEMA_RECONCILER_PERIOD=500ms", fmt.Sprintf("SHAPESERVER_PROMETHEUS_PORT=%d", port))
	for _, f := range []fault{
		{entry: "B162", name: "idle connections", run: (*faultWorld).idleConnections},
		{entry: "B163", name: "files that go while they are sent", run: (*faultWorld).filesGo},
		{entry: "B195", name: "deleting and other definitions' handles", run: (*faultWorld).foreignHandles},
		{entry: "B199", name: "requests that never end", run: (*faultWorld).slowRequests},
		{entry: "B188", name: "bodies of failures", run: (*faultWorld).failures},
	} {
		t.Run(f.entry+" "+f.name, func(t *testing.T) {
			f.run(&faultWorld{TB: t, db: db, srv: srv, metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port)})
		})
	}
}

// idleConnections: a connection lives while a request comes in less than the timeout after the other, and while one is
// answered for longer than that; it is closed, in good order, when none comes.
func (w *faultWorld) idleConnections() {
	w.sql("CREATE TABLE kt7 (id int PRIMARY KEY)")
	f := w.follow("table", "kt7")
	conn := w.dial()
	in := bufio.NewReader(conn)
	exchange := func(path string) http.Header {
		_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		require.NoError(w, err)
		res, err := http.ReadResponse(in, nil)
		require.NoError(w, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(w, err)
		require.NoError(w, res.Body.Close())
		require.Equal(w, http.StatusOK, res.StatusCode)
		require.False(w, res.Close)
		return res.Header
	}
	exchange("/v1/health")
	exchange("/v1/health")
	began := time.Now()
	live := exchange("/v1/shape?" + shape("table", "kt7", "offset", f.Offset, "handle", f.Handle, "live", "true").Encode())
	require.Greater(w, time.Since(began), 2*time.Second, "the request waits for longer than a connection may be idle")
	require.Equal(w, "false", live.Get("electric-has-data"))
	exchange("/v1/health")
	_, err := in.ReadByte()
	require.ErrorIs(w, err, io.EOF, "an idle connection is closed")
	for _, request := range []string{"GET /v1/health HTTP/1.0\r\n\r\n", "GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"} {
		conn = w.dial()
		_, err := io.WriteString(conn, request)
		require.NoError(w, err)
		all, err := io.ReadAll(conn)
		require.NoError(w, err, "it is closed after the answer")
		require.Contains(w, string(all), " 200 OK\r\n")
		require.Contains(w, string(all), `{"status":"active"}`)
	}
}

// filesGo: when the files of a shape are cut or deleted under a client that reads, it gets all rows, or notices.
func (w *faultWorld) filesGo() {
	w.sql("CREATE TABLE tr (id int PRIMARY KEY, v text); INSERT INTO tr SELECT g, repeat('x', 2000) FROM generate_series(1, 4000) g")
	for name, harm := range map[string]func(path string) error{"deleted": os.Remove, "cut": func(path string) error { return os.Truncate(path, 1<<20) }} {
		q := shape("table", "tr", "offset", "-1", "where", "v <> '"+name+"'")
		r := w.ask(http.MethodGet, q) // makes it
		require.NoError(w, r.err)
		require.Equal(w, 4000, strings.Count(r.body, `"operation":"insert"`))
		conn := w.dial()
		require.NoError(w, conn.(*net.TCPConn).SetReadBuffer(64<<10))
		_, err := fmt.Fprintf(conn, "GET /v1/shape?%s HTTP/1.1\r\nHost: x\r\n\r\n", q.Encode())
		require.NoError(w, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(w, err)
		harmed := 0
		require.NoError(w, filepath.WalkDir(w.srv.setting("SHAPESERVER_STORAGE_DIR"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if info, err := d.Info(); err != nil || info.Size() < 5<<20 {
				return err
			}
			harmed++
			return harm(path)
		}))
		require.Positive(w, harmed)
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close() // cut already, where it failed
		var items []message
		if err == nil && json.Unmarshal(body, &items) == nil {
			require.Greater(w, len(items), 4000, "%s: an answer that looks whole lacks rows", name)
		}
		// Who asks again gets the shape from a log that is whole.
		w.same(w.client("table", "tr", "where", "v <> '"+name+"'"), "SELECT * FROM tr")
	}
	w.sql("CREATE TABLE tr2 (id int PRIMARY KEY); INSERT INTO tr2 VALUES (1)")
	w.goesOn(w.follow("table", "tr2"), "SELECT * FROM tr2")
}

// foreignHandles: a handle gives nobody another definition's rows, and nobody deletes.
func (w *faultWorld) foreignHandles() {
	w.sql("CREATE TABLE da (id int PRIMARY KEY, v text); CREATE TABLE db9 (id int PRIMARY KEY, v text); INSERT INTO da VALUES (1, 'A-DATA'); INSERT INTO db9 VALUES (1, 'B')")
	f := w.follow("table", "da")
	for _, q := range []map[string][]string{shape("table", "da"), shape("handle", f.Handle), shape("table", "da", "handle", f.Handle), {}} {
		r := w.ask(http.MethodDelete, q)
		require.NoError(w, r.err)
		require.Equal(w, http.StatusMethodNotAllowed, r.status)
	}
	for _, pairs := range [][]string{{"table", "db9"}, {"table", "db9", "live", "true"}, {"table", "da", "where", "id = 2"}, {"table", "da", "columns", "id"}, {"table", "da", "replica", "full"}, {"table", "db9", "live", "true", "live_sse", "true"}} {
		r := w.get(append([]string{"offset", "0_0", "handle", f.Handle}, pairs...)...)
		require.Equal(w, http.StatusConflict, r.status, r.body)
		require.NotContains(w, r.body, "A-DATA")
		require.NotEqual(w, f.Handle, r.header.Get("electric-handle"))
	}
	require.Equal(w, http.StatusBadRequest, w.get("offset", "0_0", "handle", f.Handle).status)
	w.sql("INSERT INTO da VALUES (2, 'more')")
	w.goesOn(f, "SELECT * FROM da")
}

// slowRequests: connections on which a request comes in drops, or not at all, hold nobody up, cost little, and are closed.
func (w *faultWorld) slowRequests() {
	w.sql("CREATE TABLE sl9 (id int PRIMARY KEY)")
	const clients = 600
	before, began := w.metric("process_resident_memory_bytes"), time.Now()
	slow := make([]net.Conn, clients)
	for i := range slow {
		slow[i] = w.dial()
		_, err := io.WriteString(slow[i], []string{"", "GET /v1/shape?table=sl9 HTTP/1.1\r\nHost: x\r\nX-A: ", "G"}[i%3])
		require.NoError(w, err)
	}
	w.goesOn(w.follow("table", "sl9"), "SELECT * FROM sl9")
	if !raceEnabled { // whose memory is another
		require.Less(w, (w.metric("process_resident_memory_bytes")-before)/clients, 150_000.0, "bytes for each connection")
	}
	for i, conn := range slow {
		// A drop now and then does not keep the rest of a header from being waited for too long.
		_, _ = io.WriteString(conn, []string{"", "a", "E"}[i%3]) // it may be closed by now
		rest, err := io.ReadAll(conn)
		var timeout net.Error
		require.False(w, errors.As(err, &timeout) && timeout.Timeout(), "connection %d is not closed after %s", i, time.Since(began))
		require.NotContains(w, string(rest), " 200 ")
	}
}

// internals is what no answer may tell: files, functions, stacks, addresses, accounts, SQL.
var internals = regexp.MustCompile(`(?i)\.go\b|goroutine|runtime|panic|github\.com|127\.0\.0\.1|localhost|postgres:|postgresql:|password|/tmp|/var|/home|(?-i:SELECT |COPY )|pq:|pgx|pgconn|SQLSTATE|dial tcp|no such file|not a directory|permission|user=|database=|hidden9|topsecret`)

// failures: what the database or the disk says goes to the log, and not to the client.
func (w *faultWorld) failures() {
	w.sql("CREATE TABLE le (id int PRIMARY KEY, v text, d int); INSERT INTO le VALUES (1, 'topsecret', 0)",
		"CREATE TABLE hidden9 (s text); CREATE DOMAIN odd AS text CHECK (VALUE <> 'topsecret'); CREATE TABLE dom (id int PRIMARY KEY, o odd)")
	told := func(status int, pairs ...string) {
		w.Helper()
		r := w.get(append([]string{"offset", "-1"}, pairs...)...)
		require.Equal(w, status, r.status, "%v: %s", pairs, r.body)
		require.NotRegexp(w, internals, r.body, pairs)
		require.Less(w, len(r.body), 1000)
		var body map[string]any
		require.NoError(w, json.Unmarshal([]byte(r.body), &body))
		require.NotEmpty(w, body)
	}
	for _, where := range []string{"v::int = 1", "1 / d = 1", "v = 'x", "nosuch = 1"} {
		told(http.StatusBadRequest, "table", "le", "subset__where", where)
	}
	told(http.StatusBadRequest, "table", "dom", "where", "o::int = 1 OR o || 1")
	told(http.StatusBadRequest, "table", "le", "where", "v = 1")
	told(http.StatusBadRequest, "table", "le", "where", "v::int = 'x'")
	told(http.StatusBadRequest, "table", "le", "where", "v = (SELECT s FROM other9)")
	told(http.StatusBadRequest, "table", "le", "subset__order_by", "nosuch")

	// The folder of the files becomes a file: a shape that is too big for the store of small ones cannot be written.
	w.sql("CREATE TABLE lf (id int PRIMARY KEY, v text); INSERT INTO lf SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g")
	files := filepath.Join(w.srv.setting("SHAPESERVER_STORAGE_DIR"), "files")
	require.NoError(w, os.Rename(files, files+".away"))
	require.NoError(w, os.WriteFile(files, nil, 0o600))
	// What was in memory before may have been sent: then the answer is cut.
	require.Eventually(w, func() bool {
		r := w.ask(http.MethodGet, shape("offset", "-1", "table", "lf"))
		require.NotRegexp(w, internals, r.body)
		return r.status >= 500
	}, 30*time.Second, 50*time.Millisecond)
	require.NoError(w, os.Remove(files))
	require.NoError(w, os.Rename(files+".away", files))
	w.goesOn(w.follow("table", "le"), "SELECT * FROM le")

	w.db.Server.Stop(w)
	for _, pairs := range [][]string{{"table", "le", "where", "d = 8"}, {"table", "neverseen"}, {"table", "le", "subset__where", "id = 1"}} {
		require.Eventually(w, func() bool {
			return w.get(append([]string{"offset", "-1"}, pairs...)...).status == http.StatusServiceUnavailable
		}, 30*time.Second, 50*time.Millisecond)
		told(http.StatusServiceUnavailable, pairs...)
	}
}
