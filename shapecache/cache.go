package shapecache

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/cleaner"
	"github.com/shapeserver/shapeserver/collector"
	"github.com/shapeserver/shapeserver/consumer"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/status"
	"github.com/shapeserver/shapeserver/storage"
)

// Status is where the catalogue of shapes is written.
type Status interface {
	// Put writes a row durably.
	Put(ctx context.Context, row status.Row) error
	// Completed and Used note when a shape's snapshot was complete, and when it was last asked for. They do not wait.
	Completed(h shape.Handle, at time.Time)
	Used(h shape.Handle, at time.Time)
}

// Publications makes tables part of the stream.
type Publications interface {
	// Acquire returns when the table is published for the shape and every later change of it will be in the stream.
	Acquire(ctx context.Context, h shape.Handle, t *shape.Table) error
	// Restore notes the hold of a shape from before a restart.
	Restore(h shape.Handle, t *shape.Table)
}

// Router is the collector.
type Router interface {
	consumer.Sender
	Register(h shape.Handle, def *shape.Definition, inbox collector.Inbox)
	Restore(h shape.Handle, def *shape.Definition)
	Missed(h shape.Handle, s changes.Snapshot) bool
}

// Remover is the cleaner.
type Remover interface {
	Remove(h shape.Handle, reason shape.Reason)
	Watch(ctx context.Context, w cleaner.Watched)
}

// Records are what the cache makes shapes out of.
type Records struct {
	Status       Status
	Logs         storage.Store
	Publications Publications
	Snapshots    consumer.SnapshotReader
}

// Options tunes a Cache. The zero Options is ready to use.
type Options struct {
	Consumer consumer.Options
	// AwaitMin and AwaitMax bound the pauses of AwaitSnapshotStart. Zero means 50 ms and 1 s.
	AwaitMin, AwaitMax time.Duration
	// RetryMin and RetryMax bound how long a definition that could not be made is not tried again: the time doubles with
	// each failure in a row. It is longer than RetryMax after a try that took long. Zero means 1 s and 30 s.
	RetryMin, RetryMax time.Duration
	Logger             *slog.Logger // nil means no logging
}

func (o Options) withDefaults() Options {
	o.AwaitMin = cmp.Or(o.AwaitMin, 50*time.Millisecond)
	o.AwaitMax = cmp.Or(o.AwaitMax, time.Second)
	o.RetryMin = cmp.Or(o.RetryMin, time.Second)
	o.RetryMax = cmp.Or(o.RetryMax, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Consumer.Logger = cmp.Or(o.Consumer.Logger, o.Logger)
	return o
}

// Cache is the registry of live shapes. Make it with New, give it its neighbours with Connect, run it with Run.
type Cache struct {
	records Records
	opts    Options
	router  Router
	remover Remover
	started chan struct{}
	failed  failures

	mu         sync.RWMutex
	ctx        context.Context //nolint:containedctx // the lifetime of the goroutines that requests start
	wg         *sync.WaitGroup
	byIdentity map[string]*entry
	byHandle   map[shape.Handle]*entry
	leaving    map[shape.Handle]*entry // forgotten, with something left to stop or discard
}

// entry is the cache's record of one shape.
type entry struct {
	handle   shape.Handle
	def      *shape.Definition
	identity string
	used     atomic.Int64 // when a request last found it, in unix nanoseconds
	noted    int64        // the last value of used that was handed to status; of NoteUse alone, once the entry is registered

	// made is closed when the shape can be handed out, or could not be made; then shape or err is set.
	made  chan struct{}
	shape *Shape
	err   error

	// Guarded by Cache.mu.
	consumer *consumer.Consumer // the current one, or the last one; nil before the first
	cancel   context.CancelCauseFunc
}

// New makes a Cache.
func New(records Records, opts Options) *Cache {
	opts = opts.withDefaults()
	return &Cache{
		records: records, opts: opts, started: make(chan struct{}),
		failed:     failures{first: opts.RetryMin, most: opts.RetryMax, byIdentity: make(map[string]*failed)},
		byIdentity: make(map[string]*entry), byHandle: make(map[shape.Handle]*entry), leaving: make(map[shape.Handle]*entry),
	}
}

// Connect gives the cache its neighbours, which are made with the cache. It is called once, before anything else.
func (c *Cache) Connect(router Router, remover Remover) { c.router, c.remover = router, remover }

// Run lets shapes be made and consumers be started until ctx ends, then ends every consumer and returns
// context.Cause(ctx) when they have all returned.
func (c *Cache) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	inner, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	c.mu.Lock()
	c.ctx, c.wg = inner, &wg
	c.mu.Unlock()
	close(c.started)
	<-ctx.Done()
	c.mu.Lock()
	c.ctx, c.wg = nil, nil // from here on nothing is started
	c.mu.Unlock()
	stop(consumer.ErrStopped)
	wg.Wait()
	return context.Cause(ctx)
}

