package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/notify"
)

// Stream is the logical replication stream of one slot. Run does the work; every other method may be called from any
// goroutine, at any time.
type Stream struct {
	cfg  Config
	opts Options
	log  *slog.Logger

	status notify.Var[Status]

	mu        sync.Mutex
	confirmed changes.LSN   // what Confirm was given since the slot was made
	link      *link         // the connection that streams; nil while there is none
	kick      chan struct{} // wakes a delivery that waits when confirmed rose; holds one token

	stats struct {
		connections, transactions, changes, bytes, received atomic.Uint64
	}

	// Of Run's goroutine, kept between connections.
	running            atomic.Bool
	slotCreated        bool        // not yet told to an onConnect that succeeded
	publicationCreated bool        // the same
	recreateSlot       string      // why the slot must be made anew at the next connection, or ""
	known              Info        // the connection before this one
	backendStart       string      // its pg_stat_activity.backend_start
	progress           changes.LSN // highest position delivered; says whether a connection was worth something
}

// New makes a Stream; it does no I/O. The error lists every mistake in cfg and opts.
func New(cfg Config, opts Options) (*Stream, error) {
	if err := errors.Join(cfg.validate(), opts.validate()); err != nil {
		return nil, fmt.Errorf("replication settings: %w", err)
	}
	opts = opts.withDefaults()
	cfg.ConnConfig = cfg.ConnConfig.Copy()
	return &Stream{cfg: cfg, opts: opts, log: opts.Logger, kick: make(chan struct{}, 1)}, nil
}

