package inspector_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// BenchmarkTable is one look-up, asked of the database and answered from memory.
func BenchmarkTable(b *testing.B) {
	db := pgtest.New(b)
	db.Exec(b, "CREATE TABLE items (id int PRIMARY KEY, title text, at timestamptz, done bool, price numeric, tags text[])")
	in := inspector.New(db.Pool(b), inspector.Options{})
	for name, maxAge := range map[string]time.Duration{"asked": 0, "known": time.Hour} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := in.Table(b.Context(), "public", "items", maxAge)
				require.NoError(b, err)
			}
		})
	}
}
