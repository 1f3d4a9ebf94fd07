package shapecache

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/shapeserver/shapeserver/consumer"
	"github.com/shapeserver/shapeserver/publication"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
)

// AwaitSnapshotStart returns nil once the shape's rows can be read, which is as soon as the first of them is there. It is
// told at once when the snapshot starts, fails, or its consumer ends; beside that it looks again after pauses that
// double from 50 ms, with jitter, so that it neither spins nor waits for somebody who no longer exists: a shape without
// a consumer that could make its snapshot is reported to cleaner. It gives ErrGone, what made the snapshot fail, or the
// context's cause.
func (c *Cache) AwaitSnapshotStart(ctx context.Context, s *Shape) error {
	pause := c.opts.AwaitMin
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		st, changed := s.Log.State()
		switch {
		case errors.Is(st.Err, storage.ErrRemoved):
			return c.failure(s, ErrGone)
		case st.Err != nil:
			return c.failure(s, st.Err)
		case st.Phase != storage.SnapshotPending:
			return nil
		}
		cons := c.consumerOf(s)
		if cons == nil {
			c.opts.Logger.WarnContext(ctx, "shape without consumer, removing it", "handle", s.Handle)
			c.remover.Remove(s.Handle, shape.ReasonOrphaned)
			return ErrGone
		}
		select {
		case <-changed:
		case <-cons.Done():
			return c.failure(s, ErrGone)
		case <-timer.C:
			pause = min(2*pause, c.opts.AwaitMax)
			timer.Reset(pause/2 + rand.N(pause/2+1)) //nolint:gosec // jitter need not be secret
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// consumerOf returns the shape's consumer, nil when none was started.
func (c *Cache) consumerOf(s *Shape) *consumer.Consumer {
	if s.entry == nil {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return s.entry.consumer
}

// failure returns why the shape's consumer ended, in terms of what a request can do about it.
func (c *Cache) failure(s *Shape, otherwise error) error {
	cons := c.consumerOf(s)
	if cons == nil {
		return otherwise
	}
	select {
	case <-cons.Done():
	default:
		return otherwise
	}
	cause := cons.Cause()
	var byStream *consumer.EndedError
	switch {
	case errors.As(cause, &byStream), errors.Is(cause, snapshot.ErrSchemaChanged), errors.Is(cause, publication.ErrTableGone), errors.Is(cause, storage.ErrRemoved), errors.Is(cause, consumer.ErrSuspended):
		return ErrGone
	case errors.Is(cause, consumer.ErrStopped):
		return otherwise
	}
	return cause
}
