// Package where parses, checks, evaluates and renders the where clauses of shapes (protocol.md §8).
//
// Start reading at Parse.
package where
