package shapecache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/collector"
	"github.com/shapeserver/shapeserver/consumer"
	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/status"
)

// create makes a shape: its status row, its log, its hold on the publication, its consumer and its snapshot, in this
// order, each named in the records before the next begins. Wherever it stops, cleaner removes what there is: after an
// error it is told here, after a crash its reconciliation finds it.
func (c *Cache) create(ctx context.Context, e *entry) {
	began := time.Now()
	cons, err := c.make(ctx, e)
	if err != nil {
		c.noteFailure(e, err, time.Since(began))
		e.err = fmt.Errorf("create shape: %w", err)
		close(e.made)
		c.opts.Logger.WarnContext(ctx, "shape not created", "handle", e.handle, "table", e.def.Table.Name, "error", err)
		c.remover.Remove(e.handle, shape.ReasonOrphaned)
		return
	}
	c.mu.Lock()
	e.consumer = cons // before made, so that whoever stops the shape finds it
	c.mu.Unlock()
	close(e.made)
	failpoint.Hit(failpoint.CreateAnnounced)
	c.opts.Logger.InfoContext(ctx, "shape created", "handle", e.handle, "schema", e.def.Table.Schema, "table", e.def.Table.Name)
	c.supervise(ctx, cons, func() error {
		err := guard(func() error { return c.snapshot(ctx, e, cons) })
		if err != nil {
			c.noteFailure(e, err, time.Since(began))
		} else {
			c.failed.forget(e.identity)
		}
		return err
	})
}

// noteFailure remembers, before anybody is told, that a definition could not be made. An end that was meant is none.
func (c *Cache) noteFailure(e *entry, err error, took time.Duration) {
	if _, failed := ReasonOf(err); failed && !errors.Is(err, context.Canceled) {
		c.failed.note(e.identity, err, took, time.Now())
	}
}

// make does the part of a creation that a first request waits for: one round trip to Postgres, shared with other
// creations, and a log.
func (c *Cache) make(ctx context.Context, e *entry) (cons *consumer.Consumer, err error) {
	err = guard(func() error {
		if err := failpoint.Err(failpoint.CreateBegun); err != nil {
			return err
		}
		if err := c.records.Status.Put(ctx, status.RowOf(e.handle, e.def, time.Now())); err != nil {
			return fmt.Errorf("write status row: %w", err)
		}
		if err := failpoint.Err(failpoint.CreateRow); err != nil {
			return err
		}
		log, err := c.records.Logs.Create(e.handle)
		if err != nil {
			return fmt.Errorf("create log: %w", err)
		}
		if err := failpoint.Err(failpoint.CreateLog); err != nil {
			return err
		}
		e.shape = &Shape{Handle: e.handle, Definition: e.def, Log: log, entry: e}
		cons = consumer.New(e.handle, e.def, log, c.router, c.opts.Consumer)
		return nil
	})
	return cons, err
}

// snapshot publishes the table and writes the shape's first rows.
func (c *Cache) snapshot(ctx context.Context, e *entry, cons *consumer.Consumer) error {
	if err := c.records.Publications.Acquire(ctx, e.handle, e.def.Table); err != nil {
		return fmt.Errorf("publish table: %w", err)
	}
	if err := failpoint.Err(failpoint.CreatePublished); err != nil {
		return err
	}
	if err := cons.RunSnapshot(ctx, c.records.Snapshots, registrar{c.router, e.def, cons}); err != nil {
		return err
	}
	c.records.Status.Completed(e.handle, time.Now())
	failpoint.Hit(failpoint.CreateCompleted)
	return nil
}

// registrar is the collector's side of the seam for one new shape.
type registrar struct {
	router Router
	def    *shape.Definition
	inbox  collector.Inbox
}

// Register implements consumer.Registrar.
func (r registrar) Register(h shape.Handle) error {
	r.router.Register(h, r.def, r.inbox)
	return nil
}

// Missed implements consumer.Registrar.
func (r registrar) Missed(h shape.Handle, s changes.Snapshot) bool { return r.router.Missed(h, s) }

// supervise runs a consumer, with what a new shape does beside it, and closes its done channel when both have ended, for
// whatever cause. A second goroutine waits for that on cleaner's behalf.
func (c *Cache) supervise(ctx context.Context, cons *consumer.Consumer, beside func() error) { //nolint:contextcheck // the watch lives as long as the cache
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.mu.RLock()
	wg, watching := c.wg, c.ctx
	c.mu.RUnlock()
	if wg == nil { // the cache is ending: the shape is found incomplete, or whole, at the next start
		cons.EndSnapshot(consumer.ErrStopped)
		cons.Finish(consumer.ErrStopped)
		return
	}
	wg.Go(func() { c.remover.Watch(watching, cons) })

	var running sync.WaitGroup
	if beside != nil {
		running.Go(func() {
			defer cons.EndSnapshot(errGoexit) // stands when guard does not return
			cons.EndSnapshot(guard(beside))
		})
	}
	cause := errGoexit
	defer func() { // also when guard does not return
		stop(cause) // ends a snapshot that is still being written
		running.Wait()
		cons.Finish(cause)
	}()
	cause = guard(func() error { return cons.Run(ctx) })
}

// PanicError is the cause of a consumer that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

var errGoexit = errors.New("goroutine ended without returning")

// guard runs f and turns a panic into an error. It does not return when f ends the goroutine by runtime.Goexit.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Resume starts the consumer of a suspended shape. It implements collector.Consumers, and is called with a lock of the
// collector held: it must not call the collector. A shape that cannot be resumed is removed, because it gets no change any
// more; one that is being removed, or whose server stops, is left to those who do that.
func (c *Cache) Resume(h shape.Handle) (collector.Inbox, error) {
	inbox, err := c.resume(h)
	if err != nil && !errors.Is(err, ErrNotReady) {
		c.remover.Remove(h, shape.ReasonConsumerDied)
	}
	return inbox, err
}

func (c *Cache) resume(h shape.Handle) (collector.Inbox, error) {
	if err := failpoint.Err(failpoint.ResumeBegun); err != nil {
		return nil, err
	}
	c.mu.RLock()
	e := c.byHandle[h]
	c.mu.RUnlock()
	if e == nil || e.shape == nil {
		return nil, ErrGone
	}
	if _, _, ok := e.shape.Log.Snapshot(); !ok { // may read from disk, so no lock is held
		return nil, fmt.Errorf("%w: its snapshot is not complete", ErrGone)
	}
	cons := consumer.New(h, e.def, e.shape.Log, c.router, c.opts.Consumer)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.byHandle[h] != e:
		return nil, ErrGone
	case c.ctx == nil:
		return nil, ErrNotReady
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	e.consumer, e.cancel = cons, cancel
	c.wg.Go(func() {
		defer cancel(nil)
		c.supervise(ctx, cons, nil)
	})
	failpoint.Hit(failpoint.ResumeStarted)
	return cons, nil
}
