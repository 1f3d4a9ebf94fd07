package devserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// helperDir makes the test binary play a shapeserver dev that waits to be killed.
const helperDir = "SHAPESERVER_TEST_DEV_HELPER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		d, err := Start(context.Background(), Options{Dir: dir}) //nolint:forbidigo // TestMain has no test's context
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString(d.URL() + "\n") // whoever reads it sees when it does not come
		select {}                                    // until SIGKILL
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if template.dir != "" {
			_ = os.RemoveAll(template.dir) // best effort: it is in the system's temporary folder
		}
		os.Exit(code)
	}))
}

// template is a data folder that was started and stopped once: copying it is faster than initdb.
var template struct {
	once sync.Once
	dir  string
	err  error
}

// used returns a copy of a data folder that was used before.
func used(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	template.once.Do(func() {
		if template.dir, template.err = os.MkdirTemp("", "devserver-template-"); template.err != nil { //nolint:usetesting // it outlives the test
			return
		}
		if template.err = os.Chmod(template.dir, 0o755); template.err != nil { //nolint:gosec // Postgres runs as another user
			return
		}
		var d *Dev
		if d, template.err = Start(t.Context(), Options{Dir: template.dir}); template.err == nil {
			template.err = d.Stop()
		}
	})
	require.NoError(t, template.err)
	out, err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(template.dir, "postgres"), dir).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// folder returns a data folder that an ordinary user can reach, or skips if there is no Postgres on the machine.
func folder(t *testing.T) string {
	t.Helper()
	if len(findBinaries(t.Context(), os.Getenv("PATH"), usualPlaces)) == 0 {
		t.Skip("no Postgres 14 or newer on this machine: initdb, pg_ctl and postgres are neither on PATH nor in the usual places")
	}
	dir, err := os.MkdirTemp("", "devserver-") //nolint:usetesting // t.TempDir is private to the user, who is not Postgres's
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func start(t *testing.T, opts Options) *Dev {
	t.Helper()
	d, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Stop()) })
	return d
}

func connect(t *testing.T, d *Dev) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // the database may be gone by then
	return conn
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string) (v T) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&v))
	return v
}

func postmaster(t *testing.T, d *Dev) int {
	t.Helper()
	pid, err := d.cluster.runningPid()
	require.NoError(t, err)
	return pid
}

func TestStartStopAndStartAgain(t *testing.T) {
	dir := folder(t)
	var progress []string
	d := start(t, Options{Dir: dir, Progress: func(s string) { progress = append(progress, s) }})
	require.Len(t, progress, 1)
	conn := connect(t, d)
	assert.Equal(t, "logical", query[string](t, conn, "SHOW wal_level"))
	assert.Equal(t, "UTF8", query[string](t, conn, "SHOW server_encoding"))
	assert.Equal(t, "on", query[string](t, conn, "SHOW fsync"))
	assert.True(t, query[bool](t, conn, "SELECT 'a' > 'B'"), "order does not depend on the machine")
	assert.Equal(t, 5, query[int](t, conn, "SELECT count(*) FROM items"))

	if line := d.Psql("UPDATE items SET title = upper(title) WHERE id = 1"); line != "" {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Equal(t, "OPEN THE URL ABOVE", query[string](t, conn, "SELECT title FROM items WHERE id = 1"))
	}

	_, err := Start(t.Context(), Options{Dir: dir})
	require.ErrorIs(t, err, ErrInUse)
	assert.Contains(t, err.Error(), fmt.Sprintf("(process %d)", os.Getpid()))
	assert.NotZero(t, postmaster(t, d), "the second start must not stop the first's Postgres")

	url := d.URL()
	require.NoError(t, d.Stop())
	require.NoError(t, d.Stop(), "a second stop does nothing")
	assert.Zero(t, postmaster(t, d))

	// What was dropped stays dropped: the demo table is made once.
	d = start(t, Options{Dir: dir})
	assert.Equal(t, url, d.URL(), "the port is the same, so that the user's command lines still work")
	conn = connect(t, d)
	assert.Equal(t, 5, query[int](t, conn, "SELECT count(*) FROM items"))
	_, err = conn.Exec(t.Context(), "DROP TABLE items")
	require.NoError(t, err)
	require.NoError(t, d.Stop())
	conn = connect(t, start(t, Options{Dir: dir}))
	assert.Nil(t, query[*string](t, conn, "SELECT to_regclass('items')::text"))
}

