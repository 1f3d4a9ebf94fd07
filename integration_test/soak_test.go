package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

const (
	soakShapes  = 200
	soakWriters = 3
	// soakRound is how long writers and disturbances run before all is compared.
	soakRound = 6 * time.Second
	// soakSettle bounds how long a client may take to become what Postgres has once the writers have stopped.
	soakSettle = 3 * time.Minute
)

// TestSoak is the oracle soak (I1 to I6): shapes with generated clauses are followed while random transactions run and
// processes, connections, consumers, tables and clients come to harm at random. In between, the writers stop and every
// client must have what Postgres answers to its shape's query; during the run Fold checks every answer. In the end
// everything is deleted, and nothing may be left over.
//
// SHAPESERVER_SOAK_DURATION is for how long (100s by default, `make soak` gives 30m), SHAPESERVER_SOAK_SEED repeats the
// random choices of a run, though not the moments at which they fall.
func TestSoak(t *testing.T) {
	duration, seed := 100*time.Second, rand.Uint64()
	if v := os.Getenv("SHAPESERVER_SOAK_DURATION"); v != "" {
		var err error
		duration, err = time.ParseDuration(v)
		require.NoError(t, err, "SHAPESERVER_SOAK_DURATION")
	}
	if v := os.Getenv("SHAPESERVER_SOAK_SEED"); v != "" {
		var err error
		seed, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err, "SHAPESERVER_SOAK_SEED")
	}
	t.Logf("seed %d (SHAPESERVER_SOAK_SEED=%[1]d repeats its choices)", seed)
	s := newSoak(t, seed)
	s.makeClients(t)
	s.compare(t)
	for end := time.Now().Add(duration); time.Now().Before(end); {
		s.round(t)
		s.compare(t)
	}
	s.requireNothingLeft(t)
	t.Logf("%d rounds, %d transactions, %d answers to %d clients, %d must-refetch; disturbances: %s",
		s.rounds, s.committed.Load(), s.answers, s.made, s.refetched, s.events.counts())
	require.Positive(t, s.committed.Load())
}

// soak is one run.
type soak struct {
	seed      uint64
	rng       *rand.Rand
	db        *pgtest.DB
	url       string // of the database, with an application name of ours
	srv       *process
	metrics   string // the address of GET /metrics
	http      *http.Client
	clients   []*soakClient
	late      map[int]*soakClient // who takes whose place in clients after the round
	ledger    HandleLedger
	events    soakEvents
	committed atomic.Int64

	deck                                      []int // the disturbances to come, as indices
	rounds, made, refused, refetched, answers int
	baseline                                  map[string]float64
}

// soakClient is a client and what it should have.
type soakClient struct {
	*Fold
	shape soakShape
	// tolerated is the last answer that said that the table is not there, or not as the clause wants it.
	tolerated atomic.Pointer[string]
}

func newSoak(t *testing.T, seed uint64) *soak {
	t.Helper()
	s := &soak{seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), late: map[int]*soakClient{}, db: pgtest.New(t), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * soakShapes}}}
	s.url = s.db.URL + "&application_name=soak"
	if !strings.Contains(s.db.URL, "?") {
		s.url = s.db.URL + "?application_name=soak"
	}
	s.db.Exec(t, "CREATE SCHEMA aside; CREATE TYPE mood AS ENUM ('bad', 'ok')")
	for _, table := range soakTables {
		s.db.Exec(t, table.create+"; "+table.fill)
	}
	port := freePort(t)
	s.metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	s.srv = startServer(t, s.db,
		"SHAPESERVER_SHAPE_CHUNK_BYTES_THRESHOLD=100000", "SHAPESERVER_LONG_POLL_TIMEOUT=2s", "SHAPESERVER_SHAPE_SUSPEND_AFTER=100ms",
		"SHAPESERVER_PUBLICATION_REFRESH_PERIOD=1s", "SHAPESERVER_SCHEMA_RECONCILER_PERIOD=1s", "SHAPESERVER_RECONCILE_PERIOD=3s",
		"SHAPESERVER_ENABLE_INTEGRATION_TESTING=true", fmt.Sprintf("SHAPESERVER_PROMETHEUS_PORT=%d", port))
	s.baseline = s.readMetrics(t)
	return s
}

// makeClients makes the shapes. A generated clause that the server refuses is replaced; if many are, the soak says
// nothing about clauses and fails.
func (s *soak) makeClients(t *testing.T) {
	t.Helper()
	for len(s.clients) < soakShapes {
		c := s.newClient()
		err := c.CatchUp(t.Context())
		var status *statusError
		if errors.As(err, &status) && status.code == http.StatusBadRequest {
			s.refused++
			t.Logf("refused: %s: %s", c.shape.sql(), status.body)
			require.Less(t, s.refused, soakShapes/4, "too many generated clauses are refused")
			continue
		}
		require.NoError(t, err, c.shape.sql())
		s.clients = append(s.clients, c)
	}
	for _, c := range s.clients {
		s.release(c)
	}
}

// newClient makes a client of a random shape, for which only a 200 is good.
func (s *soak) newClient() *soakClient { return s.clientOf(randomShape(s.rng)) }

