// Package devserver brings a private Postgres for shapeserver dev, so that nothing needs to be installed or set up.
//
// It owns a data folder: the cluster in it, a database with a demo table, and the processes that serve it. It finds
// Postgres's programs on the machine, or has them fetched. It leaves the shape server, and what is printed to the
// user, to cmd/shapeserver.
//
// Goroutines: none of its own. Start returns once Postgres serves; RunWriter blocks; Stop returns once Postgres has
// ended. Postgres itself runs in a session of its own, so that a Ctrl-C at the terminal does not stop it before the
// server has finished with it.
//
// Invariants: one Dev at a time uses a folder (a lock of the system's, which dies with the process); a folder left by
// a process that was killed at any moment is usable at the next Start; only a process that runs on this data folder
// is ever signalled. Linux and macOS only. Start reading at Start.
package devserver
