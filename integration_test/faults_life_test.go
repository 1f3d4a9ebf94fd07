package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// Class 1: shapes come, live and go without leaks, loops and half of anything.
func TestLifeFaults(t *testing.T) { runFaults(t, lifeFaults) }

var lifeFaults = []fault{
	{entry: "B001", name: "the snapshot's connection is ended", run: func(w *faultWorld) {
		w.sql("CREATE TABLE w1 (id int PRIMARY KEY, v text); INSERT INTO w1 SELECT g, 'x' FROM generate_series(1, 1000) g; ALTER TABLE w1 REPLICA IDENTITY FULL")
		lock := w.session()
		w.exec(lock, "BEGIN; LOCK TABLE w1 IN ACCESS EXCLUSIVE MODE")
		var asking sync.WaitGroup
		replies := make([]shapeReply, 2)
		for i := range replies {
			asking.Go(func() { replies[i] = w.ask(http.MethodGet, shape("table", "w1", "offset", "-1")) })
		}
		ended := 0
		require.Eventually(w, func() bool {
			for line, n := range query(w, w.db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name LIKE 'shapeserver%'").lines {
				if strings.Contains(line, "t") {
					ended += n
				}
			}
			return ended > 0
		}, 30*time.Second, 20*time.Millisecond, "nobody waits for the lock")
		w.exec(lock, "COMMIT")
		asking.Wait()
		for _, a := range replies {
			require.NoError(w, a.err)
			require.Less(w, a.took, 60*time.Second)
			require.Contains(w, []int{http.StatusOK, http.StatusConflict, http.StatusServiceUnavailable}, a.status, a.body)
			if a.status == http.StatusOK {
				require.Contains(w, a.body, `"operation":"insert"`)
			}
		}
		f := w.client("table", "w1")
		w.same(f, "SELECT * FROM w1")
	}},
	{entry: "B004", name: "read while it is deleted", run: func(w *faultWorld) {
		w.sql("CREATE TABLE r1 (id int PRIMARY KEY, v text); INSERT INTO r1 SELECT g, repeat('x', 200) FROM generate_series(1, 3000) g")
		for range 10 {
			f := w.follow("table", "r1")
			var reading sync.WaitGroup
			replies := make([]shapeReply, 5)
			for i := range replies {
				reading.Go(func() { replies[i] = w.ask(http.MethodGet, shape("table", "r1", "offset", "0_0", "handle", f.Handle)) })
			}
			w.delete("table", "r1", "handle", f.Handle)
			reading.Wait()
			for _, a := range replies {
				require.NoError(w, a.err)
				require.Contains(w, []int{http.StatusOK, http.StatusConflict}, a.status, a.body)
				require.True(w, json.Valid([]byte(a.body)))
				require.Less(w, a.took, 20*time.Second)
			}
		}
	}},
	{entry: "B005", name: "a waiting client is told that its shape is over", run: func(w *faultWorld) {
		w.sql("CREATE TABLE l1 (id int PRIMARY KEY, v text); INSERT INTO l1 VALUES (1, 'a')")
		for _, end := range []func(*Fold){
			func(f *Fold) { w.delete("table", "l1", "handle", f.Handle) },
			func(*Fold) { w.sql("ALTER TABLE l1 ADD COLUMN extra int", "INSERT INTO l1 VALUES (2, 'b', 3)") },
			func(*Fold) { w.sql("ALTER TABLE l1 DROP COLUMN extra") },
			func(*Fold) { w.sql("TRUNCATE l1") },
		} {
			f := w.follow("table", "l1")
			waiting := []<-chan shapeReply{w.wait(f), w.wait(f)}
			end(f)
			for _, live := range waiting {
				w.refetch(live)
			}
			w.same(f, "SELECT * FROM l1")
		}
	}},
	{entry: "B006", name: "a table is published as long as it has a shape", run: func(w *faultWorld) {
		w.sql("CREATE TABLE p1 (id int PRIMARY KEY, c text); INSERT INTO p1 VALUES (1, 'a'), (2, 'b')")
		published := func() string {
			return w.one("SELECT count(*) FROM pg_publication_tables WHERE tablename = 'p1'")
		}
		a, b := w.follow("table", "p1"), w.follow("table", "p1", "where", "c = 'a'")
		w.delete("handle", b.Handle)
		w.sql("INSERT INTO p1 VALUES (3, 'c')")
		w.goesOn(a, "SELECT * FROM p1")
		require.Equal(w, "1", published())
		w.delete("handle", a.Handle)
		w.sql("INSERT INTO p1 VALUES (4, 'd')") // while it may be published or not
		late := w.follow("table", "p1")
		w.same(late, "SELECT * FROM p1")
		require.Equal(w, "1", published())
	}},
	{entry: "B007", name: "a client past the snapshot comes after a restart", run: func(w *faultWorld) {
		w.sql("CREATE TABLE o1 (id int PRIMARY KEY, v text); INSERT INTO o1 VALUES (1, 'a')")
		f := w.follow("table", "o1")
		awaitConfirmed(w, w.db)
		for i, again := range []func(testing.TB){w.srv.restart, func(t testing.TB) { w.srv.kill(t); w.srv.start(t) }} {
			again(w)
			a := w.get("table", "o1", "offset", f.Offset, "handle", f.Handle)
			require.Equal(w, http.StatusOK, a.status, a.body)
			require.Equal(w, f.Handle, a.header.Get("electric-handle"))
			require.NotContains(w, a.body, "operation")
			require.NoError(w, f.CatchUp(w.Context()))
			live := w.wait(f)
			w.sql(fmt.Sprintf("INSERT INTO o1 VALUES (%d, 'b')", 2+i))
			a = <-live
			require.NoError(w, a.err)
			require.Equal(w, http.StatusOK, a.status)
			require.Contains(w, a.body, `"operation":"insert"`)
			w.goesOn(f, "SELECT * FROM o1")
		}
	}},
	{entry: "B009", elsewhere: "integration_test.TestConcurrentFirstRequests"},
	{entry: "B011", elsewhere: "integration_test.TestEvictionSparesWhatIsUsed"},
	{entry: "B013", elsewhere: "storage/logstore.TestEveryDamagedFile"},
	{entry: "B014", elsewhere: "storage/logstore.TestChunkFileFailure"},
	{entry: "B014", elsewhere: "storage/logstore.TestFullDiskUnderPebble"},
	{entry: "B016", elsewhere: "integration_test.TestKillUnderLoad"},
	{entry: "B017", elsewhere: "consumer.TestOpenTransactionRefusesToClose"},
	{entry: "B017", name: "put to sleep around a big transaction", run: func(w *faultWorld) {
		w.sql("CREATE TABLE sl (id int PRIMARY KEY, v text); INSERT INTO sl VALUES (0, 'z')")
		f := w.follow("table", "sl")
		w.sql("INSERT INTO sl SELECT g, repeat('x', 500) FROM generate_series(1, 6000) g")
		w.goesOn(f, "SELECT * FROM sl")
		for i := range 3 {
			<-time.After(500 * time.Millisecond) // more than the idle time
			w.sql(fmt.Sprintf("UPDATE sl SET v = 'u%d' WHERE id <= 1000", i))
			w.goesOn(f, "SELECT * FROM sl")
		}
	}},
	{entry: "B018", elsewhere: "integration_test.TestDatabaseIsReplaced"},
	{entry: "B020", elsewhere: "integration_test.TestHandOver"},
	{entry: "B021", elsewhere: "api.TestHandleMustBeTheDefinitions"},
	{entry: "B022", name: "a long-poll on a shape that is being removed", run: func(w *faultWorld) {
		w.sql("CREATE TABLE og (id int PRIMARY KEY, v int); INSERT INTO og VALUES (1, 1)")
		for range 5 {
			f := w.follow("table", "og")
			w.sql("UPDATE og SET v = v + 1")
			w.goesOn(f, "SELECT * FROM og")
			live := w.wait(f)
			w.delete("handle", f.Handle)
			w.refetch(live)
		}
	}},
	{entry: "B024", name: "killed while a snapshot is written", run: func(w *faultWorld) {
		w.sql("CREATE TABLE ps (id int PRIMARY KEY, v text); INSERT INTO ps SELECT g, repeat('p', 400) FROM generate_series(1, 10000) g")
		for i := range 3 {
			where := fmt.Sprintf("id > %d", -i)
			req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.srv.url+"/v1/shape?"+shape("table", "ps", "where", where, "offset", "-1").Encode(), http.NoBody)
			require.NoError(w, err)
			res, err := http.DefaultClient.Do(req)
			require.NoError(w, err)
			_, err = io.ReadFull(res.Body, make([]byte, 1+i*20_000))
			w.srv.kill(w)
			res.Body.Close()
			require.NoError(w, err)
			w.srv.start(w)
			w.same(w.follow("table", "ps", "where", where), "SELECT * FROM ps")
		}
	}},
	{entry: "B025", name: "nested subqueries are refused, not half done", run: func(w *faultWorld) {
		w.sql("CREATE TABLE n_a (id int PRIMARY KEY, v text); CREATE TABLE n_b (id int PRIMARY KEY, aid int); CREATE TABLE n_c (id int PRIMARY KEY, bid int)")
		a := w.get("table", "n_c", "offset", "-1", "where", "bid IN (SELECT id FROM n_b WHERE aid IN (SELECT id FROM n_a WHERE v = 'x'))")
		require.Equal(w, http.StatusBadRequest, a.status, a.body)
		require.Contains(w, a.body, `"where"`)
	}},
}

