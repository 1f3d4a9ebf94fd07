// Command pgserver keeps a PostgreSQL server for tests.
//
//	pgserver                   serve package pgtest: one JSON line when the server is up, then one for each command
//	                           line on standard input; ends, and leaves nothing, when standard input ends
//	pgserver run -- go test …  start a server, run a command with SHAPESERVER_TEST_DATABASE_URL set, stop the server
//
// It owns the server's life, and is a process of its own for two reasons: the server then goes away with the test that
// asked for it in whatever way that test ends, and a test binary need not link a Docker client. It leaves how to start
// a server to cluster, and databases to pgtest.
//
// Goroutines: none beyond those of os/exec and os/signal. Invariant: no exit but SIGKILL leaves a server behind.
// Start reading at run.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/internal/pgtest/cluster"
)

func main() {
	// When the test that reads our output is gone, a write must fail and not end us before the server is stopped.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // main owns the root context
	defer stop()
	code, err := run(ctx, os.Args[1:], os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgserver:", err)
	}
	stop()
	os.Exit(code) //nolint:gocritic // stop has been called
}

func run(ctx context.Context, args []string, getenv func(string) string) (code int, err error) {
	o := cluster.Options{
		Mode:     cluster.Mode(getenv("SHAPESERVER_TEST_POSTGRES")),
		Image:    getenv("SHAPESERVER_TEST_POSTGRES_IMAGE"),
		Settings: map[string]string{},
		Notices:  os.Stderr,
	}
	switch o.Mode {
	case "", cluster.Auto, cluster.Container, cluster.Local:
	default:
		return 2, fmt.Errorf("SHAPESERVER_TEST_POSTGRES=%s: want auto, container or local", o.Mode)
	}
	flags := flag.NewFlagSet("pgserver", flag.ContinueOnError)
	flags.BoolVar(&o.Durable, "durable", false, "keep fsync on")
	flags.Func("set", "`name=value` of a postgresql.conf setting; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want name=value")
		}
		o.Settings[name] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	if flags.Arg(0) == "run" {
		return runCommand(ctx, o, flags.Args()[1:], getenv)
	}
	if flags.NArg() > 0 {
		return 2, fmt.Errorf("unknown command %q", flags.Arg(0))
	}
	return serve(ctx, o, os.Stdin, os.Stdout)
}

// runCommand runs a command beside a server and returns the command's exit code. A server named by the environment is
// used as it is.
func runCommand(ctx context.Context, o cluster.Options, argv []string, getenv func(string) string) (code int, err error) {
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return 2, errors.New("run: no command given")
	}
	url := getenv(pgtest.EnvURL)
	used := "the server of " + pgtest.EnvURL
	if url == "" {
		c, err := cluster.Start(ctx, o)
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, closeCluster(ctx, c)) }()
		url, used = c.URL(), c.Describe()
	}
	fmt.Fprintln(os.Stderr, "pgtest: using", used)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), pgtest.EnvURL+"="+url, pgtest.EnvDescription+"="+used)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	runErr := cmd.Run()
	// Said again at the end, where somebody who reads only the last lines sees it.
	fmt.Fprintln(os.Stderr, "pgtest: used", used)
	var exit *exec.ExitError
	if errors.As(runErr, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	if runErr != nil {
		return 1, fmt.Errorf("run %s: %w", argv[0], runErr)
	}
	return 0, nil
}

// serve starts a server and obeys the lines on in until it ends.
func serve(ctx context.Context, o cluster.Options, in io.Reader, out io.Writer) (code int, err error) {
	enc := json.NewEncoder(out)
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return 1, errors.Join(err, enc.Encode(pgtest.Reply{Error: err.Error()}))
	}
	defer func() { err = errors.Join(err, closeCluster(ctx, c)) }()
	if err := enc.Encode(pgtest.Reply{URL: c.URL(), Description: c.Describe()}); err != nil {
		return 1, fmt.Errorf("tell the test that the server is up: %w", err)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() && ctx.Err() == nil {
		if err := enc.Encode(obey(ctx, c, lines.Text())); err != nil {
			return 1, fmt.Errorf("answer the test: %w", err)
		}
	}
	return 0, lines.Err()
}

// obey carries out one command line.
func obey(ctx context.Context, c cluster.Cluster, command string) pgtest.Reply {
	var err error
	var r pgtest.Reply
	switch command {
	case "start":
		err = c.Start(ctx)
	case "stop":
		err = c.Stop(ctx)
	case "kill":
		err = c.Kill(ctx)
	case "log":
		var log []byte
		log, err = c.Log(ctx)
		r.Log = string(log)
	default:
		err = fmt.Errorf("unknown command %q", command)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// closeCluster closes c even when ctx is done, within a time that a person waits.
func closeCluster(ctx context.Context, c cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return c.Close(ctx)
}
