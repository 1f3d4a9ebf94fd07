package pgtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The environment variables by which one process tells another of a server that is up.
const (
	EnvURL         = "SHAPESERVER_TEST_DATABASE_URL"
	EnvDescription = "SHAPESERVER_TEST_DATABASE_DESCRIPTION"
)

const (
	pgserverPackage = "github.com/shapeserver/shapeserver/internal/pgtest/cmd/pgserver"

	// replyTimeout bounds one command to pgserver. The first includes compiling it, which takes a minute on a
	// machine that never did, and perhaps pulling an image.
	replyTimeout = 6 * time.Minute
)

// Reply is a line that cmd/pgserver writes: one when the server is up or has failed to start, then one per command.
type Reply struct {
	URL         string `json:"url,omitempty"`
	Description string `json:"description,omitempty"`
	Log         string `json:"log,omitempty"`
	Error       string `json:"error,omitempty"` // empty when all went well
}

// Server is a PostgreSQL server for tests. Its methods are not safe for concurrent use.
type Server struct {
	url, description string
	down             bool

	// What follows is of a server behind a pgserver process of ours; cmd is nil otherwise.
	cmd    *exec.Cmd
	in     *os.File // pgserver's standard input: closing it, or our end, ends the server
	out    *os.File
	lines  *bufio.Reader
	stderr *os.File
}

// ServerOptions say how a private server differs from the shared one. The zero value is the same server.
type ServerOptions struct {
	// Settings are postgresql.conf settings by name, such as "wal_level": "replica".
	Settings map[string]string
	// Durable keeps fsync on.
	Durable bool
}

// NewServer starts a server for this test alone, which may be stopped, killed and started, and removes it when the
// test ends. It takes 1–3 s, so tests that can use New do.
func NewServer(t testing.TB, o ServerOptions) *Server {
	t.Helper()
	var args []string
	if o.Durable {
		args = append(args, "-durable")
	}
	for name, value := range o.Settings {
		args = append(args, "-set", name+"="+value)
	}
	s, err := startPgserver(args)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("pgtest: stop private server: %v", err)
		}
	})
	return s
}

// URL is the superuser's connection string for the database postgres. It stays true across restarts.
func (s *Server) URL() string { return s.url }

// Stop ends the server in order: it cuts its clients off and writes a checkpoint.
func (s *Server) Stop(t testing.TB) { t.Helper(); s.must(t, "stop"); s.down = true }

// Kill ends all processes of the server at once, as a crash would.
func (s *Server) Kill(t testing.TB) { t.Helper(); s.must(t, "kill"); s.down = true }

// Start starts a stopped or killed server and returns once it accepts connections.
func (s *Server) Start(t testing.TB) { t.Helper(); s.must(t, "start"); s.down = false }

// Restart stops and starts the server.
func (s *Server) Restart(t testing.TB) { t.Helper(); s.Stop(t); s.Start(t) }

// Log returns the server's log so far.
func (s *Server) Log(t testing.TB) string { t.Helper(); return s.must(t, "log").Log }

func (s *Server) stopped() bool { return s.down }

func (s *Server) must(t testing.TB, command string) Reply {
	t.Helper()
	if s.cmd == nil {
		t.Fatalf("pgtest: %s: this server is shared; use NewServer for one of the test's own", command)
	}
	if _, err := io.WriteString(s.in, command+"\n"); err != nil {
		t.Fatalf("pgtest: tell pgserver to %s: %v", command, err)
	}
	r, err := s.reply()
	if err != nil {
		t.Fatalf("pgtest: %s: %v", command, err)
	}
	return r
}

// openShared finds or starts the server that the tests of this process share, and says which it is. It is never closed:
// the kernel closes our end of pgserver's standard input when this process ends in whatever way.
func openShared() (*Server, error) {
	var s *Server
	if url := os.Getenv(EnvURL); url != "" {
		s = &Server{url: url, description: os.Getenv(EnvDescription)}
		if s.description == "" {
			s.description = "the server of " + EnvURL
		}
	} else {
		var err error
		if s, err = startPgserver(nil); err != nil {
			return nil, err
		}
	}
	fmt.Fprintln(os.Stderr, "pgtest: using", s.description)
	return s, nil
}

// startPgserver runs cmd/pgserver through the go command, which is there wherever go test is, and waits for its server.
// All its files are plain pipes and files, so that os/exec starts no goroutine that a leak check would find, and
// none is our own standard output, on which go test would wait.
func startPgserver(args []string) (_ *Server, err error) {
	s := &Server{}
	var childIn, childOut *os.File
	defer func() {
		childIn.Close()
		childOut.Close()
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if childIn, s.in, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	if s.out, childOut, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	if s.stderr, err = os.CreateTemp("", "pgserver-stderr-"); err != nil {
		return nil, fmt.Errorf("make file for pgserver's messages: %w", err)
	}
	_ = os.Remove(s.stderr.Name()) // the open file stays, and goes with the processes that hold it
	s.lines = bufio.NewReader(s.out)
	s.cmd = exec.Command("go", append([]string{"run", pgserverPackage}, args...)...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = childIn, childOut, s.stderr
	s.cmd.Env = buildEnv(os.Environ())
	// A group of its own: Ctrl-C in a terminal ends the test, and then, in that order, its server.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return nil, fmt.Errorf("run %s: %w", pgserverPackage, err)
	}
	r, err := s.reply()
	if err != nil {
		return nil, err
	}
	s.url, s.description = r.URL, r.Description
	return s, nil
}

// buildEnv drops what go test may have set for the program under test and would change how pgserver is built.
func buildEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "GOCOVERDIR=") || strings.HasPrefix(v, "GORACE=")
	})
}

// reply reads pgserver's next line. When pgserver has ended instead, the error is what it said last.
func (s *Server) reply() (r Reply, err error) {
	if err := s.out.SetReadDeadline(time.Now().Add(replyTimeout)); err != nil {
		return r, fmt.Errorf("set deadline: %w", err)
	}
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		said := make([]byte, 4000)
		n, _ := s.stderr.ReadAt(said, 0)
		return r, fmt.Errorf("pgserver gave no answer (%w); it said: %s", err, bytes.TrimSpace(said[:n]))
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("read pgserver's answer %q: %w", line, err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// close ends pgserver and waits until it and its server are gone. It may be called after a failed start.
func (s *Server) close() error {
	s.in.Close()
	var err error
	if s.cmd != nil {
		if err = s.cmd.Wait(); err != nil {
			err = fmt.Errorf("pgserver: %w", err)
		}
	}
	s.out.Close()
	s.stderr.Close()
	return err
}
