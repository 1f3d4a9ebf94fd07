package snapshot_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/snapshot"
)

// discard is a Sink that costs nothing.
type discard struct{ rows int }

func (*discard) Register() error                           { return nil }
func (*discard) Begin(changes.Snapshot, changes.LSN) error { return nil }
func (d *discard) Row([]byte) error                        { d.rows++; return nil }

// BenchmarkRead compares a whole snapshot with the same rows copied and thrown away.
func BenchmarkRead(b *testing.B) {
	const rows = 200_000
	db := pgtest.New(b)
	db.Exec(b, `CREATE TABLE items (id int PRIMARY KEY, title text, at timestamptz, done bool, price numeric, body text)`)
	db.Exec(b, `INSERT INTO items SELECT g, 'title of item ' || g, now(), g % 2 = 0, g * 1.5, repeat('lorem ipsum ', 7) FROM generate_series(1, 200000) g; ANALYZE items`)
	pool := db.Pool(b)
	d := define(b, pool, "items")
	b.Run("copy", func(b *testing.B) {
		conn, err := pool.Acquire(b.Context())
		require.NoError(b, err)
		defer conn.Release()
		for b.Loop() {
			_, err := conn.Conn().PgConn().CopyTo(b.Context(), io.Discard, "COPY (SELECT * FROM items) TO STDOUT")
			require.NoError(b, err)
		}
		b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("snapshot", func(b *testing.B) {
		r, enc := snapshot.New(pool, snapshot.Options{}), encoder(d)
		b.ReportAllocs()
		for b.Loop() {
			var s discard
			require.NoError(b, r.Read(b.Context(), d, enc, &s))
			require.Equal(b, rows, s.rows)
		}
		b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("empty", func(b *testing.B) { // what a snapshot costs before its first row
		db.Exec(b, "CREATE TABLE IF NOT EXISTS empty (id int PRIMARY KEY)")
		d := define(b, pool, "empty")
		r, enc := snapshot.New(pool, snapshot.Options{}), encoder(d)
		for b.Loop() {
			require.NoError(b, r.Read(b.Context(), d, enc, &discard{}))
		}
	})
}
