package api

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
)

// bodyKey names a whole body: a part of a log, the up-to-date behind it if there is one, and how it is compressed. Under
// one key there is ever only one body (I3).
type bodyKey struct {
	handle    shape.Handle
	from, end shapelog.Offset
	upToDate  bool
	seen      changes.LSN // of the up-to-date
	coding    coding
}

// sharedBody is one body that any number of responses send. Its bytes must not be changed. Who got it must release it.
type sharedBody struct {
	cache *bodies
	key   bodyKey
	ready chan struct{} // closed when what is below is there

	bytes  []byte
	coding coding // what bytes are: identity where compressing did not pay
	err    error

	// Guarded by the cache's lock.
	refs int
	at   *list.Element // nil when it is not in the cache: not ready yet, or pushed out
}

// errNotShared reports that a body is not to be shared, for its size or because there is no room.
var errNotShared = errors.New("body is not shared")

// bodies holds bodies that more than one client may want: closed chunks, compressed, and the newest end of a log, for
// which everyone waits who follows it. However many ask at once, a body is made once. What nobody has used for longest is
// pushed out. What is being sent counts as long as that takes, so that clients that read slowly cannot make it hold more
// than its limit: then what does not fit is not shared.
type bodies struct {
	limit int64 // in bytes

	mu      sync.Mutex
	entries map[bodyKey]*sharedBody
	recent  *list.List // of *sharedBody that are ready, the last used first
	size    int64      // of all that are ready and in the cache or in use
}

func newBodies(limit int64) *bodies {
	return &bodies{limit: limit, entries: make(map[bodyKey]*sharedBody), recent: list.New()}
}

// largest is the size of the largest part, in bytes and before it is compressed, that is worth a place.
func (c *bodies) largest() int64 { return c.limit }

// get returns the body of a key. If nobody has made it yet, build does so, on the caller's goroutine; others who ask
// meanwhile wait for it, or until their ctx ends. An error of build goes to all of them and is not remembered.
func (c *bodies) get(ctx context.Context, key bodyKey, build func() ([]byte, coding, error)) (*sharedBody, error) {
	c.mu.Lock()
	e, ok := c.entries[key]
	if !ok {
		if c.size > c.limit && !c.shrink() {
			c.mu.Unlock()
			return nil, errNotShared
		}
		e = &sharedBody{cache: c, key: key, ready: make(chan struct{}), err: errNotShared, refs: 1}
		c.entries[key] = e
		c.mu.Unlock()
		c.fill(e, build)
	} else {
		e.refs++
		if e.at != nil {
			c.recent.MoveToFront(e.at)
		}
		c.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			e.release()
			return nil, context.Cause(ctx)
		}
	}
	if e.err != nil {
		e.release()
		return nil, e.err
	}
	return e, nil
}

// fill makes the body. When build panics, those who wait get errNotShared and find out for themselves.
func (c *bodies) fill(e *sharedBody, build func() ([]byte, coding, error)) {
	defer func() {
		c.mu.Lock()
		if e.err == nil {
			e.at = c.recent.PushFront(e)
			c.size += int64(len(e.bytes))
			c.shrink()
		} else {
			delete(c.entries, e.key)
		}
		c.mu.Unlock()
		close(e.ready)
	}()
	e.bytes, e.coding, e.err = build()
}

// shrink pushes out what was not used for longest until the limit is kept, and reports whether it is. The lock is held.
func (c *bodies) shrink() bool {
	for c.size > c.limit && c.recent.Len() > 0 {
		e := c.recent.Remove(c.recent.Back()).(*sharedBody) //nolint:forcetypeassert // the list holds nothing else
		e.at = nil
		delete(c.entries, e.key)
		if e.refs == 0 {
			c.size -= int64(len(e.bytes))
		}
	}
	return c.size <= c.limit
}

// release ends one use of the body.
func (e *sharedBody) release() {
	c := e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	e.refs--
	if e.refs == 0 && e.at == nil && e.err == nil {
		c.size -= int64(len(e.bytes))
	}
}
