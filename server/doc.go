// Package server assembles the packages into the running server.
//
// It owns the wiring, the order of starting and stopping, and what belongs to no single package: the HTTP listener, the
// database pools, and the decision whether the logs on disk continue in the stream. Everything else is the packages'.
//
// Goroutines: every service of the server is started here (runStages) and waited for; shapecache starts those of the
// shapes. A session is one life of all shapes on one history of the stream; a lost history ends it and begins another.
//
// Invariants: I4 and I5 across restarts: shapes are taken up only if the slot continues where the store ended; nothing is
// told to stop while something above it can still hand it work. Start reading at Open, then session.run.
package server
