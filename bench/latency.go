package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

func median(d []time.Duration) time.Duration { return percentile(d, 50) }

// percentile sorts d and returns the value that p percent of it do not exceed.
func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*p/100)]
}

// latency measures the time from the return of COMMIT to the parsed end of the long-poll that carries the change, with
// one shape on the table and with many.
func (w *world) latency(ctx context.Context, _ int64) ([]result, error) {
	if _, err := w.db.Exec(ctx, `DROP TABLE IF EXISTS bench_live; CREATE TABLE bench_live (id int PRIMARY KEY, k int, v text);
		INSERT INTO bench_live VALUES (1, 1, '')`); err != nil {
		return nil, fmt.Errorf("make table: %w", err)
	}
	s := newShape(w.srv.base, url.Values{"table": {"bench_live"}, "where": {"k = 1"}})
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	alone, err := w.timeCommits(ctx, s)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := w.makeOthers(ctx); err != nil {
		return nil, err
	}
	made := time.Since(began)
	crowded, err := w.timeCommits(ctx, s)
	if err != nil {
		return nil, err
	}
	show := func(d []time.Duration) string {
		return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", ms(percentile(d, 50)), ms(percentile(d, 99)))
	}
	return []result{
		{fmt.Sprintf("commit to client, long-poll, %d commits", w.opts.changes), show(alone), "p50 <= 1.5, p99 <= 6 ms"},
		{fmt.Sprintf("creating %d shapes, 16 clients at once", w.opts.others), fmt.Sprintf("%.0f a second", float64(w.opts.others)/made.Seconds()), ">= 1000 a second"},
		{
			fmt.Sprintf("commit to client with %d other shapes k = <const>", w.opts.others),
			fmt.Sprintf("%s = %.2f x", show(crowded), float64(percentile(crowded, 50))/float64(percentile(alone, 50))), "<= 1.2 x",
		},
	}, nil
}

// timeCommits updates the shape's row again and again while a client waits for it.
func (w *world) timeCommits(ctx context.Context, s *shape) ([]time.Duration, error) {
	times := make([]time.Duration, 0, w.opts.changes)
	for i := range w.opts.changes {
		type arrival struct {
			at  time.Time
			err error
		}
		arrived := make(chan arrival, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := s.next(ctx, true)
			arrived <- arrival{time.Now(), err}
		})
		// The client must be waiting when the change comes.
		select {
		case a := <-arrived:
			return nil, fmt.Errorf("long-poll ended before the change: %w", a.err)
		case <-time.After(2 * time.Millisecond):
		}
		if _, err := w.db.Exec(ctx, "UPDATE bench_live SET v = $1 WHERE id = 1", strconv.FormatInt(time.Now().UnixNano()+int64(i), 36)); err != nil {
			return nil, err
		}
		committed := time.Now()
		a := <-arrived
		wg.Wait()
		if a.err != nil {
			return nil, a.err
		}
		times = append(times, max(a.at.Sub(committed), 0))
	}
	return times, nil
}

// makeOthers makes the other shapes, 16 at a time.
func (w *world) makeOthers(ctx context.Context) error {
	todo := make(chan int)
	errs := make(chan error, 16)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for k := range todo {
				s := newShape(w.srv.base, url.Values{"table": {"bench_live"}, "where": {fmt.Sprintf("k = %d", k+1000)}})
				if _, err := s.next(ctx, false); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
				s.http.CloseIdleConnections()
			}
		})
	}
	for k := range w.opts.others {
		todo <- k
	}
	close(todo)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}
