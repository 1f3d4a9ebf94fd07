// Package changes holds the vocabulary of the replication stream: log sequence numbers, transaction ids,
// relations, rows and the pieces of a transaction as they travel from replication through collector to consumer.
//
// It owns no goroutine, does no I/O and imports only the standard library. Decoding is replication's work,
// routing is collector's.
//
// Invariants: changes of one transaction keep the order in which Postgres sent them, and Change.Index counts
// them over every published table, so an offset made from it is the same after every replay (I3).
// Start reading at Fragment.
package changes
