package replication

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// lock waits for the session's advisory lock, which makes sure that only one process reads the slot. It ends with the
// connection, and so never outlives its holder.
//
// It asks again and again instead of waiting inside pg_advisory_lock: a statement that waits holds a snapshot, and one
// that waits for days, as a spare server does, holds back VACUUM and every CREATE INDEX CONCURRENTLY of the database.
func (s *Stream) lock(ctx context.Context, db *pgconn.PgConn) error {
	for waiting := false; ; waiting = true {
		got, err := s.tryLock(ctx, db)
		if err != nil {
			return fmt.Errorf("take advisory lock: %w", err)
		}
		if got {
			return nil
		}
		if !waiting {
			s.setState(WaitingForLock, "another server holds the advisory lock of slot "+s.cfg.Slot, nil)
			s.log.InfoContext(ctx, "waiting for the advisory lock that another server holds", "slot", s.cfg.Slot)
		}
		select {
		case <-time.After(s.opts.LockPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Stream) tryLock(ctx context.Context, db *pgconn.PgConn) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	row, err := queryRow(ctx, db, "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('"+s.cfg.Slot+"'))")
	if err != nil {
		return false, err
	}
	return row[0] == "t", nil
}
