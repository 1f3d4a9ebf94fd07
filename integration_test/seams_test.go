package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// The rows of a partition that was attached are in no stream. Whenever the server dies between noticing and the end of the
// last shape of before, the next one must find out again, though others have shapes of the table as it is by then.
func TestLostShapesStayLost(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE rt (id int, k int) PARTITION BY LIST (k); CREATE TABLE rt1 PARTITION OF rt FOR VALUES IN (1); INSERT INTO rt VALUES (1, 1);"+
		"CREATE TABLE rt2 (id int, k int); INSERT INTO rt2 VALUES (2, 2); CREATE TABLE pub (id int); INSERT INTO pub VALUES (1)")
	a := startWithFailpoints(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=1s", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	type client struct {
		*Fold
		sql string
	}
	var clients []client
	for _, table := range []string{"rt", "pub"} {
		for i := range 20 {
			where := fmt.Sprintf("id < %d", 100+i)
			f := NewFold(a.srv.url, shape("table", table, "where", where))
			f.Retry = true
			clients = append(clients, client{f, "SELECT * FROM " + table + " WHERE " + where})
		}
	}
	for _, c := range clients {
		requireSame(t, c.Fold, db, c.sql)
	}
	awaitConfirmed(t, db)
	a.arm(t, failpoint.RemoveRow, "delay 3s")
	db.Exec(t, "ALTER TABLE rt ATTACH PARTITION rt2 FOR VALUES IN (2); INSERT INTO rt VALUES (22, 2)")
	alterPublication(t, db, "DROP TABLE pub")
	db.Exec(t, "INSERT INTO pub VALUES (2)")
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	for _, table := range []string{"rt", "pub"} { // they would be made of the tables as they are now, if they could
		late := NewFold(a.srv.url, shape("table", table))
		late.Retry = true
		_ = late.Follow(ctx, func() bool { return len(late.Rows) > 1 })
	}
	a.srv.kill(t)
	a.srv.start(t)
	for _, c := range clients {
		requireSame(t, c.Fold, db, c.sql)
		require.NoError(t, c.Err())
	}
}

// What is written while a table is out of the publication is in no stream, though it is in again by the next check or start.
func TestRepublishedTable(t *testing.T) {
	for _, down := range []bool{false, true} {
		for there, back := range map[string]string{
			"DROP TABLE it":                        "ADD TABLE it",
			"SET (publish='insert')":               "SET (publish='insert,update,delete,truncate')",
			"SET TABLE it WHERE (id > 100), other": "SET TABLE it, other",
		} {
			t.Run(fmt.Sprintf("down=%t/%s", down, there), func(t *testing.T) { republish(t, down, there, back) })
		}
	}
}

func alterPublication(t *testing.T, db *pgtest.DB, how string) {
	t.Helper()
	db.Exec(t, "DO $$ DECLARE p name; BEGIN SELECT pubname INTO p FROM pg_publication; EXECUTE format('ALTER PUBLICATION %I "+strings.ReplaceAll(how, "'", "''")+"', p); END $$")
}

func republish(t *testing.T, down bool, there, back string) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE it (id int PRIMARY KEY); INSERT INTO it VALUES (1); CREATE TABLE other (id int PRIMARY KEY)")
	srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=1s", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	f, other := NewFold(srv.url, shape("table", "it")), NewFold(srv.url, shape("table", "other"))
	f.Retry, other.Retry = true, true
	requireSame(t, f, db, "SELECT * FROM it")
	requireSame(t, other, db, "SELECT * FROM other")
	awaitConfirmed(t, db)
	if down {
		srv.stop(t)
	}
	alterPublication(t, db, there)
	db.Exec(t, "INSERT INTO it VALUES (2); DELETE FROM it WHERE id = 1")
	alterPublication(t, db, back)
	if down {
		srv.start(t)
	}
	db.Exec(t, "INSERT INTO it VALUES (3); INSERT INTO other VALUES (1)")
	requireSame(t, f, db, "SELECT * FROM it")
	requireSame(t, other, db, "SELECT * FROM other")
	if !strings.HasPrefix(there, "SET (") { // which concerns all tables
		require.Zero(t, other.Refetched)
	}
}

// In automatic mode the publication is the server's own: a restart and a new stream repair it, and what was missed is fetched anew.
func TestPartialPublicationIsRepaired(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE it (id int PRIMARY KEY); INSERT INTO it VALUES (1)")
	srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=1s", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	f := NewFold(srv.url, shape("table", "it"))
	f.Retry = true
	requireSame(t, f, db, "SELECT * FROM it")
	alterPublication(t, db, "SET (publish='insert')")
	db.Exec(t, "UPDATE it SET id = 2; SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()")
	requireSame(t, f, db, "SELECT * FROM it")
	srv.stop(t)
	alterPublication(t, db, "SET (publish='insert')")
	db.Exec(t, "UPDATE it SET id = 3")
	srv.start(t)
	requireSame(t, f, db, "SELECT * FROM it")
}

