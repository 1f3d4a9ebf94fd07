package integration

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// withStandby makes a database on a server whose synchronous standby never comes. Only commits of heldCommit wait for it.
func withStandby(t *testing.T) *pgtest.DB {
	t.Helper()
	return pgtest.NewServer(t, pgtest.ServerOptions{Settings: map[string]string{
		"synchronous_standby_names": "nobody", "synchronous_commit": "local",
	}}).NewDB(t)
}

// heldCommit runs sql as one transaction whose commit is in the WAL, and so in the replication stream, while no other
// session sees it, until release is called. The channel gets an answer then, or before if the commit did not wait.
func heldCommit(t *testing.T, db *pgtest.DB, sql string) (release func(), written <-chan error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	done, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		_, err := conn.PgConn().Exec(t.Context(), "SET synchronous_commit = on; "+sql).ReadAll()
		done <- err
	}()
	t.Cleanup(func() {
		<-ended // the test's context has ended, and so has the statement
		_ = conn.Close(t.Context())
	})
	return func() {
		t.Helper()
		// A cancelled wait does not undo the commit.
		db.Exec(t, fmt.Sprintf("SELECT pg_cancel_backend(%d)", conn.PgConn().PID()))
		require.NoError(t, <-done)
	}, done
}
