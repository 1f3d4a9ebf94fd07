package pgtest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A database is fresh, usable for logical replication, and gone after its test, whatever the test left in it.
func TestNewRemovesEverything(t *testing.T) {
	var name string
	t.Run("inner", func(t *testing.T) {
		db := pgtest.New(t)
		name = db.Name
		db.Exec(t, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
		var n int
		require.NoError(t, db.Pool(t).QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n))
		require.Equal(t, 2, n)
		db.Exec(t, "SELECT pg_create_logical_replication_slot('slot_"+name+"', 'pgoutput')")
		db.Exec(t, "BEGIN; INSERT INTO t VALUES (3); PREPARE TRANSACTION '"+name+"'")
		// A session that is still open when the test ends.
		conn, err := db.Pool(t).Acquire(context.WithoutCancel(t.Context()))
		require.NoError(t, err)
		t.Cleanup(conn.Release)
	})
	other := pgtest.New(t)
	require.NotEqual(t, name, other.Name)
	var left int
	require.NoError(t, other.Pool(t).QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_database WHERE datname = $1)
		+ (SELECT count(*) FROM pg_replication_slots WHERE database = $1)
		+ (SELECT count(*) FROM pg_prepared_xacts WHERE database = $1)`, name).Scan(&left))
	require.Zero(t, left)
}

func TestDatabaseIsAsPromised(t *testing.T) {
	db := pgtest.New(t)
	var encoding, walLevel string
	require.NoError(t, db.Pool(t).QueryRow(t.Context(), `SELECT pg_encoding_to_char(encoding), current_setting('wal_level')
		FROM pg_database WHERE datname = current_database()`).Scan(&encoding, &walLevel))
	require.Equal(t, "UTF8", encoding)
	require.Equal(t, "logical", walLevel)
}

// A private server takes settings, and keeps its URL and its committed rows through a stop and a crash.
func TestNewServerSurvivesKill(t *testing.T) {
	srv := pgtest.NewServer(t, pgtest.ServerOptions{Settings: map[string]string{"work_mem": "3MB"}})
	db := srv.NewDB(t)
	db.Exec(t, "CREATE TABLE t (id int)")
	for i, fail := range []func(testing.TB){srv.Stop, srv.Kill} {
		db.Exec(t, "INSERT INTO t VALUES (1)")
		fail(t)
		require.Error(t, tryConnect(t, db), "a stopped server must refuse")
		srv.Start(t)
		var n int
		require.NoError(t, db.Pool(t).QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n))
		require.Equal(t, i+1, n)
	}
	var mem string
	require.NoError(t, db.Pool(t).QueryRow(t.Context(), "SHOW work_mem").Scan(&mem))
	require.Equal(t, "3MB", mem)
	require.Contains(t, srv.Log(t), "not properly shut down")
}

// A test that is killed takes its server with it: pgserver sees the end of its standard input.
func TestKilledTestLeavesNothing(t *testing.T) {
	if os.Getenv("PGTEST_HELPER") != "" {
		_, _ = fmt.Fprintln(os.Stdout, "url="+pgtest.NewServer(t, pgtest.ServerOptions{}).URL())
		select {} // until killed
	}
	helper := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	helper.Env = append(os.Environ(), "PGTEST_HELPER=1")
	out, err := helper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, helper.Start())
	var url string
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		_, url, _ = strings.Cut(lines.Text(), "url=")
	}
	require.NoError(t, helper.Process.Kill())
	require.Error(t, helper.Wait())
	require.NotEmpty(t, url)
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil
	}, 30*time.Second, 50*time.Millisecond, "the server must go away")
}

func tryConnect(t *testing.T, db *pgtest.DB) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return db.Pool(t).Ping(ctx)
}
