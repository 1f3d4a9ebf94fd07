// Package sqltext quotes names and texts for SQL that is put together as text: utility statements take no parameters.
//
// It owns the rules of quoting, and no goroutine. It leaves the rendering of where clauses, which drops quotes where it can,
// to where. Invariant: whatever is put in, what comes out is one identifier or one literal. Start reading at Ident.
package sqltext
