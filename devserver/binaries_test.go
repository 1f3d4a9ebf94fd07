package devserver

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake makes a folder of programs that claim to be a version, and fail at everything else.
func fake(t *testing.T, root, name, version string, programs ...string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, p := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, p), []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo 'postgres (PostgreSQL) "+version+"'\n"), 0o755))
	}
	return dir
}

func TestFindBinaries(t *testing.T) {
	root := t.TempDir()
	all := []string{"initdb", "pg_ctl", "postgres"}
	fake(t, root, "13", "13.9", all...)
	fifteen := fake(t, root, "15", "15.19 (Debian 15.19-1.pgdg12+1)", all...)
	eighteen := fake(t, root, "18", "18beta1", all...)
	fake(t, root, "17", "17.2", "pg_ctl", "postgres") // no initdb: a client package
	onPath := fake(t, root, "path", "15.2", all...)
	require.NoError(t, os.Symlink(fifteen, filepath.Join(root, "zz")))

	var dirs []string
	for _, b := range findBinaries(t.Context(), "/nowhere:"+onPath, []string{filepath.Join(root, "*")}) {
		dirs = append(dirs, b.dir)
	}
	assert.Equal(t, []string{eighteen, onPath, fifteen}, dirs, "newest first, PATH before the usual places, each once")

	b, err := inspectBinaries(t.Context(), fifteen)
	require.NoError(t, err)
	assert.Equal(t, 15, b.major)
	assert.Equal(t, "15.19 (Debian 15.19-1.pgdg12+1)", b.version)
}

func TestNoPostgresAndNoNetwork(t *testing.T) {
	dir, err := os.MkdirTemp("", "devserver-") //nolint:usetesting // t.TempDir is private to the user, who is not Postgres's
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // Postgres runs as another user
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	_, err = Start(t.Context(), Options{Dir: dir, places: []string{"/nowhere/*"}, noPath: true, repository: "http://127.0.0.1:1"})
	require.ErrorIs(t, err, ErrNoPostgres)
	assert.Contains(t, err.Error(), "apt install postgresql")
	assert.Contains(t, err.Error(), "DATABASE_URL")
	assert.NotContains(t, err.Error(), "\n", "one line")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		assert.Contains(t, []string{"lock", "postgres", "postgres-programs"}, e.Name())
	}
}

// TestFetchedProgramsAreFound serves an archive of the form that the library fetches.
func TestFetchedProgramsAreFound(t *testing.T) {
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("no xz on this machine, to make the archive with")
	}
	root := t.TempDir()
	fake(t, root, "bin", "17.5", "initdb", "pg_ctl", "postgres")
	out, err := exec.CommandContext(t.Context(), "tar", "-C", root, "-cJf", filepath.Join(root, "x.txz"), "bin").CombinedOutput()
	require.NoError(t, err, string(out))
	archive, err := os.ReadFile(filepath.Join(root, "x.txz"))
	require.NoError(t, err)
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	f, err := z.Create("postgres-any.txz")
	require.NoError(t, err)
	_, err = f.Write(archive)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Write(jar.Bytes())
	}))
	defer repository.Close()
	defer http.DefaultClient.CloseIdleConnections() // the library uses it

	dir := filepath.Join(t.TempDir(), "programs")
	b, err := fetchBinaries(t.Context(), dir, repository.URL)
	require.NoError(t, err)
	assert.Equal(t, 17, b.major)
	assert.Equal(t, filepath.Join(dir, "bin"), b.dir)
}

func TestFetchedProgramsAreUsedAgain(t *testing.T) {
	root := t.TempDir()
	fake(t, root, "bin", "17.5", "initdb", "pg_ctl", "postgres")
	b, err := fetchBinaries(t.Context(), root, "http://127.0.0.1:1")
	require.NoError(t, err)
	assert.Equal(t, 17, b.major)
}

func TestFoldersHoldEverything(t *testing.T) {
	d := Dev{opts: Options{Dir: "/a/.dev"}, cluster: cluster{dir: "/a/.dev/postgres/data"}}
	assert.Equal(t, []string{"/a/.dev"}, d.Folders())
	d.cluster.dir = "/var/tmp/shapeserver-dev-1/data"
	assert.Equal(t, []string{"/a/.dev", "/var/tmp/shapeserver-dev-1"}, d.Folders())
}

func TestMayEnter(t *testing.T) {
	root := t.TempDir()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	private := filepath.Join(root, "private")
	require.NoError(t, os.Mkdir(private, 0o700))
	stranger := owner{name: "stranger", uid: 54321, gid: 54321, other: true}
	assert.True(t, stranger.mayEnter(filepath.Join(root, "new")))
	assert.False(t, stranger.mayEnter(filepath.Join(private, "new", "er")))
	assert.True(t, owner{uid: os.Geteuid()}.mayEnter(private), "what the present user may do is found out by doing")
	mine := owner{uid: os.Geteuid(), gid: os.Getegid(), other: true}
	assert.True(t, mine.mayEnter(private))
}
