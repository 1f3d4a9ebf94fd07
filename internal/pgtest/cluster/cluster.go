package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Mode says where a cluster may come from.
type Mode string

// The modes, as the environment variable SHAPESERVER_TEST_POSTGRES spells them.
const (
	Auto      Mode = "auto"      // a container when an engine answers and the image starts, else local binaries
	Container Mode = "container" // a container or an error
	Local     Mode = "local"     // local binaries or an error
)

// Options say what to start. The zero value is a fast server for tests.
type Options struct {
	// Mode defaults to Auto.
	Mode Mode
	// Image is the container image; it defaults to postgres:17-alpine.
	Image string
	// Settings are postgresql.conf settings over the defaults below.
	Settings map[string]string
	// Durable keeps fsync and full_page_writes on. Killing only processes loses nothing without it, since the
	// kernel keeps what they wrote.
	Durable bool
	// Notices receives one line for each thing that was tried and not used; nil drops them.
	Notices io.Writer
}

// Cluster is one running PostgreSQL server. Its methods are not safe for concurrent use.
type Cluster interface {
	// Describe names the server for the test log, such as "container postgres:17-alpine".
	Describe() string
	// URL is the superuser's connection string for the database postgres, the same as long as the cluster lives.
	URL() string
	// Start starts a stopped server and returns once it accepts connections.
	Start(ctx context.Context) error
	// Stop ends the server in order (smart enough to write a checkpoint, fast enough to cut clients off).
	Stop(ctx context.Context) error
	// Kill ends every server process at once, as a power cut would; Start then recovers from the write-ahead log.
	Kill(ctx context.Context) error
	// Log returns the server's log so far.
	Log(ctx context.Context) ([]byte, error)
	// Close stops the server and removes its data. It may be called in any state.
	Close(ctx context.Context) error
}

// Start starts a cluster. The error of a failed start lists everything that was tried.
func Start(ctx context.Context, o Options) (Cluster, error) {
	notice := func(format string, args ...any) {
		if o.Notices != nil {
			_, _ = fmt.Fprintf(o.Notices, format+"\n", args...)
		}
	}
	var errs []error
	if o.Mode != Local {
		c, err := startContainer(ctx, o)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("container: %w", err))
		if !errors.Is(err, errNoEngine) {
			notice("pgtest: the Docker engine answers, but the container did not start: %v", err)
		}
	}
	if o.Mode != Container {
		c, err := startLocal(ctx, o)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("local binaries: %w", err))
	}
	return nil, fmt.Errorf("no PostgreSQL for the tests (start a Docker engine, install PostgreSQL 14 or newer, "+
		"or set SHAPESERVER_TEST_DATABASE_URL to a superuser's URL): %w", errors.Join(errs...))
}

// settings returns "name=value" for every setting of a test server, sorted: what logical replication with many slots
// needs, and no waiting for the disk unless asked for.
func (o Options) settings() []string {
	all := map[string]string{
		"wal_level":                 "logical",
		"max_replication_slots":     "120",
		"max_wal_senders":           "120",
		"max_connections":           "300",
		"max_prepared_transactions": "20",
		"shared_buffers":            "64MB",
		"max_wal_size":              "4GB",
		"checkpoint_timeout":        "30min",
		"wal_sender_timeout":        "60s",
		"timezone":                  "UTC",
		"log_timezone":              "UTC",
		"max_locks_per_transaction": "256",
	}
	if !o.Durable {
		all["fsync"] = "off"
		all["full_page_writes"] = "off"
	}
	maps.Copy(all, o.Settings)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			list = append(list, name+"="+all[name])
		}
	}
	return list
}

// awaitReady returns once the server at url accepts a connection, or with the last refusal at the deadline. alive, if
// not nil, ends the wait early with an error when the server is known to be gone.
func awaitReady(ctx context.Context, url string, alive func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		attempt, stop := context.WithTimeout(ctx, 5*time.Second)
		conn, err := pgx.Connect(attempt, url)
		if err == nil {
			err = conn.Ping(attempt)
			conn.Close(attempt)
		}
		stop()
		if err == nil {
			return nil
		}
		last = err
		if alive != nil {
			if err := alive(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("server did not accept connections within 90 s: %w", last)
		case <-tick.C:
		}
	}
}

// freePort returns a TCP port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
