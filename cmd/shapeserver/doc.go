// Command shapeserver serves shapes of a Postgres database over HTTP.
//
// It owns the command line: the words, the signals, the exit codes, and what is printed to a person. It leaves the
// settings to config, the server to server, and dev's private Postgres to devserver.
//
// Goroutines: those of dev (server, demo writer, banner), which devCommand waits for.
//
// Invariants: a failure is one message on standard error that says what to do, and exit code 1; a stop by SIGINT or
// SIGTERM is exit code 0; a second signal kills at once. Start reading at run.
package main
