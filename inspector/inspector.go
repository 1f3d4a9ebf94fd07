package inspector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
)

// Options tunes an Inspector. The zero Options is ready to use.
type Options struct {
	// Timeout bounds one look-up, connecting included. Zero means 5 s.
	Timeout time.Duration
	// RetryAfter is how long, after the database could not be reached, known tables are served as they were
	// without asking again. Zero means 1 s.
	RetryAfter time.Duration
	// Logger takes what is worth knowing; nil discards it.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.RetryAfter = cmp.Or(o.RetryAfter, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Inspector looks tables up and remembers them.
type Inspector struct {
	pool    *pgxpool.Pool
	opts    Options
	flights singleflight.Group

	mu sync.Mutex
	// tables holds what is known by name, byOID the names by OID; each entry of one has its entry in the other.
	tables map[name]*entry
	byOID  map[uint32]name
	// forgets counts the calls of Forget. A look-up that began at another count does not enter the cache.
	forgets uint64
	// downUntil is when to ask again a database that could not be reached.
	downUntil time.Time
}

type name struct{ schema, table string }

type entry struct {
	table   *shape.Table
	checked time.Time // when the look-up that last confirmed the table began
}

// New makes an Inspector that asks over the pool's connections. The pool stays the caller's. Where a pooler in transaction
// mode may stand between, its DefaultQueryExecMode has to be pgx.QueryExecModeExec.
func New(pool *pgxpool.Pool, opts Options) *Inspector {
	return &Inspector{
		pool:   pool,
		opts:   opts.withDefaults(),
		tables: make(map[name]*entry),
		byOID:  make(map[uint32]name),
	}
}

// Table returns the table schema.name, both in the catalogue's exact spelling, as it was at most maxAge ago; a maxAge of
// zero or less always asks. A table that is still the same comes back as the same pointer.
//
// While the database cannot be reached, a table that is known is served at any age: the shapes on it can still be
// read, new ones need the database anyway, and what changed is noticed in the stream or by the periodic check as soon
// as there is a connection again. A table that is not known then gives ErrUnreachable. A table that cannot have
// shapes gives a *TableError, an ErrUndefinedTable.
func (in *Inspector) Table(ctx context.Context, schema, table string, maxAge time.Duration) (*shape.Table, error) {
	n := name{schema, table}
	in.mu.Lock()
	known, ok := in.tables[n]
	if ok && maxAge > 0 && time.Since(known.checked) <= maxAge {
		in.mu.Unlock()
		return known.table, nil
	}
	if ok && time.Now().Before(in.downUntil) {
		in.mu.Unlock()
		return known.table, nil
	}
	forgets := in.forgets
	in.mu.Unlock()

	// The key holds the count of forgets so that nobody who asks after a Forget joins a look-up from before it.
	key := strconv.FormatUint(forgets, 10) + " " + sqltext.Ident(schema) + "." + sqltext.Ident(table)
	flight := in.flights.DoChan(key, func() (any, error) {
		// The look-up serves everyone who waits for it, so it outlives the one who began it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.opts.Timeout)
		defer cancel()
		return in.lookUp(ctx, n, forgets)
	})
	select {
	case res := <-flight:
		if res.Err != nil {
			return nil, res.Err
		}
		return res.Val.(*shape.Table), nil //nolint:forcetypeassert // lookUp returns nothing else
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lookUp asks for one table and keeps the answer, unless Forget was called since.
func (in *Inspector) lookUp(ctx context.Context, n name, forgets uint64) (*shape.Table, error) {
	began := time.Now()
	rels, types, err := in.fetch(ctx, describeByName, n.schema, n.table)
	if err != nil {
		if !unreachable(err) {
			return nil, err
		}
		return in.stale(ctx, n, err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.downUntil = time.Time{}
	var found *shape.Table
	if len(rels) == 0 {
		err = errNoTable(n.schema, n.table)
	} else if err = check(&rels[0]); err == nil {
		found, err = build(&rels[0], types)
	}
	if err != nil {
		in.dropLocked(n)
		return nil, err
	}
	return in.keepLocked(found, began, forgets), nil
}

// stale answers while the database cannot be reached.
func (in *Inspector) stale(ctx context.Context, n name, cause error) (*shape.Table, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.downUntil = time.Now().Add(in.opts.RetryAfter)
	known, ok := in.tables[n]
	if !ok {
		return nil, errors.Join(ErrUnreachable, cause)
	}
	in.opts.Logger.WarnContext(ctx, "table served as last known: database is unreachable",
		"schema", n.schema, "table", n.table, "age", time.Since(known.checked), "err", cause)
	return known.table, nil
}

// ByOID returns those of the tables that exist and may have shapes, as they are now, by OID. It always asks. It serves
// the periodic check, and relations in the stream that nobody knows.
func (in *Inspector) ByOID(ctx context.Context, oids []uint32) (map[uint32]*shape.Table, error) {
	if len(oids) == 0 {
		return nil, nil
	}
	in.mu.Lock()
	forgets := in.forgets
	in.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, in.opts.Timeout)
	defer cancel()
	began := time.Now()
	rels, types, err := in.fetch(ctx, describeByOID, sqltext.OIDs(oids))
	if err != nil {
		if unreachable(err) {
			err = errors.Join(ErrUnreachable, err)
		}
		return nil, err
	}
	found := make(map[uint32]*shape.Table, len(rels))
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range rels {
		if check(&rels[i]) != nil {
			continue
		}
		t, err := build(&rels[i], types)
		if err != nil {
			return nil, err
		}
		found[t.OID] = in.keepLocked(t, began, forgets)
	}
	for _, oid := range oids {
		if n, ok := in.byOID[oid]; ok && found[oid] == nil && forgets == in.forgets {
			in.dropLocked(n)
		}
	}
	return found, nil
}

// Forget drops what is known about a table, because the stream said that it changed. Whoever asks after Forget
// returned gets what the catalogue says then or later.
func (in *Inspector) Forget(oid uint32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.forgets++
	if n, ok := in.byOID[oid]; ok {
		in.dropLocked(n)
	}
}

// keepLocked enters a table into the cache and returns the pointer that stands for it: the one known already when
// nothing changed. in.mu must be held.
func (in *Inspector) keepLocked(t *shape.Table, began time.Time, forgets uint64) *shape.Table {
	n := name{t.Schema, t.Name}
	known, ok := in.tables[n]
	if ok && known.checked.After(began) {
		// A look-up that began later is in already; this one's answer is fresh enough for who asked for it.
		if reflect.DeepEqual(known.table, t) {
			return known.table
		}
		return t
	}
	if ok && reflect.DeepEqual(known.table, t) {
		known.checked = began
		return known.table
	}
	if forgets != in.forgets {
		return t
	}
	if old, renamed := in.byOID[t.OID]; renamed && old != n {
		in.dropLocked(old)
	}
	in.dropLocked(n)
	in.tables[n] = &entry{table: t, checked: began}
	in.byOID[t.OID] = n
	return t
}

// dropLocked forgets a name. in.mu must be held.
func (in *Inspector) dropLocked(n name) {
	if known, ok := in.tables[n]; ok {
		delete(in.byOID, known.table.OID)
		delete(in.tables, n)
	}
}
