package publication

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/internal/sqltext"
)

var (
	// ErrTimeout reports that the table could not be locked, or that those who had written to it did not end, in
	// time. The caller answers 503; trying again goes on with what was reached.
	ErrTimeout = errors.New("table did not become ready in time")
	// ErrTableGone reports that the table is not there any more under its name. The caller makes inspector forget
	// it and answers must-refetch.
	ErrTableGone = errors.New("table is gone")
	// ErrStopped reports that the Manager does not run any more. The caller answers 503.
	ErrStopped = errors.New("publication manager has stopped")
)

// Code tells the kinds of Error apart. It is fit for a metric label.
type Code string

// The codes.
const (
	CodeTimeout     Code = "timeout"             // lock or barrier; an ErrTimeout
	CodeTableGone   Code = "table_gone"          // dropped or renamed; an ErrTableGone
	CodeMissing     Code = "not_published"       // manual mode, or no right to add it
	CodeIdentity    Code = "replica_identity"    // manual mode: not FULL
	CodePrivilege   Code = "privilege"           // not the owner
	CodePublication Code = "publication_missing" // there is none
	CodeOperations  Code = "operations"          // the publication leaves something out
	CodeUnavailable Code = "unavailable"         // no connection
	CodeRefused     Code = "refused"             // Postgres does not publish such a table
)

// Error is why a table did not become ready.
type Error struct {
	Code Code
	// Message is fit for the client; where something can be done it names the SQL (protocol.md §3.3).
	Message string
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

// ClientMessage returns the text for the client, which is told it with a 503.
func (e *Error) ClientMessage() string { return e.Message }

// Unwrap returns the sentinel of the code, if it has one, and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	switch e.Code {
	case CodeTimeout:
		errs = append(errs, ErrTimeout)
	case CodeTableGone:
		errs = append(errs, ErrTableGone)
	default:
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

func errTimeout(cause error) *Error {
	return &Error{Code: CodeTimeout, Message: "Snapshot timed out while waiting for a table lock", Err: cause}
}

func errUnavailable(cause error) *Error {
	return &Error{Code: CodeUnavailable, Message: "Database connection not available", Err: cause}
}

func errTableGone(n tableName) *Error {
	return &Error{Code: CodeTableGone, Message: fmt.Sprintf(`Database table "%s" has been dropped or renamed`, n)}
}

func (m *Manager) errMissing(n tableName) *Error {
	return &Error{Code: CodeMissing, Message: fmt.Sprintf(`Database table "%s" is missing from the publication "%s" and the `+
		`%s setting prevents shapeserver from adding it. Run: ALTER PUBLICATION %s ADD TABLE %s`,
		n, m.name, m.opts.ManualSetting, sqltext.Ident(m.name), n.quoted())}
}

func errFiltered(n tableName, publication string) *Error {
	return &Error{Code: CodeOperations, Message: fmt.Sprintf(`Publication "%s" has a row filter or a column list for database `+
		`table "%s"; it must publish whole rows`, publication, n)}
}

func errIdentity(n, leaf tableName) *Error {
	return &Error{Code: CodeIdentity, Message: fmt.Sprintf(`Database table "%s" does not have its replica identity set to FULL. `+
		`Run: ALTER TABLE %s REPLICA IDENTITY FULL`, n, leaf.quoted())}
}

func (m *Manager) errNoPublication(cause error) *Error {
	return &Error{Code: CodePublication, Message: fmt.Sprintf(`Publication "%s" not found in the database. Run: CREATE PUBLICATION %s`,
		m.name, sqltext.Ident(m.name)), Err: cause}
}

func (m *Manager) errOperations() *Error {
	return &Error{Code: CodeOperations, Message: fmt.Sprintf(`Publication "%s" does not publish all operations. Run: ALTER PUBLICATION %s SET (%s)`,
		m.name, sqltext.Ident(m.name), publishAll)}
}

func (m *Manager) errViaRoot() *Error {
	return &Error{Code: CodeOperations, Message: fmt.Sprintf(`Publication "%s" publishes partitions under the name of their root. `+
		`Run: ALTER PUBLICATION %s SET (publish_via_partition_root = false)`, m.name, sqltext.Ident(m.name))}
}

// errPrivilege is for SQLSTATE 42501.
func (m *Manager) errPrivilege(n tableName, published bool, err *pgconn.PgError) *Error {
	role := sqltext.Ident(m.pool.Config().ConnConfig.User)
	if !published && containsPublication(err.Message) {
		return &Error{Code: CodePrivilege, Message: fmt.Sprintf(`Database table "%s" is missing from the publication "%s" and `+
			`shapeserver lacks privileges to add it. Run: ALTER PUBLICATION %s OWNER TO %s`, n, m.name, sqltext.Ident(m.name), role), Err: err}
	}
	return &Error{Code: CodePrivilege, Message: fmt.Sprintf(`Unable to create initial snapshot: %s. Run: ALTER TABLE %s OWNER TO %s`,
		err.Message, n.quoted(), role), Err: err}
}

// failure says what to do about an error of one table's statement.
type failure int

const (
	tryAgain  failure = iota // a lock, a race with somebody else's DDL: look again later
	permanent                // the same every time
	noServer                 // not about the table
)

func kindOf(err error) failure {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return noServer
	}
	switch pgErr.Code {
	case "55P03", "40P01", "40001", "57014", // lock_timeout, deadlock, serialisation, statement_timeout
		"XX000",          // "tuple concurrently updated"
		"42710", "42704", // already in, not in the publication: the next look will tell
		"42P01", "3F000": // the table or its schema went away after the look
		return tryAgain
	}
	switch pgErr.Code[:min(2, len(pgErr.Code))] {
	case "08", "53", "57", "58":
		return noServer
	}
	return permanent
}