// TestStartAfterKill kills shapeserver dev and leaves its Postgres an orphan; then kills Postgres too.
func TestStartAfterKill(t *testing.T) {
	dir := used(t)
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), helperDir+"="+dir)
	out, err := helper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, helper.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(url, "postgres://"), url)

	conn, err := pgx.Connect(t.Context(), strings.TrimSpace(url))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "INSERT INTO items (title) VALUES ('kept')")
	require.NoError(t, err)
	require.NoError(t, helper.Process.Kill())
	require.Error(t, helper.Wait())
	assert.Equal(t, 6, query[int](t, conn, "SELECT count(*) FROM items"), "the orphan serves")

	var progress []string
	d := start(t, Options{Dir: dir, Progress: func(s string) { progress = append(progress, s) }})
	assert.Contains(t, strings.Join(progress, "\n"), "left behind")
	require.Error(t, conn.Ping(t.Context()), "the orphan is gone")
	assert.Equal(t, 6, query[int](t, connect(t, d), "SELECT count(*) FROM items"))

	require.NoError(t, syscall.Kill(postmaster(t, d), syscall.SIGKILL))
	require.NoError(t, d.lock.Close()) // as if we had been killed with it
	d = start(t, Options{Dir: dir})
	assert.Equal(t, 6, query[int](t, connect(t, d), "SELECT count(*) FROM items"))
}

// TestTracesOfACutStart leaves behind what a kill in the middle of the first start leaves.
func TestTracesOfACutStart(t *testing.T) {
	dir := folder(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "postgres"), 0o700))
	o, err := findOwner()
	require.NoError(t, err)
	require.NoError(t, os.Chown(filepath.Join(dir, "postgres"), o.uid, o.gid))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "postgres", "data.new", "base"), 0o700))
	d := start(t, Options{Dir: dir})
	conn := connect(t, d)
	for _, sql := range []string{"CREATE DATABASE dev_new", "CREATE DATABASE other"} {
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close(t.Context()))
	conn, err = pgx.Connect(t.Context(), d.urlOf("other"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "DROP DATABASE dev")
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, d.Stop())

	// The number in postmaster.pid is another program's now.
	sleep := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, sleep.Start())
	stale := fmt.Sprintf("%d\n%s\n", sleep.Process.Pid, d.DataDir())
	require.NoError(t, os.WriteFile(filepath.Join(d.DataDir(), "postmaster.pid"), []byte(stale), 0o600))

	d = start(t, Options{Dir: dir})
	assert.Equal(t, 5, query[int](t, connect(t, d), "SELECT count(*) FROM items"))
	require.NoError(t, sleep.Process.Signal(syscall.Signal(0)), "the other program is alive")
	require.NoError(t, sleep.Process.Kill())
	require.Error(t, sleep.Wait())
}

func TestTakenPortIsAvoided(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	dir := used(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "port"), []byte(strconv.Itoa(port)), 0o600))
	d := start(t, Options{Dir: dir})
	assert.NotEqual(t, port, d.cluster.port)
	assert.Equal(t, 5, query[int](t, connect(t, d), "SELECT count(*) FROM items"))
}

func TestWriter(t *testing.T) {
	d := start(t, Options{Dir: used(t)})
	conn := connect(t, d)
	before := query[string](t, conn, "SELECT md5(string_agg(items::text, ',' ORDER BY id)) FROM items")
	wrote := make(chan struct{}, 1)
	d.wrote = func() {
		select {
		case wrote <- struct{}{}:
		default:
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.RunWriter(ctx) }()
	<-wrote
	assert.NotEqual(t, before, query[string](t, conn, "SELECT md5(string_agg(items::text, ',' ORDER BY id)) FROM items"))
	cancel()
	require.NoError(t, <-done)

	for n := range 100 {
		require.NoError(t, writeOnce(t.Context(), conn, n))
	}
	rows := query[int](t, conn, "SELECT count(*) FROM items")
	assert.Equal(t, keepRows, rows, "the table stays small")
	assert.Equal(t, 5, query[int](t, conn, "SELECT count(*) FROM items WHERE id <= 5"), "the first rows stay")

	_, err := conn.Exec(t.Context(), "DROP TABLE items")
	require.NoError(t, err)
	require.NoError(t, d.RunWriter(t.Context()), "a dropped table ends the writer")
}

func TestFolderOfAnotherVersion(t *testing.T) {
	dir := used(t)
	bin := findBinaries(t.Context(), os.Getenv("PATH"), usualPlaces)[0]
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres", "data", "PG_VERSION"), []byte("13\n"), 0o600))
	_, err := Start(t.Context(), Options{Dir: dir, BinDir: bin.dir})
	require.ErrorContains(t, err, fmt.Sprintf("was made by Postgres 13, and only %d is here: install that version, or remove the folder", bin.major))
}

func TestWhatPostgresObjectsTo(t *testing.T) {
	dir := used(t)
	conf := filepath.Join(dir, "postgres", "data", "postgresql.auto.conf")
	require.NoError(t, os.WriteFile(conf, []byte("max_connections = -4\n"), 0o600))
	_, err := Start(t.Context(), Options{Dir: dir})
	require.ErrorContains(t, err, "FATAL")
	assert.NotContains(t, err.Error(), "\n", "one line")

	// After the error nothing is held: the next start works.
	require.NoError(t, os.WriteFile(conf, nil, 0o600))
	start(t, Options{Dir: dir})
}

func TestCancelledStart(t *testing.T) {
	dir := folder(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Start(ctx, Options{Dir: dir, Progress: func(string) { cancel() }})
	require.Error(t, err)
	start(t, Options{Dir: dir})
}
