// Package replication reads committed transactions from Postgres's logical replication stream.
//
// It owns the replication connection and what hangs on it: the session advisory lock, the publication's existence, the
// replication slot, the pgoutput decoder, standby status and reconnecting. It leaves the publication's tables to
// publication, and order, routing and the question of what is durable to collector, which answers by Stream.Confirm.
//
// Goroutines: Stream.Run, one, started by server; it alone touches the connection. Confirm, Status and Stats may be
// called from any goroutine.
//
// Invariants: I4, what is reported to Postgres as flushed never passes what Confirm was given, nor what this connection
// has received; keepalives do not move it by themselves. I9, a transaction travels in Fragments of bounded size, and a
// slow reader of the events stops the reading, while standby status goes on. After any loss of the connection the
// stream begins again at the slot's confirmed position, so events are delivered at least once, in commit order, and the
// position of a change, (Txn.CommitLSN, Change.Index), is the same each time (I3).
//
// Start reading at Stream.Run, then link.run for the stream and decoder.decode for the bytes.
package replication
