package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/shapeserver/shapeserver/changes"
)

const (
	// firstLook is when a slot that is not made yet gets its reason into the status, nudgeEvery how often after that.
	firstLook  = 2 * time.Second
	nudgeEvery = 10 * time.Second
)

// createSlotCommand returns CREATE_REPLICATION_SLOT in the form that the release takes (section 55.4 of the manual). A
// snapshot is not wanted: shapes take their own. From 17 on the slot is also kept on standbys that synchronise slots.
func createSlotCommand(name string, temporary bool, serverVersion int) string {
	kind := ""
	if temporary {
		kind = " TEMPORARY"
	}
	options := "NOEXPORT_SNAPSHOT"
	switch {
	case serverVersion >= 170000 && !temporary:
		options = "(SNAPSHOT 'nothing', FAILOVER true)"
	case serverVersion >= 150000:
		options = "(SNAPSHOT 'nothing')"
	}
	return fmt.Sprintf("CREATE_REPLICATION_SLOT %s%s LOGICAL pgoutput %s", name, kind, options)
}

// createSlot makes the slot and returns its consistent point, where its stream begins. Postgres waits for every
// transaction that is running now; meanwhile the status tells what for.
func (s *Stream) createSlot(ctx context.Context, db *pgconn.PgConn, srv server) (changes.LSN, error) {
	s.setState(CreatingSlot, "creating replication slot "+s.cfg.Slot, nil)
	db.Frontend().SendQuery(&pgproto3.Query{String: createSlotCommand(s.cfg.Slot, s.cfg.Temporary, srv.ServerVersion)})
	if err := db.Frontend().Flush(); err != nil {
		return 0, fmt.Errorf("create slot: %w", err)
	}
	var (
		point  string
		failed error
		look   = firstLook
	)
	for {
		msg, err := receiveWithin(ctx, db, look)
		switch {
		case ctx.Err() != nil:
			s.cancelStatement(ctx, db)
			return 0, context.Cause(ctx)
		case err != nil && pgconn.Timeout(err) && !db.IsClosed():
			s.nudge(ctx, srv)
			look = nudgeEvery
			continue
		case err != nil:
			return 0, fmt.Errorf("create slot: %w", err)
		}
		switch m := msg.(type) {
		case *pgproto3.DataRow: // slot_name, consistent_point, snapshot_name, output_plugin
			if len(m.Values) > 1 {
				point = string(m.Values[1])
			}
		case *pgproto3.ErrorResponse:
			failed = s.slotError("create slot", pgconn.ErrorResponseToPgError(m))
		case *pgproto3.ReadyForQuery:
			if failed != nil {
				return 0, failed
			}
			lsn, err := changes.ParseLSN(point)
			if err != nil {
				return 0, fmt.Errorf("create slot: %w", err)
			}
			s.log.InfoContext(ctx, "replication slot created", "slot", s.cfg.Slot, "consistent_point", lsn.String())
			return lsn, nil
		}
	}
}

// cancelStatement ends what runs on db. A backend that waits for other transactions does not look at its connection, so
// that closing it alone would leave lock and slot taken until they end.
func (s *Stream) cancelStatement(ctx context.Context, db *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := db.CancelRequest(ctx); err != nil {
		s.log.DebugContext(ctx, "slot creation not cancelled", "error", err)
	}
}

func receiveWithin(ctx context.Context, db *pgconn.PgConn, limit time.Duration) (pgproto3.BackendMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return db.ReceiveMessage(ctx)
}

// nudge looks, on a second connection, at what the slot waits for, and from Postgres 16 on writes a record of running
// transactions into the WAL, at which slot creation can go on. All of it is best effort: the slot will be made anyway.
func (s *Stream) nudge(ctx context.Context, srv server) {
	ctx, cancel := context.WithTimeout(ctx, nudgeEvery)
	defer cancel()
	db, err := pgconn.ConnectConfig(ctx, s.cfg.ConnConfig)
	if err != nil {
		s.log.DebugContext(ctx, "no second connection while creating the slot", "error", err)
		return
	}
	defer func() { closeConn(ctx, db) }()
	if srv.ServerVersion >= 160000 {
		if _, err := query(ctx, db, "SELECT pg_catalog.pg_log_standby_snapshot()"); err != nil {
			s.log.DebugContext(ctx, "standby snapshot not logged", "error", err) // by default only superusers may
		}
	}
	waits, err := waitsFor(ctx, db)
	if err != nil {
		s.log.DebugContext(ctx, "running transactions not read", "error", err)
		return
	}
	s.log.InfoContext(ctx, "creating the replication slot waits for running transactions", "slot", s.cfg.Slot, "waits_for", waits)
	s.setState(CreatingSlot, "creating replication slot "+s.cfg.Slot+" waits for "+waits, nil)
}

// waitsFor describes the transactions that write: slot creation waits for those, prepared ones included.
func waitsFor(ctx context.Context, db *pgconn.PgConn) (string, error) {
	row, err := queryRow(ctx, db, `SELECT count(*), coalesce((array_agg(pid ORDER BY xact_start))[1], 0),
		coalesce(date_trunc('second', now() - min(xact_start)), '0'), (SELECT count(*) FROM pg_catalog.pg_prepared_xacts)
		FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL`)
	if err != nil {
		return "", err
	}
	if len(row) != 4 {
		return "", errors.New("want four columns")
	}
	if row[0] == "0" {
		return fmt.Sprintf("%s prepared transactions", row[3]), nil
	}
	return fmt.Sprintf("%s running transactions (the oldest in backend %s, for %s) and %s prepared ones", row[0], row[1], row[2], row[3]), nil
}
