package shapecache

import (
	"errors"
	"sync"
	"time"

	"github.com/shapeserver/shapeserver/snapshot"
)

const (
	// refusedFor is how long a definition is refused after its clause failed for a row. Rows read before the failing one
	// may have been sent by then, so its first client may see a cut answer: it asks again, and must be told why.
	refusedFor = 5 * time.Second
	// maxRefused bounds the memory; beyond it nothing more is remembered, which costs a snapshot for each request.
	maxRefused = 1000
)

// refusals remembers the definitions whose where clause failed for a row of their table, by identity.
type refusals struct {
	mu    sync.Mutex
	known map[string]refusal
}

type refusal struct {
	err   error
	until time.Time
}

// note remembers err, the end of a snapshot, if it is that the clause fails.
func (r *refusals) note(identity string, err error) {
	if !errors.Is(err, snapshot.ErrWhere) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for id, known := range r.known {
		if now.After(known.until) {
			delete(r.known, id)
		}
	}
	if len(r.known) >= maxRefused {
		return
	}
	if r.known == nil {
		r.known = map[string]refusal{}
	}
	r.known[identity] = refusal{err, now.Add(refusedFor)}
}

// of returns why a definition is refused, nil when it is not.
func (r *refusals) of(identity string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[identity]; ok && time.Now().Before(known.until) {
		return known.err
	}
	return nil
}
