package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Class 2: order, offsets, and the seam between snapshot and stream.
func TestOrderFaults(t *testing.T) { runFaults(t, orderFaults) }

// session opens a connection for transactions that stay open.
func (w *faultWorld) session() *pgx.Conn {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.db.URL)
	require.NoError(w, err)
	w.Cleanup(func() { conn.Close(w.Context()) })
	return conn
}

// exec runs statements on a session.
func (w *faultWorld) exec(conn *pgx.Conn, sql string) {
	w.Helper()
	_, err := conn.PgConn().Exec(w.Context(), sql).ReadAll()
	require.NoError(w, err, sql)
}

// operations returns the changes in a shape's log after an offset.
func (w *faultWorld) operations(f *Fold, after string) (list []message) {
	w.Helper()
	for {
		q := shape("offset", after, "handle", f.Handle)
		for name, v := range f.params {
			q[name] = v
		}
		a := w.ask(http.MethodGet, q)
		require.NoError(w, a.err)
		require.Equal(w, http.StatusOK, a.status, a.body)
		var part []message
		require.NoError(w, json.Unmarshal([]byte(a.body), &part))
		for _, m := range part {
			if m.Headers.Operation != "" {
				list = append(list, m)
			}
		}
		if after = a.header.Get("electric-offset"); a.header["Electric-Up-To-Date"] != nil {
			return list
		}
	}
}

