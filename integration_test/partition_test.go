package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// A partition that has a shape of its own goes on in the stream when it is detached. What is written to it from then on
// is not its old root's, whether the root's shape lives on or is made anew; attached again, it is (B115).
func TestDetachedPartitionLeavesItsRoot(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE rt (id int, k int) PARTITION BY LIST (k); CREATE TABLE rt1 PARTITION OF rt FOR VALUES IN (1);"+
		"CREATE TABLE rt2 PARTITION OF rt FOR VALUES IN (2); INSERT INTO rt VALUES (1, 1), (2, 2)")
	srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=1s", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	root, leaf := NewFold(srv.url, shape("table", "rt")), NewFold(srv.url, shape("table", "rt2"))
	root.Retry, leaf.Retry = true, true
	same := func() {
		t.Helper()
		requireSame(t, leaf, db, "SELECT * FROM rt2")
		requireSame(t, root, db, "SELECT * FROM rt")
		late := NewFold(srv.url, shape("table", "rt"))
		late.Retry = true
		requireSame(t, late, db, "SELECT * FROM rt")
		require.NoError(t, root.Err())
	}
	same()
	db.Exec(t, "INSERT INTO rt VALUES (3, 2)")
	same()
	db.Exec(t, "ALTER TABLE rt DETACH PARTITION rt2")
	db.Exec(t, "INSERT INTO rt2 VALUES (4, 2)")
	same()
	db.Exec(t, "INSERT INTO rt2 VALUES (5, 2)")
	same()
	db.Exec(t, "ALTER TABLE rt ATTACH PARTITION rt2 FOR VALUES IN (2)")
	db.Exec(t, "INSERT INTO rt VALUES (6, 2)")
	same()
}

// A commit is in the stream before other sessions see it, and with it the catalogue: usually for less than a millisecond,
// here until it is released. The rows of a partition that was made in the same transaction are the root's all the same, and
// rows go out under the key that the transaction made.
func TestCatalogueLagsBehindTheStream(t *testing.T) {
	db := withStandby(t)
	db.Exec(t, "CREATE TABLE rt (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE rt1 PARTITION OF rt FOR VALUES IN (1); INSERT INTO rt VALUES (1);"+
		"CREATE TABLE pk (a int NOT NULL, b int NOT NULL, CONSTRAINT pk_key PRIMARY KEY (a)); INSERT INTO pk VALUES (1, 10)")
	srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=60min", "SHAPESERVER_LONG_POLL_TIMEOUT=500ms")
	root, keyed := NewFold(srv.url, shape("table", "rt")), NewFold(srv.url, shape("table", "pk"))
	keyed.Retry = true
	requireSame(t, root, db, "SELECT * FROM rt")
	requireSame(t, keyed, db, "SELECT * FROM pk")

	release, written := heldCommit(t, db, "CREATE TABLE rt2 PARTITION OF rt FOR VALUES IN (2); INSERT INTO rt VALUES (2);"+
		"ALTER TABLE pk DROP CONSTRAINT pk_key, ADD PRIMARY KEY (b); INSERT INTO pk VALUES (2, 20)")
	live := get(t, srv.url, "table", "rt", "offset", root.Offset, "handle", root.Handle, "live", "true") // time to get it wrong
	require.NoError(t, live.err)
	require.NotContains(t, live.body, `"2"`)
	require.Empty(t, written, "the commit does not wait")
	release()
	requireSame(t, root, db, "SELECT * FROM rt")
	require.Zero(t, root.Refetched)
	db.Exec(t, "INSERT INTO pk VALUES (2, 21)")
	requireSame(t, keyed, db, "SELECT * FROM pk")
	require.Contains(t, keyed.Rows, `"public"."pk"/"21"`)
}

