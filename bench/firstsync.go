package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

// countingWriter throws away what it counts.
type countingWriter struct{ n int64 }

func (w *countingWriter) Write(p []byte) (int, error) { w.n += int64(len(p)); return len(p), nil }

var _ io.Writer = (*countingWriter)(nil)

// firstSync compares the first sync of a big table with COPY of the same rows read and thrown away.
func (w *world) firstSync(ctx context.Context, idle int64) ([]result, error) {
	if _, err := w.db.Exec(ctx, fmt.Sprintf(`DROP TABLE IF EXISTS bench_sync;
		CREATE TABLE bench_sync (id bigint PRIMARY KEY, a text, b text, c int, d timestamptz, e bool);
		INSERT INTO bench_sync SELECT g, md5(g::text), repeat(md5((g+1)::text), 2), g %% 1000, now(), g %% 2 = 0 FROM generate_series(1, %d) g;
		ANALYZE bench_sync`, w.opts.rows)); err != nil {
		return nil, fmt.Errorf("make table: %w", err)
	}
	if err := w.caughtUp(ctx); err != nil {
		return nil, err
	}
	copied := make([]time.Duration, 0, 3)
	var sink countingWriter
	for range 3 {
		sink = countingWriter{}
		began := time.Now()
		if _, err := w.db.PgConn().CopyTo(ctx, &sink, "COPY (SELECT * FROM bench_sync) TO STDOUT"); err != nil {
			return nil, fmt.Errorf("copy: %w", err)
		}
		copied = append(copied, time.Since(began))
	}
	base := median(copied)
	var firsts, reads []time.Duration
	var firstByte time.Duration
	var s *shape
	for i := range 3 {
		s = newShape(w.srv.base, url.Values{"table": {"bench_sync"}, "where": {fmt.Sprintf("id > %d", -i)}})
		began := time.Now()
		if err := s.sync(ctx); err != nil {
			return nil, fmt.Errorf("first sync: %w", err)
		}
		firsts = append(firsts, time.Since(began))
		firstByte = max(firstByte, s.first)
		again := newShape(w.srv.base, s.query)
		began = time.Now()
		if err := again.sync(ctx); err != nil {
			return nil, fmt.Errorf("second sync: %w", err)
		}
		reads = append(reads, time.Since(began))
	}
	peak, err := w.srv.peak()
	if err != nil {
		return nil, err
	}
	first, read := median(firsts), median(reads)
	return []result{
		{fmt.Sprintf("COPY of %d rows (%s), thrown away", w.opts.rows, mib(sink.n)), fmt.Sprintf("%.0f ms", ms(base)), ""},
		{fmt.Sprintf("first sync of them (%s of JSON), median of 3", mib(s.bytes)), fmt.Sprintf("%.0f ms = %.2f x COPY", ms(first), float64(first)/float64(base)), "<= 1.3 x"},
		{"first byte of a first sync, worst of 3", fmt.Sprintf("%.1f ms", ms(firstByte)), "< 50 ms"},
		{"memory above idle, peak", mib(peak - idle), "<= 64 MiB"},
		{"sync of the same shape again", fmt.Sprintf("%.0f ms = %.0f MB/s", ms(read), float64(s.bytes)/1e6/read.Seconds()), ""},
	}, nil
}

// caughtUp waits until the server has confirmed everything written so far, so that Postgres's decoding of what made a table
// is not measured with what comes after.
func (w *world) caughtUp(ctx context.Context) error {
	var lsn string
	if err := w.db.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&lsn); err != nil {
		return fmt.Errorf("read position: %w", err)
	}
	for began := time.Now(); time.Since(began) < 2*time.Minute; {
		var done bool
		if err := w.db.QueryRow(ctx, "SELECT coalesce(bool_and(confirmed_flush_lsn >= $1::text::pg_lsn), false) FROM pg_replication_slots", lsn).Scan(&done); err != nil {
			return fmt.Errorf("read the slot's position: %w", err)
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return errors.New("the server did not catch up within two minutes")
}