// Within a transaction two rows may have the same DEFERRABLE key. A client that follows the changes in their order would lose
// one, so such a key is none to us.
func TestDeferrableKeys(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE dk (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text); INSERT INTO dk VALUES (1, 'one'), (2, 'two'), (3, 'three')")
	srv := startServer(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	plain, full := NewFold(srv.url, shape("table", "dk")), NewFold(srv.url, shape("table", "dk", "replica", "full"))
	for _, sql := range []string{
		"SELECT 1", "UPDATE dk SET id = 3 - id WHERE id IN (1, 2)", "UPDATE dk SET id = id + 1",
		"INSERT INTO dk VALUES (2, 'dup'); DELETE FROM dk WHERE id = 2 AND v <> 'dup'",
	} {
		db.Exec(t, sql)
		requireSame(t, plain, db, "SELECT * FROM dk")
		requireSame(t, full, db, "SELECT * FROM dk")
		require.NoError(t, plain.Err())
		require.NoError(t, full.Err())
	}
}

// A DELETE and a live request end in time, with 503, when the database is away.
func TestNoDatabaseNoHanging(t *testing.T) {
	pg := pgtest.NewServer(t, pgtest.ServerOptions{})
	db := pg.NewDB(t)
	db.Exec(t, "CREATE TABLE it (id int PRIMARY KEY); INSERT INTO it VALUES (1)")
	srv := startServer(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=5s", "SHAPESERVER_ENABLE_INTEGRATION_TESTING=true")
	f := NewFold(srv.url, shape("table", "it"))
	requireSame(t, f, db, "SELECT * FROM it")
	live := make(chan *response, 1)
	go func() { live <- get(t, srv.url, "table", "it", "offset", f.Offset, "handle", f.Handle, "live", "true") }()
	pg.Kill(t)
	defer pg.Start(t)
	r := <-live
	require.NoError(t, r.err)
	require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
	require.NotEmpty(t, r.header.Get("retry-after"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, srv.url+"/v1/shape?handle="+f.Handle, http.NoBody)
	require.NoError(t, err)
	r = do(req)
	require.NoError(t, r.err)
	require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
	require.Less(t, r.took, 15*time.Second)
}

// A partition whose concurrent DETACH waits for readers is its root's no more, and may have a shape of its own.
func TestDetachConcurrentlyWaits(t *testing.T) {
	for _, announced := range []bool{true, false} { // with a suitable CHECK the first half of the DETACH changes nothing of the partition
		t.Run(fmt.Sprintf("announced=%t", announced), func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "CREATE TABLE rt (id int, k int) PARTITION BY LIST (k); CREATE TABLE rt1 PARTITION OF rt FOR VALUES IN (1);"+
				"CREATE TABLE rt2 PARTITION OF rt FOR VALUES IN (2); INSERT INTO rt VALUES (1, 1), (2, 2)")
			srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=500ms", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
			root, leaf := NewFold(srv.url, shape("table", "rt")), NewFold(srv.url, shape("table", "rt2"))
			root.Retry, leaf.Retry = true, true
			same := func() {
				t.Helper()
				requireSame(t, root, db, "SELECT * FROM rt")
				requireSame(t, leaf, db, "SELECT * FROM rt2")
			}
			same()
			if !announced {
				db.Exec(t, "ALTER TABLE rt2 ADD CHECK (k IS NOT NULL AND k = 2)")
			}
			db.Exec(t, "INSERT INTO rt VALUES (12, 2)")
			same()
			pool := db.Pool(t)
			reader, err := pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = reader.Exec(t.Context(), "SELECT count(*) FROM rt")
			require.NoError(t, err)
			detached := make(chan error, 1)
			go func() {
				_, err := pool.Exec(t.Context(), "ALTER TABLE rt DETACH PARTITION rt2 CONCURRENTLY")
				detached <- err
			}()
			require.Eventually(t, func() bool {
				return len(query(t, db, "SELECT 1 AS one FROM pg_inherits WHERE inhdetachpending").lines) > 0
			}, 10*time.Second, 10*time.Millisecond)
			same()
			db.Exec(t, "INSERT INTO rt2 VALUES (22, 2); INSERT INTO rt VALUES (11, 1)")
			same()
			require.NoError(t, reader.Rollback(t.Context()))
			require.NoError(t, <-detached)
			db.Exec(t, "INSERT INTO rt2 VALUES (23, 2); INSERT INTO rt VALUES (13, 1)")
			same()
		})
	}
}

// A partition that came, was written to and went before the publication's own goroutine had time to look.
func TestShortLivedPartition(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE rt (id int, k int) PARTITION BY LIST (k); CREATE TABLE rt1 PARTITION OF rt FOR VALUES IN (1); INSERT INTO rt VALUES (1, 1); CREATE TABLE other (id int PRIMARY KEY)")
	a := startWithFailpoints(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=1s", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	f := NewFold(a.srv.url, shape("table", "rt"))
	f.Retry = true
	requireSame(t, f, db, "SELECT * FROM rt")
	a.arm(t, failpoint.PublishBegun, "delay 2s")
	other := make(chan *response, 1)
	go func() { other <- get(t, a.srv.url, "table", "other", "offset", "-1") }()
	require.Eventually(t, func() bool { return a.reached(failpoint.PublishBegun) }, 10*time.Second, time.Millisecond)
	db.Exec(t, "CREATE TABLE rt2 PARTITION OF rt FOR VALUES IN (2)")
	db.Exec(t, "INSERT INTO rt VALUES (2, 2)")
	requireSame(t, f, db, "SELECT * FROM rt")
	db.Exec(t, "DROP TABLE rt2")
	<-other
	requireSame(t, f, db, "SELECT * FROM rt")
}

// A commit that waits for its synchronous standby went through the stream, and was confirmed, before the server was started
// again: no later process hears of it, and a snapshot does not see it.
func TestHeldCommitOverRestart(t *testing.T) {
	db := withStandby(t)
	db.Exec(t, "CREATE TABLE it (id int PRIMARY KEY, v text); INSERT INTO it VALUES (1, 'a')")
	srv := startServer(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	old := NewFold(srv.url, shape("table", "it"))
	requireSame(t, old, db, "SELECT * FROM it")
	db.Exec(t, "INSERT INTO it VALUES (2, 'b')")
	requireSame(t, old, db, "SELECT * FROM it")
	release, _ := heldCommit(t, db, "INSERT INTO it VALUES (3, 'c'); UPDATE it SET v = 'new' WHERE id = 1")
	require.Eventually(t, func() bool { return old.CatchUp(t.Context()) == nil && len(old.Rows) == 3 }, 10*time.Second, 10*time.Millisecond)
	awaitConfirmed(t, db)
	srv.restart(t)
	fresh := NewFold(srv.url, shape("table", "it", "where", "id < 100"))
	fresh.Retry = true
	done := make(chan error, 1)
	go func() { done <- fresh.CatchUp(t.Context()) }()
	subset := make(chan *response, 1)
	go func() {
		subset <- get(t, srv.url, "table", "it", "offset", old.Offset, "handle", old.Handle, "subset__where", "id = 1")
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
		t.Fatal("a snapshot was taken that does not see what the stream will not tell again")
	case r := <-subset:
		t.Fatal("a subset was read that does not see what its client has", r.body)
	case <-time.After(500 * time.Millisecond):
	}
	release()
	require.NoError(t, <-done)
	require.Contains(t, (<-subset).body, "new")
	db.Exec(t, "INSERT INTO it VALUES (4, 'd')")
	requireSame(t, old, db, "SELECT * FROM it")
	requireSame(t, fresh, db, "SELECT * FROM it")
}

// Snapshot and stream write the values of types such as regclass in the same way, whatever the role's search_path.
func TestRegTypesReadTheSame(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE it (id int, c regclass, p regproc, t regtype); INSERT INTO it SELECT g, 'it', 'now', 'it' FROM generate_series(1, 2) g")
	srv := startServer(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	f := NewFold(srv.url, shape("table", "it"))
	const sql = "SELECT id, 'public.' || c::text AS c, p, 'public.' || t::text AS t FROM it"
	requireSame(t, f, db, sql)
	db.Exec(t, "DELETE FROM it WHERE id = 1; UPDATE it SET id = 3 WHERE id = 2; INSERT INTO it VALUES (4, 'it', 'now', 'it')")
	requireSame(t, f, db, sql)
	require.NoError(t, f.Err())
}

// The stream goes on without a shape that is being removed, so nobody may be told that such a shape is up to date; and the
// clean-up of one shape keeps the clients of no other waiting (I7).
func TestShapesOnTheirWayOut(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE slow (id int PRIMARY KEY); INSERT INTO slow VALUES (1); CREATE TABLE quick (id int PRIMARY KEY); INSERT INTO quick VALUES (1)")
	a := startWithFailpoints(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=2s")
	slow, quick := NewFold(a.srv.url, shape("table", "slow")), NewFold(a.srv.url, shape("table", "quick"))
	requireSame(t, slow, db, "SELECT * FROM slow")
	requireSame(t, quick, db, "SELECT * FROM quick")
	a.arm(t, failpoint.RemoveLog, "delay 6s")
	waiting := make(chan *response, 1)
	go func() {
		waiting <- get(t, a.srv.url, "table", "slow", "offset", slow.Offset, "handle", slow.Handle, "live", "true")
	}()
	db.Exec(t, "TRUNCATE slow")
	require.Eventually(t, func() bool { return a.reached(failpoint.RemoveLog) }, 10*time.Second, time.Millisecond)
	began := time.Now()
	db.Exec(t, "TRUNCATE quick")
	r := get(t, a.srv.url, "table", "quick", "offset", quick.Offset, "handle", quick.Handle, "live", "true")
	require.Equal(t, http.StatusConflict, r.status, r.body)
	require.Less(t, time.Since(began), 2*time.Second)
	r = <-waiting
	require.Equal(t, http.StatusConflict, r.status, r.body)
	require.NotContains(t, r.body, "up-to-date")
}
