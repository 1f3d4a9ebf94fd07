package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// requireRefusal starts a server that cannot serve, and requires that it ends soon with code 1 and that its last line,
// one line, has these words: the setting to change, or the SQL to run.
func requireRefusal(t *testing.T, p *process, words ...string) {
	t.Helper()
	p.launch(t)
	require.Equal(t, 1, p.awaitExit(t), "exit code")
	output := strings.TrimSpace(p.log.String())
	line := lastLines(output, 1)
	for _, w := range words {
		assert.Contains(t, line, w)
	}
	assert.NotContains(t, output, "goroutine ")
}

// set replaces a setting of a server that does not run; an empty value takes it away.
func (p *process) set(name, value string) {
	p.env = slices.DeleteFunc(p.env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if value != "" {
		p.env = append(p.env, name+"="+value)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	db := pgtest.New(t)
	for _, c := range []struct {
		name  string
		env   map[string]string
		words []string
	}{
		{"no database", map[string]string{"DATABASE_URL": ""}, []string{"DATABASE_URL"}},
		{"neither secret nor insecure", map[string]string{"SHAPESERVER_INSECURE": ""}, []string{"SHAPESERVER_SECRET", "SHAPESERVER_INSECURE"}},
		{"both", map[string]string{"SHAPESERVER_SECRET": "s"}, []string{"SHAPESERVER_SECRET", "SHAPESERVER_INSECURE"}},
		{"unknown setting", map[string]string{"SHAPESERVER_PROT": "3000"}, []string{"SHAPESERVER_PROT"}},
		{"bad number", map[string]string{"SHAPESERVER_PORT": "many"}, []string{"SHAPESERVER_PORT"}},
		{"bad alias", map[string]string{"ELECTRIC_LONG_POLL_TIMEOUT": "soon"}, []string{"LONG_POLL_TIMEOUT"}},
		{"bad stream id", map[string]string{"SHAPESERVER_REPLICATION_STREAM_ID": "A b"}, []string{"SHAPESERVER_REPLICATION_STREAM_ID"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProcess(t, db)
			for name, value := range c.env {
				p.set(name, value)
			}
			p.launch(t)
			require.Equal(t, 1, p.awaitExit(t), "exit code")
			for _, w := range c.words {
				assert.Contains(t, p.log.String(), w)
			}
			assert.NotContains(t, p.log.String(), "goroutine ")
			assert.LessOrEqual(t, strings.Count(p.log.String(), "\n"), 4, "a mistake needs no page: %s", p.log)
		})
	}
}

func TestPortTaken(t *testing.T) {
	p := newProcess(t, pgtest.New(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	p.set("SHAPESERVER_PORT", fmt.Sprint(port))
	requireRefusal(t, p, fmt.Sprint(port), "SHAPESERVER_PORT", "in use")
}

func TestStorageDirInUse(t *testing.T) {
	srv := startServer(t, pgtest.New(t))
	second := newProcess(t, pgtest.New(t))
	var dir string
	for _, v := range srv.env {
		if value, ok := strings.CutPrefix(v, "SHAPESERVER_STORAGE_DIR="); ok {
			dir = value
		}
	}
	second.set("SHAPESERVER_STORAGE_DIR", dir)
	requireRefusal(t, second, dir, "SHAPESERVER_STORAGE_DIR")
}

func TestStorageDirUnusable(t *testing.T) {
	p := newProcess(t, pgtest.New(t))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	p.set("SHAPESERVER_STORAGE_DIR", filepath.Join(file, "dir"))
	requireRefusal(t, p, file, "SHAPESERVER_STORAGE_DIR")
}

func TestWrongWalLevel(t *testing.T) {
	pg := pgtest.NewServer(t, pgtest.ServerOptions{Settings: map[string]string{"wal_level": "replica"}})
	requireRefusal(t, newProcess(t, pg.NewDB(t)), "wal_level", "logical", "ALTER SYSTEM SET wal_level")
}

func TestMissingRights(t *testing.T) {
	db := pgtest.New(t)
	role := "weak_" + db.Name[len(db.Name)-8:]
	db.Exec(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { db.Exec(t, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	t.Run("replication", func(t *testing.T) {
		db.Exec(t, "GRANT CREATE ON DATABASE "+db.Name+" TO "+role+"; GRANT CREATE ON SCHEMA public TO "+role)
		p := newProcess(t, db)
		p.set("DATABASE_URL", strings.Replace(db.URL, "postgres@", role+"@", 1))
		requireRefusal(t, p, role, "REPLICATION", "ALTER ROLE")
	})
	t.Run("create", func(t *testing.T) {
		db := pgtest.New(t)
		db.Exec(t, "ALTER ROLE "+role+" REPLICATION; REVOKE CREATE ON SCHEMA public FROM public")
		p := newProcess(t, db)
		p.set("DATABASE_URL", strings.Replace(db.URL, "postgres@", role+"@", 1))
		requireRefusal(t, p, role, "GRANT CREATE")
	})
}

// A table that the server's role may not publish is a 503 that names the SQL to run (protocol.md §3.3), not a 500; once
// that SQL has run, the same request is answered.
func TestMissingRightsOnTable(t *testing.T) {
	db := pgtest.New(t)
	role := "weak_" + db.Name[len(db.Name)-8:]
	db.Exec(t, "CREATE ROLE "+role+" LOGIN REPLICATION; GRANT CREATE ON DATABASE "+db.Name+" TO "+role+"; GRANT CREATE ON SCHEMA public TO "+role+
		"; CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1)")
	t.Cleanup(func() { db.Exec(t, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role) })
	p := newProcess(t, db)
	p.set("DATABASE_URL", strings.Replace(db.URL, "postgres@", role+"@", 1))
	p.start(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/shape?table=items&offset=-1", http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode, "%s", body)
	require.Contains(t, string(body), "must be owner of table items")
	require.Contains(t, string(body), `OWNER TO \"`+role)
	require.Equal(t, "10", res.Header.Get("retry-after"))
	require.Equal(t, "true", res.Header.Get("electric-internal-known-error"))

	db.Exec(t, "ALTER TABLE items OWNER TO "+role)
	f := NewFold(p.url, shape("table", "items"))
	f.Retry = true
	requireSame(t, f, db, "SELECT * FROM items")
}

// A mistyped command is named, with what there is instead.
func TestUnknownCommand(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary(t), "sevre")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.NotZero(t, cmd.ProcessState.ExitCode())
	require.Contains(t, string(out), "sevre")
	require.Contains(t, string(out), "serve", "it should say what there is")
}

// While the database is down at the start, the server lives: health says starting, and requests are told when to come
// again (protocol.md §14.1, §3.3). When the database comes, it serves.
func TestDatabaseDownAtStart(t *testing.T) {
	pg := pgtest.NewServer(t, pgtest.ServerOptions{})
	db := pg.NewDB(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY)")
	p := newProcess(t, db)
	pg.Stop(t)
	p.launch(t)
	require.Eventually(t, func() bool {
		code, err := p.health(t.Context())
		return err == nil && code == http.StatusAccepted
	}, startTimeout, 20*time.Millisecond, "health must say starting: %s", p.log)
	began := time.Now()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/shape?table=items&offset=-1", http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode, "%s", body)
	require.Equal(t, "5", res.Header.Get("retry-after"))
	require.Less(t, time.Since(began), 8*time.Second)
	require.Regexp(t, `^\{"message":".+"\}$`, string(body))

	pg.Start(t)
	require.NoError(t, p.awaitActive(t.Context()))
	f := NewFold(p.url, shape("table", "items"))
	requireSame(t, f, db, "SELECT * FROM items")
}

// A restart of the database, in order or by a crash, loses nothing and ends no shape.
func TestDatabaseRestart(t *testing.T) {
	pg := pgtest.NewServer(t, pgtest.ServerOptions{})
	db := pg.NewDB(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items SELECT i, 'a' FROM generate_series(1, 10) i")
	srv := startServer(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	f := NewFold(srv.url, shape("table", "items"))
	f.Retry = true
	requireSame(t, f, db, "SELECT * FROM items")
	handle := f.Handle
	for i, down := range []func(testing.TB){pg.Stop, pg.Kill} {
		db.Exec(t, fmt.Sprintf("UPDATE items SET v = 'before %d'", i))
		down(t)
		pg.Start(t)
		db.Exec(t, fmt.Sprintf("UPDATE items SET v = 'after %d' WHERE id > 5", i))
		requireSame(t, f, db, "SELECT * FROM items")
		require.Equal(t, handle, f.Handle)
		require.Zero(t, f.Refetched)
	}
}
