package cleaner

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
)

// Status is the catalogue of shapes in Postgres.
type Status interface {
	// Remove deletes the rows of handles, durably. Rows that are not there are no error.
	Remove(ctx context.Context, handles ...shape.Handle) error
	// Handles lists all rows.
	Handles(ctx context.Context) ([]shape.Handle, error)
}

// Consumers is the registry of live shapes and their consumers.
type Consumers interface {
	// Forget makes the shape unfindable: new requests for its definition get a new shape. It does not block.
	Forget(h shape.Handle)
	// Stop ends the shape's consumer and waits until it has ended, or ctx ends. A shape without one is no error.
	Stop(ctx context.Context, h shape.Handle) error
	// Discard gives the receipts that the ended consumer owes, and drops what the registry still holds of it.
	Discard(h shape.Handle)
	// Handles lists the shapes that can be found, those being created too.
	Handles() []shape.Handle
	// Orphans lists the shapes whose consumer has ended other than by being suspended.
	Orphans() []shape.Handle
}

// Router is the collector's record of a shape.
type Router interface {
	// Cut has nothing more sent to the shape. It does not block.
	Cut(h shape.Handle)
	Unregister(h shape.Handle)
	Handles() []shape.Handle
}

// Publications is the publication's record of a shape.
type Publications interface {
	// Release gives up the shape's hold on its table. It does not wait for Postgres.
	Release(h shape.Handle)
	Handles() []shape.Handle
}

// Logs keeps the shapes' logs.
type Logs interface {
	Remove(h shape.Handle) error
	Handles() []shape.Handle
}

// Records are the places where something of a shape is kept.
type Records struct {
	Status       Status
	Consumers    Consumers
	Router       Router
	Publications Publications
	Logs         Logs
}

// Options tunes a Cleaner. The zero Options is ready to use.
type Options struct {
	// StopTimeout is how long one try waits for a consumer to end. Zero means ten seconds.
	StopTimeout time.Duration
	// RetryMin and RetryMax bound the pause before a failed step is tried again. Zero means 50 ms and 10 s.
	RetryMin, RetryMax time.Duration
	// ReconcileInterval is the time between two looks for disagreeing records. Zero means one minute.
	ReconcileInterval time.Duration
	// ReasonOf says why a consumer that ended with this cause must be removed; ok is false for an end that was meant.
	// Nil takes every end for a failure.
	ReasonOf func(cause error) (reason shape.Reason, ok bool)
	// OnFound is told what a reconciliation found, if it was anything.
	OnFound func(Findings)
	// OnRemoving is told of every removal before the shape cannot be found any more, from the goroutine of Remove. It
	// must not block.
	OnRemoving func(h shape.Handle, reason shape.Reason)
	// OnRemoved is told of every finished removal, from a goroutine of Run's.
	OnRemoved func(h shape.Handle, reason shape.Reason, took time.Duration)
	Logger    *slog.Logger // nil means no logging
}