// B011: above the limit the shapes go that were used longest ago; one that is read all the time stays.
func TestEvictionSparesWhatIsUsed(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE ev (id int PRIMARY KEY); INSERT INTO ev SELECT generate_series(1, 100)")
	port := freePort(t)
	w := &faultWorld{TB: t, db: db, metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port)}
	w.srv = startServer(t, db, "SHAPESERVER_MAX_SHAPES=5", "SHAPESERVER_SCHEMA_RECONCILER_PERIOD=200ms", fmt.Sprintf("SHAPESERVER_PROMETHEUS_PORT=%d", port))
	hot, first := w.follow("table", "ev"), w.follow("table", "ev", "where", "id = 1")
	for i := 2; i <= 30; i++ {
		w.follow("table", "ev", "where", fmt.Sprintf("id = %d", i))
		require.NoError(t, hot.CatchUp(t.Context()))
	}
	require.Eventually(t, func() bool {
		return w.metric("shapeserver_shapes ") <= 5 && w.metric("shapeserver_shapes_removing") == 0
	}, 30*time.Second, 50*time.Millisecond)
	db.Exec(t, "INSERT INTO ev VALUES (101)")
	w.goesOn(hot, "SELECT * FROM ev")
	w.changed(first, "SELECT * FROM ev WHERE id = 1")
	require.Equal(t, "5", w.one("SELECT least(count(*), 5) FROM shapeserver.shapes"))
}

