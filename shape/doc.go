// Package shape holds what a shape is: its definition (table, columns, where clause, modes), the identity that makes
// two requests one shape, its handle, and the reasons for which it may end.
//
// It owns no goroutine and does no I/O. It leaves catalogue look-ups to inspector, evaluation to where, and keeping
// shapes to shapecache and status.
//
// Invariants: two definitions are the same shape exactly when their Identity is the same text; a handle is never made
// twice (I5). Start reading at Definition.
package shape
