// Package api is the HTTP front: it speaks the public /v1/shape protocol (protocol.md §1 to §6, §10) over the shapes that a
// Backend keeps.
//
// It owns the wire: routes, the secret, admission control, parameters and their errors, cache rules, long-polls and
// event streams. It leaves finding and making shapes to the Backend (shapecache and what server puts beside it), checking
// definitions to shape and where, and the bytes of a response to storage, which keeps them as they go out.
//
// It starts no goroutine: a request is served, and waits, on the goroutine that net/http gave it, and everything it
// holds (permit, body, timer) is released when the handler returns.
//
// Invariants: I1 and I2, an up-to-date is only said after a look at the log that came after the look at the position it
// claims (look in log.go). I3, a response is cut off rather than ended when a part of it cannot be read. I5, the identity
// of the requested definition is proven before a byte of a shape is served. I9, no response is held in memory beyond
// smallBody or subsetBuffer, but for compressed chunks, and those share a bounded cache (bodies).
//
// Start reading at New, then server.shape in shape.go.
package api
