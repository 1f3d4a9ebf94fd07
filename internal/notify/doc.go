// Package notify has Var, a value that many goroutines may wait on. Look and wait come from one critical section, so
// no change can fall between them.
//
// It owns no goroutine. Start reading at Var.
package notify
