package status

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Partitions returns, by the OID of each partitioned table of the stream with shapes, what SavePartitions was last given for
// it, and deletes the records of other tables.
func (s *Store) Partitions(ctx context.Context) (map[uint32]map[uint32]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, fence+`DELETE FROM shapeserver.partitions p USING fence WHERE p.stream_id = $1
		AND NOT EXISTS (SELECT 1 FROM shapeserver.shapes s WHERE s.stream_id = $1 AND s.table_oid = p.root)`, s.claim.StreamID, s.claim.Epoch)
	if err != nil {
		return nil, fmt.Errorf("forget partitions of tables without shapes: %w", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT root::int8, attached::text FROM shapeserver.partitions WHERE stream_id = $1`, s.claim.StreamID)
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	all := make(map[uint32]map[uint32]string)
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var root uint32
		var text string
		if err := row.Scan(&root, &text); err != nil {
			return struct{}{}, err
		}
		var attached map[uint32]string
		if err := json.Unmarshal([]byte(text), &attached); err != nil {
			return struct{}{}, fmt.Errorf("of table %d: %w", root, err)
		}
		all[root] = attached
		return struct{}{}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	return all, nil
}

// SavePartitions notes durably which partitions tables have: OID → the transaction that made it one, and what else the caller
// notes in this form. It gives ErrFenced when the stream is another's by now.
func (s *Store) SavePartitions(ctx context.Context, attached map[uint32]map[uint32]string) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, fence+`INSERT INTO shapeserver.partitions (stream_id, root, attached)
		SELECT $1, e.key::oid, e.value FROM fence, jsonb_each($3::text::jsonb) e
		ON CONFLICT (stream_id, root) DO UPDATE SET attached = excluded.attached`, s.claim.StreamID, s.claim.Epoch, asJSON(attached))
	if err != nil {
		return fmt.Errorf("save partitions of %d tables: %w", len(attached), err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%w (stream %s, our epoch %d)", ErrFenced, s.claim.StreamID, s.claim.Epoch)
	}
	return nil
}
