package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// buildDir holds the binary under test for the length of a test run.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "shapeserver-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	m.Run() // its exit code is the process's once TestMain returns
}

// binary returns the path of the server's binary: the one that SHAPESERVER_TEST_BINARY names, else one built from this
// module, with the race detector when the tests have it.
func binary(t testing.TB) string {
	t.Helper()
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// failpointBinary returns the path of a binary that can be made to fail, see internal/failpoint.
func failpointBinary(t testing.TB) string {
	t.Helper()
	path, err := buildFailpointBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("SHAPESERVER_TEST_BINARY"); path != "" {
		return path, nil
	}
	return build("shapeserver")
})

var buildFailpointBinary = sync.OnceValues(func() (string, error) {
	return build("shapeserver-failpoint", "-tags", "failpoint")
})

func build(name string, flags ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) //nolint:forbidigo // shared by all tests, so it is bound to none
	defer cancel()
	path := filepath.Join(buildDir, name)
	args := append([]string{"build", "-o", path}, flags...)
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/shapeserver/shapeserver/cmd/shapeserver")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server under test: %w\n%s", err, out)
	}
	return path, nil
}
