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
