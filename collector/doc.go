// Package collector routes committed transactions to the shapes they affect.
//
// It owns the routing index, the sender's half of each consumer's mailbox (delivery, suspension with an acknowledged
// close, resumption), and the tracker that turns the shapes' receipts into the position that may be confirmed to
// Postgres. It leaves decoding to replication, and converting and writing to consumer.
//
// Goroutines: Collector.Run and Collector.RunFlush, one each, started by server. Register, Unregister, Missed, Closed
// and Refused are safe from any goroutine.
//
// Invariants: I2, transactions are delivered in commit order, whole; I4, the confirmed position never passes a
// transaction that an affected shape has not applied, or that is not synced; I8, between a close request and its
// acknowledgement deliveries are buffered here, and after it nothing but the routing entry is kept.
// Start reading at Collector.Run.
package collector
