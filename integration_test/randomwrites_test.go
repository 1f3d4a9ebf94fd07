package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// randomTable has what makes folding hard: a key of two columns that changes, a value that goes out of line (TOAST)
// and is then left out of the stream, NULLs, a boolean, text that needs escaping.
const randomTable = `CREATE TABLE r (a int, b text, n int, big text, flag bool, note text, PRIMARY KEY (a, b));
	ALTER TABLE r ALTER COLUMN big SET STORAGE EXTERNAL`

// randomShapes are the shapes that are followed while the writers run.
var randomShapes = []struct{ where, columns, replica string }{
	{},
	{replica: "full"},
	{where: "n > 50"},
	{where: "n > 20 AND n <= 70", replica: "full"},
	{where: "flag = true OR note LIKE 'x%'"},
	{where: "note IS NULL", columns: "a,b,n"},
	{where: "a IN (1, 2, 3)", columns: "a,b,big"},
	{where: "NOT (n > 50)"},
}

// I1: while random transactions run, with key changes, TOAST, moves in and out, several statements and roll-backs,
// every shape folds without a breach of the protocol, and ends as exactly the rows that its query selects. On the way
// the server is restarted and killed.
func TestRandomWrites(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, randomTable)
	srv := startServer(t, db, "SHAPESERVER_SHAPE_CHUNK_BYTES_THRESHOLD=20000", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	folds := make([]*Fold, len(randomShapes))
	for i, s := range randomShapes {
		params := shape("table", "r")
		for name, value := range map[string]string{"where": s.where, "columns": s.columns, "replica": s.replica} {
			if value != "" {
				params.Set(name, value)
			}
		}
		folds[i] = NewFold(srv.url, params)
		folds[i].Retry = true
	}

	following, stopFollowing := context.WithCancel(t.Context())
	followers, fctx := errgroup.WithContext(following)
	for _, f := range folds {
		followers.Go(func() error {
			err := f.Follow(fctx, func() bool { return f.Err() != nil })
			if errors.Is(err, context.Canceled) && following.Err() != nil {
				return nil
			}
			return err
		})
	}
	for part, disturb := range []func(testing.TB){func(testing.TB) {}, srv.restart, func(t testing.TB) { srv.kill(t); srv.start(t) }} {
		writers, wctx := errgroup.WithContext(t.Context())
		for w := range 3 {
			writers.Go(func() error { return writeRandomly(wctx, db.URL, rand.New(rand.NewPCG(uint64(part), uint64(w))), 80) })
		}
		disturb(t)
		require.NoError(t, writers.Wait())
	}
	stopFollowing()
	require.NoError(t, followers.Wait())
	for i, s := range randomShapes {
		sql := "SELECT * FROM r"
		if s.columns != "" {
			sql = "SELECT " + s.columns + " FROM r"
		}
		if s.where != "" {
			sql += " WHERE " + s.where
		}
		t.Run(strconv.Itoa(i)+" "+s.where, func(t *testing.T) {
			requireSame(t, folds[i], db, sql)
			// A client that comes now gets the same from the beginning.
			late := NewFold(srv.url, folds[i].params)
			requireSame(t, late, db, sql)
			require.Equal(t, folds[i].Handle, late.Handle)
			require.Zero(t, folds[i].Refetched, "neither restart nor crash may end a shape")
		})
	}
}

