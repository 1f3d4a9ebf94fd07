package replication

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// BenchmarkDecode decodes a transaction over and over. rows/s and B/s are of the stream; allocs/op are per transaction.
func BenchmarkDecode(b *testing.B) {
	const columns = 8
	value := strings.Repeat("v", 16)
	names, row := make([]string, columns), make([]any, columns)
	for i := range names {
		names[i], row[i] = fmt.Sprintf("c%d", i), value
	}
	insert, update := insertMessage(11, row...), updateMessage(11, 'O', row, row)
	for _, bench := range []struct {
		name string
		msg  message
		rows int
	}{
		{"insert/rows=1", insert, 1},
		{"insert/rows=100", insert, 100},
		{"update_full/rows=100", update, 100},
		{"insert/rows=10000", insert, 10_000},
	} {
		b.Run(bench.name, func(b *testing.B) {
			d := testDecoder(Options{})
			feed(b, d, beginMessage(1, 1), relationMessage(11, "public", "items", 'f', names...), commitMessage(1, 2))
			begin, commit := beginMessage(10, 1), commitMessage(10, 20)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.decode(b.Context(), begin); err != nil {
					b.Fatal(err)
				}
				for range bench.rows {
					if _, err := d.decode(b.Context(), bench.msg); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := d.decode(b.Context(), commit); err != nil {
					b.Fatal(err)
				}
			}
			rows := float64(bench.rows * b.N)
			b.ReportMetric(rows/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(rows*float64(len(bench.msg))/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}

// TestDecodeDoesNotAllocatePerRow holds the budget: rows live in blocks.
func TestDecodeDoesNotAllocatePerRow(t *testing.T) {
	d := testDecoder(Options{})
	feed(t, d, beginMessage(1, 1), relationMessage(11, "public", "items", 'f', "*a", "b", "c", "d"), commitMessage(1, 2))
	begin, commit := beginMessage(10, 1), commitMessage(10, 20)
	update := updateMessage(11, 'O', []any{"1", "bbbbbbbb", nil, "d"}, []any{"1", "bbbbbbbb", nil, "d"})
	perTransaction := testing.AllocsPerRun(100, func() {
		_, err := d.decode(t.Context(), begin)
		for range 100 {
			if err == nil {
				_, err = d.decode(t.Context(), update)
			}
		}
		if err == nil {
			_, err = d.decode(t.Context(), commit)
		}
		if err != nil {
			t.Error(err)
		}
	})
	require.Less(t, perTransaction, 20.0, "for 100 rows of 4 columns")
}

// BenchmarkDrain reads a slot that holds 200 000 inserted rows of about 150 B, in transactions of 100, from a local
// Postgres. Compare with pg_recvlogical on a slot with the same contents (README of bench/).
func BenchmarkDrain(b *testing.B) {
	const transactions, rows = 2000, 100
	db := pgtest.New(b)
	f := newFollower(b, db.URL, db.Name, setup{})
	f.start(setup{})
	db.Exec(b, "CREATE TABLE a (id bigserial PRIMARY KEY, k int, v text, w text, at timestamptz DEFAULT now()); ALTER PUBLICATION "+db.Name+" ADD TABLE a")
	f.stop()
	db.Exec(b, fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
		INSERT INTO a (k, v, w) SELECT g, repeat('v', 50), md5(g::text) FROM generate_series(1, %d) g; COMMIT; END LOOP; END $$`, transactions, rows))
	for b.Loop() {
		started := time.Now()
		f.start(setup{idle: true})
		for n := 0; n < transactions*rows; {
			if ev := <-f.events; ev.Fragment != nil {
				n += len(ev.Fragment.Changes)
			}
		}
		b.ReportMetric(transactions*rows/time.Since(started).Seconds(), "rows/s")
		f.stop() // nothing was confirmed: the next round reads the same
		for len(f.events) > 0 {
			<-f.events
		}
	}
	require.Equal(b, changes.LSN(0), f.Stats().Confirmed)
}
