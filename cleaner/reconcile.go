package cleaner

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
)

// Findings counts what a reconciliation found and handed to removal.
type Findings struct {
	StatusRows   int // rows of shapes that nobody serves
	Routes       int // routing entries of such shapes
	Publications int // holds on tables of such shapes
	Logs         int // logs of such shapes
	Consumers    int // shapes that are served and whose consumer is dead
}

// LogValue implements slog.LogValuer.
func (f Findings) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("status_rows", f.StatusRows), slog.Int("routes", f.Routes),
		slog.Int("publications", f.Publications), slog.Int("logs", f.Logs), slog.Int("consumers", f.Consumers))
}

// Reconcile compares the records of all shapes and has everything removed that belongs to no shape which can be served.
// Healthy shapes are not touched. Records are made in the order registry, status, publication, router, log or later, and
// removed registry first; the registry is therefore looked at last: whatever was listed before and is not in it, is left
// over.
func (c *Cleaner) Reconcile(ctx context.Context) (Findings, error) {
	if err := failpoint.Err(failpoint.ReconcileBegun); err != nil {
		return Findings{}, err
	}
	rows, err := c.records.Status.Handles(ctx)
	if err != nil {
		return Findings{}, fmt.Errorf("list status rows: %w", err)
	}
	routes := c.records.Router.Handles()
	published := c.records.Publications.Handles()
	logs := c.records.Logs.Handles()
	orphans := c.records.Consumers.Orphans()
	if err := failpoint.Err(failpoint.ReconcileListed); err != nil {
		return Findings{}, err
	}

	known := make(map[shape.Handle]bool)
	for _, h := range c.records.Consumers.Handles() {
		known[h] = true
	}
	c.mu.Lock()
	for h := range c.queue {
		known[h] = true // being removed already
	}
	c.mu.Unlock()

	var f Findings
	for _, list := range []struct {
		handles []shape.Handle
		count   *int
	}{{rows, &f.StatusRows}, {routes, &f.Routes}, {published, &f.Publications}, {logs, &f.Logs}} {
		for _, h := range list.handles {
			if known[h] {
				continue
			}
			*list.count++
			c.Remove(h, shape.ReasonOrphaned)
		}
	}
	for _, h := range orphans {
		c.mu.Lock()
		_, going := c.queue[h]
		c.mu.Unlock()
		if !going {
			f.Consumers++
			c.Remove(h, shape.ReasonConsumerDied)
		}
	}
	if f != (Findings{}) {
		c.opts.Logger.WarnContext(ctx, "records disagreed, removing what no shape owns", "findings", f)
		c.opts.OnFound(f)
	}
	return f, nil
}
