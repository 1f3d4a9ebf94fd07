// Package shapelog holds the words of a shape's log: offsets, entries, and the exact JSON of log items and control
// messages (protocol.md §5 and §6).
//
// It owns no goroutine and does no I/O. It leaves keeping entries to storage and making them to consumer and
// snapshot, which both encode through the same Encoder, so that keys and values are the same bytes in the snapshot
// and in the log.
//
// Invariants: offsets are totally ordered and Parse(o.String()) == o (I3).
// Start reading at Offset, then Encoder.
package shapelog