var orderFaults = []fault{
	{entry: "B026", name: "a write is open while the table joins the publication", run: func(w *faultWorld) {
		w.sql("CREATE TABLE gap (id int PRIMARY KEY, v text); ALTER TABLE gap REPLICA IDENTITY FULL; INSERT INTO gap VALUES (1, 'base')")
		for i, before := range []string{"", "TRUNCATE gap; INSERT INTO gap VALUES (1, 'again')"} {
			first := w.client("table", "gap")
			if before != "" {
				first = w.follow("table", "gap")
				w.sql(before)
			}
			open := w.session()
			w.exec(open, fmt.Sprintf("BEGIN; INSERT INTO gap VALUES (%d, 'open'); UPDATE gap SET v = 'upd' WHERE id = 1", 2+i))
			var asking sync.WaitGroup
			var err error
			asking.Go(func() { err = first.CatchUp(w.Context()) })
			require.Eventually(w, func() bool { return w.one("SELECT count(*) FROM pg_publication_tables WHERE tablename = 'gap'") == "1" }, 20*time.Second, 20*time.Millisecond)
			w.exec(open, fmt.Sprintf("INSERT INTO gap VALUES (%d, 'more'); COMMIT", 20+i))
			asking.Wait()
			require.NoError(w, err)
			w.sql(fmt.Sprintf("INSERT INTO gap VALUES (%d, 'after')", 30+i))
			w.same(first, "SELECT * FROM gap")
			w.same(w.follow("table", "gap"), "SELECT * FROM gap")
		}
	}},
	{entry: "B028", elsewhere: "integration_test.TestWritesRacingCreation"},
	{entry: "B029", name: "transactions of every size around a power of two", run: func(w *faultWorld) {
		w.sql("CREATE TABLE bs (id int PRIMARY KEY, t int)")
		f := w.follow("table", "bs")
		start := f.Offset
		sizes := []int{1, 2, 63, 64, 65, 99, 100, 101, 127, 128, 199, 200, 201, 255, 256, 257, 500, 511, 512, 513, 1000, 1023, 1024, 1025, 2000, 2048, 4096, 10000}
		n := 0
		for _, size := range sizes {
			w.sql(fmt.Sprintf("INSERT INTO bs SELECT %d + g, %d FROM generate_series(1, %d) g", n, size, size))
			n += size
		}
		w.sql("UPDATE bs SET t = -t WHERE id <= 100", "DELETE FROM bs WHERE id BETWEEN 101 AND 300")
		w.goesOn(f, "SELECT * FROM bs")
		var counts []int
		lastLSN, ended := "", true
		for _, m := range w.operations(f, start) {
			if m.Headers.LSN != lastLSN {
				require.True(w, ended, "the transaction at %s has no last operation", lastLSN)
				counts, lastLSN = append(counts, 0), m.Headers.LSN
			} else {
				require.False(w, ended, "an operation after the last one of %s", lastLSN)
			}
			counts[len(counts)-1]++
			ended = m.Headers.Last
		}
		require.True(w, ended)
		require.Equal(w, append(sizes, 100, 200), counts)
	}},
	{entry: "B031", name: "keys swapped and chained in one transaction", run: func(w *faultWorld) {
		w.sql("CREATE TABLE sp (a int, b int, v text, PRIMARY KEY (a, b)); INSERT INTO sp VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 1, 'three')")
		f, g := w.follow("table", "sp"), w.follow("table", "sp", "where", "a <= 2")
		for _, sql := range []string{
			"BEGIN; UPDATE sp SET a = 9 WHERE a = 1; UPDATE sp SET a = 1 WHERE a = 2; UPDATE sp SET a = 2 WHERE a = 9; COMMIT",
			"BEGIN; DELETE FROM sp WHERE a = 3; INSERT INTO sp VALUES (3, 1, 'again'); UPDATE sp SET a = 4 WHERE a = 3; DELETE FROM sp WHERE a = 4; INSERT INTO sp VALUES (4, 1, 'end'); COMMIT",
			"UPDATE sp SET b = b + 1, v = v || '!'",
		} {
			w.sql(sql)
			w.goesOn(f, "SELECT * FROM sp")
			w.goesOn(g, "SELECT * FROM sp WHERE a <= 2")
		}
	}},
	{entry: "B032", name: "TRUNCATE with its options", run: func(w *faultWorld) {
		w.sql(`CREATE TABLE tr1 (id int PRIMARY KEY); CREATE TABLE tr2 (id int PRIMARY KEY REFERENCES tr1); CREATE TABLE tr3 (id serial PRIMARY KEY); CREATE TABLE tr4 (id int PRIMARY KEY);
			INSERT INTO tr1 VALUES (1), (2); INSERT INTO tr2 VALUES (1); INSERT INTO tr3 DEFAULT VALUES; INSERT INTO tr4 VALUES (1)`)
		one, two, three, four := w.follow("table", "tr1"), w.follow("table", "tr2"), w.follow("table", "tr3"), w.follow("table", "tr4")
		live := w.wait(one)
		w.sql("TRUNCATE tr1 CASCADE")
		w.refetch(live)
		w.changed(one, "SELECT * FROM tr1")
		w.changed(two, "SELECT * FROM tr2")
		w.goesOn(three, "SELECT * FROM tr3")
		w.sql("TRUNCATE tr3 RESTART IDENTITY")
		w.changed(three, "SELECT * FROM tr3")
		w.sql("BEGIN; TRUNCATE tr3; INSERT INTO tr3 VALUES (50); TRUNCATE tr3; INSERT INTO tr3 VALUES (60); COMMIT", "INSERT INTO tr1 VALUES (7)")
		w.changed(three, "SELECT * FROM tr3")
		w.same(one, "SELECT * FROM tr1")
		w.sql("BEGIN; TRUNCATE tr1, tr2, tr3; ROLLBACK")
		handle := one.Handle
		w.same(one, "SELECT * FROM tr1")
		require.Equal(w, handle, one.Handle)
		w.goesOn(four, "SELECT * FROM tr4")
	}},
	{entry: "B034", name: "a live answer keeps to the chunk's size", run: func(w *faultWorld) {
		w.sql("CREATE TABLE lc (id int PRIMARY KEY, v text)")
		f := w.follow("table", "lc")
		live := w.wait(f)
		w.sql("INSERT INTO lc SELECT g, repeat('y', 1000) FROM generate_series(1, 3000) g")
		a := <-live
		require.NoError(w, a.err)
		require.Equal(w, http.StatusOK, a.status)
		require.Less(w, len(a.body), 200_000)
		require.NotContains(w, a.body, "up-to-date")
		var list []message
		require.NoError(w, json.Unmarshal([]byte(a.body), &list))
		last := list[len(list)-1].Headers
		require.Equal(w, fmt.Sprintf("%s_%d", last.LSN, last.OpPosition), a.header.Get("electric-offset"))
		w.goesOn(f, "SELECT * FROM lc")
	}},
	{entry: "B035", name: "a snapshot is read while it is written", run: func(w *faultWorld) {
		w.sql("CREATE TABLE snap (id int PRIMARY KEY, v text); INSERT INTO snap SELECT g, repeat('z', 300) FROM generate_series(1, 12000) g")
		var readers sync.WaitGroup
		clients := make([]*Fold, 6)
		errs := make([]error, len(clients))
		for i := range clients {
			clients[i] = w.client("table", "snap")
			readers.Go(func() { errs[i] = clients[i].CatchUp(w.Context()) })
		}
		readers.Wait()
		for i, f := range clients {
			require.NoError(w, errs[i])
			require.NoError(w, f.Err())
			require.Len(w, f.Rows, 12000)
		}
		w.goesOn(clients[0], "SELECT * FROM snap")
		// A chunk ahead of what is written is held, refused, or served; it never moves a client on without rows.
		first := w.get("table", "snap", "where", "id > 0", "offset", "-1")
		a := w.get("table", "snap", "where", "id > 0", "offset", "0_3", "handle", first.header.Get("electric-handle"))
		if a.status == http.StatusOK {
			require.Contains(w, a.body, `"operation":"insert"`)
		}
	}},
	{entry: "B036", name: "updates that change nothing", run: func(w *faultWorld) {
		w.sql("CREATE TABLE nu (id int PRIMARY KEY, v text); INSERT INTO nu VALUES (1, 'a'), (2, 'b')")
		all, full, some, ids := w.follow("table", "nu"), w.follow("table", "nu", "replica", "full"), w.follow("table", "nu", "where", "v = 'a'"), w.follow("table", "nu", "columns", "id")
		starts := []string{all.Offset, full.Offset, some.Offset, ids.Offset}
		w.sql("UPDATE nu SET v = v", "UPDATE nu SET v = 'a' WHERE id = 1", "DELETE FROM nu WHERE id = 1", "UPDATE nu SET v = 'c' WHERE id = 2")
		w.goesOn(all, "SELECT * FROM nu")
		w.goesOn(full, "SELECT * FROM nu")
		w.goesOn(some, "SELECT * FROM nu WHERE v = 'a'")
		w.goesOn(ids, "SELECT id FROM nu")
		for i, want := range []int{2, 2, 1, 1} {
			require.Len(w, w.operations([]*Fold{all, full, some, ids}[i], starts[i]), want, i)
		}
	}},
	{entry: "B038", elsewhere: "integration_test.TestPositionsBeyond4GiB"},
	{entry: "B039", elsewhere: "integration_test.TestTransactionIDsWrap"},
	{entry: "B041", name: "transactions that interleave", run: func(w *faultWorld) {
		w.sql("CREATE TABLE il (id int PRIMARY KEY, v text)")
		f := w.follow("table", "il")
		start := f.Offset
		a, b, c := w.session(), w.session(), w.session()
		for i := range 5 {
			for name, conn := range map[string]*pgx.Conn{"1": a, "2": b, "3": c} {
				if i == 0 {
					w.exec(conn, "BEGIN")
				}
				w.exec(conn, fmt.Sprintf("INSERT INTO il VALUES (%s%d, '%s')", name, i, name))
			}
		}
		w.exec(c, "COMMIT")
		w.goesOn(f, "SELECT * FROM il")
		w.exec(a, "COMMIT")
		w.exec(b, "ROLLBACK")
		w.goesOn(f, "SELECT * FROM il")
		list := w.operations(f, start)
		require.Len(w, list, 10)
		for i, m := range list {
			require.Equal(w, []string{"3", "1"}[i/5], *m.Value["v"])
		}
	}},
	{entry: "B042", name: "savepoints and two phases", run: func(w *faultWorld) {
		w.sql("CREATE TABLE sv (id int PRIMARY KEY, v text)")
		f := w.follow("table", "sv")
		p := func(n int) string { return fmt.Sprintf("'%s_%d'", w.db.Name, n) } // prepared transactions belong to the whole cluster
		w.sql(`BEGIN; INSERT INTO sv VALUES (1, 'k'); SAVEPOINT a; INSERT INTO sv VALUES (2, 'no'); UPDATE sv SET v = 'no' WHERE id = 1; ROLLBACK TO a; INSERT INTO sv VALUES (3, 'k');
			SAVEPOINT b; INSERT INTO sv VALUES (4, 'k'); RELEASE b; COMMIT`, "BEGIN; INSERT INTO sv VALUES (5, '2pc'); PREPARE TRANSACTION "+p(1))
		w.goesOn(f, "SELECT * FROM sv")
		require.NotContains(w, f.Rows, `"public"."sv"/"5"`)
		w.sql("COMMIT PREPARED "+p(1), "BEGIN; INSERT INTO sv VALUES (6, 'no'); PREPARE TRANSACTION "+p(2), "ROLLBACK PREPARED "+p(2), "BEGIN; INSERT INTO sv VALUES (8, 'pending'); PREPARE TRANSACTION "+p(3))
		late := w.client("table", "sv", "where", "id > 0")
		var asking sync.WaitGroup
		var err error
		asking.Go(func() { err = late.CatchUp(w.Context()) })
		w.sql("COMMIT PREPARED " + p(3))
		asking.Wait()
		require.NoError(w, err)
		w.goesOn(f, "SELECT * FROM sv")
		w.goesOn(late, "SELECT * FROM sv")
		require.Len(w, f.Rows, 5)
	}},
	{entry: "B043", elsewhere: "integration_test.TestTransactionsAreVisibleWhole"},
	{entry: "B043", elsewhere: "integration_test.TestRandomWrites"},
	{entry: "B045", name: "an offset beyond the end", run: func(w *faultWorld) {
		w.sql("CREATE TABLE ob (id int PRIMARY KEY); INSERT INTO ob VALUES (1)")
		f := w.follow("table", "ob")
		replies := make([]shapeReply, 3)
		var asking sync.WaitGroup
		for i, more := range [][]string{nil, {"live", "true"}, {"live", "true", "live_sse", "true"}} {
			q := shape(append([]string{"table", "ob", "offset", "999999999999_0", "handle", f.Handle}, more...)...)
			asking.Go(func() { replies[i] = w.ask(http.MethodGet, q) })
		}
		asking.Wait()
		for _, a := range replies {
			require.NoError(w, a.err)
			require.Equal(w, http.StatusBadRequest, a.status)
			require.Equal(w, `{"message":"Invalid request","errors":{"offset":["out of bounds for this shape"]}}`, a.body)
			require.Contains(w, a.header.Get("cache-control"), "no-store")
		}
	}},
	{entry: "B048", elsewhere: "integration_test.TestKillUnderLoad"},
	{entry: "B049", name: "several changes of one row in one transaction", run: func(w *faultWorld) {
		w.sql("CREATE TABLE mr (id int PRIMARY KEY, a int, b int); INSERT INTO mr VALUES (1, 0, 0)")
		f := w.follow("table", "mr")
		start := f.Offset
		w.sql("BEGIN; UPDATE mr SET a = 1; UPDATE mr SET b = 1; UPDATE mr SET a = 2, b = 2; DELETE FROM mr; INSERT INTO mr VALUES (1, 3, 3); UPDATE mr SET a = 4; COMMIT")
		w.goesOn(f, "SELECT * FROM mr")
		list := w.operations(f, start)
		require.Len(w, list, 6)
		for i, m := range list {
			require.Equal(w, []string{"update", "update", "update", "delete", "insert", "update"}[i], m.Headers.Operation)
			require.Equal(w, list[0].Headers.LSN, m.Headers.LSN)
			require.Equal(w, i == 5, m.Headers.Last, i)
			require.Len(w, m.Value, []int{2, 2, 3, 1, 3, 2}[i], i)
		}
	}},
	{entry: "B050", elsewhere: "integration_test.TestRestartKeepsHandlesAndOffsets"},
}
