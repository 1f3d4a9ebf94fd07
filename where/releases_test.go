package where_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest/cluster"
)

// Clauses are evaluated as another release of Postgres does, too. It is skipped where that release cannot be had.
func TestClausesAgreeWithPostgres17(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "../scripts/postgres.sh", "17")
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("no PostgreSQL 17: %v: %s", err, problem.String())
	}
	t.Setenv("PATH", strings.TrimSpace(string(out))+":"+os.Getenv("PATH"))
	server, err := cluster.Start(t.Context(), cluster.Options{Mode: cluster.Local})
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "permission denied") {
		t.Skipf("PostgreSQL 17 is where the user that runs it may not go: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
	pool, err := pgxpool.New(t.Context(), server.URL())
	require.NoError(t, err)
	defer pool.Close()

	o := newOracleOn(t, pool, *sampleSeed, 60)
	require.GreaterOrEqual(t, o.version, 17)
	t.Logf("%s, -where.seed=%d", server.Describe(), *sampleSeed)
	g := &generator{rand.New(rand.NewPCG(*sampleSeed, 6)), o.kinds, o.scope}
	exprs := make([]string, 600)
	for i := range exprs {
		exprs[i] = g.clause(3)
	}
	o.check(t, exprs)
	o.report(t)
	require.Positive(t, o.compared)
}
