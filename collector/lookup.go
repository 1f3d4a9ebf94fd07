package collector

import (
	"context"
	"time"

	"github.com/shapeserver/shapeserver/changes"
)

// lookUpAncestors asks for the tables above a partition, when any partitioned table has shapes. The answer holds until
// the relation is announced again, which Postgres does when the partition is attached or detached.
func (c *Collector) lookUpAncestors(ctx context.Context, oid uint32) (above []uint32, err error) {
	c.mu.Lock()
	needed := c.index.partitioned > 0
	c.mu.Unlock()
	if !needed {
		delete(c.ancestors, oid)
		return nil, nil
	}
	err = c.lookUp(ctx, oid, func() (err error) {
		above, err = c.catalog.Ancestors(ctx, oid)
		return err
	})
	if err == nil {
		c.ancestors[oid] = above
	}
	return above, err
}

// lookUpKeys asks for the primary keys of a relation that was announced, and of those above it, as far as they have shapes:
// a change of the key is announced, but under REPLICA IDENTITY FULL not told. What the catalogue says now is at least as
// new as the announcement, so no operation goes out under a key of before.
func (c *Collector) lookUpKeys(ctx context.Context, r *changes.Relation, above []uint32) error {
	var oids []uint32
	c.mu.Lock()
	for _, oid := range append([]uint32{r.OID}, above...) {
		if c.index.tables[oid] != nil {
			oids = append(oids, oid)
		}
	}
	c.mu.Unlock()
	if len(oids) == 0 {
		return nil
	}
	return c.lookUp(ctx, r.OID, func() (err error) {
		r.Keys, err = c.catalog.Keys(ctx, oids)
		return err
	})
}

// lookUp asks the catalogue until it answers, or ctx ends.
func (c *Collector) lookUp(ctx context.Context, oid uint32, ask func() error) error {
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		err := ask()
		if err == nil {
			return nil
		}
		c.opts.Logger.WarnContext(ctx, "catalogue look-up failed, trying again", "relation_oid", oid, "error", err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(delay):
		}
	}
}
