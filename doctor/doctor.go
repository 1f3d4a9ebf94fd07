package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/storage"
)

// Store is what doctor needs of a storage.Store.
type Store interface {
	Handles() []shape.Handle
	Open(h shape.Handle) (storage.Log, error)
	Remove(h shape.Handle) error
	Confirmed() changes.LSN
	Sync() error
}

// Options says what is examined.
type Options struct {
	StreamID, Publication, Slot string
	// Manual leaves the publication to the operator.
	Manual bool
	// Store is the opened storage directory; nil when a server has it, and then logs are not looked at.
	Store Store
}

// Problem is a disagreement.
type Problem struct {
	Handle shape.Handle // empty when it is not about one shape
	Text   string       // what disagrees, and what Fix does about it
	remedy remedy
	table  string // for unpublish
}

type remedy int

const (
	byStart   remedy = iota // the next start of a server sees to it
	remove                  // of the shape: row and log
	unpublish               // of table
)

// Report is what Examine found.
type Report struct {
	opts     Options
	records  []record
	Problems []Problem
	// Served is whether a server has the stream.
	Served bool
}

// ErrServed reports that a server has the stream, so that nothing was repaired. Stop it first; while it runs it repairs its
// records by itself.
var ErrServed = errors.New("a server is running on this stream: stop it first (while it runs, it compares and repairs its records by itself)")

// Examine reads the records of every shape and compares them. It changes nothing in Postgres.
func Examine(ctx context.Context, conn *pgx.Conn, opts Options) (*Report, error) {
	served, err := isServed(ctx, conn, opts.Slot)
	if err != nil {
		return nil, err
	}
	c, err := read(ctx, conn, &opts)
	if err != nil {
		return nil, err
	}
	if opts.Store != nil {
		c.addLogs(opts.Store)
	}
	r := &Report{opts: opts, records: c.records, Served: served}
	r.judge(c)
	return r, nil
}

// isServed looks for the advisory lock that a server holds as long as it has the slot (protocol.md §11.2).
func isServed(ctx context.Context, conn *pgx.Conn, slot string) (bool, error) {
	free, err := tryLock(ctx, conn, slot)
	if err != nil || !free {
		return !free, err
	}
	return false, unlock(ctx, conn, slot)
}

func tryLock(ctx context.Context, conn *pgx.Conn, slot string) (free bool, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext($1::text))", pgx.QueryExecModeExec, slot).Scan(&free)
	if err != nil {
		return false, fmt.Errorf("look for a server: %w", err)
	}
	return free, nil
}

func unlock(ctx context.Context, conn *pgx.Conn, slot string) error {
	if _, err := conn.Exec(ctx, "SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext($1::text))", pgx.QueryExecModeExec, slot); err != nil {
		return fmt.Errorf("give the stream's lock back: %w", err)
	}
	return nil
}

// judge compares the records.
func (r *Report) judge(c *catalogue) {
	add := func(h shape.Handle, what remedy, format string, args ...any) {
		r.Problems = append(r.Problems, Problem{Handle: h, Text: fmt.Sprintf(format, args...), remedy: what})
	}
	wanted := make(map[uint32]bool)
	stored := r.opts.Store != nil
	for _, rec := range c.records {
		switch {
		case !rec.row:
			add(rec.handle, remove, "a log without a status row: nobody serves it; remove it")
		case stored && !rec.log && r.Served:
			// The storage directory is another server's, or another than the one that serves.
			add(rec.handle, byStart, "a status row without a log in this storage directory")
			wanted[rec.oid] = true
		case stored && !rec.log:
			add(rec.handle, remove, "a status row without a log: it cannot be served; delete the row")
		case stored && rec.bad != nil:
			add(rec.handle, remove, "its log cannot be served (%v); remove row and log", rec.bad)
		case !rec.exists:
			add(rec.handle, remove, "its table %s.%s is gone or renamed; remove row and log", rec.schema, rec.table)
		case !rec.published:
			add(rec.handle, remove, "its table %s.%s is not in the publication, so it may have missed changes; remove row and log", rec.schema, rec.table)
		default:
			wanted[rec.oid] = true
		}
	}
	if !c.allTables && !r.opts.Manual {
		for _, oid := range sortedKeys(c.members) {
			if !wanted[oid] {
				r.Problems = append(r.Problems, Problem{
					Text: "table " + c.members[oid] + " is published and has no shape; take it out of the publication", remedy: unpublish, table: c.members[oid],
				})
			}
		}
	}
	switch rows := len(wanted) > 0; {
	case rows && !c.publication:
		add("", byStart, "there is no publication %s; the next start makes it", r.opts.Publication)
	case rows && !c.slot:
		add("", byStart, "there is no replication slot %s: the next start makes one, and every shape anew", r.opts.Slot)
	case rows && stored && !r.Served && c.confirmed > uint64(r.opts.Store.Confirmed()):
		add("", byStart, "the replication slot is at %s, past what the storage directory has, %s: the next start makes every shape anew",
			changes.LSN(c.confirmed), r.opts.Store.Confirmed())
	}
}