// Started is closed when Run has begun: from then on shapes can be made and resumed.
func (c *Cache) Started() <-chan struct{} { return c.started }

// Lookup finds a shape that can be served, and notes that it was used.
func (c *Cache) Lookup(h shape.Handle) (*Shape, bool) {
	c.mu.RLock()
	e := c.byHandle[h]
	c.mu.RUnlock()
	if e == nil {
		return nil, false
	}
	select {
	case <-e.made:
	default:
		return nil, false // its handle has not been told to anybody
	}
	if e.err != nil {
		return nil, false
	}
	e.used.Store(time.Now().UnixNano())
	return e.shape, true
}

// Find returns the shape of a definition if it can be served, and notes that it was used. It makes nothing.
func (c *Cache) Find(def *shape.Definition) (*Shape, bool) {
	c.mu.RLock()
	e := c.byIdentity[def.Identity()]
	c.mu.RUnlock()
	if e == nil {
		return nil, false
	}
	return c.Lookup(e.handle)
}

// GetOrCreate returns the shape of a definition, and makes it when there is none. It waits until the shape has a handle
// and a log, not for its snapshot. Any number of callers at once make one shape; a caller that leaves does not stop it.
// It gives ErrNotReady, the context's cause, what went wrong in the making, or, without trying, a *FailedError for a
// definition that could not be made a short time ago.
func (c *Cache) GetOrCreate(ctx context.Context, def *shape.Definition) (*Shape, error) {
	e, err := c.find(def) //nolint:contextcheck // a creation outlives the request that began it
	if err != nil {
		return nil, err
	}
	select {
	case <-e.made:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if e.err != nil {
		return nil, e.err
	}
	e.used.Store(time.Now().UnixNano())
	return e.shape, nil
}

// find returns the entry of a definition, and starts the making of a new one.
func (c *Cache) find(def *shape.Definition) (*entry, error) {
	identity := def.Identity()
	c.mu.RLock()
	e := c.byIdentity[identity]
	c.mu.RUnlock()
	if e != nil {
		return e, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byIdentity[identity]; e != nil {
		return e, nil
	}
	if c.ctx == nil {
		return nil, ErrNotReady
	}
	if err := c.failed.refuse(identity, time.Now()); err != nil {
		return nil, err
	}
	now := time.Now()
	e = &entry{handle: shape.NewHandle(def, now), def: def, identity: identity, made: make(chan struct{}), noted: now.UnixNano()}
	e.used.Store(e.noted)
	ctx, cancel := context.WithCancelCause(c.ctx)
	e.cancel = cancel
	c.byIdentity[identity], c.byHandle[e.handle] = e, e
	c.wg.Go(func() { c.create(ctx, e) })
	return e, nil
}

// NoteUse hands the times at which shapes were last used to the catalogue, as far as they moved by a minute or more. One
// goroutine may call it.
func (c *Cache) NoteUse() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for h, e := range c.byHandle {
		if used := e.used.Load(); used-e.noted >= int64(time.Minute) {
			e.noted = used
			c.records.Status.Used(h, time.Unix(0, used))
		}
	}
}

// Handles lists the shapes that can be found, those being created too.
func (c *Cache) Handles() []shape.Handle {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.byHandle))
}

// Awake returns how many shapes that can be found have a running consumer.
func (c *Cache) Awake() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := 0
	for _, e := range c.byHandle {
		if e.consumer == nil {
			continue
		}
		select {
		case <-e.consumer.Done():
		default:
			n++
		}
	}
	return n
}

// Len returns how many shapes can be found.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.byHandle)
}
