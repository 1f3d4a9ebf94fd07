package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// npmEvent is a line that an application of js/ prints.
type npmEvent struct {
	Event     string           `json:"event"`
	Operation string           `json:"operation"`
	Control   string           `json:"control"`
	Key       string           `json:"key"`
	Message   string           `json:"message"`
	N         int              `json:"n"`
	Status    int              `json:"status"`
	Coding    string           `json:"coding"`
	Value     map[string]any   `json:"value"`
	Rows      []map[string]any `json:"rows"`
}

// npmClient is an application of js/, which follows a shape with an npm package.
type npmClient struct {
	events chan npmEvent // closed when the process has ended
	in     io.Writer     // what the application takes, see send
	seen   []npmEvent
	stderr *logBuffer
}

// npmRuntimes are what runs the applications of js/: each gives the beginning of a command line of node. It skips the test
// where the program is not installed.
var npmRuntimes = map[string]func(*testing.T) []string{
	"node":     func(*testing.T) []string { return []string{"node.mjs"} },
	"chromium": func(t *testing.T) []string { return []string{"chromium.mjs", needProgram(t, "chromium")} },
}

// followWithNpm follows a shape with the npm package @electric-sql/client in node.
func followWithNpm(t *testing.T, base string, params, options map[string]any) *npmClient {
	t.Helper()
	return startNpm(t, "node", "client", base, params, options)
}

// startNpm starts an application of js/ in a runtime. A machine without node skips the test; CI must have it.
func startNpm(t *testing.T, runtime, app, base string, params, options map[string]any) *npmClient {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil || !npmInstalled() {
		message := "needs node 20 or newer and `make js` (npm ci in integration_test/js)"
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	p, err := json.Marshal(params)
	require.NoError(t, err)
	o, err := json.Marshal(options)
	require.NoError(t, err)
	cmd := exec.Command(node, append(npmRuntimes[runtime](t), app, base, string(p), string(o))...)
	cmd.Dir = "js"
	c := &npmClient{events: make(chan npmEvent, 10_000), stderr: &logBuffer{}}
	cmd.Stderr = c.stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	c.in = in
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	go func() {
		defer close(c.events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e npmEvent
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e = npmEvent{Event: "error", Message: fmt.Sprintf("line %q: %v", lines.Text(), err)}
			}
			c.events <- e
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range c.events { // until it ends
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("node: %v: %s", err, c.stderr)
		}
		if t.Failed() {
			t.Logf("the client saw, last: %+v\nand said: %s", c.seen[max(0, len(c.seen)-20):], lastLines(c.stderr.String(), 40))
		}
	})
	return c
}

// npmInstalled tells whether the packages of js/package-lock.json are installed: `make js` leaves npm's own list of them
// newer than it.
func npmInstalled() bool {
	locked, err := os.Stat(filepath.Join("js", "package-lock.json"))
	if err != nil {
		return false
	}
	installed, err := os.Stat(filepath.Join("js", "node_modules", ".package-lock.json"))
	return err == nil && installed.ModTime().After(locked.ModTime())
}

// send gives the application an object.
func (c *npmClient) send(t *testing.T, o map[string]any) {
	t.Helper()
	line, err := json.Marshal(o)
	require.NoError(t, err)
	_, err = fmt.Fprintf(c.in, "%s\n", line)
	require.NoError(t, err)
}

// await reads events until one satisfies want and returns it. An error event fails the test.
func (c *npmClient) await(t *testing.T, what string, want func(npmEvent) bool) npmEvent {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		select {
		case e, open := <-c.events:
			require.True(t, open, "the client ended while waiting for %s", what)
			c.seen = append(c.seen, e)
			require.NotEqual(t, "error", e.Event, e.Message)
			if want(e) {
				return e
			}
		case <-deadline:
			t.Fatalf("the client saw no %s within 60 s", what)
		}
	}
}

func (c *npmClient) awaitChange(t *testing.T, operation, key string) npmEvent {
	t.Helper()
	return c.await(t, operation+" of "+key, func(e npmEvent) bool {
		return e.Event == "change" && e.Operation == operation && strings.HasSuffix(e.Key, `/"`+key+`"`)
	})
}

// awaitRows waits until the client's rows are these, written as "id=title".
func (c *npmClient) awaitRows(t *testing.T, want ...string) {
	t.Helper()
	c.await(t, fmt.Sprintf("rows %v", want), func(e npmEvent) bool { return e.Event == "rows" && e.has(want...) })
}

// has tells whether the rows of an event are these.
func (e npmEvent) has(want ...string) bool {
	var got []string
	for _, r := range e.Rows {
		got = append(got, fmt.Sprintf("%v=%v", r["id"], r["title"]))
	}
	slices.Sort(got)
	return slices.Equal(got, want)
}

// The npm client, unmodified, sees inserts, updates and deletes, refetches after a TRUNCATE, and goes on from where it
// was after a restart of the server.
func TestNpmClient(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, title text, done bool); INSERT INTO items VALUES (1, 'tea', true)")
	srv := startServer(t, db)
	c := followWithNpm(t, srv.url, map[string]any{"table": "items"}, map[string]any{})
	c.awaitRows(t, "1=tea")

	db.Exec(t, "INSERT INTO items VALUES (2, 'milk', false)")
	e := c.awaitChange(t, "insert", "2")
	require.Equal(t, map[string]any{"id": 2.0, "title": "milk", "done": false}, e.Value)
	c.awaitRows(t, "1=tea", "2=milk")

	db.Exec(t, "UPDATE items SET title = 'oat milk' WHERE id = 2")
	e = c.awaitChange(t, "update", "2")
	require.Equal(t, map[string]any{"id": 2.0, "title": "oat milk"}, e.Value)
	c.awaitRows(t, "1=tea", "2=oat milk")

	db.Exec(t, "DELETE FROM items WHERE id = 1")
	c.awaitChange(t, "delete", "1")
	c.awaitRows(t, "2=oat milk")

	db.Exec(t, "TRUNCATE items; INSERT INTO items VALUES (7, 'again', true)")
	c.await(t, "must-refetch", func(e npmEvent) bool { return e.Control == "must-refetch" })
	c.awaitRows(t, "7=again")

	srv.stop(t)
	db.Exec(t, "INSERT INTO items VALUES (8, 'while down', true)")
	srv.start(t)
	c.await(t, "the row written while the server was down, and no refetch", func(e npmEvent) bool {
		require.NotEqual(t, "must-refetch", e.Control, "a restart must keep handles and offsets")
		return e.Event == "change" && e.Operation == "insert" && e.Value["id"] == 8.0
	})
	c.awaitRows(t, "7=again", "8=while down")
}

// The same client with a where clause, columns and parameters, all as it spells them.
func TestNpmClientWithWhere(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE items (id int PRIMARY KEY, title text, n int, secret text);
		INSERT INTO items SELECT i, 'title ' || i, i, 'x' FROM generate_series(1, 3) i`)
	srv := startServer(t, db)
	c := followWithNpm(t, srv.url, map[string]any{
		"table": "items", "where": "n > $1", "params": []string{"1"}, "columns": []string{"id", "title"}, "replica": "full",
	}, map[string]any{})
	c.awaitRows(t, "2=title 2", "3=title 3")
	db.Exec(t, "UPDATE items SET n = 1 WHERE id = 2; UPDATE items SET n = 5 WHERE id = 1")
	c.awaitChange(t, "delete", "2")
	e := c.awaitChange(t, "insert", "1")
	require.Equal(t, map[string]any{"id": 1.0, "title": "title 1"}, e.Value)
	c.awaitRows(t, "1=title 1", "3=title 3")
}
