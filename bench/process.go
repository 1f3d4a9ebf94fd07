package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running server.
type process struct {
	cmd     *exec.Cmd
	base    string
	dir     string
	log     bytes.Buffer
	started time.Duration // from exec to /v1/health 200
}

// startServer starts the server on a free port, with a storage directory of its own, and waits until it is active.
func startServer(ctx context.Context, binary, url string) (p *process, err error) {
	dir, err := os.MkdirTemp("", "shapeserver-bench-")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	p = &process{base: "http://127.0.0.1:" + strconv.Itoa(port), dir: dir}
	p.cmd = exec.CommandContext(ctx, binary, "serve") //nolint:gosec // the binary under test
	p.cmd.Env = append(os.Environ(), "DATABASE_URL="+url, "SHAPESERVER_INSECURE=true", "SHAPESERVER_PORT="+strconv.Itoa(port),
		"SHAPESERVER_STORAGE_DIR="+dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s (make build makes it): %w", binary, err)
	}
	for time.Since(began) < time.Minute {
		resp, err := http.Get(p.base + "/v1/health") //nolint:noctx // bounded by the loop
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				p.started = time.Since(began)
				return p, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), p.stop())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil, errors.Join(errors.New("server is not active after a minute"), p.logTail(), p.stop())
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()         // nothing was written
	return l.Addr().(*net.TCPAddr).Port, nil //nolint:forcetypeassert // a TCP listener has a TCP address
}

// stop ends the server and removes its files.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // best effort: it may have ended
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != 0 {
		err = errors.Join(fmt.Errorf("server ended with %w", err), p.logTail())
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// logTail returns the end of the server's log as an error.
func (p *process) logTail() error {
	lines := strings.Split(strings.TrimSpace(p.log.String()), "\n")
	return fmt.Errorf("server log:\n%s", strings.Join(lines[max(0, len(lines)-10):], "\n"))
}

// memory returns the resident set size in bytes, peak the highest so far.
func (p *process) memory() (int64, error) { return p.status("VmRSS:") }
func (p *process) peak() (int64, error)   { return p.status("VmHWM:") }

func (p *process) status(field string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("memory of the server (Linux only): %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc", field)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func mib(n int64) string         { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
