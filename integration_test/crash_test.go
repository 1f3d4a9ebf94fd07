package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// A restart, in order or by a crash, keeps handles and offsets, serves the same bytes at the same offsets (I3), and
// delivers what was written meanwhile once.
func TestRestartKeepsHandlesAndOffsets(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items SELECT i, 'v' || i FROM generate_series(1, 100) i")
	srv := startServer(t, db, "SHAPESERVER_SHAPE_CHUNK_BYTES_THRESHOLD=2000")
	params := shape("table", "items", "where", "id > 10")
	f := NewFold(srv.url, params)
	require.NoError(t, f.CatchUp(t.Context()))
	db.Exec(t, "INSERT INTO items SELECT i, 'v' || i FROM generate_series(101, 200) i")
	requireSame(t, f, db, "SELECT * FROM items WHERE id > 10")
	handle := f.Handle
	chunks := func() map[string]string {
		all := map[string]string{}
		for offset := "-1"; ; {
			q := maps.Clone(params)
			q.Set("offset", offset)
			q.Set("handle", handle)
			body, h := getBody(t, srv.url, q)
			if _, ok := h["Electric-Up-To-Date"]; ok {
				return all
			}
			require.NotContains(t, all, offset)
			all[offset] = body + h.Get("electric-offset") + h.Get("etag")
			offset = h.Get("electric-offset")
		}
	}
	before := chunks()
	require.Greater(t, len(before), 2, "the log must have several chunks for this test to mean something")
	for name, end := range map[string]func(testing.TB){"restart": srv.stop, "kill": srv.kill} {
		end(t)
		db.Exec(t, "UPDATE items SET v = v || '+' WHERE id = 150")
		srv.start(t)
		requireSame(t, f, db, "SELECT * FROM items WHERE id > 10")
		require.Equal(t, handle, f.Handle, name)
		require.Zero(t, f.Refetched, name)
		after := chunks()
		for offset, content := range before {
			require.Equal(t, content, after[offset], "after a %s, the chunk at %s", name, offset)
		}
		before = after
	}
}

// Nothing is lost and nothing comes twice when the server is killed again and again under load: Postgres was not told
// of more than is on disk (I4), what it sends again is recognised (I2), and the shapes live on under their handles.
func TestKillUnderLoad(t *testing.T) {
	kills := 12
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE du (id int PRIMARY KEY, v text); INSERT INTO du VALUES (0, 'a')")
	srv := startServer(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	folds := []*Fold{NewFold(srv.url, shape("table", "du")), NewFold(srv.url, shape("table", "du", "where", "v = 'x'"))}
	for _, f := range folds {
		f.Retry = true
		require.NoError(t, f.CatchUp(t.Context()))
	}
	// A shape that a crash meets in its first moments may have to be made again; these are past them.
	awaitConfirmed(t, db)

	// The load: small transactions all the time, now and then a large one; it never waits for the server.
	var committed atomic.Int64
	loading, stopLoad := context.WithCancel(t.Context())
	load := errgroup.Group{}
	pool, ctx := db.Pool(t), t.Context()
	load.Go(func() error {
		pace := time.NewTicker(time.Millisecond) // leaves the server some of the machine
		defer pace.Stop()
		for k := 1; loading.Err() == nil; k++ {
			<-pace.C
			sql := fmt.Sprintf("INSERT INTO du VALUES (%d, 'x')", k)
			switch {
			case k%400 == 0:
				sql = fmt.Sprintf("INSERT INTO du SELECT %d + g, 'b' FROM generate_series(1, 3000) g", 10000*k)
			case k%7 == 0:
				sql = fmt.Sprintf("UPDATE du SET v = 'y' || %d WHERE id = %d", k, k-3)
			case k%11 == 0:
				sql = fmt.Sprintf("DELETE FROM du WHERE id = %d", k-5)
			}
			if _, err := pool.Exec(ctx, sql); err != nil {
				return err
			}
			committed.Add(1)
		}
		return nil
	})
	followers, fctx := errgroup.WithContext(loading)
	for _, f := range folds {
		followers.Go(func() error {
			err := f.Follow(fctx, func() bool { return f.Err() != nil })
			if errors.Is(err, context.Canceled) || loading.Err() != nil {
				return nil
			}
			return err
		})
	}
	var slowest time.Duration
	for i := range kills {
		// Kill after some more transactions, a different number each time.
		for target := committed.Load() + int64(5+13*i%40); committed.Load() < target; {
			select {
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("the load stands still")
			}
		}
		srv.kill(t)
		began := time.Now()
		srv.start(t)
		slowest = max(slowest, time.Since(began))
	}
	stopLoad()
	require.NoError(t, load.Wait())
	require.NoError(t, followers.Wait())
	t.Logf("%d kills, %d transactions, slowest start %s", kills, committed.Load(), slowest.Round(time.Millisecond))

	for i, sql := range []string{"SELECT id, v FROM du", "SELECT id, v FROM du WHERE v = 'x'"} {
		requireSame(t, folds[i], db, sql)
		require.Zero(t, folds[i].Refetched, "a crash must not end a shape")
		late := NewFold(srv.url, folds[i].params)
		requireSame(t, late, db, sql)
		require.Equal(t, folds[i].Handle, late.Handle)
	}
}

// awaitConfirmed waits until the server has told Postgres that all that was written before this call is on disk.
func awaitConfirmed(t testing.TB, db *pgtest.DB) {
	t.Helper()
	pool := db.Pool(t)
	var lsn string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&lsn))
	require.Eventually(t, func() bool {
		// Something must pass through the slot for its position to move.
		if _, err := pool.Exec(t.Context(), "SELECT pg_logical_emit_message(true, 'test', '')"); err != nil {
			return false
		}
		var confirmed bool
		err := pool.QueryRow(t.Context(), "SELECT bool_and(confirmed_flush_lsn >= $1::pg_lsn) FROM pg_replication_slots WHERE database = current_database()", lsn).Scan(&confirmed)
		return err == nil && confirmed
	}, time.Minute, 20*time.Millisecond, "the confirmed position does not move")
}
