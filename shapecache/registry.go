package shapecache

import (
	"context"
	"errors"

	"github.com/shapeserver/shapeserver/cleaner"
	"github.com/shapeserver/shapeserver/consumer"
	"github.com/shapeserver/shapeserver/publication"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
)

var _ cleaner.Consumers = (*Cache)(nil)

// Forget makes a shape unfindable. It implements cleaner.Consumers.
func (c *Cache) Forget(h shape.Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byHandle[h]
	if e == nil {
		return
	}
	delete(c.byHandle, h)
	if c.byIdentity[e.identity] == e {
		delete(c.byIdentity, e.identity)
	}
	c.leaving[h] = e
}

// Stop ends a forgotten shape's consumer and waits until it has ended. It implements cleaner.Consumers.
func (c *Cache) Stop(ctx context.Context, h shape.Handle) error {
	c.mu.RLock()
	e := c.leaving[h]
	c.mu.RUnlock()
	if e == nil {
		return nil
	}
	c.mu.RLock()
	cancel := e.cancel
	c.mu.RUnlock()
	if cancel != nil {
		cancel(consumer.ErrStopped)
	}
	select { // a creation that has not come to its consumer ends with an error, or comes to it
	case <-e.made:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.RLock()
	cons := e.consumer
	c.mu.RUnlock()
	if cons == nil {
		return nil
	}
	select {
	case <-cons.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Discard gives the receipts that a stopped shape's consumer owes, and forgets the rest. It implements
// cleaner.Consumers.
func (c *Cache) Discard(h shape.Handle) {
	c.mu.Lock()
	e := c.leaving[h]
	delete(c.leaving, h)
	c.mu.Unlock()
	if e != nil && e.consumer != nil {
		e.consumer.Discard()
	}
}

// Orphans lists the shapes that can be found and whose consumer has died. It implements cleaner.Consumers.
func (c *Cache) Orphans() []shape.Handle {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var orphans []shape.Handle
	for h, e := range c.byHandle {
		if e.consumer == nil {
			continue
		}
		select {
		case <-e.consumer.Done():
			if _, died := ReasonOf(e.consumer.Cause()); died {
				orphans = append(orphans, h)
			}
		default:
		}
	}
	return orphans
}

// ReasonOf says why a shape whose consumer ended with this cause must be removed; ok is false when the end was meant.
func ReasonOf(cause error) (reason shape.Reason, ok bool) {
	var byStream *consumer.EndedError
	var corrupt *storage.CorruptError
	var bySnapshot *snapshot.Error
	var byPublication *publication.Error
	switch {
	case errors.Is(cause, consumer.ErrSuspended), errors.Is(cause, consumer.ErrStopped):
		return "", false
	case errors.As(cause, &byStream):
		return byStream.Reason, true
	case errors.As(cause, &corrupt):
		return shape.ReasonStorageFailed, true
	case errors.Is(cause, snapshot.ErrSchemaChanged), errors.Is(cause, publication.ErrTableGone):
		return shape.ReasonSchemaChanged, true
	case errors.As(cause, &bySnapshot), errors.As(cause, &byPublication):
		return shape.ReasonSnapshotFailed, true
	}
	return shape.ReasonConsumerDied, true
}
