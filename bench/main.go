package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"

	"github.com/shapeserver/shapeserver/internal/pgtest/cluster"
)

// options are the sizes of the workloads.
type options struct {
	server  string // path of the binary
	rows    int    // rows of the first sync
	changes int    // commits of the latency measurement
	others  int    // other shapes on the table in the second latency measurement
}

func main() {
	if err := benchmark(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func benchmark() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // the program's own
	defer stop()
	var o options
	flag.StringVar(&o.server, "server", "bin/shapeserver", "the built server")
	flag.IntVar(&o.rows, "rows", 300_000, "rows of the first sync, about 150 bytes each")
	flag.IntVar(&o.changes, "changes", 500, "commits timed to a waiting client")
	flag.IntVar(&o.others, "others", 1000, "other shapes `k = <const>` on the table in the second latency run")
	flag.Parse()
	return run(ctx, o, os.Stdout)
}

// result is one line of the table.
type result struct{ what, figure, target string }

// world is what the benchmarks work on.
type world struct {
	opts options
	url  string
	db   *pgx.Conn
	srv  *process
}

// run measures everything and prints the table to out.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	w := &world{opts: o, url: os.Getenv("DATABASE_URL")}
	described := "DATABASE_URL"
	if w.url == "" {
		c, err := cluster.Start(ctx, cluster.Options{Mode: cluster.Local, Durable: true})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
		w.url, described = c.URL(), c.Describe()
	}
	if w.db, err = pgx.Connect(ctx, w.url); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, w.db.Close(context.WithoutCancel(ctx))) }()
	var results []result
	if w.srv, err = startServer(ctx, o.server, w.url); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.srv.stop()) }()
	idle, err := w.srv.memory()
	if err != nil {
		return err
	}
	results = append(results,
		result{"start to active, empty database", fmt.Sprintf("%.0f ms", ms(w.srv.started)), ""},
		result{"memory at start", mib(idle), ""})
	for _, part := range []func(context.Context, int64) ([]result, error){w.firstSync, w.latency} {
		r, err := part(ctx, idle)
		if err != nil {
			return errors.Join(err, w.srv.logTail())
		}
		results = append(results, r...)
	}
	table := fmt.Sprintf("PostgreSQL: %s; %d cores shared by server, database and load\n\nwhat\tfigure\ttarget\n----\t------\t------\n",
		described, runtime.NumCPU())
	for _, r := range results {
		table += fmt.Sprintf("%s\t%s\t%s\n", r.what, r.figure, r.target)
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if _, err := io.WriteString(tw, table); err != nil {
		return err
	}
	return tw.Flush()
}
