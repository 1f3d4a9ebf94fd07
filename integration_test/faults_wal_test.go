package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// slowFaults skips a test that is for `make test/faults`.
func slowFaults(t *testing.T) {
	t.Helper()
	if os.Getenv("SHAPESERVER_TEST_FAULTS") != "slow" {
		t.Skip("takes a cluster of its own and some 15 s: run make test/faults")
	}
}

// startCluster makes a PostgreSQL cluster with a script that is run in its data directory before the last start, with
// the functions start and stop, and returns its database postgres. pg_resetwal needs the server's own programs, so it is
// always a local one.
func startCluster(t *testing.T, name, prepare string) *pgtest.DB {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_resetwal")
	require.NoError(t, err)
	if path, err := exec.LookPath("pg_resetwal"); err == nil {
		found = append(found, path)
	}
	require.NotEmpty(t, found, "missing: PostgreSQL's server programs (on Debian: apt-get install postgresql)")
	dir, err := os.MkdirTemp("", "shapeserver-"+name) //nolint:usetesting // t.TempDir is below folders that the server's user may not enter
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // the server refuses to run as root
		owner, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, err1 := strconv.ParseUint(owner.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(owner.Gid, 10, 32)
		require.NoError(t, err1)
		require.NoError(t, err2)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	}
	port := freePort(t)
	run := func(ctx context.Context, script string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, "bash", "-euc", fmt.Sprintf(`cd %q; export PATH=%q:$PATH LC_ALL=C PGPORT=%d PGHOST=127.0.0.1 PGUSER=postgres PGDATA=$PWD/data
start() { pg_ctl -w -l log start >/dev/null; }
stop() { pg_ctl -m fast -w stop >/dev/null; }
%s`, dir, filepath.Dir(found[len(found)-1]), port, script))
		cmd.SysProcAttr = attr
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		run(ctx, "stop || true")
	})
	run(ctx, fmt.Sprintf(`initdb -U postgres --auth=trust --encoding=UTF8 --locale=C --no-sync >/dev/null
printf "port=%d\nlisten_addresses='127.0.0.1'\nunix_socket_directories='%s'\nwal_level=logical\nautovacuum=off\nfsync=off\n" >>data/postgresql.conf
%s
start`, port, dir, prepare))
	return &pgtest.DB{URL: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port), Name: name}
}

// B039: 32-bit transaction ids wrap. Snapshots have 64 bits of them and the stream 32: shapes made before, across and after
// the wrap lose nothing and get nothing twice.
func TestTransactionIDsWrap(t *testing.T) {
	slowFaults(t)
	db := startCluster(t, "pg_wrap", `for x in 2000000000 3900000000 4294967000; do # each step below 2^31, everything frozen in between
  start; psql -q template1 -c 'ALTER DATABASE template0 ALLOW_CONNECTIONS true'; vacuumdb --all --freeze -q; stop
  pg_resetwal -x $x data >/dev/null; segment=data/pg_xact/$(printf %04X $((x/1048576)))
  [ -f "$segment" ] || dd if=/dev/zero of="$segment" bs=8192 count=32 status=none
done`)
	w := &faultWorld{TB: t, db: db, srv: startServer(t, db)}
	db.Exec(t, "CREATE TABLE xw (id int PRIMARY KEY, v text); INSERT INTO xw VALUES (0, 'base')")
	before := w.follow("table", "xw")
	pool := db.Pool(t)
	for i := 1; i <= 400; i++ {
		_, err := pool.Exec(t.Context(), "INSERT INTO xw VALUES ($1, 'x')", i)
		require.NoError(t, err)
		if i == 150 {
			w.same(w.follow("table", "xw", "where", "id >= -1"), "SELECT * FROM xw")
		}
	}
	require.Equal(t, "1", w.one("SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::numeric > 4294967296)::int"), "the ids must have wrapped")
	w.goesOn(before, "SELECT * FROM xw")
	after := w.follow("table", "xw", "where", "id >= 0")
	open := w.session()
	w.exec(open, "BEGIN; INSERT INTO xw VALUES (900, 'o')")
	across := w.client("table", "xw", "where", "id > -1")
	var asking sync.WaitGroup
	var err error
	asking.Go(func() { err = across.CatchUp(t.Context()) })
	w.exec(open, "INSERT INTO xw VALUES (901, 'p')")
	w.exec(open, "COMMIT")
	asking.Wait()
	require.NoError(t, err)
	for _, f := range []*Fold{before, after, across} {
		w.goesOn(f, "SELECT * FROM xw")
	}
	w.srv.kill(t)
	db.Exec(t, "INSERT INTO xw VALUES (902, 'q')")
	w.srv.start(t)
	w.goesOn(before, "SELECT * FROM xw")
}

// B038: positions beyond 4 GiB of WAL, and beyond what a float holds, are compared as what they are.
func TestPositionsBeyond4GiB(t *testing.T) {
	slowFaults(t)
	for name, at := range map[string]string{"4 GiB": "0000000100000000000000FE", "2^53": "000000010040000000000001"} {
		t.Run(name, func(t *testing.T) {
			db := startCluster(t, "pg_positions", "pg_resetwal -l "+at+" -D data >/dev/null")
			w := &faultWorld{TB: t, db: db, srv: startServer(t, db)}
			db.Exec(t, "CREATE TABLE lw (id int PRIMARY KEY); INSERT INTO lw VALUES (0)")
			f := w.follow("table", "lw")
			for i := range 6 {
				w.sql(fmt.Sprintf("INSERT INTO lw VALUES (%d)", i+1), "SELECT pg_switch_wal()")
				w.goesOn(f, "SELECT * FROM lw")
			}
			awaitConfirmed(t, db)
			require.Equal(t, "t", w.one("SELECT confirmed_flush_lsn > '1/0' FROM pg_replication_slots"))
			w.srv.kill(t)
			w.sql("INSERT INTO lw VALUES (100)")
			w.srv.start(t)
			w.goesOn(f, "SELECT * FROM lw")
			w.same(w.follow("table", "lw"), "SELECT * FROM lw")
		})
	}
}
