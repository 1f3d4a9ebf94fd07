package integration

import (
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
