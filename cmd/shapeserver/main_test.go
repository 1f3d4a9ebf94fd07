package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/config"
	"github.com/shapeserver/shapeserver/server"
)

// asMain makes the test binary be the command, so that exit codes and signals can be seen.
const asMain = "SHAPESERVER_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// fake is a server that listens, answers its health, and runs until it is told to stop.
type fake struct {
	listener net.Listener
	health   int
	err      error
	ran      chan struct{}
}

func newFake(t *testing.T, health int) *fake {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	return &fake{listener: l, health: health, ran: make(chan struct{})}
}

func (f *fake) Addr() string { return f.listener.Addr().String() }

func (f *fake) Run(ctx context.Context) error {
	close(f.ran)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(f.health)
		say(w, `{"status":"%s"}`, r.URL.Path)
	})}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if f.err != nil {
		srv.Close()
		return f.err
	}
	if err := srv.Serve(f.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// output is a Writer that can be read while it is written to, and waited on.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	written chan struct{}
}

func newOutput() *output { return &output{written: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.written <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// testProgram is a program whose server and migrations are fakes.
func testProgram(t *testing.T, environ ...string) (program, *output, *output) {
	t.Helper()
	stdout, stderr := newOutput(), newOutput()
	return program{
		environ: environ, stdout: stdout, stderr: stderr,
		open: func(context.Context, config.Config, server.Options) (running, error) {
			return nil, errors.New("no server was expected")
		},
	}, stdout, stderr
}

var serveEnv = []string{"DATABASE_URL=postgres://u:hunter2@h/d", "SHAPESERVER_INSECURE=true"}

func TestServe(t *testing.T) {
	p, stdout, stderr := testProgram(t, append([]string{"ELECTRIC_OTEL_DEBUG=1", "ELECTRIC_STORAGE_DIR=/x"}, serveEnv...)...)
	f := newFake(t, 200)
	p.open = func(_ context.Context, cfg config.Config, opts server.Options) (running, error) {
		assert.Equal(t, "/x", cfg.StorageDir)
		assert.Equal(t, 3005, cfg.Port)
		assert.NotEmpty(t, opts.Version)
		assert.NotNil(t, opts.Registry)
		return f, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.run(ctx, []string{"serve", "--port", "3005"}) }()
	<-f.ran
	cancel()
	require.NoError(t, <-done)
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), "ELECTRIC_OTEL_DEBUG has no meaning here")
	assert.Contains(t, stderr.String(), "msg=listening address="+f.Addr())
	assert.Contains(t, stderr.String(), "SHAPESERVER_INSECURE is set")
	assert.Contains(t, stderr.String(), "msg=stopped")
	assert.NotContains(t, stderr.String(), "hunter2")
}

func TestFailuresAreReturned(t *testing.T) {
	opens := func(r running, err error) func(context.Context, config.Config, server.Options) (running, error) {
		return func(context.Context, config.Config, server.Options) (running, error) { return r, err }
	}
	dies := newFake(t, 200)
	dies.err = errors.New("slot is in use")
	for _, tc := range []struct {
		name string
		args []string
		env  []string
		open func(context.Context, config.Config, server.Options) (running, error)
		want string
	}{
		{"no command", nil, nil, nil, "name a command, such as shapeserver dev"},
		{"unknown command", []string{"srve"}, nil, nil, `unknown command "srve": shapeserver help lists them`},
		{"no settings", []string{"serve"}, nil, nil, "DATABASE_URL: is required"},
		{"a word too many", []string{"serve", "now"}, serveEnv, nil, "unexpected argument now"},
		{"unknown flag", []string{"serve", "--prt", "1"}, serveEnv, nil, "--prt: unknown; did you mean --port?"},
		{"open fails", []string{"serve"}, serveEnv, opens(nil, errors.New("port taken")), "port taken"},
		{"run fails", []string{"serve"}, serveEnv, opens(dies, nil), "slot is in use"},
		{"migrate what", []string{"migrate"}, serveEnv, nil, `migrate takes one of up, down, version; it got ""`},
		{"migrate sideways", []string{"migrate", "sideways"}, nil, nil, `it got "sideways"`},
		{"migrate nothing", []string{"migrate", "up"}, nil, nil, "DATABASE_URL: is required"},
		{"dev with a word", []string{"dev", "now"}, nil, nil, "unexpected argument now"},
		{"dev without a folder", []string{"dev", "--data"}, nil, nil, "--data needs a folder"},
		{"dev with a value", []string{"dev", "--no-writer=1"}, nil, nil, "--no-writer takes no value"},
		{"config", []string{"config"}, []string{"SHAPESERVER_PORT=x"}, nil, "SHAPESERVER_PORT=x: want"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, _, _ := testProgram(t, tc.env...)
			if tc.open != nil {
				p.open = tc.open
			}
			require.ErrorContains(t, p.run(t.Context(), tc.args), tc.want)
		})
	}
}

