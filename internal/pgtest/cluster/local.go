package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// local is a cluster of this machine's binaries in a temporary folder.
type local struct {
	bin, version string
	dir          string // holds data/, log, sock/ and the lock
	lock         *os.File
	cred         *syscall.Credential // nil when we are not root
	port         int
	settings     []string
	proc         *exec.Cmd
	exited       chan struct{} // closed when proc has ended; nil while no server runs
}

func startLocal(ctx context.Context, o Options) (_ *local, err error) {
	bin, version, err := findBinaries(ctx)
	if err != nil {
		return nil, err
	}
	removeOrphans()
	c := &local{bin: bin, version: version, settings: o.settings()}
	if c.cred, err = serverUser(); err != nil {
		return nil, err
	}
	if c.dir, c.lock, err = makeDir(c.cred); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := c.initdb(ctx); err != nil {
		return nil, err
	}
	// The port was free when we asked; another process may take it before Postgres does.
	for range 3 {
		if c.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = c.Start(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// findBinaries looks for a server on PATH, then in the usual places, newest first.
func findBinaries(ctx context.Context) (dir, version string, err error) {
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // RHEL, Fedora (PGDG)
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/local/pgsql/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return majorIn(b) - majorIn(a) })
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
		if err != nil {
			continue
		}
		return dir, versionOf(string(out)), nil
	}
	return "", "", errors.New("no postgres and initdb on PATH or in the usual places")
}

// majorIn returns the number in a path such as /usr/lib/postgresql/15/bin, 0 if there is none.
func majorIn(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[len(digits)-1])
	return n
}

// versionOf returns "15.18" from "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
func versionOf(s string) string {
	f := strings.Fields(s)
	if len(f) < 3 {
		return "unknown"
	}
	return f[2]
}

func (c *local) initdb(ctx context.Context) error {
	args := []string{"-D", c.data(), "-U", "postgres", "-A", "trust", "--encoding=UTF8", "--no-sync"}
	out, err := c.command(ctx, "initdb", append(args, "--locale=C.UTF-8")...).CombinedOutput()
	if err != nil && strings.Contains(string(out), "locale") {
		// Not every system has the locale C.UTF-8; C orders text the same way.
		out, err = c.command(ctx, "initdb", append(args, "--locale=C")...).CombinedOutput()
	}
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, tail(out))
	}
	return nil
}

func (c *local) data() string { return filepath.Join(c.dir, "data") }

func (c *local) logPath() string { return filepath.Join(c.dir, "log") }

// command builds a command that runs as the server's user, in a folder that this user may enter, and in a process
// group of its own, so that Ctrl-C in a terminal ends the test and not, first, its database.
func (c *local) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGUSER=", "PGDATA=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred, Setpgid: true}
	return cmd
}

func (c *local) Describe() string { return fmt.Sprintf("local PostgreSQL %s in %s", c.version, c.bin) }

func (c *local) URL() string {
	return fmt.Sprintf("postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port)
}

func (c *local) Start(ctx context.Context) error {
	if c.exited != nil {
		return errors.New("start: the server is already running")
	}
	log, err := os.OpenFile(c.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer log.Close()
	args := []string{
		"-D", c.data(), "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(c.port),
		"-c", "unix_socket_directories=" + filepath.Join(c.dir, "sock"),
	}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	// The server outlives ctx, which bounds only the start.
	proc := c.command(context.WithoutCancel(ctx), "postgres", args...)
	proc.Stdout, proc.Stderr = log, log
	if err := proc.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = proc.Wait() // ProcessState says how it ended
		close(exited)
	}()
	c.proc, c.exited = proc, exited
	err = awaitReady(ctx, c.URL(), func() error {
		select {
		case <-exited:
			c.proc, c.exited = nil, nil
			out, _ := os.ReadFile(c.logPath())
			return fmt.Errorf("postgres ended at once (%s); its log ends: %s", proc.ProcessState, tail(out))
		default:
			return nil
		}
	})
	if err != nil {
		return errors.Join(err, c.end(context.WithoutCancel(ctx), syscall.SIGQUIT))
	}
	return nil
}

func (c *local) Stop(ctx context.Context) error {
	return c.end(ctx, syscall.SIGINT) // "fast shutdown"
}

// Kill sends SIGKILL to the postmaster and to all its children at once: a postmaster killed alone leaves them behind
// until each notices.
func (c *local) Kill(ctx context.Context) error {
	if c.exited == nil {
		return nil
	}
	for _, pid := range append(childrenOf(c.proc.Process.Pid), c.proc.Process.Pid) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill server process %d: %w", pid, err)
		}
	}
	return c.await(ctx)
}

// end signals the postmaster and waits for it. It does nothing when no server runs.
func (c *local) end(ctx context.Context, sig syscall.Signal) error {
	if c.exited == nil {
		return nil
	}
	if err := c.proc.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal postgres: %w", err)
	}
	return c.await(ctx)
}

func (c *local) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case <-c.exited: // its exit code says only how we ended it
		c.proc, c.exited = nil, nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for postgres to end: %w", ctx.Err())
	}
}

func (c *local) Log(context.Context) ([]byte, error) { return os.ReadFile(c.logPath()) }

func (c *local) Close(ctx context.Context) error {
	err := c.end(ctx, syscall.SIGQUIT)
	return errors.Join(err, os.RemoveAll(c.dir), c.lock.Close())
}

// childrenOf returns the direct children of a process, as ps knows them; none if ps fails.
func childrenOf(parent int) []int {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 2 || f[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(f[0]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// tail returns the last 2000 bytes of a log, on one line.
func tail(b []byte) string {
	b = b[max(0, len(b)-2000):]
	return strings.Join(strings.Fields(string(b)), " ")
}
