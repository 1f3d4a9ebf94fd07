package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
)

// Sink takes a snapshot. Its methods are called in the order of their names here, from the goroutine that called Read;
// any error they return ends the Read and is returned by it.
type Sink interface {
	// Register is called right before the snapshot is taken: from its return on, changes of the table must reach
	// the shape. It is called again when Begin returned ErrAgain.
	Register() error
	// Begin gets the coordinates: what the snapshot sees, and the write position right after it was taken, so that
	// everything it sees had committed before that position. It may return ErrAgain.
	Begin(snap changes.Snapshot, lsn changes.LSN) error
	// Row gets one row as a log item, valid only during the call. The rows of a shape come in no order, those of a
	// subset in its own.
	Row(json []byte) error
}

// Options tunes a Reader. The zero Options is ready to use.
type Options struct {
	// MaxConcurrent is how many snapshots are read at once; the pool should have as many connections for them.
	// Zero means 16.
	MaxConcurrent int
	// QueueTimeout is how long to wait for a turn and a connection. Zero means 30 s.
	QueueTimeout time.Duration
	// LockTimeout is how long to wait for DDL on the table to end. Zero means 20 s.
	LockTimeout time.Duration
	// FirstRowTimeout is how long the query may take before its first row, or its end. Zero means 30 s.
	FirstRowTimeout time.Duration
	// ReadTimeout is how long a transaction may last, from its beginning to its last row, however fast the Sink takes
	// the rows. Zero means no limit.
	ReadTimeout time.Duration
	// MaxTries is how often the Sink may say ErrAgain, the last time included, before it is an error. Zero means 20,
	// which with the pauses between them takes about 12 s.
	MaxTries int
	// Logger takes what is worth knowing; nil discards it.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 16)
	o.QueueTimeout = cmp.Or(o.QueueTimeout, 30*time.Second)
	o.LockTimeout = cmp.Or(o.LockTimeout, 20*time.Second)
	o.FirstRowTimeout = cmp.Or(o.FirstRowTimeout, 30*time.Second)
	o.MaxTries = cmp.Or(o.MaxTries, 20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// rollbackTimeout bounds the roll-back of a failed read; a connection that does not manage is thrown away.
const rollbackTimeout = 5 * time.Second

// Reader reads snapshots.
type Reader struct {
	pool  *pgxpool.Pool
	opts  Options
	turns chan struct{}
}

// New makes a Reader that reads over the pool's connections, which should be kept apart from those for quick
// questions. The pool stays the caller's.
func New(pool *pgxpool.Pool, opts Options) *Reader {
	opts = opts.withDefaults()
	return &Reader{pool: pool, opts: opts, turns: make(chan struct{}, opts.MaxConcurrent)}
}

// Read reads the shape's rows into the sink, encoded by enc, and returns when all are there. A shape with log mode
// changes_only gets coordinates and no rows. The transaction is over when Read returns.
//
// It returns a *Error for what went wrong in the database, the Sink's error as it is, or context.Cause(ctx). After an
// error the rows that the Sink got are worth nothing.
func (r *Reader) Read(ctx context.Context, d *shape.Definition, enc *shapelog.Encoder, sink Sink) error {
	rows := copySQL(d)
	if d.Log == shape.LogChangesOnly {
		rows = ""
	}
	if err := r.run(ctx, d, rows, enc, sink); err != nil {
		return r.classify(ctx, d, err)
	}
	return nil
}

// run reads what the query rows, made by copySQL or subsetSQL, gives; none when it is empty. Its errors are still to be
// classified.
func (r *Reader) run(ctx context.Context, d *shape.Definition, rows string, enc *shapelog.Encoder, sink Sink) error {
	conn, release, err := r.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if r.opts.ReadTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.opts.ReadTimeout, errTooLong)
		defer cancel()
	}
	for try := 1; ; try++ {
		err := r.read(ctx, conn, d, rows, enc, sink)
		if err == nil {
			return nil
		}
		r.rollback(ctx, conn)
		var fromSink *sinkError
		if !errors.As(err, &fromSink) {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return err
		}
		if !errors.Is(err, ErrAgain) {
			return err
		}
		if try == r.opts.MaxTries {
			return &Error{
				Message: "Unable to create initial snapshot: the replication stream moved on each time",
				Class:   ErrUnavailable, Err: ErrAgain,
			}
		}
		r.opts.Logger.DebugContext(ctx, "snapshot is taken again", "table", d.Table.Name, "try", try)
		// The transaction in question has its commit in the WAL, but its backend has not announced it: that takes
		// microseconds, or milliseconds when the backend waits for a processor, or longer for a synchronous standby.
		select {
		case <-time.After(againPause(try)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// againPause is how long to wait after the given try, the first being 1: 1 ms, doubling up to a second.
func againPause(try int) time.Duration {
	return min(time.Millisecond<<min(try-1, 10), time.Second)
}

// sinkError marks an error as the Sink's.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

// acquire waits for a turn and a connection, both within QueueTimeout.
func (r *Reader) acquire(ctx context.Context) (*pgconn.PgConn, func(), error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.QueueTimeout, errQueue)
	defer cancel()
	select {
	case r.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		<-r.turns
		// Waiting for a busy pool and waiting for a dead server both end with the context: only the second has a
		// connection being made.
		if errors.Is(context.Cause(ctx), errQueue) && r.pool.Stat().ConstructingConns() == 0 {
			err = errQueue
		}
		return nil, nil, fmt.Errorf("acquire connection: %w", err)
	}
	return conn.Conn().PgConn(), func() {
		conn.Release()
		<-r.turns
	}, nil
}

// read is one try. It leaves the transaction open when it fails.
func (r *Reader) read(ctx context.Context, conn *pgconn.PgConn, d *shape.Definition, rows string, enc *shapelog.Encoder, sink Sink) error {
	encoding := "UTF8"
	if conn.ParameterStatus("server_encoding") == "SQL_ASCII" {
		// Postgres cannot convert from it and would stop at the first byte that is not UTF-8. As they are, such
		// bytes reach the Encoder, which makes valid JSON of them.
		encoding = "SQL_ASCII"
	}
	begin := beginSQL(d, conn.ParameterStatus("server_version"), encoding, r.opts)
	if _, err := conn.Exec(ctx, begin).ReadAll(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := sink.Register(); err != nil {
		return &sinkError{err}
	}
	snap, lsn, err := r.coordinates(ctx, conn, d)
	if err != nil {
		return err
	}
	if err := sink.Begin(snap, lsn); err != nil {
		return &sinkError{err}
	}
	if rows == "" {
		if _, err := conn.Exec(ctx, "COMMIT").ReadAll(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	}
	return r.copyRows(ctx, conn, len(d.Columns), rows, enc, sink)
}

// coordinates takes the snapshot and checks that the table in it is the definition's.
func (r *Reader) coordinates(ctx context.Context, conn *pgconn.PgConn, d *shape.Definition) (changes.Snapshot, changes.LSN, error) {
	var none changes.Snapshot
	results, err := conn.Exec(ctx, coordinatesSQL(d.Table)).ReadAll()
	if err != nil {
		return none, 0, fmt.Errorf("read coordinates: %w", err)
	}
	if len(results) != 3 || len(results[0].Rows) != 1 {
		return none, 0, fmt.Errorf("read coordinates: %d results", len(results))
	}
	row := results[0].Rows[0]
	if string(row[2]) != strconv.FormatUint(uint64(d.Table.OID), 10) {
		return none, 0, &Error{Message: droppedMessage(d), Class: ErrSchemaChanged}
	}
	if !sameTable(d.Table, results[1].Rows, results[2].Rows) {
		return none, 0, &Error{
			Message: fmt.Sprintf(`The columns of database table "%s.%s" have changed`, d.Table.Schema, d.Table.Name),
			Class:   ErrSchemaChanged,
		}
	}
	snap, err := changes.ParseSnapshot(string(row[0]))
	if err != nil {
		return none, 0, fmt.Errorf("read coordinates: %w", err)
	}
	lsn, err := changes.ParseLSN(string(row[1]))
	if err != nil {
		return none, 0, fmt.Errorf("read coordinates: %w", err)
	}
	return snap, lsn, nil
}

// copyRows reads the rows, of as many columns, and commits.
func (r *Reader) copyRows(ctx context.Context, conn *pgconn.PgConn, columns int, rows string, enc *shapelog.Encoder, sink Sink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(r.opts.FirstRowTimeout, func() { cancel(errFirstRow) })
	defer limit.Stop()
	w := &rowWriter{
		enc:     enc,
		sink:    sink,
		text:    copyText{row: make(changes.Row, columns)},
		started: func() { limit.Stop() },
	}
	_, err := conn.CopyTo(ctx, w, rows)
	switch {
	case err == nil:
		return nil
	case w.sinkErr != nil:
		return &sinkError{w.sinkErr}
	case ctx.Err() != nil:
		return fmt.Errorf("copy rows: %w", context.Cause(ctx))
	}
	return fmt.Errorf("copy rows: %w", err)
}

// rollback ends a failed transaction so that the connection can be used again, or leaves the connection to the pool,
// which closes one that is broken or in a transaction.
func (r *Reader) rollback(ctx context.Context, conn *pgconn.PgConn) {
	if conn.IsClosed() || conn.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		r.opts.Logger.DebugContext(ctx, "roll back snapshot", "err", err) // best effort: the pool closes the connection
	}
}
