package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/where"
)

// Subset is a question about some rows of a shape (protocol.md §10).
type Subset struct {
	// Table is the shape's table as the catalogue has it now: Where and OrderBy were checked on it. It may have columns
	// that it had not when the shape was defined.
	Table   *shape.Table
	Where   *where.Expr    // which rows, of those that the shape has; nil for all
	OrderBy *where.OrderBy // in which order; nil for none
	Limit   int64          // at most so many rows; 0 for no limit. It must not be negative
	Offset  int64          // how many rows to leave out at the beginning. It must not be negative
}

// QueryError reports that Postgres cannot answer the question that the client asked: another one may be asked at once.
// The caller answers 400 under the subset's parameter.
type QueryError struct {
	Field   string // "where" or "order_by"
	Message string // fit for the client: it has nothing of any row
	Err     error  // the *pgconn.PgError
}

// Error implements error.
func (e *QueryError) Error() string {
	return fmt.Sprintf("subset %s: %s (%v)", e.Field, e.Message, e.Err)
}

// Unwrap returns the cause.
func (e *QueryError) Unwrap() error { return e.Err }

// ReadSubset reads some rows of a shape into the sink, from one snapshot whose coordinates the sink gets first. Paging
// with Limit and Offset parts the rows in the same way every time, as long as none changes: where the table has a primary
// key, it decides between rows that OrderBy does not tell apart.
//
// It returns what Read returns, or a *QueryError. After an ErrSchemaChanged the caller looks the table up again and, if
// the shape fits what it finds, asks once more: the sink's Begin has not been called then.
func (r *Reader) ReadSubset(ctx context.Context, d *shape.Definition, q Subset, sink Sink) error {
	d, err := definedOn(d, q.Table)
	if err != nil {
		return err
	}
	enc := shapelog.NewEncoder(d.Table.Schema, d.Table.Name, d.ColumnNames(), d.KeyPositions())
	err = r.run(ctx, d, subsetSQL(d, q), enc, sink)
	if err == nil {
		return nil
	}
	if bad := refusedQuery(q, err); bad != nil && ctx.Err() == nil {
		return bad
	}
	return r.classify(ctx, d, err)
}

// definedOn returns the definition for reading from its table as it is now.
func definedOn(d *shape.Definition, now *shape.Table) (*shape.Definition, error) {
	if now == d.Table {
		return d, nil
	}
	changed := func(problem string) error {
		return &Error{
			Message: fmt.Sprintf(`Database table "%s.%s" has changed: %s`, d.Table.Schema, d.Table.Name, problem), Class: ErrSchemaChanged,
		}
	}
	if problem := d.FitsTable(now); problem != "" {
		return nil, changed(problem)
	}
	on := *d
	on.Table, on.Columns = now, make([]int, len(d.Columns))
	for i, name := range d.ColumnNames() {
		at := slices.IndexFunc(now.Columns, func(c shape.Column) bool { return c.Name == name })
		if at < 0 {
			return nil, changed(fmt.Sprintf("column %q is gone", name))
		}
		on.Columns[i] = at
	}
	slices.Sort(on.Columns)
	return &on, nil
}

// subsetSQL reads the rows and ends the transaction. All of it is rendered from checked trees and from numbers.
func subsetSQL(d *shape.Definition, q Subset) string {
	var b strings.Builder
	b.WriteString("COPY (")
	writeSelect(&b, d)
	sep := " WHERE ("
	for _, e := range []*where.Expr{d.Where, q.Where} {
		if e != nil {
			b.WriteString(sep + e.SQL() + ")")
			sep = " AND ("
		}
	}
	if q.OrderBy != nil {
		var key []string
		for _, k := range d.Table.Key {
			key = append(key, d.Table.Columns[k].Name)
		}
		b.WriteString(" ORDER BY " + q.OrderBy.SQL(key...))
	}
	if q.Limit > 0 {
		b.WriteString(" LIMIT " + strconv.FormatInt(q.Limit, 10))
	}
	if q.Offset > 0 {
		b.WriteString(" OFFSET " + strconv.FormatInt(q.Offset, 10))
	}
	b.WriteString(") TO STDOUT;COMMIT")
	return b.String()
}

// refusedQuery returns the error of Postgres as a *QueryError when it is about what the client asked, else nil.
func refusedQuery(q Subset, err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return nil
	}
	if q.OrderBy != nil {
		switch pgErr.Code {
		case "42883", "42704", "42804", "42P21", "42P22": // no order of that type; no such collation; collations that do not fit
			return &QueryError{Field: "order_by", Message: pgErr.Message, Err: err}
		}
	}
	if strings.HasPrefix(pgErr.Code, "22") { // data exception
		return &QueryError{Field: "where", Message: "The clause cannot be evaluated on every row: " + failureOnRow(pgErr.Code), Err: err}
	}
	return nil
}
