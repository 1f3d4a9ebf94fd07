package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

var (
	// ErrSuspended is the cause of a consumer that ended because its sender asked it to: the shape lives on, and the
	// next change starts a successor.
	ErrSuspended = errors.New("consumer suspended")
	// ErrStopped is the cause of a consumer that was told to end, at shutdown or because its shape is being removed.
	ErrStopped = errors.New("consumer stopped")
)

// EndedError says that the stream itself ended the shape: a TRUNCATE, or a change of what it selects.
type EndedError struct {
	Reason shape.Reason
	Detail string
}

// Error implements error.
func (e *EndedError) Error() string { return fmt.Sprintf("shape ended (%s): %s", e.Reason, e.Detail) }

// Sender is how a consumer answers a close request.
type Sender interface {
	// Closed acknowledges the close request with the token: everything delivered before is in the log. The consumer
	// ends.
	Closed(h shape.Handle, token changes.Token)
	// Refused answers that the consumer cannot end now, since its snapshot is still being written or it has a part of a
	// transaction.
	Refused(h shape.Handle, token changes.Token)
}

// Options tunes a Consumer. The zero Options is ready to use.
type Options struct {
	// MailboxDeliveries is how many deliveries may wait before the sender blocks. Zero means 64.
	MailboxDeliveries int
	Logger            *slog.Logger // nil means no logging
}

