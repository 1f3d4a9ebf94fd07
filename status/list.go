package status

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/shape"
)

// List returns the rows of the stream, oldest first, whoever wrote them.
func (s *Store) List(ctx context.Context) ([]Row, error) {
	rows, err := s.pool.Query(ctx, `SELECT handle, identity, identity_hash, table_oid, table_schema, table_name, columns, columns_explicit,
			where_sql, replica, log_mode, coalesce(description, ''), created_at, last_used_at, state = 'active'
		FROM shapeserver.shapes WHERE stream_id = $1 ORDER BY created_at, handle`, s.claim.StreamID)
	if err != nil {
		return nil, fmt.Errorf("list shapes: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Row, err error) {
		err = row.Scan(&r.Handle, &r.Identity, &r.IdentityHash, &r.TableOID, &r.Schema, &r.Table, &r.Columns, &r.Explicit, &r.Where,
			&r.Replica, &r.Log, &r.Description, &r.CreatedAt, &r.LastUsedAt, &r.Active)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("list shapes: %w", err)
	}
	return list, nil
}

// Handles returns the handles of all rows of the stream, in no order.
func (s *Store) Handles(ctx context.Context) ([]shape.Handle, error) {
	rows, err := s.pool.Query(ctx, `SELECT handle FROM shapeserver.shapes WHERE stream_id = $1`, s.claim.StreamID)
	if err != nil {
		return nil, fmt.Errorf("list handles: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[shape.Handle])
	if err != nil {
		return nil, fmt.Errorf("list handles: %w", err)
	}
	return list, nil
}

// isRowError reports whether an error can be the fault of one row of a batch: classes 22 (data exception) and 23 (integrity
// constraint violation) of appendix A of the Postgres manual.
func isRowError(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23"))
}
