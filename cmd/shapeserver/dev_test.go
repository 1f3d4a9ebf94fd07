package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/config"
	"github.com/shapeserver/shapeserver/server"
)

// devFolder returns a folder that an ordinary user can reach, or skips where there is no Postgres.
func devFolder(t *testing.T) string {
	t.Helper()
	_, err := exec.LookPath("initdb")
	places, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil && len(places) == 0 {
		t.Skip("no Postgres on this machine: initdb is neither on PATH nor in /usr/lib/postgresql")
	}
	dir, err := os.MkdirTemp("", "dev-") //nolint:usetesting // t.TempDir is private to the user, who is not Postgres's
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// runDev runs dev until the banner is out, gives it to check, and stops.
func runDev(t *testing.T, p program, stdout *output, args []string, check func(banner string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.run(ctx, append([]string{"dev", "--port=0"}, args...)) }()
	select {
	case <-stdout.written:
		check(stdout.String())
	case err := <-done:
		t.Fatalf("dev ended: %v", err)
	}
	cancel()
	require.NoError(t, <-done)
}

var quoted = regexp.MustCompile(`'(http://[^']+)'`)

// TestDevWithTheRealServer does what the banner says.
func TestDevWithTheRealServer(t *testing.T) {
	p, stdout, stderr := testProgram(t)
	p.open = openServer
	dir := devFolder(t)
	runDev(t, p, stdout, []string{"--data", dir, "--no-writer"}, func(banner string) {
		require.NotContains(t, banner, "not ready", stderr.String())
		assert.NotContains(t, banner, "every two seconds")
		urls := quoted.FindAllStringSubmatch(banner, -1)
		require.GreaterOrEqual(t, len(urls), 2, banner)
		read, watch := urls[0][1], urls[1][1]
		require.Contains(t, watch, "live_sse=true", banner)

		res, err := http.Get(read)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, 200, res.StatusCode)
		assert.Contains(t, string(body), "Open the URL above")

		stream, err := http.Get(watch)
		require.NoError(t, err)
		defer stream.Body.Close()
		require.Equal(t, 200, stream.StatusCode)
		_, line, found := strings.Cut(banner, "Change a row   ")
		require.True(t, found, banner)
		line, _, _ = strings.Cut(line, "\n")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
		var seen strings.Builder
		for buf := make([]byte, 4096); !strings.Contains(seen.String(), "Hello"); {
			n, err := stream.Body.Read(buf)
			seen.Write(buf[:n])
			require.NoError(t, err, seen.String())
		}
	})
	assert.Contains(t, stderr.String(), "stopping ...")
	_, err := os.Stat(filepath.Join(dir, "shapes"))
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(dir, "postgres", "data", "postmaster.pid"))
	assert.True(t, os.IsNotExist(err), "Postgres has stopped")
}

func TestDevStopsPostgresWhenTheServerFails(t *testing.T) {
	p, _, _ := testProgram(t)
	dir := devFolder(t)
	f := newFake(t, 200)
	f.err = assert.AnError
	p.open = func(context.Context, config.Config, server.Options) (running, error) { return f, nil }
	require.ErrorIs(t, p.run(t.Context(), []string{"dev", "--port=0", "--data=" + dir}), assert.AnError)
	_, err := os.Stat(filepath.Join(dir, "postgres", "data", "postmaster.pid"))
	assert.True(t, os.IsNotExist(err), "Postgres has stopped")
}

func TestDevWithADatabaseOfTheUsers(t *testing.T) {
	p, stdout, _ := testProgram(t, "DATABASE_URL=postgres://u:hunter2@db.example/d", "SHAPESERVER_SECRET=hunter3", "SHAPESERVER_REPLICATION_STREAM_ID=s1")
	dir := filepath.Join(t.TempDir(), "dev")
	f := newFake(t, 200)
	p.open = func(_ context.Context, cfg config.Config, _ server.Options) (running, error) {
		assert.Equal(t, filepath.Join(dir, "shapes-external"), cfg.StorageDir)
		assert.False(t, cfg.Insecure)
		return f, nil
	}
	runDev(t, p, stdout, []string{"--data", dir}, func(banner string) {
		assert.Contains(t, banner, "schema shapeserver, publication shapeserver_publication_s1, slot shapeserver_slot_s1.")
		assert.Contains(t, banner, "table=YOUR_TABLE&offset=-1&secret=YOUR_SECRET'")
		assert.NotContains(t, banner, "hunter")
		assert.NotContains(t, banner, "items")
	})
	_, err := os.Stat(dir)
	assert.True(t, os.IsNotExist(err), "no Postgres was made")
}