func TestHelpVersionConfig(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"help"}, "Usage: shapeserver <command>"},
		{[]string{"--help"}, "Usage: shapeserver <command>"},
		{[]string{"help", "config"}, "SHAPESERVER_SHAPE_CHUNK_BYTES_THRESHOLD, --shape-chunk-bytes-threshold (10MiB)"},
		{[]string{"serve", "--help"}, "ELECTRIC_STORAGE_DIR"},
		{[]string{"dev", "-h"}, "--no-writer"},
		{[]string{"help", "migrate"}, "migrate up|down|version"},
		{[]string{"migrate", "--help"}, "migrate up|down|version"},
		{[]string{"healthcheck", "--help"}, "healthcheck"},
		{[]string{"version"}, "shapeserver devel"},
		{[]string{"--version"}, "shapeserver devel"},
		{[]string{"config", "--port=7"}, "7   # --port"},
	} {
		p, stdout, stderr := testProgram(t, serveEnv...)
		require.NoError(t, p.run(t.Context(), tc.args), tc.args)
		assert.Contains(t, stdout.String(), tc.want, tc.args)
		assert.NotContains(t, stdout.String(), "hunter2")
		assert.Empty(t, stderr.String())
	}
	p, stdout, _ := testProgram(t)
	require.NoError(t, p.run(t.Context(), []string{"help"}))
	for _, c := range commands() {
		assert.Contains(t, stdout.String(), c.name)
	}
}

func TestMigrate(t *testing.T) {
	var called []string
	note := func(name string) func(context.Context, string, *slog.Logger) error {
		return func(_ context.Context, url string, _ *slog.Logger) error {
			called = append(called, name)
			assert.Contains(t, url, "hunter2")
			return nil
		}
	}
	for _, tc := range []struct {
		word    string
		version uint
		dirty   bool
		called  []string
		want    string
	}{
		{"up", 3, false, []string{"up"}, "version 3\n"},
		{"down", 0, false, []string{"down"}, "no schema\n"},
		{"version", 2, false, nil, "version 2\n"},
		{"version", 2, true, nil, "version 2, whose migration did not finish: shapeserver migrate up says what to do\n"},
	} {
		called = nil
		p, stdout, _ := testProgram(t, serveEnv[0]) // neither a secret nor insecure: migrate does not serve
		p.migrator = migrator{up: note("up"), down: note("down"), version: func(context.Context, string) (uint, bool, error) {
			return tc.version, tc.dirty, nil
		}}
		require.NoError(t, p.run(t.Context(), []string{"migrate", tc.word}))
		assert.Equal(t, tc.called, called)
		assert.Equal(t, tc.want, stdout.String())
	}
}

func TestHealthcheck(t *testing.T) {
	for code, well := range map[int]bool{200: true, 202: true, 503: false, 404: false} {
		f := newFake(t, code)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		_, port, _ := net.SplitHostPort(f.Addr())
		p, stdout, _ := testProgram(t, "ELECTRIC_PORT="+port, "SHAPESERVER_SECRET=s") // no DATABASE_URL: it only asks
		err := p.run(t.Context(), []string{"healthcheck"})
		if well {
			require.NoError(t, err, code)
			assert.Equal(t, fmt.Sprintf("%d {\"status\":\"/v1/health\"}\n", code), stdout.String())
		} else {
			require.ErrorContains(t, err, fmt.Sprintf("http://127.0.0.1:%s/v1/health answered %d", port, code))
		}
		cancel()
		require.NoError(t, <-done)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	require.NoError(t, l.Close())
	p, _, _ := testProgram(t)
	require.ErrorContains(t, p.run(t.Context(), []string{"healthcheck", "--port", port}), "no answer from http://127.0.0.1:"+port+"/v1/health: dial")
}

func TestMessageIsOneLine(t *testing.T) {
	assert.Equal(t, "connect: a (1) b (2)", message(errors.New("connect:\n\ta (1)\n\tb (2)")))
	_, _, err := config.Load(config.Serve, nil, nil)
	assert.Equal(t, 2, strings.Count(message(err), "\n"), "a heading, and a line for each setting")
}

// command runs the real main in a process of its own.
func process(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append([]string{asMain + "=1", "PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}

func TestExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp4", "0.0.0.0:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	storage := t.TempDir()
	for _, tc := range []struct {
		args []string
		env  []string
		want string
	}{
		{[]string{"serve"}, []string{"DATABASE_URL=postgres://u:hunter2@h/d"}, "shapeserver: SHAPESERVER_SECRET: is required: "},
		{[]string{"serve"}, append([]string{"ELECTRIC_PORT=70000"}, serveEnv...), "shapeserver: ELECTRIC_PORT=70000: want a whole number from 0 to 65535, 0 means any free one\n"},
		{[]string{"serve", "--port", port, "--storage-dir", storage}, serveEnv, "is in use by another program"},
		{[]string{"dev", "--listen-host=0.0.0.0", "--port", port}, nil, "shapeserver: port " + port + " is in use by another program: stop that, or choose another port, such as --port "},
	} {
		var stderr strings.Builder
		cmd := process(t, tc.env, tc.args...)
		cmd.Stderr = &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, tc.args)
		assert.Equal(t, 1, exit.ExitCode(), stderr.String())
		assert.Contains(t, stderr.String(), tc.want)
		assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %s", stderr.String())
		assert.NotContains(t, stderr.String(), "hunter2")
	}
}

// TestStopBySignal stops the real server while its database cannot be reached (B203, B204).
func TestStopBySignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := process(t, []string{"DATABASE_URL=postgres://u:p@127.0.0.1:1/d", "SHAPESERVER_INSECURE=true"},
			"serve", "--port=0", "--storage-dir="+t.TempDir())
		stderr, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var log strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(log.String(), "msg=listening") {
			n, err := stderr.Read(buf)
			log.Write(buf[:n])
			require.NoError(t, err, log.String())
		}
		require.NoError(t, cmd.Process.Signal(sig))
		rest, err := io.ReadAll(stderr)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait(), "exit code 0; log:\n%s%s", log.String(), rest)
		assert.NotContains(t, string(rest), "goroutine ")
	}
}