// Rows that came or went with a partition are in no stream, but what is written in their place is, or to them, and comes to a
// client that still has the old ones, or has not got the new. No shape shows such a change: it ends first, at once and without a
// check that is due, whatever the transactions are.
func TestRowsThatMovedEndTheShapeFirst(t *testing.T) {
	db := pgtest.New(t)
	const create = "CREATE TABLE %[1]s (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY LIST (k); CREATE TABLE %[1]s1 PARTITION OF %[1]s FOR VALUES IN (1);" +
		"CREATE TABLE %[1]sd PARTITION OF %[1]s DEFAULT; INSERT INTO %[1]s VALUES (1, 1, 'a'), (2, 2, 'b');" +
		"CREATE TABLE %[1]s3 (id int, k int, v text, PRIMARY KEY (id, k)); INSERT INTO %[1]s3 VALUES (3, 3, 'c')"
	for i, steps := range [][]string{
		{"DROP TABLE %[1]s1; CREATE TABLE %[1]s1 PARTITION OF %[1]s FOR VALUES IN (1); INSERT INTO %[1]s VALUES (1, 1, 'again')"},
		{"DROP TABLE %[1]s1", "INSERT INTO %[1]s VALUES (1, 1, 'in the default')"},
		{"ALTER TABLE %[1]s DETACH PARTITION %[1]s1", "INSERT INTO %[1]s VALUES (1, 1, 'in the default')"},
		{"ALTER TABLE %[1]s ATTACH PARTITION %[1]s3 FOR VALUES IN (3)", "UPDATE %[1]s SET v = 'known' WHERE id = 3"},
		{"ALTER TABLE %[1]s ATTACH PARTITION %[1]s3 FOR VALUES IN (3); UPDATE %[1]s SET v = 'known' WHERE id = 3"},
		{"ALTER TABLE %[1]s ATTACH PARTITION %[1]s3 FOR VALUES IN (3); DELETE FROM %[1]s WHERE id = 3; INSERT INTO %[1]s VALUES (4, 1, 'd')"},
		{"CREATE TABLE %[1]s5 (LIKE %[1]s); INSERT INTO %[1]s5 VALUES (5, 5, 'e'); ALTER TABLE %[1]s ATTACH PARTITION %[1]s5 FOR VALUES IN (5)", "INSERT INTO %[1]s VALUES (6, 5, 'f')"},
		{"CREATE TABLE %[1]s5 (LIKE %[1]s) PARTITION BY LIST (id); CREATE TABLE %[1]s55 PARTITION OF %[1]s5 DEFAULT; INSERT INTO %[1]s5 VALUES (5, 5, 'e'); " +
			"ALTER TABLE %[1]s ATTACH PARTITION %[1]s5 FOR VALUES IN (5); INSERT INTO %[1]s VALUES (6, 5, 'f')"},
		{"CREATE TABLE %[1]s2 (LIKE %[1]s); WITH m AS (DELETE FROM %[1]sd WHERE k = 2 RETURNING *) INSERT INTO %[1]s2 SELECT * FROM m; " +
			"ALTER TABLE %[1]s ATTACH PARTITION %[1]s2 FOR VALUES IN (2); INSERT INTO %[1]s VALUES (6, 2, 'f')"},
		{"INSERT INTO %[1]s VALUES (5, 1, 'e'); ALTER TABLE %[1]s ATTACH PARTITION %[1]s3 FOR VALUES IN (3); UPDATE %[1]s SET k = 1 WHERE id = 3"},
	} {
		t.Run(steps[0], func(t *testing.T) {
			srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=60min", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
			table := fmt.Sprintf("m%d", i)
			db.Exec(t, fmt.Sprintf(create, table))
			whole, part := NewFold(srv.url, shape("table", table)), NewFold(srv.url, shape("table", table, "where", "id < 3"))
			requireSame(t, whole, db, "SELECT * FROM "+table)
			requireSame(t, part, db, "SELECT * FROM "+table+" WHERE id < 3")
			db.Exec(t, fmt.Sprintf("UPDATE %[1]s SET v = v || '!'", table)) // all partitions are known to the stream
			requireSame(t, whole, db, "SELECT * FROM "+table)
			for _, sql := range steps {
				db.Exec(t, fmt.Sprintf(sql, table))
			}
			requireSame(t, whole, db, "SELECT * FROM "+table)
			requireSame(t, part, db, "SELECT * FROM "+table+" WHERE id < 3")
			require.NoError(t, whole.Err())
			require.NoError(t, part.Err())
			require.Equal(t, 1, whole.Refetched)
			require.Equal(t, 1, part.Refetched)
		})
	}
}

// Partitions that come with rows or go while no server runs are noticed at the next start, after a stop and after a crash:
// the root's shape ends and is fetched anew. A shape of another partitioned table goes on, also when it got an empty partition.
func TestPartitionsChangedWhileDown(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE rt (id int, k int) PARTITION BY LIST (k); CREATE TABLE rt1 PARTITION OF rt FOR VALUES IN (1);"+
		"CREATE TABLE rt2 PARTITION OF rt FOR VALUES IN (2); INSERT INTO rt VALUES (1, 1), (2, 2);"+
		"CREATE TABLE still (id int, k int) PARTITION BY LIST (k); CREATE TABLE still1 PARTITION OF still FOR VALUES IN (1); INSERT INTO still VALUES (1, 1)")
	srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=1s", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	root, still := NewFold(srv.url, shape("table", "rt")), NewFold(srv.url, shape("table", "still"))
	root.Retry, still.Retry = true, true
	same := func(refetched int) {
		t.Helper()
		requireSame(t, root, db, "SELECT * FROM rt")
		requireSame(t, still, db, "SELECT * FROM still")
		require.Equal(t, refetched, root.Refetched)
		require.Zero(t, still.Refetched)
	}
	same(0)
	awaitConfirmed(t, db) // a shape that a crash meets in its first moments may have to be made again
	for i, down := range []struct {
		by  func(testing.TB)
		sql string
	}{
		{srv.stop, "ALTER TABLE rt DETACH PARTITION rt2"},
		{srv.kill, "INSERT INTO rt2 VALUES (3, 2); ALTER TABLE rt ATTACH PARTITION rt2 FOR VALUES IN (2)"},
		{srv.stop, "CREATE TABLE still2 PARTITION OF still FOR VALUES IN (2); INSERT INTO still VALUES (2, 2); ALTER TABLE rt DETACH PARTITION rt1; DROP TABLE rt1"},
	} {
		down.by(t)
		db.Exec(t, down.sql)
		srv.start(t)
		same(i + 1)
		awaitConfirmed(t, db)
	}
}
