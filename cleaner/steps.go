package cleaner

import (
	"context"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
)

// step is one part of a removal. run does it for a batch and returns the errors of those for which it failed. Doing a
// step again is no error.
type step struct {
	name          string
	run           func(ctx context.Context, batch []*removal) map[shape.Handle]error
	before, after failpoint.Point
}

// do runs the step between its points.
func (s step) do(ctx context.Context, batch []*removal) map[shape.Handle]error {
	if err := failpoint.Err(s.before); err != nil {
		return allFailed(batch, err)
	}
	failed := s.run(ctx, batch)
	if err := failpoint.Err(s.after); err != nil {
		return allFailed(batch, err)
	}
	return failed
}

func allFailed(batch []*removal, err error) map[shape.Handle]error {
	failed := make(map[shape.Handle]error, len(batch))
	for _, r := range batch {
		failed[r.handle] = err
	}
	return failed
}

// removalSteps lists the steps in their order, which is the design (design.md §3):
//
// The status row goes first: once it is durably gone the shape cannot come back, whatever happens next, so from here on
// the stream may move past what the shape still owed. The consumer ends before the collector forgets it, because a
// delivery may be blocked on it. The publication is changed later, by its own goroutine. The log goes last: its
// removal wakes the clients that wait on it, and they find no trace of the old handle.
func (c *Cleaner) removalSteps() []step {
	return []step{
		{"forget status", c.forgetStatus, failpoint.RemoveRow, failpoint.RemoveRowDone},
		{"stop consumer", each(c.stopConsumer), failpoint.RemoveConsumer, failpoint.RemoveEnded},
		{"unregister", each(c.unregister), failpoint.RemoveRoute, failpoint.RemoveRouteDone},
		{"unpublish", each(c.unpublish), failpoint.RemoveHold, failpoint.RemoveHoldDone},
		{"delete log", each(c.deleteLog), failpoint.RemoveLog, failpoint.RemoveLogDone},
	}
}

// each makes a batch step of one that takes a single shape.
func each(f func(context.Context, shape.Handle) error) func(context.Context, []*removal) map[shape.Handle]error {
	return func(ctx context.Context, batch []*removal) map[shape.Handle]error {
		var failed map[shape.Handle]error
		for _, r := range batch {
			if err := f(ctx, r.handle); err != nil {
				if failed == nil {
					failed = make(map[shape.Handle]error)
				}
				failed[r.handle] = err
			}
		}
		return failed
	}
}

func (c *Cleaner) forgetStatus(ctx context.Context, batch []*removal) map[shape.Handle]error {
	handles := make([]shape.Handle, len(batch))
	for i, r := range batch {
		c.records.Consumers.Forget(r.handle)
		handles[i] = r.handle
	}
	if err := c.records.Status.Remove(ctx, handles...); err != nil {
		return allFailed(batch, err)
	}
	return nil
}

func (c *Cleaner) stopConsumer(ctx context.Context, h shape.Handle) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.StopTimeout)
	defer cancel()
	return c.records.Consumers.Stop(ctx, h)
}

func (c *Cleaner) unregister(_ context.Context, h shape.Handle) error {
	c.records.Router.Unregister(h)
	c.records.Consumers.Discard(h) // nothing is sent any more, so nothing can be missed
	return nil
}

func (c *Cleaner) unpublish(_ context.Context, h shape.Handle) error {
	c.records.Publications.Release(h)
	return nil
}

func (c *Cleaner) deleteLog(_ context.Context, h shape.Handle) error {
	return c.records.Logs.Remove(h)
}
