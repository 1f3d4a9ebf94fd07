package shapecache

import (
	"cmp"
	"context"
	"slices"

	"github.com/shapeserver/shapeserver/shape"
)

// Evict has the shapes removed that were asked for least recently, as many as there are more than most. A shape counts as
// used when a request finds it, not for as long as a client waits (protocol.md §12). A most of zero means no bound.
func (c *Cache) Evict(ctx context.Context, most int) {
	if most <= 0 {
		return
	}
	type use struct {
		handle shape.Handle
		at     int64
	}
	c.mu.RLock()
	uses := make([]use, 0, len(c.byHandle))
	for h, e := range c.byHandle {
		select {
		case <-e.made:
			uses = append(uses, use{h, e.used.Load()})
		default: // being asked for right now
		}
	}
	over := len(c.byHandle) - most
	c.mu.RUnlock()
	if over <= 0 {
		return
	}
	slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	for _, u := range uses[:min(over, len(uses))] {
		c.remover.Remove(u.handle, shape.ReasonEvicted)
	}
	c.opts.Logger.InfoContext(ctx, "more shapes than allowed", "limit", most, "removing", min(over, len(uses)))
}
