// Package where parses, checks, evaluates and renders the where clauses of shapes (protocol.md §8), and checks and renders
// the ORDER BY lists of subsets (§10).
//
// It owns the language: the text goes through Postgres's own grammar, is resolved against Postgres's own catalogue of
// operators, functions and casts (catalog.tsv) by Postgres's rules ("Type Conversion" in the manual), folded, compiled
// to closures over changes.Row, and rendered back to SQL from the checked tree, so that no text of a client reaches a
// database. It leaves the look-up of columns to inspector, and the decision what a match means to consumer.
//
// It starts no goroutine, and an Expr may be used from any.
//
// Invariants: what Parse accepts is evaluated exactly as Postgres evaluates Expr.SQL under the session settings of
// protocol.md §7.1 (I1 rests on this); what cannot be is refused with its place. Parse of Expr.SQL gives the same SQL.
// Neither parsing nor evaluation panics, and both are bounded in time, memory and stack whatever the text.
//
// Start reading at Parse; a new function or operator begins at builtins in builtin.go.
package where
