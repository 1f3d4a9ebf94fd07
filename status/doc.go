// Package status keeps the catalogue of shapes in Postgres: one row for each shape in shapeserver.shapes, one for each
// replication stream in shapeserver.streams.
//
// It owns the rows and the fencing epoch: whoever takes a stream over counts it up, and every write is conditional on it,
// so a process that lost the stream without noticing cannot write any more. It leaves the tables' making to migrations, and
// what a shape is to shape. Memory serves requests; this is the record that survives.
//
// Writes use the database's own synchronous_commit. A row has to be durable before its shape is served, or a crash of
// Postgres would leave clients with a handle that nobody knows; and since a group shares one commit, sixteen callers at once
// still create some 12 000 rows a second.
//
// Goroutines: Store.Run, one, started by server; it writes what everybody else hands in, many rows in one round trip. The
// other methods are safe from any goroutine.
//
// Invariants: I5, a handle is a primary key and cannot come twice while its row is there; a row names its owner and epoch,
// so that what an owner left unfinished is recognised by the next (I6). Start reading at Take, then Store.Run.
package status
