package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
)

var (
	// ErrAgain is what a Sink's Begin returns when the coordinates do not suit it. Read rolls back and starts over,
	// Register included, a bounded number of times.
	ErrAgain = errors.New("snapshot must be taken again")
	// ErrSchemaChanged reports that the table is not, or no longer, what the shape's definition says. The caller
	// makes inspector forget the table, removes the shape and answers must-refetch.
	ErrSchemaChanged = errors.New("table is no longer what the shape was defined on")
	// ErrUnavailable reports that the snapshot could not be taken now. The caller removes the shape and answers 503
	// with the text of the *Error; trying again later may help, or what the text says must be done first.
	ErrUnavailable = errors.New("snapshot is not available")
	// ErrWhere reports that the where clause fails for a row. The caller removes the shape and answers 400 with the
	// text of the *Error.
	ErrWhere = errors.New("where clause fails for a row")
	// ErrUnexpected reports an error of Postgres that none of the above describes. The caller removes the shape and
	// answers 500 with the text of the *Error.
	ErrUnexpected = errors.New("unexpected error in snapshot")
)

// Error is why a snapshot could not be taken. It is of exactly one class.
type Error struct {
	// Message is fit for the client (protocol.md §3.3).
	Message string
	// Class is one of the sentinels.
	Class error
	// Err is the cause, or nil. A *pgconn.PgError stays reachable.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return fmt.Sprintf("%s (%v)", e.Message, e.Err)
}

// ClientMessage returns the text for the client, which is told it with a 503, a 400 when the error is an ErrWhere, or a
// 500 when it is an ErrUnexpected.
func (e *Error) ClientMessage() string { return e.Message }

// Unwrap returns the class and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}

var (
	// These are the causes of contexts that end for the Reader's own reasons.
	errQueue    = errors.New("no snapshot connection became free in time")
	errFirstRow = errors.New("no first row in time")
	errTooLong  = errors.New("transaction took too long")
)

// classify turns an error of run into what Read returns. ctx is the caller's.
func (r *Reader) classify(ctx context.Context, d *shape.Definition, err error) error {
	var fromSink *sinkError
	if errors.As(err, &fromSink) {
		return fromSink.err
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch {
	case errors.Is(err, errQueue):
		return &Error{Message: "Snapshot creation failed because of a connection pool queue timeout", Class: ErrUnavailable, Err: err}
	case errors.Is(err, errFirstRow):
		return &Error{Message: fmt.Sprintf("Snapshot query took too long to return data (cancelled after %dms). Please ensure "+
			"snapshot queries are using an index to avoid taking up all database connections.",
			r.opts.FirstRowTimeout.Milliseconds()), Class: ErrUnavailable, Err: err}
	case errors.Is(err, errTooLong):
		return &Error{Message: fmt.Sprintf("Snapshot query took too long to return all data (cancelled after %dms). Please ask for fewer rows.",
			r.opts.ReadTimeout.Milliseconds()), Class: ErrUnavailable, Err: err}
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return &Error{Message: "Database connection not available", Class: ErrUnavailable, Err: err}
	}
	switch pgErr.Code {
	case "42P01", "3F000", "42703": // no such table, schema, column
		return &Error{Message: droppedMessage(d), Class: ErrSchemaChanged, Err: err}
	case "55P03": // lock_timeout
		return &Error{Message: "Snapshot timed out while waiting for a table lock", Class: ErrUnavailable, Err: err}
	case "42501": // insufficient privilege, or row security that would hide rows
		return &Error{Message: "Unable to create initial snapshot: " + pgErr.Message + r.privilegeHint(d, pgErr), Class: ErrUnavailable, Err: err}
	case "57014": // cancelled from outside: an administrator, or a limit in between
		return &Error{Message: "Unable to create initial snapshot: " + pgErr.Message, Class: ErrUnavailable, Err: err}
	case "40001", "40P01": // serialisation failure (recovery conflict), deadlock
		return &Error{Message: "Unable to create initial snapshot: " + pgErr.Message, Class: ErrUnavailable, Err: err}
	}
	class := pgErr.Code[:min(2, len(pgErr.Code))]
	if d.Where != nil && (class == "22" || class == "54" || pgErr.Code == "42883") {
		return &Error{Message: whereMessage(pgErr.Code), Class: ErrWhere, Err: err}
	}
	switch class {
	case "08", "57", "58": // connection, operator intervention, system
		return &Error{Message: "Database connection not available", Class: ErrUnavailable, Err: err}
	case "53": // out of memory, disk, connections
		return &Error{Message: "Unable to create initial snapshot: " + pgErr.Message, Class: ErrUnavailable, Err: err}
	}
	return &Error{Message: "Unexpected error while creating snapshot: " + pgErr.Message, Class: ErrUnexpected, Err: err}
}

// whereMessage says that a clause fails for a row, and what to do.
func whereMessage(code string) string {
	return "The clause cannot be evaluated for every row of the table: " + failureOnRow(code) + " (SQLSTATE " + code +
		"). Guard what fails, as in CASE WHEN b <> 0 THEN a / b > 1 END"
}

// failureOnRow names a failure of an evaluation (appendix A of the Postgres manual, "PostgreSQL Error Codes"). Postgres's
// own words would quote the value, which the client may not be allowed to see: the clause decides that.
func failureOnRow(code string) string {
	what := map[string]string{
		"22012": "division by zero", "22003": "a number is out of range", "22P02": "a text is not of the form that a type needs",
		"22007": "a text is no date or time", "22008": "a date or time is out of range", "2201B": "a regular expression is not valid",
		"22025": "a LIKE pattern ends with its escape character", "22019": "an escape character is not one character",
		"2201F": "a power or root is not defined", "2201E": "a logarithm is not defined", "22023": "an argument is not allowed",
		"22011": "a substring has a negative length", "2202E": "arrays do not fit each other", "42883": "this release of Postgres does not have one of its functions",
		"54001": "it is nested too deeply", "54000": "a result is too large",
	}[code]
	if what == "" {
		return "Postgres refuses a value"
	}
	return what
}

func droppedMessage(d *shape.Definition) string {
	return fmt.Sprintf(`Database table "%s.%s" has been dropped or renamed`, d.Table.Schema, d.Table.Name)
}

// privilegeHint names the SQL that gives what is missing.
func (r *Reader) privilegeHint(d *shape.Definition, pgErr *pgconn.PgError) string {
	role := sqltext.Ident(r.pool.Config().ConnConfig.User)
	switch {
	case strings.Contains(pgErr.Message, "row-level security"):
		// The stream is not filtered by policies, so a filtered snapshot would never agree with it.
		return ". Run: ALTER ROLE " + role + " BYPASSRLS"
	case strings.Contains(pgErr.Message, "for schema"):
		return ". Run: GRANT USAGE ON SCHEMA " + sqltext.Ident(d.Table.Schema) + " TO " + role
	case strings.Contains(pgErr.Message, "permission denied for table"):
		return ". Run: GRANT SELECT ON " + sqltext.Ident(d.Table.Schema) + "." + sqltext.Ident(d.Table.Name) + " TO " + role
	}
	return ""
}
