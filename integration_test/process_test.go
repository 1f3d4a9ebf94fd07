package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
)

// process is the server under test, a process of its own. It keeps its port and its storage folder over restarts.
type process struct {
	// url is where it serves, such as http://127.0.0.1:41234.
	url string

	bin    string
	env    []string
	log    *logBuffer
	cmd    *exec.Cmd     // nil while it does not run
	exited chan struct{} // closed when cmd has ended
	pid    atomic.Int64  // of cmd

	mayPanic bool // the test makes it panic
}

// startServer starts a server on db, with settings over those of a test, as "NAME=value", and waits until it is
// active. When the test ends the server is stopped, and the test fails if it did not end cleanly, panicked or raced.
func startServer(t testing.TB, db *pgtest.DB, settings ...string) *process {
	t.Helper()
	p := newProcess(t, db, settings...)
	p.start(t)
	return p
}

// newProcess prepares a server without starting it.
func newProcess(t testing.TB, db *pgtest.DB, settings ...string) *process {
	t.Helper()
	port := freePort(t)
	p := &process{bin: binary(t), url: "http://127.0.0.1:" + strconv.Itoa(port), log: &logBuffer{}}
	p.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(),
		"GORACE=halt_on_error=1",
		"DATABASE_URL=" + db.URL,
		"SHAPESERVER_INSECURE=true",
		"SHAPESERVER_PORT=" + strconv.Itoa(port),
		"SHAPESERVER_STORAGE_DIR=" + t.TempDir(),
		// Slots belong to the whole cluster, which other tests share.
		"SHAPESERVER_REPLICATION_STREAM_ID=" + db.Name[strings.LastIndexByte(db.Name, '_')+1:],
	}, settings...)
	t.Cleanup(func() {
		if p.cmd != nil {
			p.stop(t)
		}
		log := p.log.String()
		for _, bad := range []string{"WARNING: DATA RACE", "fatal error:", "panic:"} {
			if strings.Contains(log, bad) && (bad != "panic:" || !p.mayPanic) {
				t.Errorf("the server's log has %q:\n%s", bad, linesFrom(log, bad, 100))
			}
		}
		if t.Failed() {
			t.Logf("the server's log has these errors:\n%s\nand ends:\n%s", lastLines(errorLines(log), 20), lastLines(log, 30))
		}
	})
	return p
}

// start starts the server and waits until its health says active.
func (p *process) start(t testing.TB) {
	t.Helper()
	p.launch(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := p.awaitActive(ctx); err != nil {
		t.Fatalf("%v; its log ends:\n%s", err, lastLines(p.log.String(), 40))
	}
}

// launch starts the server and does not wait.
func (p *process) launch(t testing.TB) {
	t.Helper()
	require.Nil(t, p.cmd, "the server already runs")
	require.NoError(t, p.run())
}

// run starts the server, which must not be running, and does not wait.
func (p *process) run() error {
	cmd := exec.Command(p.bin, "serve")
	cmd.Env = p.env
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ProcessState says how it ended
		close(exited)
	}()
	p.cmd, p.exited = cmd, exited
	p.pid.Store(int64(cmd.Process.Pid))
	return nil
}

// awaitActive returns once GET /v1/health answers 200, or with an error when the server has ended instead.
func (p *process) awaitActive(ctx context.Context) error {
	for {
		if code, err := p.health(ctx); err == nil && code == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the server is not active in time")
		case <-p.exited:
			return fmt.Errorf("the server ended with code %d instead of serving", p.cmd.ProcessState.ExitCode())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *process) health(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/health", http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// stop asks the server to stop (SIGTERM) and requires that it does so cleanly.
func (p *process) stop(t testing.TB) {
	t.Helper()
	code := p.signal(t, syscall.SIGTERM)
	if code != 0 {
		t.Errorf("the server ended with code %d after SIGTERM", code)
	}
}

// kill ends the server at once, as a crash would.
func (p *process) kill(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
}

func (p *process) signal(t testing.TB, sig syscall.Signal) (code int) {
	t.Helper()
	require.NotNil(t, p.cmd, "the server does not run")
	// An error means that it has ended by itself; its exit code then says what it was.
	_ = p.cmd.Process.Signal(sig)
	return p.awaitExit(t)
}

// awaitExit waits for the server to end and returns its exit code, -1 for a signal.
func (p *process) awaitExit(t testing.TB) (code int) {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // prints the goroutines into the log
		<-p.exited
		t.Errorf("the server did not end within %s", stopTimeout)
	}
	code = p.cmd.ProcessState.ExitCode()
	p.cmd = nil
	return code
}

// restart stops the server in order and starts it again.
func (p *process) restart(t testing.TB) {
	t.Helper()
	p.stop(t)
	p.start(t)
}

// logBuffer collects the server's output.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// fetch returns the body of what a URL answers.
func fetch(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

// linesFrom returns up to n lines of the log, the first being the first that has mark.
func linesFrom(log, mark string, n int) string {
	_, after, _ := strings.Cut(log, mark)
	lines := strings.SplitN(mark+after, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// errorLines returns the lines of a log at level ERROR.
func errorLines(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=ERROR") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// freePort returns a TCP port that was free a moment ago.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
