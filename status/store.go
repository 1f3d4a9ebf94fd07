package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
)

// ErrFenced reports that another process owns the stream by now. The caller must stop: whatever it would write, somebody
// else is responsible for.
var ErrFenced = errors.New("another process has taken the stream over")

// Options tunes a Store. The zero Options is ready to use.
type Options struct {
	// MaxBatch is how many rows go into one round trip at most. Zero means 1000.
	MaxBatch int
	// Timeout bounds one round trip, connecting included. Zero means 15 s.
	Timeout time.Duration
	Logger  *slog.Logger // nil means no logging
}

func (o Options) withDefaults() Options {
	o.MaxBatch = cmp.Or(o.MaxBatch, 1000)
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Store writes the rows of one claim.
type Store struct {
	pool  *pgxpool.Pool
	claim Claim
	opts  Options

	mu      sync.Mutex
	pending []*write
	ended   error         // why Run has returned; nil before
	wake    chan struct{} // holds one token when pending is not empty
}

// write is one change of the catalogue on its way. Exactly one of its first three fields is set.
type write struct {
	put    *Row
	remove []shape.Handle
	mark   *mark
	done   chan error // has room for the one answer; nil when nobody waits
}

// mark is a change of a row that nobody waits for.
type mark struct {
	Handle    shape.Handle `json:"handle"`
	Completed *time.Time   `json:"completed"`
	Used      *time.Time   `json:"used"`
}

// New makes the Store of a claim. The pool stays the caller's.
func New(pool *pgxpool.Pool, claim Claim, opts Options) *Store {
	return &Store{pool: pool, claim: claim, opts: opts.withDefaults(), wake: make(chan struct{}, 1)}
}

// Claim returns what the Store writes under.
func (s *Store) Claim() Claim { return s.claim }

// Put writes the row of a new shape and returns when it is durable. When ctx ends first the row may be written or not: the
// caller has the shape removed, which deletes it in either case.
func (s *Store) Put(ctx context.Context, row Row) error {
	return s.await(ctx, &write{put: &row, done: make(chan error, 1)})
}

// Remove deletes rows and returns when that is durable. Rows that are not there are no error.
func (s *Store) Remove(ctx context.Context, handles ...shape.Handle) error {
	if len(handles) == 0 {
		return nil
	}
	return s.await(ctx, &write{remove: handles, done: make(chan error, 1)})
}

// Completed notes that a shape's snapshot is complete. It does not wait; a note that is lost in a crash does no harm, since
// the log itself tells.
func (s *Store) Completed(h shape.Handle, at time.Time) {
	s.enqueue(&write{mark: &mark{Handle: h, Completed: &at}})
}

// Used notes when a shape was last asked for. It does not wait.
func (s *Store) Used(h shape.Handle, at time.Time) {
	s.enqueue(&write{mark: &mark{Handle: h, Used: &at}})
}

func (s *Store) enqueue(w *write) {
	s.mu.Lock()
	ended := s.ended
	if ended == nil {
		s.pending = append(s.pending, w)
	}
	s.mu.Unlock()
	if ended != nil {
		answer([]*write{w}, ended)
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Store) await(ctx context.Context, w *write) error {
	s.enqueue(w)
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run writes what the other methods hand in, everything that waits in one round trip, until ctx ends. It returns
// context.Cause(ctx), or ErrFenced. Whoever still waits then, or comes later, gets the same.
func (s *Store) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			s.end(context.Cause(ctx))
			return context.Cause(ctx)
		case <-s.wake:
		}
		for {
			if ctx.Err() != nil {
				s.end(context.Cause(ctx))
				return context.Cause(ctx)
			}
			batch := s.take()
			if len(batch) == 0 {
				break
			}
			if err := s.write(ctx, batch); errors.Is(err, ErrFenced) {
				s.end(err)
				return err
			}
		}
	}
}

func (s *Store) take() []*write {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.pending), s.opts.MaxBatch)
	batch := s.pending[:n:n]
	s.pending = s.pending[n:]
	return batch
}

// end answers everybody, those of the future too.
func (s *Store) end(err error) {
	s.mu.Lock()
	pending := s.pending
	s.pending, s.ended = nil, err
	s.mu.Unlock()
	answer(pending, err)
}

func answer(batch []*write, err error) {
	for _, w := range batch {
		if w.done != nil {
			w.done <- err
		}
	}
}

