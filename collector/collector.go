package collector

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
)

// Consumers starts the consumers that the collector sends to.
type Consumers interface {
	// Resume starts the consumer of a shape that has none. An error means that the shape is being removed, or that
	// Resume has seen to it: nothing will be sent to it any more.
	Resume(h shape.Handle) (Inbox, error)
}

// Catalog answers what the stream does not say. Answers about tables come with the snapshot that they were read under.
type Catalog interface {
	// Ancestors returns the OIDs of the partitioned tables above a table, from its parent up; none for a table that is
	// no partition.
	Ancestors(ctx context.Context, oid uint32) ([]uint32, changes.Snapshot, error)
	// Layouts returns the tables' layouts by OID; an empty one for a table that does not exist.
	Layouts(ctx context.Context, oids []uint32) (map[uint32]changes.Layout, changes.Snapshot, error)
	// ComparePartitions has the shapes removed of those of the partitioned tables to or from which rows came or went with a
	// partition. They have been cut off when it returns.
	ComparePartitions(ctx context.Context, oids []uint32) (changes.Snapshot, error)
	// Awaited reports whether commits wait for this server to confirm them.
	Awaited(ctx context.Context) (bool, error)
}

// Options tunes a Collector. The zero Options is ready to use.
type Options struct {
	// SuspendAfter is how long a consumer may be idle before it is closed. Zero means one minute; negative never.
	SuspendAfter time.Duration
	// StallLimit is how long a consumer's mailbox may stay full before its shape is removed, so that one shape cannot
	// hold up all. Zero means one minute.
	StallLimit time.Duration
	// OnStalled is told of a shape that reached StallLimit; it must have it removed and must not block.
	OnStalled func(shape.Handle)
	// OnUnseen is told of a shape that may miss changes because the catalogue cannot show a transaction before this
	// server has confirmed it; it must have it removed, which cuts it off, and must not block.
	OnUnseen func(shape.Handle)
	// FlushInterval is the least time between two syncs of the store. Zero means 20 ms.
	FlushInterval time.Duration
	Logger        *slog.Logger // nil means no logging
}

