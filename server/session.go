package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/cleaner"
	"github.com/shapeserver/shapeserver/collector"
	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/migrations"
	"github.com/shapeserver/shapeserver/publication"
	"github.com/shapeserver/shapeserver/replication"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/status"
)

// errHistoryLost ends a session whose shapes do not continue in the stream.
var errHistoryLost = errors.New("the replication stream does not continue where the shapes' logs end")

// core is the part of a session that the API serves from.
type core struct {
	status      *status.Store
	publication *publication.Manager
	cache       *shapecache.Cache
	collector   *collector.Collector
	cleaner     *cleaner.Cleaner
	info        replication.Info
	tables      sync.Map // by tableName, the *shape.Table that tableSeen was last told of
}

// runSessions runs one session after another until ctx ends or a session fails for a reason that another try cannot
// help.
func (s *Server) runSessions(ctx context.Context) error {
	for {
		err := s.migrate(ctx)
		if err == nil {
			err = s.session(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errHistoryLost):
			s.log.WarnContext(ctx, "starting over with new shapes", "cause", err)
		default:
			return err
		}
	}
}

// databaseAway is what clients are told while the schema cannot be looked at (protocol.md §3.3).
var databaseAway = "Timeout waiting for database connection pool (metadata) to be ready"

// migrate brings the schema up to date. It waits for a database that cannot be reached.
func (s *Server) migrate(ctx context.Context) error {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := migrations.Up(ctx, s.cfg.DatabaseURL.ConnString(), s.log)
		if err == nil {
			s.waitingFor.Store(nil)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !isUnreachable(err) {
			return fmt.Errorf("migrate schema: %w", err)
		}
		s.waitingFor.Store(&databaseAway)
		s.log.WarnContext(ctx, "database cannot be reached, trying again", "error", err, "retry_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// session runs everything that serves shapes, from the first connection of the stream on, until ctx ends, a part fails,
// or the stream's history is lost.
func (s *Server) session(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	events := make(chan changes.Event, 16)
	first := make(chan *core)
	var c *core // of the replication goroutine
	onConnect := func(ctx context.Context, info replication.Info) error {
		if c != nil {
			if err := s.continues(c.info, info); err != nil {
				end(fmt.Errorf("%w: %w", errHistoryLost, err))
				return err
			}
			return nil
		}
		built, err := s.build(ctx, info)
		if err != nil {
			return err
		}
		select {
		case first <- built:
			c = built
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case <-c.cache.Started():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := runStages(ctx,
		[]runner{{"replication", func(ctx context.Context) error { return s.stream.Run(ctx, onConnect, events) }}},
		[]runner{{"serving", func(ctx context.Context) error {
			select {
			case c := <-first:
				return s.serveCore(ctx, c, events)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}},
	)
	if cause := context.Cause(ctx); errors.Is(cause, errHistoryLost) {
		return errors.Join(cause, err)
	}
	return err
}

// serveCore runs the parts of a session behind the stream, and lets the API serve from them meanwhile.
func (s *Server) serveCore(ctx context.Context, c *core, events <-chan changes.Event) error {
	return runStages(ctx,
		[]runner{{"front", func(ctx context.Context) error {
			s.core.Set(c)
			defer s.core.Set(nil)
			<-ctx.Done()
			return context.Cause(ctx)
		}}},
		[]runner{{"collector", func(ctx context.Context) error { return c.collector.Run(ctx, events) }}},
		[]runner{{"shapes", c.cache.Run}},
		[]runner{
			{"cleaner", c.cleaner.Run},
			{"publication", c.publication.Run},
			{"schema check", func(ctx context.Context) error { return s.checkSchemas(ctx, c) }},
		},
		[]runner{
			{"status", c.status.Run},
			{"flush", func(ctx context.Context) error { return c.collector.RunFlush(ctx, s.store, s.stream.Confirm) }},
		},
	)
}

// continues reports, as an error, why a connection does not go on with the history of an earlier one.
func (s *Server) continues(was, now replication.Info) error {
	switch {
	case now.SystemID != was.SystemID:
		return fmt.Errorf("the database cluster is another one (system identifier %s, was %s)", now.SystemID, was.SystemID)
	case now.Timeline != was.Timeline:
		return fmt.Errorf("the database cluster was promoted or restored (timeline %d, was %d)", now.Timeline, was.Timeline)
	case now.SlotCreated:
		return errors.New("the replication slot was lost and had to be made anew")
	case now.ConfirmedLSN > s.store.Confirmed():
		return fmt.Errorf("the replication slot is at %s, past what was stored here, %s", now.ConfirmedLSN, s.store.Confirmed())
	}
	return nil
}

// build makes the parts of a session on the first connection of the stream: it takes ownership of the catalogue of
// shapes, and takes up those whose logs continue in the stream.
func (s *Server) build(ctx context.Context, info replication.Info) (*core, error) {
	claim, lost, err := status.Take(ctx, s.metadata, s.cfg.StreamID, s.instance,
		status.History{SystemID: info.SystemID, Timeline: info.Timeline}, func(was status.History) error {
			return s.continues(replication.Info{SystemID: was.SystemID, Timeline: was.Timeline}, info)
		})
	if err != nil {
		return nil, fmt.Errorf("take ownership of the shapes: %w", err)
	}
	if lost != nil {
		s.log.InfoContext(ctx, "no shape is taken up", "cause", lost)
		if err := s.begin(info.ConfirmedLSN); err != nil {
			return nil, err
		}
	}
	if err := failpoint.Err(failpoint.StartClaimed); err != nil {
		return nil, err
	}
	c := &core{info: info}
	c.status = status.New(s.metadata, claim, status.Options{Logger: s.log})
	c.publication = publication.New(s.metadata, s.cfg.PublicationName(), publication.Options{
		Manual: s.cfg.ManualTablePublishing, CheckInterval: s.cfg.PublicationRefreshPeriod, Linger: s.cfg.PublicationLinger, Memory: c.status, Logger: s.log,
		OnLost: func(oid uint32, reason shape.Reason) { c.cache.RemoveTable(oid, reason) },
	})
	c.cache = shapecache.New(shapecache.Records{
		Status: c.status, Logs: s.store, Publications: c.publication, Snapshots: snapshot.New(s.reading, snapshot.Options{}),
	}, shapecache.Options{Logger: s.log})
	suspend := s.cfg.SuspendAfter
	if !s.cfg.SuspendConsumers {
		suspend = -1
	}
	c.collector = collector.New(c.cache, catalog{s.tables, c.publication, s.cfg.SlotName()}, collector.Options{
		SuspendAfter: suspend, StallLimit: s.cfg.StallLimit, Logger: s.log,
		OnStalled: func(h shape.Handle) { c.cleaner.Remove(h, shape.ReasonStalled) },
		OnUnseen:  func(h shape.Handle) { c.cleaner.Remove(h, shape.ReasonSchemaChanged) },
	})
	c.cleaner = cleaner.New(cleaner.Records{
		Status: c.status, Consumers: c.cache, Router: c.collector, Publications: c.publication, Logs: s.store,
	}, cleaner.Options{
		ReconcileInterval: s.cfg.ReconcilePeriod, ReasonOf: shapecache.ReasonOf, OnFound: s.countFindings, Logger: s.log,
		OnRemoving: func(h shape.Handle, reason shape.Reason) {
			switch reason {
			case shape.ReasonSchemaChanged, shape.ReasonTableDropped, shape.ReasonWhereFailed:
				// The stream knew before the last look at the catalogue: the next shape must not be built on that.
				if sh, ok := c.cache.Lookup(h); ok {
					s.tables.Forget(sh.Definition.Table.OID)
				}
			default:
			}
		},
		OnRemoved: func(_ shape.Handle, reason shape.Reason, _ time.Duration) {
			s.removed.WithLabelValues(string(reason)).Inc()
			// The publication takes the table for ready, and the next shape on it would end in the same way.
			if reason == shape.ReasonIdentityLost {
				c.publication.CheckSoon()
			}
		},
	})
	c.cache.Connect(c.collector, c.cleaner)
	c.collector.Start(info.ConfirmedLSN)

	rows, err := c.status.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list shapes: %w", err)
	}
	restored, err := c.cache.Restore(ctx, rows, s.tables)
	if err != nil {
		return nil, err
	}
	if _, err := c.cleaner.Reconcile(ctx); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	if err := failpoint.Err(failpoint.StartReconciled); err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "shapes taken up", "restored", restored, "removing", c.cleaner.Pending(), "epoch", claim.Epoch)
	return c, nil
}

// catalog answers the collector, and has the publication look after one that it asks about: Postgres
// does not hand REPLICA IDENTITY FULL down to partitions that are made or attached later, and without it their updates
// come without the old row.
type catalog struct {
	tables      *inspector.Inspector
	publication *publication.Manager
	slot        string
}

// Ancestors implements collector.Catalog.
func (c catalog) Ancestors(ctx context.Context, oid uint32) ([]uint32, changes.Snapshot, error) {
	above, at, err := c.tables.Ancestors(ctx, oid)
	if len(above) > 0 {
		c.publication.CheckSoon()
	}
	return above, at, err
}

// Layouts implements collector.Catalog.
func (c catalog) Layouts(ctx context.Context, oids []uint32) (map[uint32]changes.Layout, changes.Snapshot, error) {
	return c.tables.Layouts(ctx, oids)
}

// ComparePartitions implements collector.Catalog.
func (c catalog) ComparePartitions(ctx context.Context, oids []uint32) (changes.Snapshot, error) {
	return c.publication.ComparePartitions(ctx, oids)
}

// Awaited implements collector.Catalog.
func (c catalog) Awaited(ctx context.Context) (bool, error) { return c.tables.Awaited(ctx, c.slot) }

// begin starts a new history in the store, at lsn. The status rows of the old one are gone already, so its logs are
// nobody's, and the reconciler removes them.
func (s *Server) begin(lsn changes.LSN) error {
	if err := s.store.SetConfirmed(lsn); err != nil {
		return fmt.Errorf("note the beginning of a new history: %w", err)
	}
	if err := s.store.Sync(); err != nil {
		return fmt.Errorf("note the beginning of a new history: %w", err)
	}
	return nil
}

// checkSchemas compares the tables of all shapes with the catalogue from time to time.
func (s *Server) checkSchemas(ctx context.Context, c *core) error {
	tick := time.NewTicker(s.cfg.SchemaReconcilePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		c.cache.NoteUse()
		c.cache.Evict(ctx, s.cfg.MaxShapes)
		if err := c.cache.CheckSchemas(ctx, s.tables); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "schema check failed, trying again later", "error", err)
		}
	}
}

type tableName struct{ schema, name string }

// tableSeen passes on a table that was looked up, when it is not the one that was passed on last under its name.
func (c *core) tableSeen(ctx context.Context, t *shape.Table) {
	if was, ok := c.tables.Swap(tableName{t.Schema, t.Name}, t); !ok || was != t {
		c.cache.TableSeen(ctx, t)
	}
}

// tableGone passes on that a table was looked up and is not there, when it was there before.
func (c *core) tableGone(ctx context.Context, schema, name string) {
	if _, ok := c.tables.LoadAndDelete(tableName{schema, name}); ok {
		c.cache.TableGone(ctx, schema, name)
	}
}
