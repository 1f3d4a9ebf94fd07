package collector

import (
	"context"
	"fmt"
	"time"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/failpoint"
)

// Durable makes what was appended to logs survive a crash.
type Durable interface {
	// SetConfirmed notes, behind all appends before it, that everything up to lsn has been applied.
	SetConfirmed(lsn changes.LSN) error
	// Sync makes all that durable.
	Sync() error
}

// RunFlush syncs the store behind the transactions that have been applied and tells confirm how far Postgres may forget
// them. It is the only caller of confirm, so the confirmed position never passes what is on disk (I4). It returns
// context.Cause(ctx) after a last flush, or the first error of the store.
func (c *Collector) RunFlush(ctx context.Context, store Durable, confirm func(changes.LSN)) error {
	var flushed changes.LSN
	flush := func(to changes.LSN) error {
		if err := failpoint.Err(failpoint.FlushBegun); err != nil {
			return err
		}
		if err := store.SetConfirmed(to); err != nil {
			return fmt.Errorf("record confirmed position: %w", err)
		}
		if err := failpoint.Err(failpoint.FlushNoted); err != nil {
			return err
		}
		if err := store.Sync(); err != nil {
			return fmt.Errorf("sync store: %w", err)
		}
		if err := failpoint.Err(failpoint.FlushSynced); err != nil {
			return err
		}
		flushed = to
		confirm(to)
		return failpoint.Err(failpoint.FlushConfirmed)
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select { // the pause comes first, so that one sync serves all that arrive in it
		case <-ctx.Done():
		case <-pause.C:
		}
		p, changed := c.tracker.progress.Get()
		if p.applied > flushed {
			if err := flush(p.applied); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		select {
		case <-changed:
			pause.Reset(c.opts.FlushInterval)
		case <-ctx.Done():
		}
	}
}
