package publication

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
)

// partitionsSQL reads the partitions of tables, and under which snapshot.
var partitionsSQL = `
WITH RECURSIVE ` + downSQL("$1") + `
SELECT pg_catalog.pg_current_snapshot()::text, (
  SELECT json_agg(json_build_object('root', down.root::int8, 'oid', c.oid::int8,
    'attached', down.attached, 'born', ` + bornSQL + `))
  FROM down JOIN pg_catalog.pg_class c ON c.oid = down.oid JOIN pg_catalog.pg_type t ON t.oid = c.reltype)::text`

// ComparePartitions compares the partitions of tables with those they had, as a check does: a table to or from which rows
// came or went with a partition is lost, and OnLost has been told so when ComparePartitions returns. It also returns the
// snapshot that it read under. It wants at least one table.
func (m *Manager) ComparePartitions(ctx context.Context, oids []uint32) (at changes.Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if m.anyUnverified(oids) { // since the start: what they had is not known yet
		if err := m.Check(ctx); err != nil {
			return at, fmt.Errorf("check the tables of before: %w", err)
		}
	}
	var snapshot, list string
	row := m.pool.QueryRow(ctx, partitionsSQL, pgx.QueryExecModeExec, sqltext.OIDs(oids))
	if err := row.Scan(&snapshot, &list); err != nil {
		return at, fmt.Errorf("read partitions of %d: %w", oids, err)
	}
	if at, err = changes.ParseSnapshot(snapshot); err != nil {
		return at, err
	}
	var relations []relation
	if err := json.Unmarshal([]byte(list), &relations); err != nil {
		return at, fmt.Errorf("read partitions of %d: %w", oids, err)
	}
	below := byRoot(relations)
	lost := make(map[*table]shape.Reason)
	grown := false
	m.mu.Lock()
	for _, oid := range oids {
		switch tab := m.tables[oid]; {
		case tab == nil || tab.phase != ready:
		case tab.rowsMovedLocked(below[oid]):
			lost[tab] = shape.ReasonSchemaChanged
		default:
			grown = tab.growLocked(below[oid]) || grown
		}
	}
	m.mu.Unlock()
	m.lose(ctx, lost)
	if grown { // before the first change of a new partition: its rows are missed if it goes
		if err := m.remember(ctx, nil); err != nil {
			return at, err
		}
	}
	return at, nil
}

// growLocked adds the partitions that came without rows to those a table is known to have, and reports whether there were
// any. m.mu must be held.
func (t *table) growLocked(relations []relation) bool {
	grown := maps.Clone(t.attached)
	for _, r := range relations {
		if _, known := grown[r.OID]; !known && grown != nil {
			grown[r.OID] = r.Attached
			t.relations = append(t.relations, r.OID)
		}
	}
	if len(grown) == len(t.attached) {
		return false
	}
	t.attached = grown
	return true
}

func (m *Manager) anyUnverified(oids []uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, oid := range oids {
		if tab := m.tables[oid]; tab != nil && tab.phase == unverified {
			return true
		}
	}
	return false
}
