package collector

import (
	"maps"
	"slices"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
)

// Register files a new shape, whose consumer is running, from the next transaction on: the rest of one that is being
// processed is not for it. Registering again is no error and keeps the first time.
func (c *Collector) Register(h shape.Handle, def *shape.Definition, inbox Inbox) {
	c.register(&route{handle: h, def: def, state: awake, inbox: inbox})
}

// Restore files a shape that has no consumer yet; its next change starts one.
func (c *Collector) Restore(h shape.Handle, def *shape.Definition) {
	c.register(&route{handle: h, def: def, state: asleep})
}

func (c *Collector) register(r *route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.routes[r.handle]; ok {
		return
	}
	r.since = c.ordinal + 1
	r.used = c.sweep.Load()
	c.routes[r.handle] = r
	c.index.add(r)
	if r.def.Table.Kind == 'p' {
		c.stale.Store(true)
	}
}

// Cut has nothing more sent to a shape, which is being removed; what its consumer has is enough to end with, also half a
// transaction, which then is never visible. Deliveries count as applied when Unregister is called. Cut does not block, and
// does nothing for a shape that is not registered.
func (c *Collector) Cut(h shape.Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.routes[h]; r != nil {
		r.cut.Store(true)
	}
}

// Unregister forgets a shape: nothing is sent to it any more when Unregister returns. Its consumer must have ended, or
// Unregister waits as long as a delivery to it is blocked. What was buffered for it counts as applied, so the shape
// must be durably gone (I4). Doing it again is no error.
func (c *Collector) Unregister(h shape.Handle) {
	c.mu.Lock()
	r := c.routes[h]
	if r != nil {
		delete(c.routes, h)
		c.index.remove(r)
	}
	c.mu.Unlock()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.buffer {
		d.Receipt.Applied()
	}
	if r.owed != nil {
		r.owed.Applied()
	}
	r.state, r.inbox, r.buffer, r.owed = gone, nil, nil, nil
}

// Missed reports whether a transaction that the snapshot did not see was processed before the shape was registered:
// neither would give it to the shape. It happens when a commit is in the WAL but not yet announced to the other
// backends, which may take long with synchronous replication. The remedy is another snapshot.
func (c *Collector) Missed(h shape.Handle, s changes.Snapshot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.routes[h]
	return r != nil && c.unseenBefore(r.since, s)
}

// Now returns a moment of the stream: which transactions have been processed so far, for UnseenBefore.
func (c *Collector) Now() Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Moment{c.ordinal + 1}
}

// Moment is a moment of the stream, as Now returns it.
type Moment struct{ next uint64 }

// UnseenBefore is Missed for a moment instead of a registration: whether a transaction that was processed before it, so
// that readers of logs may have its effects, is one that the snapshot did not see.
func (c *Collector) UnseenBefore(m Moment, s changes.Snapshot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unseenBefore(m.next, s)
}

// unseenBefore reports whether the snapshot did not see one of the transactions with an ordinal below next that are
// remembered. c.mu must be held.
//
// Such a transaction is in the snapshot's list of running ones, or at or above its Xmax: that is one past the highest
// id that had completed, not the next id to be given out (section 9.27 of the Postgres manual).
func (c *Collector) unseenBefore(next uint64, s changes.Snapshot) bool {
	before := func(x changes.Xid) bool {
		n, ok := c.recent[x]
		return ok && n < next
	}
	for _, full := range s.Xip {
		if before(changes.Xid(full)) { //nolint:gosec // the stream has the low half
			return true
		}
	}
	newest := s.Full(c.newest)
	if newest >= s.Xmax && newest-s.Xmax > recentXids {
		// More ids than are remembered: ask the remembered ones.
		for x := range c.recent {
			if before(x) && s.Full(x) >= s.Xmax {
				return true
			}
		}
		return false
	}
	for full := s.Xmax; full <= newest; full++ {
		if before(changes.Xid(full)) { //nolint:gosec // the stream has the low half
			return true
		}
	}
	return false
}

// Handles returns the handles of all registered shapes.
func (c *Collector) Handles() []shape.Handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.routes))
}
