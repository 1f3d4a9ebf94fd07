// Package shapecache is the front door to the shapes: it maps a definition to its handle and its log, makes a shape once
// for any number of first requests, and tracks the goroutines of the consumers.
//
// It owns the registry of live shapes and every goroutine of theirs: the creation of a shape, its consumer, its snapshot,
// and the watch of its done channel on cleaner's behalf. It leaves removal to cleaner, routing to collector, rows to
// snapshot and consumer, and answers to api.
//
// Goroutines: Cache.Run waits for all it started; for a new shape one that creates it and writes its snapshot, and one
// consumer; for a resumed shape one consumer; beside every consumer one watch. A suspended shape has none.
//
// Invariants: a definition has at most one findable shape at a time; a forgotten handle is never found again (I5); no
// request waits for a shape other than its own (I7). Lock order: a collector route's lock may be held when Cache.mu is
// taken, so Cache.mu is never held across a call into collector or cleaner. Start reading at Cache.GetOrCreate.
package shapecache
