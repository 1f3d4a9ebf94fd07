package inspector

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/sqltext"
)

// Ancestors returns the OIDs of the partitioned tables above a partition, nearest first, and the snapshot that the answer
// was read under. It is empty for a table that is no partition, also for one that does not exist and for a child by
// inheritance.
func (in *Inspector) Ancestors(ctx context.Context, oid uint32) ([]uint32, changes.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, in.opts.Timeout)
	defer cancel()
	type step struct {
		OID      uint32
		Snapshot string
	}
	steps, at, err := collect(ctx, in, func(s step) string { return s.Snapshot }, ancestors, strconv.FormatUint(uint64(oid), 10))
	if err != nil {
		return nil, at, fmt.Errorf("read ancestors of %d: %w", oid, err)
	}
	var up []uint32
	for _, s := range steps[1:] { // the first is the table itself
		up = append(up, s.OID)
	}
	return up, at, nil
}

// Layouts returns the tables' layouts by OID, and the snapshot that the answer was read under. Of a table that does not exist
// it is empty. It wants at least one table.
func (in *Inspector) Layouts(ctx context.Context, oids []uint32) (map[uint32]changes.Layout, changes.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, in.opts.Timeout)
	defer cancel()
	type tableLayout struct {
		OID      uint32
		Key      []string
		Columns  string
		Files    string
		Snapshot string
	}
	list, at, err := collect(ctx, in, func(l tableLayout) string { return l.Snapshot }, layouts, sqltext.OIDs(oids))
	if err != nil {
		return nil, at, fmt.Errorf("read layouts of %d: %w", oids, err)
	}
	found := make(map[uint32]changes.Layout, len(list))
	for _, l := range list {
		layout := changes.Layout{Key: l.Key, Files: l.Files}
		if err := json.Unmarshal([]byte(l.Columns), &layout.Columns); err != nil {
			return nil, at, fmt.Errorf("read layouts of %d: %w", oids, err)
		}
		found[l.OID] = layout
	}
	return found, at, nil
}

// Awaited reports whether commits wait until the reader of a replication slot has confirmed them: whether it is a
// synchronous standby (chapter 27.2.8 of the Postgres manual, "Synchronous Replication").
func (in *Inspector) Awaited(ctx context.Context, slot string) (yes bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, in.opts.Timeout)
	defer cancel()
	if err := in.pool.QueryRow(ctx, awaited, pgx.QueryExecModeExec, slot).Scan(&yes); err != nil {
		return false, fmt.Errorf("read whether slot %s is a synchronous standby's: %w", slot, err)
	}
	return yes, nil
}

// collect reads rows that each name the snapshot of their query; there is always one row at least.
func collect[T any](ctx context.Context, in *Inspector, snapshot func(T) string, sql, arg string) ([]T, changes.Snapshot, error) {
	rows, err := in.pool.Query(ctx, sql, pgx.QueryExecModeExec, arg)
	if err != nil {
		return nil, changes.Snapshot{}, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, changes.Snapshot{}, err
	}
	if len(list) == 0 {
		return nil, changes.Snapshot{}, pgx.ErrNoRows
	}
	at, err := changes.ParseSnapshot(snapshot(list[0]))
	return list, at, err
}