func sortedKeys(m map[uint32]string) []uint32 {
	keys := make([]uint32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Print writes the records of every shape side by side, then what disagrees.
func (r *Report) Print(w io.Writer) error {
	about := make(map[shape.Handle]bool, len(r.Problems))
	for _, p := range r.Problems {
		about[p.Handle] = true
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells ...any) { _, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", cells...) } // Flush gives the error
	line("HANDLE", "TABLE", "STATUS ROW", "LOG", "PUBLISHED", "")
	for i := range r.records {
		rec := &r.records[i]
		table, row, published, mark := "-", "-", "-", ""
		if rec.row {
			table, row, published = rec.schema+"."+rec.table, rec.state, yesNo(rec.published)
		}
		if about[rec.handle] {
			mark = "disagrees"
		}
		line(string(rec.handle), table, row, r.logText(rec), published, mark)
	}
	if err := tab.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	text := fmt.Sprintf("\n%d shapes, %d problems\n", len(r.records), len(r.Problems))
	for _, p := range r.Problems {
		if p.Handle != "" {
			text += string(p.Handle) + ": "
		}
		text += p.Text + "\n"
	}
	switch {
	case r.Served && r.opts.Store == nil:
		text += "A server is running and has the storage directory, so the logs were not looked at. It compares all records by itself: " +
			"see the metrics shapeserver_records_* and shapeserver_reconciled_total.\n"
	case r.Served:
		text += "A server is running on this stream.\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (r *Report) logText(rec *record) string {
	switch {
	case r.opts.Store == nil:
		return "?"
	case !rec.log:
		return "-"
	case rec.bad != nil:
		return "unusable"
	}
	return fmt.Sprintf("%d bytes", rec.size)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Fix repairs what Examine found and can be repaired without a server. Shapes whose records agree are not touched. Each
// repair may be repeated. It gives ErrServed while a server has the stream or the storage directory.
func (r *Report) Fix(ctx context.Context, conn *pgx.Conn) (err error) {
	if r.opts.Store == nil {
		return ErrServed
	}
	free, err := tryLock(ctx, conn, r.opts.Slot)
	if err != nil {
		return err
	}
	if !free {
		return ErrServed
	}
	defer func() { err = errors.Join(err, unlock(ctx, conn, r.opts.Slot)) }()
	for _, p := range r.Problems {
		switch p.remedy {
		case byStart:
		case remove: // the row first: from then on no crash brings the shape back
			if _, err := conn.Exec(ctx, "DELETE FROM shapeserver.shapes WHERE handle = $1::text AND stream_id = $2::text",
				pgx.QueryExecModeExec, string(p.Handle), r.opts.StreamID); err != nil {
				return fmt.Errorf("delete the status row of %s: %w", p.Handle, err)
			}
			if err := r.opts.Store.Remove(p.Handle); err != nil {
				return fmt.Errorf("remove the log of %s: %w", p.Handle, err)
			}
		case unpublish:
			sql := "ALTER PUBLICATION " + sqltext.Ident(r.opts.Publication) + " DROP TABLE ONLY " + p.table
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("take %s out of the publication: %w", p.table, err)
			}
		}
	}
	if err := r.opts.Store.Sync(); err != nil {
		return fmt.Errorf("sync the storage directory: %w", err)
	}
	return nil
}

// Left returns how many of the problems Fix does nothing about, because the next start of a server does.
func (r *Report) Left() int {
	n := 0
	for _, p := range r.Problems {
		if p.remedy == byStart {
			n++
		}
	}
	return n
}