// writeRandomly runs transactions of 1 to 6 random statements; a fifth are rolled back. Two writers that want the same
// key, or each other's locks, are part of the plan: those transactions are rolled back too.
func writeRandomly(ctx context.Context, url string, r *rand.Rand, transactions int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for range transactions {
		statements := []string{"BEGIN"}
		for range 1 + r.IntN(6) {
			statements = append(statements, randomStatement(r))
		}
		end := "COMMIT"
		if r.IntN(5) == 0 {
			end = "ROLLBACK"
		}
		_, err := conn.PgConn().Exec(ctx, strings.Join(append(statements, end), "; ")).ReadAll()
		if err != nil && ctx.Err() == nil {
			_, err = conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func randomStatement(r *rand.Rand) string {
	key := func() string { return fmt.Sprintf("a = %d AND b = '%s'", r.IntN(6), randomText(r)) }
	n := r.IntN(100)
	switch r.IntN(8) {
	case 0, 1, 2:
		big := "NULL"
		if r.IntN(3) == 0 {
			// Large enough to be stored out of line, and different each time.
			big = fmt.Sprintf("repeat('%d-', %d)", r.IntN(1000), 600+r.IntN(600))
		}
		note := [...]string{"NULL", "''", `'x"\/'`, "E'tab\\t\\n'", "'xé😀'"}[r.IntN(5)]
		return fmt.Sprintf("INSERT INTO r VALUES (%d, '%s', %d, %s, %t, %s) ON CONFLICT (a, b) DO UPDATE SET n = excluded.n, note = excluded.note",
			r.IntN(6), randomText(r), n, big, r.IntN(2) == 0, note)
	case 3:
		return fmt.Sprintf("UPDATE r SET n = %d WHERE %s", n, key()) // leaves big alone
	case 4:
		return fmt.Sprintf("UPDATE r SET flag = NOT flag, n = n + 1 WHERE a = %d", r.IntN(6))
	case 5:
		return fmt.Sprintf("UPDATE r SET b = b || '%d' WHERE %s AND length(b) < 6", r.IntN(10), key()) // a new key
	case 6:
		return fmt.Sprintf("UPDATE r SET note = CASE WHEN note IS NULL THEN 'x' END WHERE n %% 10 = %d", r.IntN(10))
	default:
		return "DELETE FROM r WHERE " + key()
	}
}

func randomText(r *rand.Rand) string { return [...]string{"", "k", "a/b", `q"q`, "é", " "}[r.IntN(6)] }

// I2: a transaction is visible whole or not at all at an up-to-date: transfers between accounts leave the sum as it is,
// at every up-to-date of every client.
func TestTransactionsAreVisibleWhole(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL); INSERT INTO accounts SELECT i, 100 FROM generate_series(1, 20) i")
	srv := startServer(t, db, "SHAPESERVER_SHAPE_CHUNK_BYTES_THRESHOLD=3000", "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
	const clients, writers, transfers = 4, 3, 400
	following, stop := context.WithCancel(t.Context())
	followers, fctx := errgroup.WithContext(following)
	folds := make([]*Fold, clients)
	for i := range folds {
		f := NewFold(srv.url, shape("table", "accounts"))
		f.OnUpToDate = func(rows map[string]Row) error {
			sum := 0
			for _, row := range rows {
				n, err := strconv.Atoi(*row["balance"])
				if err != nil {
					return err
				}
				sum += n
			}
			if sum != 2000 {
				return fmt.Errorf("half a transaction: the sum of %d balances is %d", len(rows), sum)
			}
			return nil
		}
		folds[i] = f
		require.NoError(t, f.CatchUp(t.Context())) // so that it is there when the transfers begin
		followers.Go(func() error {
			err := f.Follow(fctx, func() bool { return f.Err() != nil })
			if following.Err() != nil {
				return nil
			}
			return err
		})
	}
	pool := db.Pool(t)
	group, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		group.Go(func() error {
			r := rand.New(rand.NewPCG(7, uint64(w)))
			for range transfers {
				from, to := 1+r.IntN(20), 1+r.IntN(20)
				if from > to {
					from, to = to, from // in one order, so that no two writers wait for each other
				}
				amount := r.IntN(50) - 25
				if _, err := pool.Exec(ctx, fmt.Sprintf(`BEGIN; UPDATE accounts SET balance = balance - %d WHERE id = %d;
					UPDATE accounts SET balance = balance + %d WHERE id = %d; COMMIT`, amount, from, amount, to), pgx.QueryExecModeSimpleProtocol); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	stop()
	require.NoError(t, followers.Wait())
	for _, f := range folds {
		requireSame(t, f, db, "SELECT id, balance FROM accounts")
		require.Greater(t, f.Requests, 10, "the client must have followed")
	}
}
