// Package cleaner removes shapes: those whose consumer ended unexpectedly, those that somebody asks it to remove, and
// what a crash left behind.
//
// It owns the order of a removal's steps and their repetition. It is independent of shapecache and of the consumers: it
// learns of a consumer's end through its done channel, since a consumer's own clean-up cannot be trusted to run. What
// each step does is done by the package that keeps the record in question.
//
// Goroutines: Cleaner.Run, one, started by server, and a few of its own while it removes; Cleaner.Watch
// blocks, once for each running consumer, in a goroutine of shapecache. Remove is safe from any goroutine and never blocks.
//
// Invariants: I5, a handle is forgotten before anything else of it; I6, every step may be repeated and a removal that
// was cut short is finished by the next start, because Reconcile finds whatever is left; I7, no request waits for a
// removal. Start reading at Cleaner.Remove.
package cleaner
