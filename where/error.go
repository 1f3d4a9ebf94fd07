package where

import "fmt"

// Error is why a clause or its parameters were refused. The caller should answer 400 with Error() under Field;
// trying again cannot help.
type Error struct {
	Field    string // "where" or "params"
	Location int    // byte offset as protocol.md §8.4 counts it, -1 when the message has no place
	Message  string
}

// Error returns the text that goes over the wire.
func (e *Error) Error() string {
	if e.Location < 0 {
		return e.Message
	}
	return fmt.Sprintf("At location %d: %s", e.Location, e.Message)
}

// errorAt makes an Error about the clause; loc is relative to the client's text.
func errorAt(loc int, format string, args ...any) *Error {
	return &Error{Field: "where", Location: loc, Message: fmt.Sprintf(format, args...)}
}

// unsupported is the one wording for what the grammar takes and this package does not.
func unsupported(loc int, construct string) *Error {
	return errorAt(loc, "%s is not supported in this context", construct)
}
