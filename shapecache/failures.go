package shapecache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shapeserver/shapeserver/publication"
	"github.com/shapeserver/shapeserver/snapshot"
)

const (
	// failuresMax bounds how many definitions are remembered; beyond it, those whose time is over make room, and if there
	// are none, the newest is not remembered.
	failuresMax = 10_000
	// failureCost is how many times as long as a creation took before it failed, the next one waits: a snapshot that fills
	// the disk after minutes must not be read again at once.
	failureCost = 5
	// goneFree is how often a table may change under a definition before that counts as a failure that will come again.
	goneFree = 3
	// whereFailedFor is the least time after a clause failed for a row. Rows read before the failing one may have been sent
	// by then, so its client may see a cut answer: it asks again, and must be told why.
	whereFailedFor = 5 * time.Second
)

// FailedError says that a definition's last creation failed, and that it is not tried again yet.
type FailedError struct {
	// Err is what went wrong then. When it was that the table had changed, it is not in the chain of this error: told to
	// fetch anew, the client would be back at once.
	Err error
	// RetryAt is when the next request tries again.
	RetryAt time.Time
}

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("the shape could not be made, and is not tried again before %s: %v", e.RetryAt.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns the cause.
func (e *FailedError) Unwrap() error {
	if isGone(e.Err) {
		return nil
	}
	return e.Err
}

func isGone(err error) bool {
	return errors.Is(err, snapshot.ErrSchemaChanged) || errors.Is(err, publication.ErrTableGone) || errors.Is(err, ErrGone)
}

// failures remembers definitions that could not be made, so that what fails again and again costs the database a bounded
// number of queries, whatever clients do. Each failure in a row doubles the time to the next try.
type failures struct {
	first, most time.Duration // of the pauses

	mu         sync.Mutex
	byIdentity map[string]*failed
}

type failed struct {
	err   error
	times int
	until time.Time // nobody tries before
}

// note records that a creation, which took so long, has failed.
func (f *failures) note(identity string, err error, took time.Duration, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.byIdentity[identity]
	if known != nil && now.Sub(known.until) > 10*f.most {
		known = nil // an old story
	}
	if known == nil {
		if len(f.byIdentity) >= failuresMax && !f.makeRoomLocked(now) {
			return
		}
		known = &failed{}
		f.byIdentity[identity] = known
	}
	known.err = err
	known.times++
	times := known.times
	if isGone(err) {
		if times -= goneFree; times <= 0 {
			known.until = now
			return
		}
	}
	pause := min(f.first<<min(times-1, 20), f.most)
	pause = pause/2 + rand.N(pause/2+1) //nolint:gosec // jitter need not be secret
	if errors.Is(err, snapshot.ErrWhere) {
		pause = max(pause, whereFailedFor)
	}
	known.until = now.Add(min(max(pause, failureCost*took), max(pause, f.most)))
}

func (f *failures) makeRoomLocked(now time.Time) bool {
	for identity, known := range f.byIdentity {
		if now.After(known.until) {
			delete(f.byIdentity, identity)
		}
	}
	return len(f.byIdentity) < failuresMax
}

// refuse returns a *FailedError while a definition is not to be tried.
func (f *failures) refuse(identity string, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.byIdentity[identity]
	if known == nil || !now.Before(known.until) {
		return nil
	}
	return &FailedError{Err: known.err, RetryAt: known.until}
}

// forget is called when a definition could be made.
func (f *failures) forget(identity string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byIdentity, identity)
}
