package publication

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
)

// movedSQL walks down from each table to its partitions, as lookSQL does.
const movedSQL = `
WITH RECURSIVE down(root, oid, attached) AS (
  SELECT o, o, '' FROM unnest($1::oid[]) o
  UNION ALL
  SELECT down.root, i.inhrelid, i.xmin::text
  FROM down JOIN pg_catalog.pg_class c ON c.oid = down.oid AND c.relkind = 'p'
  JOIN pg_catalog.pg_inherits i ON i.inhparent = down.oid AND NOT i.inhdetachpending
)
SELECT pg_catalog.pg_current_snapshot()::text, (
  SELECT json_agg(json_build_object('root', down.root::int8, 'oid', c.oid::int8,
    'attached', down.attached, 'born', t.xmin::text = down.attached))
  FROM down JOIN pg_catalog.pg_class c ON c.oid = down.oid JOIN pg_catalog.pg_type t ON t.oid = c.reltype)::text`

// Moved compares the partitions of ready tables with those they had, and returns the tables to or from which rows came or
// went with a partition: their shapes are not true any more. Like what a check finds, these are lost, and OnLost has been told
// when Moved returns. It also returns the snapshot that it read under. It wants at least one table.
func (m *Manager) Moved(ctx context.Context, oids []uint32) (moved []uint32, at changes.Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var snapshot, list string
	row := m.pool.QueryRow(ctx, movedSQL, pgx.QueryExecModeExec, sqltext.OIDs(oids))
	if err := row.Scan(&snapshot, &list); err != nil {
		return nil, at, fmt.Errorf("read partitions of %d: %w", oids, err)
	}
	if at, err = changes.ParseSnapshot(snapshot); err != nil {
		return nil, at, err
	}
	var relations []relation
	if err := json.Unmarshal([]byte(list), &relations); err != nil {
		return nil, at, fmt.Errorf("read partitions of %d: %w", oids, err)
	}
	below := make(map[uint32][]relation)
	for _, r := range relations {
		below[r.Root] = append(below[r.Root], r)
	}
	lost := make(map[*table]shape.Reason)
	m.mu.Lock()
	for _, oid := range oids {
		if tab := m.tables[oid]; tab != nil && tab.phase == ready && tab.rowsMovedLocked(below[oid]) {
			lost[tab] = shape.ReasonSchemaChanged
			moved = append(moved, oid)
		}
	}
	m.mu.Unlock()
	m.lose(ctx, lost)
	return moved, at, nil
}
