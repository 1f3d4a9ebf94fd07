package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// B107: when a shape ended because somebody took its table's replica identity, the next one gives it back, long before the
// publication's regular check.
func TestReplicaIdentityComesBack(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE ri (id int PRIMARY KEY, s text); INSERT INTO ri SELECT g, 'in' FROM generate_series(1, 3) g")
	srv := startServer(t, db)
	f := NewFold(srv.url, shape("table", "ri", "where", "s = 'in'"))
	require.NoError(t, f.CatchUp(t.Context()))

	db.Exec(t, "ALTER TABLE ri REPLICA IDENTITY DEFAULT; UPDATE ri SET s = 'out' WHERE id = 1")
	requireSame(t, f, db, "SELECT id, s FROM ri WHERE s = 'in'")
	pool := db.Pool(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, f.CatchUp(t.Context()))
		var identity string
		require.NoError(c, pool.QueryRow(t.Context(), "SELECT relreplident::text FROM pg_class WHERE relname = 'ri'").Scan(&identity))
		assert.Equal(c, "f", identity)
	}, 15*time.Second, 50*time.Millisecond)

	db.Exec(t, "UPDATE ri SET s = 'out' WHERE id = 2")
	requireSame(t, f, db, "SELECT id, s FROM ri WHERE s = 'in'")
}

// What comes under a replica identity that somebody changed is not understood as if it were complete: a key-only old row has
// NULL where it knows nothing, and clauses that hold for NULL, or do not, would take the row for theirs, or leave it.
func TestKeyOnlyOldRowsEndTheShapes(t *testing.T) {
	db := pgtest.New(t)
	srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=60min", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	for i, write := range []string{
		"DELETE FROM %s WHERE id = 1", "DELETE FROM %s WHERE id = 2", "UPDATE %s SET id = id + 10", "UPDATE %s SET n = 7 WHERE id = 1", "UPDATE %s SET n = NULL WHERE id = 1",
	} {
		table := fmt.Sprintf("ko%d", i)
		db.Exec(t, fmt.Sprintf("CREATE TABLE %[1]s (id int PRIMARY KEY, n int); INSERT INTO %[1]s VALUES (1, 5), (2, 6), (3, NULL)", table))
		clauses := []string{"true", "n = 5", "n IS NULL", "n IS NOT NULL", "n > 5 OR id = 3"}
		folds := make([]*Fold, len(clauses))
		for j, clause := range clauses {
			folds[j] = NewFold(srv.url, shape("table", table, "where", clause))
			requireSame(t, folds[j], db, "SELECT * FROM "+table+" WHERE "+clause)
		}
		db.Exec(t, "ALTER TABLE "+table+" REPLICA IDENTITY DEFAULT; "+fmt.Sprintf(write, table))
		for j, clause := range clauses {
			requireSame(t, folds[j], db, "SELECT * FROM "+table+" WHERE "+clause)
			require.NoError(t, folds[j].Err(), "%s, %s", write, clause)
		}
	}
}
