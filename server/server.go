package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shapeserver/shapeserver/api"
	"github.com/shapeserver/shapeserver/config"
	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/internal/notify"
	"github.com/shapeserver/shapeserver/internal/telemetry"
	"github.com/shapeserver/shapeserver/replication"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage/logstore"
)

// Options is what a Server does not take from its configuration. The zero Options is ready to use.
type Options struct {
	Version  string
	Logger   *slog.Logger         // nil means no logging
	Registry *prometheus.Registry // nil means one of its own
}

// Server is one shapeserver. Make it with Open, run it with Run, once.
type Server struct {
	cfg      config.Config
	opts     Options
	log      *slog.Logger
	instance string // names this process as the owner of shapes
	listener net.Listener
	metrics  net.Listener // nil unless a Prometheus port is set
	store    *logstore.Store
	metadata *pgxpool.Pool // short queries
	reading  *pgxpool.Pool // snapshots and subsets
	subsets  *snapshot.Reader
	stream   *replication.Stream
	tables   *inspector.Inspector
	found    *prometheus.CounterVec // by kind: what reconciliations found
	removed  *prometheus.CounterVec // by reason: shapes removed
	core     notify.Var[*core]      // the parts of the session that serves shapes; nil while there is none

	// waitingFor says what a session waits for before its stream connects; nil for nothing.
	waitingFor atomic.Pointer[string]
}

// Open takes what the server needs of its machine: the port, the storage folder. It does not need the database yet.
// Every error names the setting to change.
func Open(ctx context.Context, cfg config.Config, opts Options) (_ *Server, err error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Registry = cmp.Or(opts.Registry, prometheus.NewRegistry())
	s := &Server{cfg: cfg, opts: opts, log: opts.Logger, instance: cmp.Or(cfg.InstanceID, rand.Text())}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.listener, err = listen(ctx, cfg); err != nil {
		return nil, err
	}
	if cfg.PrometheusPort != 0 {
		if s.metrics, err = listenTCP(ctx, "tcp", net.JoinHostPort("", fmt.Sprint(cfg.PrometheusPort)), "SHAPESERVER_PROMETHEUS_PORT"); err != nil {
			return nil, err
		}
	}
	if s.store, err = logstore.Open(cfg.StorageDir, logstore.Options{ChunkBytes: cfg.ChunkBytes, Logger: s.log}); err != nil {
		return nil, fmt.Errorf("open the storage directory %s (SHAPESERVER_STORAGE_DIR): %w", cfg.StorageDir, err)
	}
	metadata, snapshots := cfg.PoolSizes()
	if s.metadata, err = s.pool(ctx, metadata); err != nil {
		return nil, err
	}
	if s.reading, err = s.pool(ctx, snapshots); err != nil {
		return nil, err
	}
	s.subsets = newSubsetReader(s.reading, snapshots, s.log)
	if s.stream, err = s.newStream(); err != nil {
		return nil, err
	}
	s.countRemovals()
	s.tables = inspector.New(s.metadata, inspector.Options{Logger: s.log})
	return s, nil
}

// pool makes a pool; it connects when it is used.
func (s *Server) pool(ctx context.Context, size int) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(s.cfg.PooledDatabaseURL.ConnString())
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	pc.MaxConns = int32(size)             //nolint:gosec // bounded by config
	pc.MinIdleConns = int32(min(2, size)) //nolint:gosec // a first request should not wait for a connection to be made
	pc.MaxConnIdleTime = 5 * time.Minute
	pc.ConnConfig.DialFunc = s.cfg.Dialer().DialContext
	// One round trip without named statements: in a transaction-mode pooler the next one may meet another backend.
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pc.ConnConfig.RuntimeParams["application_name"] = "shapeserver"
	return pgxpool.NewWithConfig(ctx, pc)
}

// newSubsetReader makes what answers subset queries, over at most half of the connections for snapshots: what clients ask
// for must not keep shapes from being made.
func newSubsetReader(pool *pgxpool.Pool, size int, log *slog.Logger) *snapshot.Reader {
	return snapshot.New(pool, snapshot.Options{
		MaxConcurrent: max(1, size/2), QueueTimeout: 10 * time.Second, LockTimeout: 5 * time.Second,
		FirstRowTimeout: 30 * time.Second, ReadTimeout: 5 * time.Minute, Logger: log,
	})
}

