package api

import (
	"net/http"

	"golang.org/x/sync/semaphore"
)

// postRoomBytes is how many bytes of POST bodies there may be at once, read and still to be read (I9).
const postRoomBytes = 64 << 20

// postRoom bounds the bodies of all POSTs together. A request takes its room by what it declares, before any of it is
// read, and has it until it is answered, since its parameters live as long.
type postRoom struct{ bytes *semaphore.Weighted }

func newPostRoom() postRoom { return postRoom{semaphore.NewWeighted(postRoomBytes)} }

// take takes room for a request's body. It does not wait: bodies are short, and whoever is turned away comes again.
func (p postRoom) take(r *http.Request) (release func(), f *failure) {
	size := r.ContentLength
	if size < 0 || size > maxBody { // not declared, or more than will be read
		size = maxBody
	}
	if !p.bytes.TryAcquire(size) {
		return nil, &errPostRoom
	}
	return func() { p.bytes.Release(size) }, nil
}
