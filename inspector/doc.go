// Package inspector reads the catalogue: it turns the name or the OID of a table into a shape.Table with columns,
// types, collations, primary key and partitions.
//
// It owns the cache of tables. It leaves what a request may ask of a table to api and where, and whether the table is
// published to publication.
//
// Goroutines: none of its own. Every method may be called from any goroutine; look-ups of one table share one query.
//
// Invariants: a table that did not change keeps its *shape.Table, so pointers can be compared; what Forget was told of is
// never served again from a look-up that began before. Every look-up is one round trip, without session state and
// without named prepared statements, so that it works through a transaction-mode pooler, and takes no lock on a
// table. The queries work on Postgres 14 to 18.
//
// Start reading at Inspector.Table.
package inspector
