package replication

import (
	"math/rand/v2"
	"time"
)

// quickRetry bounds the wait before the first attempt after a connection that was good for something: most losses are a
// restart or a failover that is over by then.
const quickRetry = 200 * time.Millisecond

// backoff returns how long to wait after so many failures without progress between: under quickRetry after none, then
// lowest, doubled each time up to highest, and of that a random part between half and all, so that many servers do not
// come back to a restarted Postgres together.
func backoff(failures int, lowest, highest time.Duration) time.Duration {
	wait := min(quickRetry, lowest)
	if failures > 0 {
		wait = highest
		if shift := failures - 1; shift < 30 && lowest<<shift < highest {
			wait = lowest << shift
		}
	}
	return wait/2 + rand.N(wait/2+1) //nolint:gosec // jitter needs no secrecy
}
