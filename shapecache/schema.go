package shapecache

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/shapeserver/shapeserver/shape"
)

// Tables looks tables up in the catalogue.
type Tables interface {
	// ByOID returns those of the tables that exist, as they are now.
	ByOID(ctx context.Context, oids []uint32) (map[uint32]*shape.Table, error)
}

// CheckSchemas compares the table of every shape with the catalogue and has the shapes removed that their table no longer
// fits. DDL alone sends nothing down the stream, so somebody has to look.
func (c *Cache) CheckSchemas(ctx context.Context, tables Tables) error {
	c.mu.RLock()
	seen := make(map[uint32]bool)
	for _, e := range c.byHandle {
		seen[e.def.Table.OID] = true
	}
	c.mu.RUnlock()
	if len(seen) == 0 {
		return nil
	}
	now, err := tables.ByOID(ctx, slices.Collect(maps.Keys(seen)))
	if err != nil {
		return fmt.Errorf("look up the tables of all shapes: %w", err)
	}
	c.removeUnfit(ctx, func(d *shape.Definition) (*shape.Table, bool) {
		t := now[d.Table.OID]
		return t, seen[d.Table.OID]
	})
	return nil
}

// TableSeen tells the cache of a table that was just looked up. Shapes on a table of the same name, or of the same OID,
// which it does not fit are removed.
func (c *Cache) TableSeen(ctx context.Context, t *shape.Table) {
	c.removeUnfit(ctx, func(d *shape.Definition) (*shape.Table, bool) {
		return t, d.Table != t && (d.Table.OID == t.OID || (d.Table.Schema == t.Schema && d.Table.Name == t.Name))
	})
}

// TableGone tells the cache that there is no table of a name. Shapes on one are removed.
func (c *Cache) TableGone(ctx context.Context, schema, name string) {
	c.removeUnfit(ctx, func(d *shape.Definition) (*shape.Table, bool) {
		return nil, d.Table.Schema == schema && d.Table.Name == name
	})
}

// RemoveTable has every shape of a table removed.
func (c *Cache) RemoveTable(oid uint32, reason shape.Reason) {
	c.mu.RLock()
	var found []shape.Handle
	for h, e := range c.byHandle {
		if e.def.Table.OID == oid {
			found = append(found, h)
		}
	}
	c.mu.RUnlock()
	for _, h := range found {
		c.remover.Remove(h, reason)
	}
}

// removeUnfit has every shape removed whose definition does not fit the table that look gives for it; a nil table is one
// that is gone. Shapes for which look reports false are left alone.
func (c *Cache) removeUnfit(ctx context.Context, look func(*shape.Definition) (*shape.Table, bool)) {
	type unfit struct {
		handle  shape.Handle
		reason  shape.Reason
		problem string
	}
	var found []unfit
	c.mu.RLock()
	for h, e := range c.byHandle {
		t, ours := look(e.def)
		if !ours {
			continue
		}
		problem := e.def.FitsTable(t)
		switch {
		case problem == "":
		case t == nil || t.OID != e.def.Table.OID:
			found = append(found, unfit{h, shape.ReasonTableDropped, problem})
		default:
			found = append(found, unfit{h, shape.ReasonSchemaChanged, problem})
		}
	}
	c.mu.RUnlock()
	for _, u := range found {
		c.opts.Logger.InfoContext(ctx, "table changed, removing shape", "handle", u.handle, "reason", u.reason, "change", u.problem)
		c.remover.Remove(u.handle, u.reason)
	}
}
