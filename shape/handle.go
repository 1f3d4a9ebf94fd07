package shape

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// Handle names one materialised copy of a shape. It is opaque to clients and never used twice (I5).
type Handle string

// lastMicros is the creation time of the newest handle, so that two handles made in one microsecond differ.
var lastMicros atomic.Int64

// NewHandle makes a handle for a definition: "<hash of the identity>-<µs since 1970>". Times are strictly increasing
// in a process, and a restart takes longer than the clock can be set back unnoticed only if the operator sets it back;
// the store, which remembers removed handles, then refuses the handle.
func NewHandle(d *Definition, now time.Time) Handle {
	for {
		last := lastMicros.Load()
		micros := max(now.UnixMicro(), last+1)
		if lastMicros.CompareAndSwap(last, micros) {
			return Handle(fmt.Sprintf("%d-%d", d.Hash()&0x7fffffff, micros))
		}
	}
}

// Valid reports whether h has the form that NewHandle makes. A handle that is not valid cannot exist, so it needs no
// look-up, and it is safe as a part of a key or a file name.
func (h Handle) Valid() bool {
	if len(h) < 3 || len(h) > 40 {
		return false
	}
	dash := -1
	for i := range len(h) {
		switch c := h[i]; {
		case c == '-' && dash < 0 && i > 0:
			dash = i
		case c < '0' || c > '9':
			return false
		}
	}
	if dash < 0 || dash == len(h)-1 {
		return false
	}
	_, err := strconv.ParseInt(string(h[dash+1:]), 10, 64)
	return err == nil
}
