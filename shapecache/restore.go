package shapecache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/status"
	"github.com/shapeserver/shapeserver/storage"
)

// Restore takes up the shapes of the last run: those whose status row, log and table agree. It files them with the
// router, asleep, and with the publication. The rest is handed to removal. It must be called before Run.
func (c *Cache) Restore(ctx context.Context, rows []status.Row, tables Tables) (restored int, err error) {
	oids := make(map[uint32]bool)
	for _, r := range rows {
		oids[r.TableOID] = true
	}
	now, err := tables.ByOID(ctx, slices.Collect(maps.Keys(oids)))
	if err != nil {
		return 0, fmt.Errorf("look up the tables of all shapes: %w", err)
	}
	// The newest first: of two shapes of one definition the older was being removed.
	for i := len(rows) - 1; i >= 0; i-- {
		e, err := c.restoreOne(&rows[i], now[rows[i].TableOID])
		if err != nil {
			c.opts.Logger.InfoContext(ctx, "shape not restored", "handle", rows[i].Handle, "cause", err)
			c.remover.Remove(rows[i].Handle, shape.ReasonOrphaned)
			continue
		}
		c.router.Restore(e.handle, e.def)
		c.records.Publications.Restore(e.handle, e.def.Table)
		if err := failpoint.Err(failpoint.StartRestored); err != nil {
			return restored, err
		}
		if !rows[i].Active { // its snapshot was complete, and the note of that was lost with the last run
			c.records.Status.Completed(e.handle, time.Now())
		}
		restored++
	}
	return restored, nil
}

// restoreOne makes the entry of one shape from its row.
func (c *Cache) restoreOne(row *status.Row, table *shape.Table) (*entry, error) {
	if table == nil {
		return nil, errors.New("its table is gone")
	}
	log, err := c.records.Logs.Open(row.Handle)
	if err != nil {
		return nil, err
	}
	if st, _ := log.State(); st.Phase != storage.SnapshotComplete || st.Err != nil {
		return nil, errors.Join(errors.New("its snapshot is not complete"), st.Err)
	}
	def, err := row.Definition(table)
	if err != nil {
		return nil, fmt.Errorf("its definition no longer holds: %w", err)
	}
	e := &entry{handle: row.Handle, def: def, identity: def.Identity(), made: make(chan struct{})}
	if e.identity != row.Identity {
		return nil, errors.New("its table or its clause means something else now")
	}
	if !def.FitsDescription(row.Description) {
		return nil, errors.New("its table was changed while no server was there")
	}
	e.shape = &Shape{Handle: e.handle, Definition: def, Log: log, entry: e}
	e.used.Store(row.LastUsedAt.UnixNano())
	e.noted = e.used.Load()
	close(e.made)
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.byIdentity[e.identity]; other != nil {
		return nil, fmt.Errorf("shape %s has the same definition", other.handle)
	}
	c.byIdentity[e.identity], c.byHandle[e.handle] = e, e
	return e, nil
}
