package where

import "github.com/shapeserver/shapeserver/changes"

// Scope is what names in a clause may refer to: the columns of one table.
type Scope struct {
	Schema, Table string
	Columns       []Column
}

// Expr is a checked clause, compiled for evaluation. It is immutable and may be used from any goroutine.
type Expr struct {
	sql string
}

// SQL renders the clause from its tree, fully parenthesised, with parameters as typed literals. Equivalent texts give
// the same SQL, so it is the clause's identity; it is safe to put into a query.
func (e *Expr) SQL() string { return e.sql }

// Match reports whether the clause is true (not false, not NULL) for a row, whose values stand in the order of
// Scope.Columns. A run-time failure, such as a division by zero, counts as no match (protocol.md §8.1).
func (e *Expr) Match(row changes.Row) bool { return false }
