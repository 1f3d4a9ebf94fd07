package integration

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// The command tells a healthy server's records from damaged ones by its exit code, repairs them while no server runs, and
// refuses to under one; afterwards the server starts, and the client fetches what it lost anew.
func TestDoctor(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1), (2)")
	srv := startServer(t, db)
	folds := []*Fold{NewFold(srv.url, shape("table", "items")), NewFold(srv.url, shape("table", "items", "where", "id > 1"))}
	for _, f := range folds {
		require.NoError(t, f.CatchUp(t.Context()))
	}
	doctor := func(fix ...string) (code int, out string) {
		cmd := exec.CommandContext(t.Context(), srv.bin, append([]string{"doctor"}, fix...)...)
		cmd.Env = srv.env
		text, err := cmd.CombinedOutput()
		if err != nil {
			require.NotNil(t, cmd.ProcessState, "%v", err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	code, out := doctor()
	require.Zero(t, code, out)
	require.Contains(t, out, folds[0].Handle)
	require.Contains(t, out, "A server is running")
	code, out = doctor("--fix")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "stop it first")

	srv.stop(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, fix := range [][]string{nil, {"--fix"}} {
		code, out = doctor(append([]string{"--storage-dir", elsewhere}, fix...)...)
		require.Equal(t, 1, code, out)
		require.Contains(t, out, "holds no logs", "not that every shape has lost its log")
		require.NoDirExists(t, elsewhere)
	}
	code, out = doctor()
	require.Zero(t, code, out)
	db.Exec(t, "DELETE FROM shapeserver.shapes WHERE handle = '"+folds[0].Handle+"'")
	code, out = doctor()
	require.Equal(t, 1, code, out)
	require.Contains(t, out, folds[0].Handle+": a log without a status row")
	code, out = doctor("--fix")
	require.Zero(t, code, out)
	code, out = doctor()
	require.Zero(t, code, out)
	require.NotContains(t, out, folds[0].Handle)

	srv.start(t)
	db.Exec(t, "INSERT INTO items VALUES (3)")
	requireSame(t, folds[0], db, "SELECT * FROM items")
	requireSame(t, folds[1], db, "SELECT * FROM items WHERE id > 1")
	require.Equal(t, []int{1, 0}, []int{folds[0].Refetched, folds[1].Refetched})
}
