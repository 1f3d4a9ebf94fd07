package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/sqltext"
)

// ensureSlot finds the slot or makes it, and returns where the stream will begin.
func (s *Stream) ensureSlot(ctx context.Context, db *pgconn.PgConn, srv server) (confirmed changes.LSN, created bool, err error) {
	found, err := s.findSlot(ctx, db)
	if err != nil {
		return 0, false, err
	}
	if found != nil {
		switch {
		case found.plugin != "pgoutput" || found.database != srv.database:
			return 0, false, &ConfigError{
				Problem: fmt.Sprintf("replication slot %s belongs to plugin %q in database %q, not to pgoutput in %q",
					s.cfg.Slot, found.plugin, found.database, srv.database),
				Fix: fmt.Sprintf("configure another slot name, or, if nobody needs it, run: SELECT pg_drop_replication_slot('%s');",
					s.cfg.Slot),
			}
		case found.activePID != "":
			return 0, false, fmt.Errorf("replication slot %s, backend %s: %w", s.cfg.Slot, found.activePID, ErrSlotInUse)
		case found.walStatus == "lost":
			s.recreateSlot = "Postgres has removed WAL that it needs, or invalidated it otherwise"
		}
		if s.recreateSlot == "" {
			if confirmed, err = changes.ParseLSN(found.confirmed); err != nil {
				return 0, false, fmt.Errorf("look up slot: %w", err)
			}
			return confirmed, false, nil
		}
		s.log.WarnContext(ctx, "dropping the replication slot to create it anew", "slot", s.cfg.Slot, "reason", s.recreateSlot)
		if err := s.dropSlot(ctx, db); err != nil {
			return 0, false, err
		}
	}
	confirmed, err = s.createSlot(ctx, db, srv)
	return confirmed, err == nil, err
}

// slot is a row of pg_replication_slots.
type slot struct {
	plugin, database string
	activePID        string // "" while nobody reads it
	walStatus        string
	confirmed        string
}

// findSlot returns nil when there is no such slot. A slot of physical replication has neither plugin nor database.
func (s *Stream) findSlot(ctx context.Context, db *pgconn.PgConn) (*slot, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	rows, err := query(ctx, db, `SELECT plugin, database, active_pid, wal_status, confirmed_flush_lsn
		FROM pg_catalog.pg_replication_slots WHERE slot_name = '`+s.cfg.Slot+`'`)
	if err != nil {
		return nil, fmt.Errorf("look up slot: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	r := rows[0]
	return &slot{plugin: r[0], database: r[1], activePID: r[2], walStatus: r[3], confirmed: r[4]}, nil
}

func (s *Stream) dropSlot(ctx context.Context, db *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	err := pglogrepl.DropReplicationSlot(ctx, db, s.cfg.Slot, pglogrepl.DropReplicationSlotOptions{})
	if err != nil {
		return s.slotError("drop slot", err)
	}
	return nil
}

// start sends START_REPLICATION. The position 0/0 means the slot's own.
func (s *Stream) start(ctx context.Context, db *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	err := pglogrepl.StartReplication(ctx, db, s.cfg.Slot, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication,
		// A list of identifiers inside a string: quoted twice.
		PluginArgs: []string{"proto_version '1'", "publication_names " + sqltext.Literal(sqltext.Ident(s.cfg.Publication))},
	})
	if err != nil {
		return s.slotError("start replication", err)
	}
	return nil
}

func (s *Stream) slotError(step string, err error) error {
	switch sqlState(err) {
	case codeObjectInUse:
		return fmt.Errorf("%s: replication slot %s: %w: %w", step, s.cfg.Slot, ErrSlotInUse, err)
	case codeConfigurationLimit:
		return fmt.Errorf("%s: %w: raise max_replication_slots or drop a slot that nobody needs: %w", step, ErrSlotsExhausted, err)
	default:
		return fmt.Errorf("%s: %w", step, err)
	}
}

// DropSlot drops the slot on a connection of its own, for a shutdown that is to leave nothing behind. Run must have
// returned. Every shape starts over with the next slot. A slot that does not exist is no error.
func (s *Stream) DropSlot(ctx context.Context) error {
	db, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { closeConn(ctx, db) }()
	for {
		found, err := s.findSlot(ctx, db)
		if err != nil || found == nil {
			return err
		}
		if found.activePID == "" {
			return s.dropSlot(ctx, db)
		}
		// Our walsender needs a moment to notice that we are gone.
		select {
		case <-time.After(s.opts.LockPoll):
		case <-ctx.Done():
			return fmt.Errorf("drop slot %s: %w", s.cfg.Slot, context.Cause(ctx))
		}
	}
}
