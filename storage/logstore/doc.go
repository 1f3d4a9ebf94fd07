// Package logstore keeps the logs of all shapes on one disk: it is the storage.Store of the server.
//
// It owns a directory. In it, db/ is one pebble store with the records of every log, the live tail of its entries and
// small snapshots, so that one write-ahead log and one fsync serve all the shapes that a transaction touches; files/
// has a directory per log that needs one, with the chunks of big snapshots and the log chunks that are complete, as
// immutable files that net/http sends with sendfile. format.go draws the keys, the records and the files. It leaves
// what goes into a log to consumer and snapshot, and which logs there should be to status and cleaner.
//
// Goroutines: Store.Run, one, started by server: it seals complete log chunks into files and deletes the bytes of
// removed logs. Without it nothing is lost, only left in the pebble store. And one for each snapshot that has outgrown
// memory and is being written, which syncs its files (syncer). All methods of Store, and of a Log as storage.Log says,
// are safe from any goroutine.
//
// Invariants: I3, the same bytes are served for a chunk before, while and after it is sealed, and after a crash; I4,
// the confirmed position is written behind the entries it covers, in the same write-ahead log; I5, a removal is durable
// before it is reported; I9, no method holds more than a few buffers of 64 KiB, and a log that nobody uses takes some
// hundred bytes.
//
// Lock order: log.writeMu, then log.mu; Store.mu is never held with either. log.writeMu is held over writes to the
// disk, the others never.
//
// Start reading at Open, then log.Append, log.Range and log.Read.
package logstore
