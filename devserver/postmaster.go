package devserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// cluster is a data folder of Postgres and the programs that serve it.
type cluster struct {
	bin   binaries
	owner owner
	// dir is the folder that initdb made; it lies in a folder of the owner's.
	dir  string
	port int
}

func (c *cluster) logPath() string { return filepath.Join(c.dir, "postgres.log") }

// run runs one of Postgres's programs as the owner. Its error ends in the last line that the program printed.
func (c *cluster) run(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Dir = filepath.Dir(c.dir) // the owner may not enter the present folder
	cmd.SysProcAttr = c.owner.attributes()
	// Variables for clients must not reach the server's programs: PGDATA, PGPORT and PGOPTIONS change what they do.
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "LC_") && !strings.HasPrefix(kv, "LANG") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C", "HOME="+cmd.Dir)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, lastLine(out.String()))
	}
	return nil
}

// lastLine returns the last line that says what went wrong.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], "FATAL") || strings.Contains(lines[i], "error:") || strings.Contains(lines[i], "PANIC") {
			return strings.TrimSpace(lines[i])
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// initialise makes the data folder, unless it is there. It is made aside and renamed, so that a folder with the final
// name is always whole.
func (c *cluster) initialise(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.dir, "PG_VERSION")); err == nil {
		return nil
	}
	half := c.dir + ".new"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("remove half a data folder: %w", err)
	}
	// UTF-8 with an order that does not depend on the machine; C.UTF-8 has a name of its own where libc lacks it.
	locales := [][]string{{"--locale=C.UTF-8"}, {"--locale=en_US.UTF-8", "--lc-collate=C"}, {"--no-locale"}}
	if c.bin.major >= 17 {
		locales = append([][]string{{"--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"}}, locales...)
	}
	var err error
	for _, locale := range locales {
		args := append([]string{"-D", half, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"}, locale...)
		if err = c.run(exec.CommandContext(ctx, c.bin.path("initdb"), args...)); err == nil || ctx.Err() != nil {
			break
		}
		if err := os.RemoveAll(half); err != nil {
			return fmt.Errorf("remove half a data folder: %w", err)
		}
	}
	if err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := os.Rename(half, c.dir); err != nil {
		return fmt.Errorf("name the data folder: %w", err)
	}
	return nil
}

// start starts Postgres on a free port, the one it had last if possible, and returns when it accepts connections.
func (c *cluster) start(ctx context.Context, lastPort int) error {
	for attempt := 0; ; attempt++ {
		port, err := freePort(ctx, lastPort)
		if err != nil {
			return err
		}
		c.port = port
		if err := os.Remove(c.logPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove old log: %w", err)
		}
		// On the command line rather than in the file, so that ALTER SYSTEM cannot break what the server needs.
		settings := strings.Join([]string{
			"-p " + strconv.Itoa(port), "-c listen_addresses=127.0.0.1", "-c unix_socket_directories=''",
			"-c wal_level=logical", "-c max_wal_senders=20", "-c max_replication_slots=20", "-c max_connections=100",
		}, " ")
		err = c.run(exec.CommandContext(ctx, c.bin.path("pg_ctl"), "start", "-D", c.dir, "-l", c.logPath(), "-w", "-t", "60", "-o", settings))
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("start Postgres: %w", context.Cause(ctx)), c.stop())
		}
		log, readErr := os.ReadFile(c.logPath())
		if readErr != nil {
			return fmt.Errorf("start Postgres: %w", err)
		}
		if attempt < 3 && bytes.Contains(log, []byte("could not create any TCP/IP sockets")) {
			lastPort = 0 // someone took it between our look and Postgres's
			continue
		}
		return fmt.Errorf("start Postgres: %s (its log is %s)", lastLine(string(log)), c.logPath())
	}
}

// stop ends Postgres, if it runs, and returns when it has ended: connections are closed, and what they did not commit is lost.
func (c *cluster) stop() error {
	pid, err := c.runningPid()
	if err != nil || pid == 0 {
		return err
	}
	err = c.run(exec.Command(c.bin.path("pg_ctl"), "stop", "-D", c.dir, "-m", "fast", "-w", "-t", "20"))
	if err == nil {
		return nil
	}
	if pid, pidErr := c.runningPid(); pidErr == nil && pid == 0 {
		return nil // it ended by itself between our look and pg_ctl's
	}
	// What is not written now is recovered from the WAL at the next start.
	if err := c.run(exec.Command(c.bin.path("pg_ctl"), "stop", "-D", c.dir, "-m", "immediate", "-w", "-t", "20")); err != nil {
		return fmt.Errorf("stop Postgres: %w", err)
	}
	return nil
}

// runningPid returns the process that serves the data folder, or 0. If the number in postmaster.pid is now that of
// another program, which Postgres would take for a server still running, the file is removed.
func (c *cluster) runningPid() (int, error) {
	path := filepath.Join(c.dir, "postmaster.pid")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read postmaster.pid: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err == nil && pid > 1 && c.serves(pid) {
		return pid, nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("remove stale postmaster.pid: %w", err)
	}
	return 0, nil
}

// serves reports whether a process is a Postgres with our data folder on its command line, as pg_ctl starts it.
func (c *cluster) serves(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	line = bytes.ReplaceAll(line, []byte{0}, []byte(" "))
	if err != nil {
		// No /proc, as on macOS. Without ps too the process counts as another's.
		line, err = exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return false
		}
	}
	program, arguments, _ := strings.Cut(string(line), " -D ")
	base := filepath.Base(strings.TrimSpace(program))
	return (base == "postgres" || base == "postmaster") && strings.HasPrefix(arguments, c.dir+" ")
}

// freePort returns wanted if it is free on the loopback address, else another that is.
func freePort(ctx context.Context, wanted int) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(wanted)))
	if err != nil && wanted != 0 {
		l, err = lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return port, nil
}
