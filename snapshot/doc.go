// Package snapshot reads the rows that a shape begins with, and subsets of a shape's rows that clients ask for later: one
// repeatable-read transaction that gives the snapshot's coordinates and then the rows, as log items, without ever holding
// more than one row.
//
// It owns the limit of snapshot reads that run at once, and their time limits. It leaves writing the items to the
// Sink, and dropping from the stream what the snapshot saw to consumer. Publishing the table, and waiting for those who
// wrote to it before, is publication's work and must be over before Read.
//
// Goroutines: none of its own; Read blocks and may be called from any goroutine.
//
// Invariants: the table is locked (ACCESS SHARE, which only DDL conflicts with) before the snapshot is taken, so it
// cannot be rewritten between the two; the Sink is registered before the snapshot is taken, so no change falls between snapshot and stream (I1);
// memory does not grow with the table (I9). Everything is set with SET LOCAL, nothing is left on the connection, so that
// Read works through a transaction-mode pooler.
//
// Start reading at Reader.Read; Reader.ReadSubset is the same with a question.
package snapshot
