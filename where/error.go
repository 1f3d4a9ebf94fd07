package where

import (
	"errors"
	"fmt"
)

// ErrSubquery is the cause of an Error about a subquery.
var ErrSubquery = errors.New("subquery")

// LabelError is the cause of an Error about a literal that is no label of its enum.
type LabelError struct{ Type, Label string }

// Error returns what Postgres says about such a literal.
func (e *LabelError) Error() string {
	return fmt.Sprintf(`invalid input value for enum %s: "%s"`, e.Type, e.Label)
}

// Error is why a clause, its parameters, or an ORDER BY list were refused. The caller should answer 400 with Error()
// under Field; trying again cannot help.
type Error struct {
	Field    string // "where", "params" or "order_by"
	Location int    // byte offset as protocol.md §8.4 counts it, -1 when the message has no place
	Message  string
	// Cause is what callers may want to tell apart: ErrSubquery, a *LabelError, or nil.
	Cause error
}

// Error returns the text that goes over the wire.
func (e *Error) Error() string {
	if e.Location < 0 {
		return e.Message
	}
	return fmt.Sprintf("At location %d: %s", e.Location, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// errorAt makes an Error about the clause; loc is relative to the client's text.
func errorAt(loc int, format string, args ...any) *Error {
	return &Error{Field: "where", Location: loc, Message: fmt.Sprintf(format, args...)}
}

// because adds the cause to an Error that was just made.
func (e *Error) because(cause error) *Error {
	e.Cause = cause
	return e
}

// unsupported is the one wording for what the grammar takes and this package does not.
func unsupported(loc int, construct string) *Error {
	return errorAt(loc, "%s is not supported in this context", construct)
}