// Run connects, takes the lock, sees to the publication and the slot, and sends events to out, in commit order, until ctx
// ends. It reconnects for as long as it takes. It returns context.Cause(ctx), or a *ConfigError that somebody has to
// correct first. When one Run has returned, another may follow.
//
// onConnect is called on every connection before anything of it is sent to out. It must return only when no Confirm can
// come any more for events of an earlier connection, if Info says that they are of another history. Its error counts as
// a lost connection. Nil means no call.
//
// out may be unbuffered; while it is full the stream waits and Postgres keeps the WAL. The memory of an event is shared
// with its neighbours in blocks of 64 KiB, so whoever keeps a value for long should copy it.
func (s *Stream) Run(ctx context.Context, onConnect func(context.Context, Info) error, out chan<- changes.Event) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("replication stream is running already")
	}
	defer s.running.Store(false)
	defer func() { s.setState(Connecting, "", nil) }()

	failures := 0
	for {
		before := s.progress
		err := s.session(ctx, onConnect, out)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var config *ConfigError
		if errors.As(err, &config) {
			s.setState(Connecting, "", err)
			return err
		}
		if s.progress > before {
			failures = 0
		}
		wait := backoff(failures, s.opts.MinBackoff, s.opts.MaxBackoff)
		failures++
		s.log.WarnContext(ctx, "replication connection lost", "error", err, "sqlstate", sqlState(err), "retry_in", wait)
		s.setState(Connecting, "", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// session is one connection, from its beginning to its end. It never returns nil.
func (s *Stream) session(ctx context.Context, onConnect func(context.Context, Info) error, out chan<- changes.Event) error {
	db, meter, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if db != nil {
			closeConn(ctx, db)
		}
	}()
	srv, err := s.identify(ctx, db)
	if err != nil {
		return err
	}
	if err := s.endPredecessor(ctx, db, srv); err != nil {
		return err
	}
	if err := s.lock(ctx, db); err != nil {
		return err
	}
	info, err := s.prepare(ctx, db, srv)
	if err != nil {
		return err
	}
	if onConnect != nil {
		if err := onConnect(ctx, info); err != nil {
			return fmt.Errorf("announce connection: %w", err)
		}
	}
	s.slotCreated, s.publicationCreated = false, false

	if err := s.start(ctx, db); err != nil {
		return err
	}
	l, err := s.newLink(db, meter, info, srv.senderTimeout)
	if err != nil {
		return err
	}
	db = nil // the link has it, and closes it
	s.stats.connections.Add(1)
	s.setState(Streaming, "", nil)
	s.log.InfoContext(ctx, "replication stream started", "slot", s.cfg.Slot, "publication", s.cfg.Publication,
		"system_id", info.SystemID, "timeline", info.Timeline, "server_version", info.ServerVersion,
		"confirmed_lsn", info.ConfirmedLSN.String(), "backend_pid", info.BackendPID, "slot_created", info.SlotCreated)
	err = l.run(ctx, out)
	if sqlState(err) == codeUndefinedObject {
		// Decoding sees the catalog as it was at each change: a slot that is older than the publication can never get past
		// that (npgsql/npgsql#6176). A slot made now begins after it.
		s.recreateSlot = "it is older than the publication"
	}
	return err
}

// prepare sees to the publication and the slot, in this order: a slot must not be older than the publication it reads.
func (s *Stream) prepare(ctx context.Context, db *pgconn.PgConn, srv server) (Info, error) {
	info := srv.Info
	oid, created, err := s.ensurePublication(ctx, db, srv)
	if err != nil {
		return info, err
	}
	info.PublicationOID = oid
	switch {
	case created:
		s.publicationCreated = true
		s.recreateSlot = "the publication was created after it"
	case s.known.PublicationOID != 0 && s.known.SystemID == info.SystemID && s.known.PublicationOID != oid:
		// Newer servers skip a publication that was missing with a warning, and the changes of that time with it.
		s.recreateSlot = "the publication was dropped and created again"
	}
	confirmed, slotCreated, err := s.ensureSlot(ctx, db, srv)
	if err != nil {
		return info, err
	}
	s.slotCreated = s.slotCreated || slotCreated
	s.recreateSlot = ""
	info.SlotCreated, info.PublicationCreated, info.ConfirmedLSN = s.slotCreated, s.publicationCreated, confirmed

	s.mu.Lock()
	if info.SlotCreated || s.known.SystemID != info.SystemID || s.known.Timeline != info.Timeline {
		// Positions of another history mean nothing here, and may be higher than what is true in this one.
		s.confirmed, s.progress = confirmed, 0
	} else {
		s.confirmed = max(s.confirmed, confirmed)
	}
	s.mu.Unlock()
	s.known, s.backendStart = info, srv.backendStart
	return info, nil
}

// Confirm tells that everything up to lsn is durable, so that Postgres may forget it and will not send it again. It is
// reported within about 100 ms, and repeated with every standby status, but never a position beyond what the connection
// has received. A position lower than one before is ignored.
func (s *Stream) Confirm(lsn changes.LSN) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lsn <= s.confirmed {
		return
	}
	s.confirmed = lsn
	if s.link != nil {
		s.link.hastenLocked()
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Status returns what the stream is doing, and a channel that is closed when that changes.
func (s *Stream) Status() (Status, <-chan struct{}) { return s.status.Get() }

// Stats returns the counts so far.
func (s *Stream) Stats() Stats {
	s.mu.Lock()
	confirmed := s.confirmed
	s.mu.Unlock()
	return Stats{
		Connections:  s.stats.connections.Load(),
		Transactions: s.stats.transactions.Load(),
		Changes:      s.stats.changes.Load(),
		Bytes:        s.stats.bytes.Load(),
		Received:     changes.LSN(s.stats.received.Load()),
		Confirmed:    confirmed,
	}
}

// setState changes the status. The error of the last attempt is kept until the stream runs.
func (s *Stream) setState(state State, detail string, err error) {
	s.status.Update(func(old Status) (Status, bool) {
		next := Status{State: state, Since: old.Since, Detail: detail, Err: err}
		if err == nil && state != Streaming {
			next.Err = old.Err
		}
		if old.State != state || old.Since.IsZero() {
			next.Since = time.Now()
		}
		return next, next.State != old.State || next.Detail != old.Detail || err != nil || next.Err == nil && old.Err != nil
	})
}
