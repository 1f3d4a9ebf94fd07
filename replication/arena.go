package replication

import "github.com/shapeserver/shapeserver/changes"

// The arenas hand out pieces of larger blocks, so that a row costs no allocation of its own. A block is garbage once
// every piece of it is; nothing is ever reused, since rows may be kept by whoever got them.
const (
	byteBlock   = 64 << 10 // bytes
	valueBlock  = 512      // values, 16 KiB
	changeBlock = 64       // changes, 4.5 KiB
)

type byteArena struct{ free []byte }

// copy returns a copy of b that nobody else will write to.
func (a *byteArena) copy(b []byte) []byte {
	if len(b) > byteBlock/4 {
		own := make([]byte, len(b)) // so that a big row pins only itself
		copy(own, b)
		return own
	}
	if len(b) > len(a.free) {
		a.free = make([]byte, byteBlock)
	}
	piece := a.free[:len(b):len(b)]
	a.free = a.free[len(b):]
	copy(piece, b)
	return piece
}

type valueArena struct{ free []changes.Value }

// take returns n zero values; the slice is not nil, also for n = 0.
func (a *valueArena) take(n int) changes.Row {
	if n > valueBlock/4 {
		return make(changes.Row, n)
	}
	if n > len(a.free) || a.free == nil {
		a.free = make([]changes.Value, valueBlock)
	}
	piece := a.free[:n:n]
	a.free = a.free[n:]
	return piece
}