func (o Options) withDefaults() Options {
	o.StopTimeout = cmp.Or(o.StopTimeout, 10*time.Second)
	o.RetryMin = cmp.Or(o.RetryMin, 50*time.Millisecond)
	o.RetryMax = cmp.Or(o.RetryMax, 10*time.Second)
	o.ReconcileInterval = cmp.Or(o.ReconcileInterval, time.Minute)
	if o.ReasonOf == nil {
		o.ReasonOf = func(error) (shape.Reason, bool) { return shape.ReasonConsumerDied, true }
	}
	if o.OnFound == nil {
		o.OnFound = func(Findings) {}
	}
	if o.OnRemoving == nil {
		o.OnRemoving = func(shape.Handle, shape.Reason) {}
	}
	if o.OnRemoved == nil {
		o.OnRemoved = func(shape.Handle, shape.Reason, time.Duration) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

const (
	// batchSize is how many status rows are deleted together.
	batchSize = 512
	// maxFinishers bounds how many removals are finished at once.
	maxFinishers = 16
)

// removal is a shape on its way out.
type removal struct {
	handle   shape.Handle
	reason   shape.Reason
	since    time.Time
	step     int // the next one to do
	attempts int // of that step
	due      time.Time
	// finishing is set while it is in Cleaner.rest or with a finisher, whose step and attempts are then.
	finishing bool
	durable   chan struct{} // closed when the status row is durably gone: no crash brings the shape back
	done      chan struct{} // closed when nothing is left
}

// Cleaner removes shapes. Make it with New, run it with Run.
type Cleaner struct {
	records Records
	opts    Options
	steps   []step

	mu        sync.Mutex
	queue     map[shape.Handle]*removal
	rest      []*removal // whose status row is gone and that are due, for the finishers
	finishers int
	wake      chan struct{} // holds one token when the queue has something new
}

// New makes a Cleaner.
func New(records Records, opts Options) *Cleaner {
	c := &Cleaner{records: records, opts: opts.withDefaults(), queue: make(map[shape.Handle]*removal), wake: make(chan struct{}, 1)}
	c.steps = c.removalSteps()
	return c
}

// Remove has a shape removed, for whatever reason; only the first reason counts. When it returns the shape cannot be
// found any more, and no change that comes to the router from then on reaches it. The rest follows in Run. Removing what
// is gone is no error.
func (c *Cleaner) Remove(h shape.Handle, reason shape.Reason) {
	c.mu.Lock()
	if _, ok := c.queue[h]; !ok {
		c.queue[h] = &removal{handle: h, reason: reason, since: time.Now(), durable: make(chan struct{}), done: make(chan struct{})}
	}
	c.mu.Unlock()
	c.opts.OnRemoving(h, reason)
	c.records.Consumers.Forget(h) // after it is in the queue: whoever does not find the shape can ask AwaitDurable
	c.records.Router.Cut(h)
	failpoint.Hit(failpoint.RemoveForgotten)
	c.notify()
}

// Watched is a consumer as its watcher sees it.
type Watched interface {
	Handle() shape.Handle
	Done() <-chan struct{}
	Cause() error // valid once Done is closed
}

// Watch waits for a consumer's end, and has its shape removed unless the end was meant.
func (c *Cleaner) Watch(ctx context.Context, w Watched) {
	select {
	case <-ctx.Done():
		return
	case <-w.Done():
	}
	reason, unexpected := c.opts.ReasonOf(w.Cause())
	if !unexpected {
		return
	}
	c.opts.Logger.InfoContext(ctx, "consumer ended, removing its shape", "handle", w.Handle(), "reason", reason, "cause", w.Cause())
	c.Remove(w.Handle(), reason)
}

// AwaitDurable returns nil when no crash can bring a removed shape back, at once if its removal is not going on, or the
// context's cause. A client may be told that a handle is over only then (I5).
func (c *Cleaner) AwaitDurable(ctx context.Context, h shape.Handle) error {
	return c.await(ctx, h, func(r *removal) <-chan struct{} { return r.durable })
}

// Wait returns nil when nothing is left of a shape that was given to Remove, or the context's cause.
func (c *Cleaner) Wait(ctx context.Context, h shape.Handle) error {
	return c.await(ctx, h, func(r *removal) <-chan struct{} { return r.done })
}

// await waits for a stage of a shape's removal, or returns at once if none is going on.
func (c *Cleaner) await(ctx context.Context, h shape.Handle, stage func(*removal) <-chan struct{}) error {
	c.mu.Lock()
	r := c.queue[h]
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-stage(r):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pending returns how many shapes are on their way out.
func (c *Cleaner) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// Run removes what Remove was told, and looks for disagreeing records from time to time, until ctx ends. It returns
// context.Cause(ctx). What is not finished then is found by the next start.
//
// Status rows are deleted here, in batches. What comes after is done by goroutines of Run's, a few removals at once, so that
// a consumer that does not end and the logs of many shapes keep no other shape's clients waiting (I7).
func (c *Cleaner) Run(ctx context.Context) error {
	retry := time.NewTimer(0)
	defer retry.Stop()
	reconcile := time.NewTicker(c.opts.ReconcileInterval)
	defer reconcile.Stop()
	var finishing sync.WaitGroup
	defer finishing.Wait()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.wake:
		case <-retry.C:
		case <-reconcile.C:
			if _, err := c.Reconcile(ctx); err != nil {
				c.opts.Logger.WarnContext(ctx, "reconciliation failed, trying again later", "error", err)
			}
		}
		next := c.work(ctx, &finishing)
		if !next.IsZero() {
			retry.Reset(max(time.Until(next), 0))
		}
	}
}

// work deletes the status rows of every removal that is due, begins to finish those that are without, as far as there is
// room, and returns when the next one is due.
func (c *Cleaner) work(ctx context.Context, finishing *sync.WaitGroup) (next time.Time) {
	for ctx.Err() == nil {
		var rows []*removal
		now := time.Now()
		next = time.Time{}
		c.mu.Lock()
		for _, r := range c.queue {
			switch {
			case r.finishing:
			case r.due.After(now):
				if next.IsZero() || r.due.Before(next) {
					next = r.due
				}
			case r.step == 0 && len(rows) < batchSize:
				rows = append(rows, r)
			case r.step > 0:
				r.finishing = true
				c.rest = append(c.rest, r)
			}
		}
		// Those there are may all be held up by what they do.
		for n := len(c.rest); n > 0 && c.finishers < maxFinishers; n-- {
			c.finishers++
			finishing.Go(func() { c.finishAll(ctx) })
		}
		c.mu.Unlock()
		if len(rows) == 0 {
			return next
		}
		c.forgetRows(ctx, rows)
	}
	return time.Time{}
}

// forgetRows takes removals through the first step.
func (c *Cleaner) forgetRows(ctx context.Context, batch []*removal) {
	failed := c.steps[0].do(ctx, batch)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range batch {
		if err, bad := failed[r.handle]; bad {
			c.postponeLocked(ctx, r, err)
			continue
		}
		r.step, r.attempts = 1, 0
		close(r.durable)
	}
}

// finishAll finishes removals until none is left to begin with.
func (c *Cleaner) finishAll(ctx context.Context) {
	for {
		c.mu.Lock()
		if len(c.rest) == 0 || ctx.Err() != nil {
			c.finishers--
			c.mu.Unlock()
			return
		}
		r := c.rest[0]
		c.rest[0] = nil
		c.rest = c.rest[1:]
		c.mu.Unlock()
		c.finish(ctx, r)
	}
}

// finish takes a removal through the steps that are left. One that fails stays at its step, and Run is told.
func (c *Cleaner) finish(ctx context.Context, r *removal) {
	var failure error
	step := r.step
	for ; step < len(c.steps) && ctx.Err() == nil; step++ {
		if failure = c.steps[step].do(ctx, []*removal{r})[r.handle]; failure != nil {
			break
		}
	}
	done := step == len(c.steps)
	c.mu.Lock()
	r.finishing = false
	if step > r.step {
		r.step, r.attempts = step, 0
	}
	if failure != nil {
		c.postponeLocked(ctx, r, failure)
	}
	if done {
		delete(c.queue, r.handle)
	}
	c.mu.Unlock()
	if !done {
		c.notify()
		return
	}
	close(r.done)
	took := time.Since(r.since)
	c.opts.Logger.InfoContext(ctx, "shape removed", "handle", r.handle, "reason", r.reason, "took", took)
	c.opts.OnRemoved(r.handle, r.reason, took)
}

// postponeLocked puts the next try of a removal's step off. c.mu must be held.
func (c *Cleaner) postponeLocked(ctx context.Context, r *removal, err error) {
	r.attempts++
	r.due = time.Now().Add(c.pause(r.attempts))
	c.opts.Logger.WarnContext(ctx, "removal step failed, trying again", "handle", r.handle, "step", c.steps[r.step].name,
		"attempt", r.attempts, "error", err)
}

// notify has Run look.
func (c *Cleaner) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// pause grows with the attempts, with jitter, so that many removals do not come back together.
func (c *Cleaner) pause(attempts int) time.Duration {
	d := c.opts.RetryMin << min(attempts-1, 20)
	if d <= 0 || d > c.opts.RetryMax {
		d = c.opts.RetryMax
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter need not be secret
}
