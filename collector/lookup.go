package collector

import (
	"context"
	"slices"
	"time"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
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
	seen, err := c.lookUp(ctx, oid, func() (at changes.Snapshot, err error) {
		above, at, err = c.catalog.Ancestors(ctx, oid)
		return at, err
	})
	if err != nil {
		return nil, err
	}
	if !seen {
		c.removeUnseen(func(t *tableRoutes) bool { return t.partitioned })
		delete(c.ancestors, oid) // the next change asks again
		return above, nil
	}
	c.ancestors[oid] = above
	return above, nil
}

// lookUpLayouts asks for the layouts of a relation that was announced, and of those above it, as far as they have shapes: a
// change of the key, or of the column behind a name, is announced but not told. What the catalogue says now is at least as
// new as the announcement, so no operation goes out under a key of before.
func (c *Collector) lookUpLayouts(ctx context.Context, r *changes.Relation, above []uint32) error {
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
	seen, err := c.lookUp(ctx, r.OID, func() (at changes.Snapshot, err error) {
		r.Layouts, at, err = c.catalog.Layouts(ctx, oids)
		return at, err
	})
	if err == nil && !seen {
		r.Layouts = nil // better none than one that later shapes do not fit
		c.removeUnseen(func(t *tableRoutes) bool { return slices.Contains(oids, t.oid) })
	}
	return err
}

// comparison is a look at the partitions of a table.
type comparison struct {
	under changes.Snapshot
	at    time.Time
}

// covers reports whether the look saw transaction x. An old look is not asked: 32-bit ids wrap.
func (l comparison) covers(x changes.Xid) bool {
	return time.Since(l.at) < time.Minute && l.under.Visible(x)
}

// comparePartitions ends the shapes of partitioned tables above a relation that was announced when rows came to them, or
// went, with a partition. Attaching, detaching and dropping one are not told, but rows that stand in for those that went, or
// changes of those that came, go to a partition that is announced before: the new one, or the default. So no shape shows
// an operation on a row that it does not have, or a second row in the place of one that it has still.
func (c *Collector) comparePartitions(ctx context.Context, oid uint32, above []uint32) error {
	var oids []uint32
	c.mu.Lock()
	for _, oid := range above {
		// A look that saw this transaction has seen what led to the announcement, too.
		if c.index.tables[oid] != nil && !c.compared[oid].covers(c.txn.Xid) {
			oids = append(oids, oid)
		}
	}
	c.mu.Unlock()
	if len(oids) == 0 {
		return nil
	}
	var look comparison
	seen, err := c.lookUp(ctx, oid, func() (_ changes.Snapshot, err error) {
		look.at = time.Now()
		look.under, err = c.catalog.ComparePartitions(ctx, oids)
		return look.under, err
	})
	if err != nil || !seen {
		return err // unseen: the look-up of what is above has ended the shapes
	}
	for _, oid := range oids {
		c.compared[oid] = look
	}
	return nil
}

// unseenPatience is how long a transaction may be invisible before it is asked why.
const unseenPatience = time.Second

// lookUp asks the catalogue until it answers under a snapshot that sees the current transaction, or ctx ends.
//
// A commit is in the stream as soon as it is in the WAL, and visible to others only when its backend has said so to
// them: a moment later, or with synchronous replication when the standby has confirmed it. An answer from before does
// not know the partition that the transaction made, or the key that it changed. If this server is that standby, as under
// synchronous_standby_names = '*', each would wait for the other; then the answer is taken and seen is false.
func (c *Collector) lookUp(ctx context.Context, oid uint32, ask func() (changes.Snapshot, error)) (seen bool, err error) {
	var unseen time.Time // when to see why
	for delay := time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		at, err := ask()
		switch now := time.Now(); {
		case err != nil:
		case at.Visible(c.txn.Xid):
			return true, nil
		case c.unseen:
			return false, nil
		case unseen.IsZero():
			unseen = now.Add(unseenPatience)
		case now.After(unseen):
			var awaited bool
			if awaited, err = c.catalog.Awaited(ctx); awaited {
				c.opts.Logger.WarnContext(ctx, "transaction waits for this server as its synchronous standby: ending the shapes that may miss some of it; "+
					"synchronous_standby_names should not match this server",
					"relation_oid", oid, "transaction", c.txn.Xid)
				c.unseen = true
				return false, nil
			}
		}
		if err != nil {
			delay = max(delay, 50*time.Millisecond)
			c.opts.Logger.WarnContext(ctx, "catalogue look-up failed, trying again", "relation_oid", oid, "error", err)
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(delay):
		}
	}
}

// removeUnseen has the shapes of tables removed for which the catalogue's answer may be too old.
func (c *Collector) removeUnseen(concerned func(*tableRoutes) bool) {
	found := make(map[shape.Handle]bool)
	c.mu.Lock()
	for _, t := range c.index.tables {
		if concerned(t) {
			t.every(func(r *route) { found[r.handle] = true })
		}
	}
	c.mu.Unlock()
	for h := range found {
		c.opts.OnUnseen(h)
	}
}
