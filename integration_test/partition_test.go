package integration

import (
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
