package where

import "github.com/shapeserver/shapeserver/changes"

// Scope is what names in a clause may refer to: the columns of one table.
type Scope struct {
	Schema, Table string
	Columns       []Column
	// Default is the collation of the database, under which literals and parameters stand that no column gives
	// another. While it is zero, lower('A') and 'a' < 'b' are refused, for their result is not known.
	Default Collation
}

// Expr is a checked clause, compiled for evaluation. It is immutable and may be used from any goroutine.
type Expr struct {
	sql     string
	columns []int
	keys    []Key
	test    test
}

// SQL renders the clause from its tree, fully parenthesised, with parameters as typed literals. Equivalent texts give
// the same SQL, so it is the clause's identity; it is safe to put into a query.
func (e *Expr) SQL() string { return e.sql }

// Match reports whether the clause is true (not false, not NULL, no failure) for a row, whose values stand in the order
// of Scope.Columns.
func (e *Expr) Match(row changes.Row) bool { return e.test(row) == True }

// Eval is Match with the outcomes told apart. Failed stands for what is an error in Postgres, such as a division by
// zero, or cannot be told, such as the order of an enum's label that the Scope does not know: a query with the clause
// has no answer, and neither has the shape.
func (e *Expr) Eval(row changes.Row) Tri { return e.test(row) }

// Columns returns the positions in Scope.Columns of the columns the clause refers to, ascending. The caller must not
// change it.
func (e *Expr) Columns() []int { return e.columns }
