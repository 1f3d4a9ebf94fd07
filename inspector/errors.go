package inspector

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/internal/sqltext"
)

var (
	// ErrUndefinedTable reports that no table of that name can be the table of a shape. The caller answers 400
	// with the text of the error, which is a *TableError; trying again helps only once the table was made.
	ErrUndefinedTable = errors.New("table does not exist")
	// ErrUnreachable reports that the database could not be asked, and that nothing was known about the table
	// before. The caller answers 503; trying again helps.
	ErrUnreachable = errors.New("database is unreachable")
)

// TableError says why a table cannot be the table of a shape. It is an ErrUndefinedTable.
type TableError struct {
	Schema, Name string
	// Message is fit for the client.
	Message string
}

// Error implements error.
func (e *TableError) Error() string { return e.Message }

// Unwrap returns ErrUndefinedTable.
func (e *TableError) Unwrap() error { return ErrUndefinedTable }

// errNoTable is the error for everything that does not exist as far as clients are concerned: missing tables, but also
// views, foreign tables and the system's own (protocol.md §2.3).
func errNoTable(schema, name string) error {
	return &TableError{Schema: schema, Name: name, Message: fmt.Sprintf(
		"Table %s.%s does not exist. If the table name contains capitals or special characters you must quote it.",
		sqltext.Ident(schema), sqltext.Ident(name))}
}

// errNotReplicated is the error for tables that exist, but whose changes Postgres does not put into the stream.
func errNotReplicated(schema, name, why string) error {
	return &TableError{Schema: schema, Name: name, Message: fmt.Sprintf(
		"Table %s.%s cannot be replicated: %s.", sqltext.Ident(schema), sqltext.Ident(name), why)}
}

// unreachable tells an error of getting to the database from an error that the database gave for the query.
func unreachable(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return !errors.Is(err, context.Canceled)
	}
	switch pgErr.Code {
	case "57P01", "57P02", "57P03", "57P05", // shut down, crashed, starting up, idle session ended
		"53300", // too many connections
		"57014": // cancelled: the look-up's own time was over
		return true
	}
	return strings.HasPrefix(pgErr.Code, "08")
}
