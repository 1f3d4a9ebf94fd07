// Package failpoint names the places in the life of a shape where tests make the server fail: every step of creation,
// delivery, suspension, resumption, removal and start.
//
// It owns the list of the points and, in binaries built with the tag failpoint, what happens at them. Without the tag, which
// is how every binary that serves is built, Err and Hit are empty and cost nothing. What must hold after a failure is for
// integration_test to say.
//
// Goroutines: none; Err and Hit may be called from any. Invariants: a point stands in the code at one place, or where one
// step is done at several; All has every point. Start reading at Err.
package failpoint
