package collector

import (
	"context"
	"maps"
	"slices"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
)

// bufferLimit is how many deliveries wait for the answer to a close request before the sender waits as well. The answer
// takes as long as what is left in the mailbox.
const bufferLimit = 1024

// send hands a delivery to a route's consumer, starting one if there is none.
func (c *Collector) send(ctx context.Context, r *route, d changes.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = c.sweep.Load()
	if r.cut.Load() && r.state != gone {
		r.end()
	}
	if r.state == closing && len(r.buffer) >= bufferLimit {
		if err := c.waitForAnswer(ctx, r); err != nil {
			return err
		}
	}
	switch r.state {
	case gone:
		d.Receipt.Applied()
		return nil
	case ended:
		r.owe(d.Receipt)
		return nil
	case closing:
		r.buffer = append(r.buffer, d)
		return nil
	case asleep, awake:
	}
	r.buffer = append(r.buffer, d)
	return c.drain(ctx, r)
}

// drain sends what is buffered for a route that is asleep or awake. r.mu is held.
func (c *Collector) drain(ctx context.Context, r *route) error {
	resumed := r.state == asleep
	if resumed {
		inbox, err := c.consumers.Resume(r.handle)
		if err != nil {
			c.opts.Logger.InfoContext(ctx, "shape not resumed", "handle", r.handle, "error", err)
			r.end()
			return nil
		}
		r.inbox, r.state = inbox, awake
	}
	for i, d := range r.buffer {
		sent, err := c.offer(ctx, r, d)
		if err != nil {
			return err
		}
		if !sent {
			r.buffer = r.buffer[i:]
			r.end()
			return nil
		}
		r.buffer[i] = changes.Delivery{}
	}
	if resumed {
		failpoint.Hit(failpoint.ResumeHanded)
	}
	r.buffer = r.buffer[:0]
	if cap(r.buffer) > 1 {
		r.buffer = nil
	}
	return nil
}

// end moves a route to ended: of what is buffered only the receipts matter now. r.mu is held.
func (r *route) end() {
	for _, d := range r.buffer {
		r.owe(d.Receipt)
	}
	r.state, r.inbox, r.buffer = ended, nil, nil
}

// owe keeps a receipt until the shape is durably gone. One is enough: progress does not pass it, whatever comes behind.
func (r *route) owe(receipt changes.Receipt) {
	if r.owed != nil {
		receipt.Applied()
		return
	}
	r.owed = receipt
}

// offer sends one delivery, and reports false when the consumer has ended, or did not take it within the stall limit.
func (c *Collector) offer(ctx context.Context, r *route, d changes.Delivery) (bool, error) {
	failpoint.Hit(failpoint.DeliverOffer)
	mailbox, done := r.inbox.Mailbox(), r.inbox.Done()
	select {
	case <-done: // first of all: a closed consumer's mailbox may have room
		return false, nil
	default:
	}
	select {
	case mailbox <- d:
		return true, nil
	default:
	}
	c.stall.Reset(c.opts.StallLimit)
	defer c.stall.Stop()
	select {
	case mailbox <- d:
		return true, nil
	case <-done:
		return false, nil
	case <-c.stall.C:
		c.opts.Logger.WarnContext(ctx, "consumer stalled, removing its shape", "handle", r.handle, "limit", c.opts.StallLimit)
		c.opts.OnStalled(r.handle)
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// waitForAnswer waits until the close request of a route has been answered, or its consumer has ended without an
// answer. r.mu is held, and let go while waiting.
func (c *Collector) waitForAnswer(ctx context.Context, r *route) error {
	answered, done := r.answered, r.inbox.Done()
	r.mu.Unlock()
	var err error
	select {
	case <-answered:
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	r.mu.Lock()
	if err == nil && r.state == closing { // a consumer answers before it ends: this one died
		r.end()
	}
	return err
}

// sendBuffered sends what waited for an answer.
func (c *Collector) sendBuffered(ctx context.Context) error {
	c.mu.Lock()
	due := c.due
	c.due = nil
	c.mu.Unlock()
	for _, r := range due {
		if err := c.sendDue(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *Collector) sendDue(ctx context.Context, r *route) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buffer) == 0 || (r.state != asleep && r.state != awake) {
		return nil
	}
	return c.drain(ctx, r)
}

// suspendIdle asks every consumer that got nothing for SuspendAfter to close.
func (c *Collector) suspendIdle() {
	now := c.sweep.Add(1)
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.routes))
	c.mu.Unlock()
	for _, r := range all {
		c.askToClose(r, now)
	}
}

func (c *Collector) askToClose(r *route, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != awake || now-r.used <= sweeps {
		return
	}
	select {
	case <-r.inbox.Done(): // it died; cleaner is on it
		return
	default:
	}
	c.tokens++
	select {
	case r.inbox.Mailbox() <- changes.Delivery{Close: c.tokens}:
		r.state, r.token, r.answered = closing, c.tokens, make(chan struct{})
		failpoint.Hit(failpoint.SuspendSent)
	default: // full: not idle at all
	}
}

// Closed takes a consumer's acknowledgement of a close request. What arrived since goes, in order, to a successor;
// without any the route is forgotten but for its entry. An answer with another token than the one asked for belongs to
// an earlier request and says nothing.
func (c *Collector) Closed(h shape.Handle, token changes.Token) {
	c.answer(h, token, func(r *route) { r.inbox, r.state = nil, asleep })
}

// Refused takes the answer that the consumer cannot close now.
func (c *Collector) Refused(h shape.Handle, token changes.Token) {
	c.answer(h, token, func(r *route) { r.state, r.used = awake, c.sweep.Load() })
}

func (c *Collector) answer(h shape.Handle, token changes.Token, settle func(*route)) {
	c.mu.Lock()
	r := c.routes[h]
	c.mu.Unlock()
	if r == nil || !r.answer(token, settle) {
		return
	}
	c.mu.Lock()
	c.due = append(c.due, r)
	c.mu.Unlock()
	select {
	case c.answers <- struct{}{}:
	default:
	}
}

// answer settles the close request with the token and reports whether something was buffered meanwhile.
func (r *route) answer(token changes.Token, settle func(*route)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != closing || r.token != token {
		return false
	}
	settle(r)
	close(r.answered)
	r.token, r.answered = 0, nil
	return len(r.buffer) > 0
}