func (s *Server) newStream() (*replication.Stream, error) {
	cc, err := pgconn.ParseConfig(s.cfg.DatabaseURL.ConnString())
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	cc.DialFunc = s.cfg.Dialer().DialContext
	return replication.New(replication.Config{
		ConnConfig: cc, Slot: s.cfg.SlotName(), Publication: s.cfg.PublicationName(), ManualPublication: s.cfg.ManualTablePublishing,
	}, replication.Options{Logger: s.log})
}

// Addr returns the address that the API listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends and then stops in order, within the configured time. It returns nil for that, or the failure
// that somebody has to correct.
func (s *Server) Run(ctx context.Context) error {
	err := runStages(ctx,
		[]runner{{"http", s.serveHTTP}, {"metrics", s.serveMetrics}},
		[]runner{{"shapes", s.runSessions}},
		[]runner{{"storage", s.store.Run}},
	)
	if s.cfg.CleanupSlotOnShutdown && err == nil {
		err = s.dropSlot(ctx)
	}
	return errors.Join(err, s.close())
}

// dropSlot leaves no slot behind, so that Postgres keeps no WAL for a server that may never come back.
func (s *Server) dropSlot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownTimeout)
	defer cancel()
	if err := s.stream.DropSlot(ctx); err != nil {
		return fmt.Errorf("drop the replication slot at the stop: %w", err)
	}
	return nil
}

// maxStreams is how many requests one HTTP/2 connection may have open. They are bounded all together by admission control;
// a proxy has all its clients' long polls on a few connections.
const maxStreams = 1000

// serveHTTP serves the API. When ctx ends, requests that wait are ended, and what is being sent may finish.
func (s *Server) serveHTTP(ctx context.Context) error {
	requests, endRequests := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endRequests(errStopping)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(s.cfg.HTTP2Cleartext)
	srv := &http.Server{
		Handler:           api.New(&backend{s}, s.apiOptions()),
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: s.cfg.TCPReadTimeout,
		IdleTimeout:       s.cfg.TCPReadTimeout,
		MaxHeaderBytes:    1 << 20,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return serve(ctx, srv, s.listener, s.cfg.ShutdownTimeout, func() { endRequests(errStopping) })
}

func (s *Server) apiOptions() api.Options {
	return api.Options{
		Secret: s.cfg.Secret.Reveal(), AllowDelete: s.cfg.EnableIntegrationTesting, Version: s.opts.Version,
		LongPollTimeout: s.cfg.LongPollTimeout, SSETimeout: s.cfg.SSELifetime, SSEKeepAlive: s.cfg.SSEKeepalive,
		WriteTimeout: s.cfg.TCPSendTimeout, CacheMaxAge: s.cfg.CacheMaxAge, CacheStaleAge: s.cfg.CacheStaleAge,
		NoCompression: !s.cfg.Compression, BodyCacheBytes: s.cfg.BodyCacheBytes,
		MaxInitial: s.cfg.MaxConcurrentRequests.Initial, MaxExisting: s.cfg.MaxConcurrentRequests.Existing,
		Logger: s.log, Registerer: s.opts.Registry,
	}
}

// serveMetrics serves /metrics on a port of its own, when one is set.
func (s *Server) serveMetrics(ctx context.Context) error {
	if s.metrics == nil {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	s.registerMetrics()
	srv := &http.Server{Handler: telemetry.Handler(s.opts.Registry), ReadHeaderTimeout: 10 * time.Second}
	return serve(ctx, srv, s.metrics, time.Second, func() {})
}

// serve runs srv until ctx ends, then calls ending and waits for what is being sent, at most for grace.
func serve(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration, ending func()) error {
	var err error
	var wg sync.WaitGroup
	served := make(chan struct{})
	wg.Go(func() {
		defer close(served)
		err = srv.Serve(l)
	})
	select {
	case <-served:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if srv.Shutdown(last) != nil {
		_ = srv.Close() // best effort: the grace time is over
	}
	wg.Wait()
	return context.Cause(ctx)
}

// close gives back what Open took.
func (s *Server) close() error {
	var errs []error
	for _, l := range []net.Listener{s.listener, s.metrics} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, p := range []*pgxpool.Pool{s.metadata, s.reading} {
		if p != nil {
			p.Close()
		}
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}