func (o Options) withDefaults() Options {
	o.MailboxDeliveries = cmp.Or(o.MailboxDeliveries, 64)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Consumer applies deliveries to one shape's log. Make it with New, run it with Run.
type Consumer struct {
	handle  shape.Handle
	def     *shape.Definition
	log     storage.Log
	sender  Sender
	opts    Options
	encoder *shapelog.Encoder

	mailbox chan changes.Delivery
	done    chan struct{} // closed by Finish

	// begun is closed once the snapshot's coordinates are known, which fills seam: before that no delivery can be
	// judged. snapshotOver is closed when RunSnapshot has returned; snapshotErr is its error.
	begun        chan struct{}
	seam         seam
	snapshotOver chan struct{}
	snapshotOnce sync.Once
	snapshotErr  error

	conv converter
	// open says that a transaction has been delivered in part: conv holds entries of it that no successor would know.
	open bool

	// unapplied are the deliveries that Run took and did not finish: their receipts are owed.
	unapplied []changes.Receipt

	mu    sync.Mutex
	cause error
}

// New makes the consumer of a shape whose log is either new (RunSnapshot must be run too) or has a complete snapshot
// (resume).
func New(h shape.Handle, def *shape.Definition, log storage.Log, sender Sender, opts Options) *Consumer {
	opts = opts.withDefaults()
	enc := NewEncoder(def)
	c := &Consumer{
		handle: h, def: def, log: log, sender: sender, opts: opts, encoder: enc,
		mailbox:      make(chan changes.Delivery, opts.MailboxDeliveries),
		done:         make(chan struct{}),
		begun:        make(chan struct{}),
		snapshotOver: make(chan struct{}),
		conv:         newConverter(def, enc),
	}
	if snap, lsn, ok := log.Snapshot(); ok {
		c.seam = seam{snapshot: snap, lsn: lsn}
		close(c.begun)
		c.EndSnapshot(nil)
	}
	return c
}

// NewEncoder makes the encoder of a definition's rows.
func NewEncoder(def *shape.Definition) *shapelog.Encoder {
	return shapelog.NewEncoder(def.Table.Schema, def.Table.Name, def.ColumnNames(), def.KeyPositions())
}

// Handle returns the handle of the consumer's shape.
func (c *Consumer) Handle() shape.Handle { return c.handle }

// Mailbox is where deliveries go. A full mailbox blocks its sender, and with it the stream; Postgres keeps the WAL.
func (c *Consumer) Mailbox() chan<- changes.Delivery { return c.mailbox }

// Done is closed when the consumer has ended, for whatever cause. Nothing that is put into the mailbox afterwards is
// applied.
func (c *Consumer) Done() <-chan struct{} { return c.done }

// Cause says why the consumer ended: ErrSuspended, ErrStopped, an *EndedError, or a failure. It is nil before Done is
// closed.
func (c *Consumer) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Finish records the cause and closes Done. Whoever runs the consumer calls it once, after Run and RunSnapshot have
// returned, also after a panic in one of them.
func (c *Consumer) Finish(cause error) {
	c.mu.Lock()
	c.cause = cmp.Or(cause, ErrStopped)
	c.mu.Unlock()
	close(c.done)
}

// Discard gives the receipts of everything that was delivered and never applied. It may be called only when Done is
// closed, when the sender will put in nothing more, and when the shape is durably gone: only then may the stream move
// on without it (I4).
func (c *Consumer) Discard() {
	for _, r := range c.unapplied {
		r.Applied()
	}
	c.unapplied = nil
	for {
		select {
		case d := <-c.mailbox:
			if d.Receipt != nil {
				d.Receipt.Applied()
			}
		default:
			return
		}
	}
}

// Run applies deliveries until it is asked to close (ErrSuspended), ctx ends (context.Cause), the shape's snapshot
// fails, or the stream ends the shape (*EndedError).
func (c *Consumer) Run(ctx context.Context) error {
	select {
	case <-c.begun:
	case <-c.snapshotOver:
		if c.snapshotErr != nil {
			return c.snapshotErr
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	snapshotOver := c.snapshotOver
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-snapshotOver:
			if c.snapshotErr != nil {
				return c.snapshotErr
			}
			snapshotOver = nil
		case d := <-c.mailbox:
			if d.Close != 0 {
				if c.tryClose(d.Close) {
					return ErrSuspended
				}
				continue
			}
			c.unapplied = append(c.unapplied, d.Receipt)
			if err := failpoint.Err(failpoint.DeliverTaken); err != nil {
				return err
			}
			if err := c.apply(d); err != nil {
				return err
			}
			if err := failpoint.Err(failpoint.DeliverVisible); err != nil {
				return err
			}
			c.unapplied = c.unapplied[:len(c.unapplied)-1]
			d.Receipt.Applied()
			if err := failpoint.Err(failpoint.DeliverReceipt); err != nil {
				return err
			}
		}
	}
}

// tryClose answers a close request. Everything before it in the mailbox has been applied and is visible; what is in
// the log needs no flush of its own, since the confirmed position moves only behind a sync of the whole store.
func (c *Consumer) tryClose(token changes.Token) bool {
	over := false
	select {
	case <-c.snapshotOver:
		over = true
	default:
	}
	if !over || c.open {
		c.sender.Refused(c.handle, token)
		return false
	}
	if t, ok := c.log.(storage.Trimmer); ok {
		t.Trim()
	}
	failpoint.Hit(failpoint.SuspendAnswer)
	c.sender.Closed(c.handle, token)
	failpoint.Hit(failpoint.SuspendSettled)
	return true
}

// apply puts one delivery's entries into the log, and makes them visible when it ends its transaction.
func (c *Consumer) apply(d changes.Delivery) error {
	if c.seam.saw(d.Txn) {
		return nil
	}
	c.open = !d.Commit
	for _, ch := range d.Changes {
		if err := c.conv.add(d.Txn, ch); err != nil {
			return err
		}
	}
	entries := c.conv.take(d.Commit)
	if len(entries) > 0 {
		if err := c.log.Append(entries); err != nil {
			return fmt.Errorf("append %d entries at %s: %w", len(entries), d.Txn.CommitLSN, err)
		}
		c.conv.appended = true
		if err := failpoint.Err(failpoint.DeliverAppended); err != nil {
			return err
		}
	}
	if d.Commit && c.conv.appended {
		c.conv.appended = false
		if err := c.log.Commit(); err != nil {
			return fmt.Errorf("commit transaction at %s: %w", d.Txn.CommitLSN, err)
		}
	}
	return nil
}
