package replication

import (
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	insert, update := insertMessage(11, row...), updateMessage('O', row, row)
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
	update := updateMessage('O', []any{"1", "bbbbbbbb", nil, "d"}, []any{"1", "bbbbbbbb", nil, "d"})
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

// processTime is what this process has used of the processors: unlike the clock it means something on a busy machine.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDrain reads a slot that holds 200 000 inserted rows of about 150 B, in transactions of 100, from the test
// Postgres: by a Stream, and, where it is installed, by pg_recvlogical, which only copies bytes. The ratio of the two is
// what counts (design: at least half).
func BenchmarkDrain(b *testing.B) {
	const transactions, rows = 2000, 100
	db := pgtest.New(b)
	f := newFollower(b, db.URL, db.Name, setup{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
	f.start(setup{})
	db.Exec(b, "CREATE TABLE a (id bigserial PRIMARY KEY, k int, v text, w text, at timestamptz DEFAULT now()); ALTER PUBLICATION "+db.Name+" ADD TABLE a")
	f.stop()
	db.Exec(b, fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..%d LOOP
		INSERT INTO a (k, v, w) SELECT g, repeat('v', 50), md5(g::text) FROM generate_series(1, %d) g; COMMIT; END LOOP; END $$`, transactions, rows))
	end := query1(b, db, "SELECT pg_current_wal_lsn()")

	b.Run("stream", func(b *testing.B) {
		before := processTime(b)
		for b.Loop() {
			f.start(setup{idle: true})
			for n := 0; n < transactions*rows; {
				if ev := <-f.events; ev.Fragment != nil {
					n += len(ev.Fragment.Changes)
				}
			}
			f.stop() // nothing was confirmed: the next round reads the same
			for len(f.events) > 0 {
				<-f.events
			}
		}
		b.ReportMetric(float64(transactions*rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		b.ReportMetric(float64((processTime(b)-before).Microseconds())/float64(transactions*rows*b.N), "cpu-µs/row")
	})
	b.Run("pg_recvlogical", func(b *testing.B) {
		found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_recvlogical")
		require.NoError(b, err)
		if len(found) == 0 {
			b.Skip("pg_recvlogical is not installed")
		}
		copied := db.Name[:min(len(db.Name), 60)] + "_cp"
		for b.Loop() {
			b.StopTimer()
			awaitQuery(b, db, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+db.Name+"' AND NOT active", "1")
			db.Exec(b, "SELECT pg_copy_logical_replication_slot('"+db.Name+"', '"+copied+"')") // as pg_recvlogical confirms
			b.StartTimer()
			cmd := exec.CommandContext(b.Context(), found[len(found)-1], "-d", db.URL, "--slot", copied, "--start",
				"--endpos", end, "-f", "/dev/null", "-o", "proto_version=1", "-o", "publication_names="+db.Name)
			out, err := cmd.CombinedOutput()
			require.NoError(b, err, string(out))
			b.StopTimer()
			awaitQuery(b, db, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+copied+"' AND NOT active", "1")
			db.Exec(b, "SELECT pg_drop_replication_slot('"+copied+"')")
			b.StartTimer()
		}
		b.ReportMetric(float64(transactions*rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
