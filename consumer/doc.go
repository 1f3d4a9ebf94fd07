// Package consumer turns the changes of one shape's table into entries of the shape's log.
//
// A Consumer owns its mailbox, the conversion of rows (which changes the shape sees, as what: protocol.md §5.2 and
// §8.6) and the filter at the seam of snapshot and stream. It leaves routing to collector, reading the first rows to
// snapshot, keeping entries to storage, and its own removal to cleaner.
//
// Goroutines: Run, and for a new shape RunSnapshot beside it; both are started by shapecache, which closes the done
// channel when both have returned. Deliveries come from collector's goroutine.
//
// Invariants: I1 and I2 for one shape; a transaction is left out of the log exactly when the snapshot saw it; a
// delivery is acknowledged only when its effect is visible to readers, or the shape is gone (I4); after a close is
// acknowledged the consumer touches nothing (I8). Start reading at Consumer.Run.
package consumer