func (o Options) withDefaults() Options {
	o.SuspendAfter = cmp.Or(o.SuspendAfter, time.Minute)
	o.StallLimit = cmp.Or(o.StallLimit, time.Minute)
	o.FlushInterval = cmp.Or(o.FlushInterval, 20*time.Millisecond)
	if o.OnUnseen == nil {
		o.OnUnseen = func(shape.Handle) {}
	}
	if o.OnStalled == nil {
		o.OnStalled = func(shape.Handle) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// sweeps is how many sweeps make up SuspendAfter.
const sweeps = 4

// recentXids is how many transactions back the collector remembers that it has seen one. A snapshot is compared with
// them only within the moment between registration and snapshot.
const recentXids = 1 << 16

// Collector routes transactions to consumers.
type Collector struct {
	consumers Consumers
	catalog   Catalog
	opts      Options
	tracker   tracker

	// mu guards what stands under it. It is not held while sending.
	mu      sync.Mutex
	routes  map[shape.Handle]*route
	index   index
	ordinal uint64                 // transactions begun so far
	recent  map[changes.Xid]uint64 // id → ordinal
	ring    []changes.Xid          // ids in recent, oldest first from ordinal on
	newest  changes.Xid            // the highest id so far, as ids wrap
	due     []*route               // answered while something was buffered: Run sends it

	answers chan struct{} // holds one token when due is not empty
	sweep   atomic.Int64  // number of the current sweep

	// stale is set when a partitioned table got a shape: what is known of what is above partitions may be of before. A
	// concurrent DETACH that waits is not announced.
	stale atomic.Bool

	// Used by the goroutine of Run alone.
	relations map[uint32]*changes.Relation
	ancestors map[uint32][]uint32
	compared  map[uint32]comparison // of partitions, by table
	current   *pending              // the open transaction
	txn       *changes.Txn          // its head
	unseen    bool                  // the catalogue will not show it in time
	nextIndex uint64                // the next change of it, to go on from after a reconnect
	doneLSN   changes.LSN           // commit position of the last transaction that was sent whole
	touched   []*route              // routes that got a part of the open transaction
	fresh     []*route              // routes that get a part of the current fragment
	tokens    changes.Token         // the last one given out
	stall     *time.Timer           // for sends that block
}

// New makes a Collector.
func New(consumers Consumers, catalog Catalog, opts Options) *Collector {
	c := &Collector{
		consumers: consumers, catalog: catalog, opts: opts.withDefaults(),
		routes: make(map[shape.Handle]*route), index: newIndex(),
		recent: make(map[changes.Xid]uint64), ring: make([]changes.Xid, recentXids),
		answers:   make(chan struct{}, 1),
		relations: make(map[uint32]*changes.Relation), ancestors: make(map[uint32][]uint32),
		compared: make(map[uint32]comparison),
	}
	return c
}

// LastSeen returns the commit position of the last transaction of which every affected shape shows the effects: the
// global_last_seen_lsn of protocol.md §5.4. It is zero before Start.
func (c *Collector) LastSeen() changes.LSN { return changes.LSN(c.tracker.seen.Load()) }

// Applied returns the position below which the stream has come and everything in it has been applied. It is zero before
// Start.
func (c *Collector) Applied() changes.LSN { return c.tracker.progress.Load().applied }

// Waiting returns how many transactions have been received and not applied.
func (c *Collector) Waiting() int { return c.tracker.waiting() }

// Start tells the position that the stream resumes from, before Run.
func (c *Collector) Start(confirmed changes.LSN) { c.tracker.start(confirmed) }

// Run routes events until ctx ends, and returns context.Cause(ctx). It must be the only receiver of in.
func (c *Collector) Run(ctx context.Context, in <-chan changes.Event) error {
	c.stall = time.NewTimer(time.Hour)
	c.stall.Stop()
	defer c.stall.Stop()
	var sweep <-chan time.Time
	if c.opts.SuspendAfter > 0 {
		t := time.NewTicker(max(c.opts.SuspendAfter/sweeps, time.Millisecond))
		defer t.Stop()
		sweep = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case ev := <-in:
			if err := c.handle(ctx, ev); err != nil {
				return err
			}
		case <-c.answers:
			if err := c.sendBuffered(ctx); err != nil {
				return err
			}
		case <-sweep:
			c.suspendIdle()
		}
	}
}

func (c *Collector) handle(ctx context.Context, ev changes.Event) error {
	f := ev.Fragment
	if f == nil {
		if c.current == nil {
			c.tracker.mark(ev.WALEnd)
		}
		return nil
	}
	if f.Txn.CommitLSN <= c.doneLSN {
		return nil // sent again after a reconnect, and sent on whole before it
	}
	if err := c.open(f); err != nil {
		return err
	}
	list := f.Changes
	for len(list) > 0 && list[0].Index < c.nextIndex {
		list = list[1:] // the part of an interrupted transaction that was sent on before
	}
	for i := range list {
		if err := c.route(ctx, &list[i]); err != nil {
			return err
		}
		c.nextIndex = list[i].Index + 1
	}
	if err := c.deliver(ctx, f.Last); err != nil {
		return err
	}
	if f.Last {
		c.close(f)
	}
	return nil
}

// open begins the fragment's transaction, unless it is open already. A transaction that was interrupted comes again
// whole and goes on where it stopped: what is in it cannot have changed.
func (c *Collector) open(f *changes.Fragment) error {
	if c.current != nil {
		if c.txn.CommitLSN == f.Txn.CommitLSN && c.txn.Xid == f.Txn.Xid {
			return nil
		}
		return fmt.Errorf("transaction at %s begins inside the one at %s", f.Txn.CommitLSN, c.txn.CommitLSN)
	}
	c.txn, c.unseen = f.Txn, false
	c.nextIndex = 0
	c.current = c.tracker.begin(f.Txn.CommitLSN)
	c.mu.Lock()
	slot := &c.ring[c.ordinal%recentXids]
	if c.recent[*slot]+recentXids == c.ordinal+1 {
		delete(c.recent, *slot)
	}
	c.ordinal++
	*slot = f.Txn.Xid
	c.recent[f.Txn.Xid] = c.ordinal
	if c.ordinal == 1 || int32(f.Txn.Xid-c.newest) > 0 { //nolint:gosec // modular distance is what is wanted
		c.newest = f.Txn.Xid
	}
	c.mu.Unlock()
	return nil
}

func (c *Collector) close(f *changes.Fragment) {
	c.doneLSN = f.Txn.CommitLSN
	c.current.end = f.EndLSN
	c.current.Applied() // gives back the count that open took
	c.current, c.txn = nil, nil
	for _, r := range c.touched {
		r.touched = false
	}
	clear(c.touched)
	c.touched = c.touched[:0]
}

// route adds one change to the batches of the shapes that it may concern.
func (c *Collector) route(ctx context.Context, ch *changes.Change) error {
	if c.stale.Swap(false) {
		clear(c.ancestors)
	}
	known := c.relations[ch.Relation.OID]
	changed := known != ch.Relation
	above, ok := c.ancestors[ch.Relation.OID]
	if changed || !ok {
		var err error
		if above, err = c.lookUpAncestors(ctx, ch.Relation.OID); err != nil {
			return err
		}
	}
	if changed {
		if err := c.lookUpLayouts(ctx, ch.Relation, above); err != nil {
			return err
		}
		if err := c.comparePartitions(ctx, ch.Relation.OID, above); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed {
		c.relations[ch.Relation.OID] = ch.Relation
		if known == nil || !known.SameAs(ch.Relation) {
			c.relationChanged(ch, above)
		}
	}
	take := func(r *route) { c.take(r, ch) }
	if t := c.index.tables[ch.Relation.OID]; t != nil {
		t.each(ch, take)
	}
	for _, oid := range above {
		if t := c.index.tables[oid]; t != nil {
			t.each(ch, take)
		}
	}
	return nil
}

// relationChanged gives the change to every shape that the relation, as it is now, does not fit, also where the change
// is not the shape's: its consumer then ends the shape, unless its snapshot is newer than the change.
func (c *Collector) relationChanged(ch *changes.Change, above []uint32) {
	check := func(r *route) {
		if r.def.Fits(ch.Relation) != "" {
			c.take(r, ch)
		}
	}
	if t := c.index.tables[ch.Relation.OID]; t != nil {
		t.every(check)
	}
	for _, oid := range above {
		if t := c.index.tables[oid]; t != nil {
			t.every(check)
		}
	}
}

// take puts a change into a route's batch, once.
func (c *Collector) take(r *route, ch *changes.Change) {
	if r.since > c.ordinal {
		return // registered while this transaction was being processed
	}
	if n := len(r.batch); n > 0 && r.batch[n-1] == ch {
		return
	}
	r.batch = append(r.batch, ch)
	if !r.fresh {
		r.fresh = true
		c.fresh = append(c.fresh, r)
	}
	if !r.touched {
		r.touched = true
		c.touched = append(c.touched, r)
	}
}

// deliver sends the batches of the current fragment; at the end of the transaction also to the routes that only got
// earlier parts.
func (c *Collector) deliver(ctx context.Context, commit bool) error {
	to := c.fresh
	if commit {
		to = c.touched
	}
	for _, r := range to {
		d := changes.Delivery{Txn: c.txn, Changes: r.batch, Commit: commit, Receipt: c.current}
		r.batch, r.fresh = nil, false
		c.current.add()
		if err := c.send(ctx, r, d); err != nil {
			return err
		}
	}
	clear(c.fresh)
	c.fresh = c.fresh[:0]
	return nil
}
