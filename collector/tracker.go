package collector

import (
	"sync"
	"sync/atomic"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/notify"
)

// progress is how far the stream has been applied.
type progress struct {
	lastSeen changes.LSN // commit position of the last transaction that every affected shape shows its readers
	applied  changes.LSN // everything below has been applied; may be confirmed once synced
}

// tracker follows transactions from delivery to receipt. Transactions are applied by many consumers in any order, but
// progress moves over them in commit order only.
type tracker struct {
	progress notify.Var[progress]
	seen     atomic.Uint64 // progress.lastSeen, for readers that do not wait

	mu    sync.Mutex
	queue []*pending // in commit order; those before head are gone
	head  int
}

// pending is one transaction on its way. It implements changes.Receipt: one delivery of it takes one count.
type pending struct {
	t       *tracker
	open    atomic.Int64 // deliveries without receipt, plus one until the collector has sent them all
	commit  changes.LSN  // zero for a mark without a transaction
	end     changes.LSN  // set before the collector lets go
	applied bool         // under tracker.mu
}

// begin opens the next transaction; the caller holds one count of it.
func (t *tracker) begin(commit changes.LSN) *pending {
	p := &pending{t: t, commit: commit}
	p.open.Store(1)
	t.mu.Lock()
	t.queue = append(t.queue, p)
	t.mu.Unlock()
	return p
}

// add counts one more delivery.
func (p *pending) add() { p.open.Add(1) }

// Applied implements changes.Receipt.
func (p *pending) Applied() {
	if p.open.Add(-1) == 0 {
		p.t.finish(p)
	}
}

// mark records a position up to which there are no transactions, behind those that are on their way.
func (t *tracker) mark(end changes.LSN) {
	p := &pending{t: t, end: end}
	t.mu.Lock()
	t.queue = append(t.queue, p)
	t.mu.Unlock()
	t.finish(p)
}

// finish moves progress over every transaction at the head of the queue that is applied.
func (t *tracker) finish(p *pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.applied = true
	var moved progress
	for t.head < len(t.queue) && t.queue[t.head].applied {
		q := t.queue[t.head]
		t.queue[t.head] = nil
		t.head++
		moved.lastSeen = max(moved.lastSeen, q.commit)
		moved.applied = max(moved.applied, q.end)
	}
	switch {
	case t.head == len(t.queue):
		t.queue, t.head = t.queue[:0], 0
	case t.head > 1024 && t.head > len(t.queue)/2:
		n := copy(t.queue, t.queue[t.head:])
		clear(t.queue[n:])
		t.queue, t.head = t.queue[:n], 0
	}
	if moved == (progress{}) {
		return
	}
	t.progress.Update(func(now progress) (progress, bool) {
		next := progress{lastSeen: max(now.lastSeen, moved.lastSeen), applied: max(now.applied, moved.applied)}
		t.seen.Store(uint64(next.lastSeen))
		return next, next != now
	})
}

// start sets the position that the stream resumes from.
func (t *tracker) start(confirmed changes.LSN) {
	t.progress.Update(func(now progress) (progress, bool) {
		next := progress{lastSeen: max(now.lastSeen, confirmed), applied: max(now.applied, confirmed)}
		t.seen.Store(uint64(next.lastSeen))
		return next, next != now
	})
}

// waiting returns how many transactions are on their way.
func (t *tracker) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) - t.head
}