// write writes a batch and answers those who wait. A batch that fails for something in it is written one by one, so that
// one bad row spoils nobody else's.
func (s *Store) write(ctx context.Context, batch []*write) error {
	err := s.roundTrip(ctx, batch)
	if err == nil || len(batch) == 1 || errors.Is(err, ErrFenced) || !isRowError(err) {
		if err != nil {
			s.opts.Logger.WarnContext(ctx, "status rows not written", "rows", len(batch), "error", err)
		}
		answer(batch, err)
		return err
	}
	for i := range batch {
		if err := s.write(ctx, batch[i:i+1]); errors.Is(err, ErrFenced) {
			answer(batch[i+1:], err)
			return err
		}
	}
	return nil
}

// fence is true for the owner of the current epoch only. The row lock makes a take-over wait for writes under way, and
// later writes see its epoch.
const fence = `WITH fence AS (SELECT 1 FROM shapeserver.streams WHERE stream_id = $1 AND epoch = $2 FOR SHARE) `

// roundTrip writes a batch in one transaction and one round trip.
func (s *Store) roundTrip(ctx context.Context, batch []*write) error {
	if err := failpoint.Err(failpoint.StatusWriting); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	var puts []Row
	var removes []string
	var marks []mark
	for _, w := range batch {
		switch {
		case w.put != nil:
			puts = append(puts, *w.put)
		case w.mark != nil:
			marks = append(marks, *w.mark)
		}
		for _, h := range w.remove {
			removes = append(removes, string(h))
		}
	}
	id, epoch := s.claim.StreamID, s.claim.Epoch
	b := &pgx.Batch{}
	b.Queue(fence+`SELECT count(*) FROM fence`, id, epoch)
	if len(puts) > 0 {
		b.Queue(fence+`INSERT INTO shapeserver.shapes (handle, stream_id, identity, identity_hash, table_oid, table_schema, table_name,
				columns, columns_explicit, where_sql, replica, log_mode, description, state, owner, epoch, created_at, last_used_at)
			SELECT r.handle, $1, r.identity, r.identity_hash, r.table_oid, r.table_schema, r.table_name,
				r.columns, r.columns_explicit, r.where_sql, r.replica, r.log_mode, r.description, 'creating', $3, $2, r.created_at, r.created_at
			FROM fence, json_to_recordset($4::text::json) AS r(handle text, identity text, identity_hash bigint, table_oid oid,
				table_schema text, table_name text, columns text[], columns_explicit boolean, where_sql text, replica text,
				log_mode text, description text, created_at timestamptz)`, id, epoch, s.claim.Owner, asJSON(puts))
	}
	if len(marks) > 0 {
		b.Queue(fence+`UPDATE shapeserver.shapes s SET
				state = CASE WHEN m.completed IS NULL THEN s.state ELSE 'active' END,
				snapshot_completed_at = coalesce(m.completed, s.snapshot_completed_at),
				last_used_at = greatest(s.last_used_at, m.used)
			FROM fence, (SELECT handle, max(completed) AS completed, max(used) AS used
				FROM json_to_recordset($3::text::json) AS r(handle text, completed timestamptz, used timestamptz) GROUP BY handle) m
			WHERE s.handle = m.handle AND s.stream_id = $1`, id, epoch, asJSON(marks))
	}
	if len(removes) > 0 {
		b.Queue(fence+`DELETE FROM shapeserver.shapes s USING fence WHERE s.handle = ANY ($3::text[]) AND s.stream_id = $1`, id, epoch, removes)
	}
	if err := s.send(ctx, b); err != nil {
		return err
	}
	return failpoint.Err(failpoint.StatusWritten)
}

// asJSON renders rows for json_to_recordset.
func asJSON(rows any) string {
	text, err := json.Marshal(rows)
	if err != nil {
		panic(fmt.Sprintf("status: rows are plain data: %v", err))
	}
	return string(text)
}

// send sends the batch, which Postgres takes as one transaction, and checks the fence, which is its first query.
func (s *Store) send(ctx context.Context, b *pgx.Batch) (err error) {
	results := s.pool.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, results.Close()) }()
	var owned int
	if err := results.QueryRow().Scan(&owned); err != nil {
		return fmt.Errorf("check ownership: %w", err)
	}
	if owned == 0 {
		return fmt.Errorf("%w (stream %s, our epoch %d)", ErrFenced, s.claim.StreamID, s.claim.Epoch)
	}
	for range b.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			return fmt.Errorf("write status rows: %w", err)
		}
	}
	return nil
}
