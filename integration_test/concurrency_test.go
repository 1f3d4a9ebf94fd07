package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// Fifty first requests for one definition, spelled alike or not, make one shape.
func TestConcurrentFirstRequests(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items SELECT i, 'v' || i FROM generate_series(1, 1000) i")
	srv := startServer(t, db)
	spellings := []string{"id > 10", "id   >   10", "(id > 10)", "((id) > 10)"}
	for round := range 5 {
		var mu sync.Mutex
		handles := map[string]int{}
		start := make(chan struct{})
		group, ctx := errgroup.WithContext(t.Context())
		for i := range 50 {
			group.Go(func() error {
				where := fmt.Sprintf("%s AND id > %d", spellings[i%len(spellings)], round)
				<-start
				res, err := getShape(ctx, srv.url, shape("table", "items", "where", where, "offset", "-1"))
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				handles[res.Get("electric-handle")]++
				return nil
			})
		}
		close(start)
		require.NoError(t, group.Wait())
		require.Len(t, handles, 1, "round %d", round)
	}
}

// getShape makes one request and returns the headers of its 200 answer.
func getShape(ctx context.Context, base string, params url.Values) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/shape?"+params.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, &statusError{res.StatusCode, string(body)}
	}
	return res.Header, nil
}

// Transactions that begin before, commit during, or come after the making of a shape are in its snapshot or in its log,
// each exactly once (the seam; I1). A round is a shape `k = round` with a writer of its own; the first request is sent
// at a random moment among the writer's transactions. Some rounds have a table of their own, so that its entry into
// the publication is part of the race.
func TestWritesRacingCreation(t *testing.T) {
	const (
		rounds      = 1000
		ownTables   = 60
		parallelism = 8
	)
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE shared (id int PRIMARY KEY, k int NOT NULL, n int NOT NULL)")
	srv := startServer(t, db)
	pool := largePool(t, db, 3*parallelism)
	// A table enters the publication only after the transactions that wrote to it before have ended, and the rounds on
	// this one keep a transaction open until they are answered.
	require.NoError(t, NewFold(srv.url, shape("table", "shared", "where", "k = -2")).CatchUp(t.Context()))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(parallelism)
	for round := range rounds {
		group.Go(func() error {
			table, own := "shared", round%(rounds/ownTables) == 0
			if own {
				table = fmt.Sprintf("own_%d", round)
				if _, err := pool.Exec(ctx, "CREATE TABLE "+table+" (id int PRIMARY KEY, k int NOT NULL, n int NOT NULL)"); err != nil {
					return err
				}
			}
			if err := raceCreation(ctx, srv.url, pool, table, round, !own); err != nil {
				return fmt.Errorf("round %d on table %s: %w", round, table, err)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

// largePool returns a pool with more connections than the few that pgxpool allows by default.
func largePool(t *testing.T, db *pgtest.DB, connections int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// errRollBack makes a transaction of a writer roll back, as planned.
var errRollBack = errors.New("roll back")

// raceCreation runs a writer and, among its transactions, the first request of the shape k = round; then it compares.
// hold keeps one transaction open from before the request until after its answer.
func raceCreation(ctx context.Context, base string, pool *pgxpool.Pool, table string, round int, hold bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	f := NewFold(base, shape("table", table, "where", fmt.Sprintf("k = %d", round)))
	const transactions = 12
	request := rand.IntN(transactions)
	var held pgx.Tx
	if hold {
		var err error
		if held, err = pool.Begin(ctx); err != nil {
			return err
		}
		defer func() { _ = held.Rollback(context.WithoutCancel(ctx)) }() // does nothing after a commit
		if err := write(ctx, held, table, round, round*1000+900); err != nil {
			return err
		}
	}
	group, gctx := errgroup.WithContext(ctx)
	send := make(chan struct{})
	group.Go(func() error {
		select {
		case <-send:
			return f.CatchUp(gctx)
		case <-gctx.Done():
			return gctx.Err()
		}
	})
	group.Go(func() error {
		for i := range transactions {
			err := pgx.BeginFunc(gctx, pool, func(tx pgx.Tx) error {
				if err := write(gctx, tx, table, round, round*1000+10*i); err != nil {
					return err
				}
				if i == request {
					close(send) // while a transaction is open
				}
				if i%5 == 4 {
					return errRollBack
				}
				return nil
			})
			if err != nil && !errors.Is(err, errRollBack) {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if hold {
		if err := held.Commit(ctx); err != nil {
			return err
		}
	}
	want := map[string]int{}
	rows, err := pool.Query(ctx, "SELECT id::text, n::text FROM "+table+" WHERE k = $1", round)
	if err != nil {
		return err
	}
	for rows.Next() {
		var id, n string
		if err := rows.Scan(&id, &n); err != nil {
			return err
		}
		want[fmt.Sprintf("%q %q ", id, n)]++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	s := selected{columns: []string{"id", "n"}, lines: want, rows: len(want)}
	if err := f.Follow(ctx, func() bool { return f.Err() != nil || s.matches(f) }); err != nil {
		return fmt.Errorf("%w; %s", err, s.differences(f))
	}
	return f.Err()
}

// write inserts four rows with ids from first on, two of them in the shape; it changes one, moves one out of the shape
// and one into it, and deletes one.
func write(ctx context.Context, tx pgx.Tx, table string, k, first int) error {
	_, err := tx.Exec(ctx, fmt.Sprintf(`
		INSERT INTO %[1]s VALUES (%[3]d, %[2]d, 1), (%[3]d + 1, %[2]d, 2), (%[3]d + 2, -1, 3), (%[3]d + 3, %[2]d, 4);
		UPDATE %[1]s SET n = n + 10 WHERE id = %[3]d;
		UPDATE %[1]s SET k = -1 WHERE id = %[3]d + 1;
		UPDATE %[1]s SET k = %[2]d WHERE id = %[3]d + 2;
		DELETE FROM %[1]s WHERE id = %[3]d + 3`, table, k, first), pgx.QueryExecModeSimpleProtocol)
	return err
}