// B018: another database behind the URL is noticed, though the tables and the name are the same. Nothing of the old one is
// served.
func TestDatabaseIsReplaced(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE nd (id int PRIMARY KEY, v text); INSERT INTO nd VALUES (1, 'old')")
	w := &faultWorld{TB: t, db: db, srv: startServer(t, db)}
	f := w.follow("table", "nd")
	w.srv.stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin, err := pgx.Connect(ctx, db.Server.URL())
	require.NoError(t, err)
	defer admin.Close(ctx)
	for _, sql := range []string{
		"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '" + db.Name + "'",
		"DROP DATABASE " + db.Name + " WITH (FORCE)", "CREATE DATABASE " + db.Name,
	} {
		_, err := admin.Exec(ctx, sql)
		require.NoError(t, err, sql)
	}
	db.Exec(t, "CREATE TABLE nd (id int PRIMARY KEY, v text); INSERT INTO nd VALUES (1, 'new')")
	w.srv.start(t)
	require.Equal(t, http.StatusConflict, w.get("table", "nd", "offset", f.Offset, "handle", f.Handle).status)
	require.NotContains(t, w.get("table", "nd", "offset", "-1").body, "old")
	w.changed(f, "SELECT * FROM nd")
	db.Exec(t, "INSERT INTO nd VALUES (2, 'later')")
	w.same(f, "SELECT * FROM nd")
}

// B020: a second instance waits for the first to stop. One with a directory of its own has none of the first one's logs, so its
// clients begin anew; the first one's directory, which two cannot use at once, is taken up without that. No client is told
// anything final on the way.
func TestHandOver(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE rd (id int PRIMARY KEY, v text); INSERT INTO rd VALUES (0, 'a')")
	w := &faultWorld{TB: t, db: db, srv: startServer(t, db)}
	f := w.follow("table", "rd")
	next := newProcess(t, db)
	next.launch(t)
	require.Eventually(t, func() bool { code, err := next.health(t.Context()); return err == nil && code == http.StatusAccepted }, 30*time.Second, 20*time.Millisecond)
	waiting := &faultWorld{TB: t, db: db, srv: next}
	for i := range 10 {
		db.Exec(t, fmt.Sprintf("INSERT INTO rd VALUES (%d, 'x')", i+1))
		require.NoError(t, f.CatchUp(t.Context()))
		if i%5 == 0 {
			a := waiting.get("table", "rd", "offset", f.Offset, "handle", f.Handle)
			require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
			require.NotEmpty(t, a.header.Get("retry-after"))
		}
		require.Equal(t, "1", w.one("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"))
	}
	w.goesOn(f, "SELECT * FROM rd")
	w.srv.stop(t)
	active := func(p *process) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
		defer cancel()
		require.NoError(t, p.awaitActive(ctx))
	}
	active(next)
	f.base = next.url
	waiting.changed(f, "SELECT * FROM rd")

	third := newProcess(t, db)
	for _, v := range next.env {
		if dir, ok := strings.CutPrefix(v, "SHAPESERVER_STORAGE_DIR="); ok {
			third.set("SHAPESERVER_STORAGE_DIR", dir)
		}
	}
	requireRefusal(t, third, "SHAPESERVER_STORAGE_DIR", "in use by another process")
	handle := f.Handle
	next.stop(t)
	db.Exec(t, "INSERT INTO rd VALUES (100, 'y')")
	third.start(t)
	f.base = third.url
	w.same(f, "SELECT * FROM rd")
	require.Equal(t, handle, f.Handle)
}