func (s *soak) clientOf(def soakShape) *soakClient {
	s.made++
	c := &soakClient{Fold: NewFold(s.srv.url, shape(def.params()...)), shape: def}
	c.client, c.Ledger, c.Retry, c.ChangesOnly = s.http, &s.ledger, true, def.changes
	if def.table.name == "accounts" && !def.changes {
		c.OnUpToDate = wholeBranches
	}
	return c
}

// release lets a client go on while its table is away or renamed.
func (s *soak) release(c *soakClient) {
	c.Tolerate = func(code int, body string) bool {
		c.tolerated.Store(&body)
		return code == http.StatusBadRequest
	}
}

// wholeBranches checks that no transfer is seen by half (I2): every branch has its 12 accounts and its 1200.
func wholeBranches(rows map[string]Row) error {
	sums, counts := map[string]int{}, map[string]int{}
	for key, row := range rows {
		if row["branch"] == nil || row["balance"] == nil {
			return fmt.Errorf("account %s is incomplete: %v", key, row)
		}
		n, err := strconv.Atoi(*row["balance"])
		if err != nil {
			return err
		}
		sums[*row["branch"]] += n
		counts[*row["branch"]]++
	}
	for branch, sum := range sums {
		if sum != 1200 || counts[branch] != 12 {
			return fmt.Errorf("half a transaction: branch %s has %d accounts and a sum of %d", branch, counts[branch], sum)
		}
	}
	return nil
}

// round lets everything run at once for a while.
func (s *soak) round(t *testing.T) {
	t.Helper()
	s.rounds++
	s.events.add("round %d", s.rounds)
	following, stopFollowing := context.WithCancel(t.Context())
	defer stopFollowing()
	var followers sync.WaitGroup
	broken := make(chan struct{})
	var once sync.Once
	for _, c := range s.clients {
		followers.Go(func() {
			err := c.Follow(following, func() bool { return c.Err() != nil })
			if following.Err() == nil {
				if err != nil {
					c.violate("cannot go on: %v", err)
				}
				once.Do(func() { close(broken) })
			}
		})
	}
	writing, stopWriting := context.WithCancel(t.Context())
	defer stopWriting()
	writers, wctx := errgroup.WithContext(writing)
	for w := range soakWriters {
		rng := rand.New(rand.NewPCG(s.seed, uint64(100*s.rounds+w)))
		writers.Go(func() error { return s.write(wctx, rng) })
	}
	s.disturb(t, broken)
	stopWriting()
	require.NoError(t, writers.Wait())
	stopFollowing()
	followers.Wait()
	for i, late := range s.late {
		if err := s.clients[i].Err(); err == nil { // else compare has to see it
			s.clients[i] = late
		}
	}
	clear(s.late)
}

// write runs random transactions until ctx ends: several statements, savepoints that are rolled back or released,
// transactions that are rolled back, now and then a big one. Deadlocks, tables that are away and ended connections are
// part of the plan.
func (s *soak) write(ctx context.Context, rng *rand.Rand) error {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	pace := time.NewTicker(100 * time.Millisecond) // leaves the server some of the machine
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = pgx.Connect(ctx, s.url); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("writer: %w", err)
			}
		}
		// Not cancelled in the middle: a transaction either is rolled back or counts.
		tctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		_, err := conn.PgConn().Exec(tctx, randomTransaction(rng)).ReadAll()
		if err == nil {
			s.committed.Add(1)
		} else if !conn.IsClosed() {
			_, err = conn.PgConn().Exec(tctx, "ROLLBACK").ReadAll()
		}
		cancel()
		var pgErr *pgconn.PgError
		if err != nil && !errors.As(err, &pgErr) && !conn.IsClosed() {
			return fmt.Errorf("writer: %w", err)
		}
	}
}

func randomTransaction(rng *rand.Rand) string {
	statements := []string{"BEGIN", "SET LOCAL lock_timeout = '5s'"}
	if rng.IntN(150) == 0 {
		statements = append(statements, fmt.Sprintf(`INSERT INTO items (id, n, s) SELECT 1000 + g, g %% 10, 's' || g %% 9 FROM generate_series(1, %d) g ON CONFLICT DO NOTHING`, 300+rng.IntN(1700)))
		if rng.IntN(2) == 0 {
			statements = append(statements, "UPDATE items SET n = n + 1 WHERE id >= 1000 AND n < 9")
		}
	}
	if rng.IntN(12) == 0 {
		statements = append(statements, "DELETE FROM items WHERE id >= 1000", "DELETE FROM bare WHERE id < (SELECT max(id) - 60 FROM bare)")
	}
	for range 1 + rng.IntN(5) {
		sql := soakTables[rng.IntN(len(soakTables))].statement(rng)
		switch rng.IntN(8) {
		case 0:
			statements = append(statements, "SAVEPOINT a", sql, "ROLLBACK TO a")
		case 1:
			statements = append(statements, "SAVEPOINT a", sql, "RELEASE a")
		default:
			statements = append(statements, sql)
		}
	}
	end := "COMMIT"
	if rng.IntN(6) == 0 {
		end = "ROLLBACK"
	}
	return strings.Join(append(statements, end), "; ")
}
