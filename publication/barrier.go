package publication

import (
	"context"
	"fmt"
	"time"

	"github.com/shapeserver/shapeserver/internal/sqltext"
)

// barrierPollMax bounds the time between two looks at pg_locks.
const barrierPollMax = 100 * time.Millisecond

// locksSQL lists who has locks on tables that a writer keeps to its end, and then, in a second result so that it
// is read after the locks, the prepared transactions. Prepared ones have no pid, and no virtual id of their own.
const locksSQL = `
SELECT relation::int8, virtualtransaction, pid IS NULL FROM pg_catalog.pg_locks
WHERE locktype = 'relation' AND granted AND relation = ANY ('%s'::oid[])
  AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database());
SELECT transaction::text FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()`

// writers is whom a barrier waits for. Both sets only shrink, except that a session that prepared its transaction
// leaves the first and is in the second from then on.
type writers struct {
	sessions map[string]struct{} // virtual transaction ids
	prepared map[string]struct{} // transaction ids
}

// holders is who holds locks on one table now.
type holders struct {
	sessions map[string]struct{}
	prepared bool // some prepared transaction does
}

// newWriters begins a barrier: everybody who holds a lock now.
func newWriters(h holders, prepared []string) *writers {
	w := &writers{sessions: make(map[string]struct{}), prepared: make(map[string]struct{})}
	for s := range h.sessions {
		w.sessions[s] = struct{}{}
	}
	w.addPrepared(h, prepared)
	return w
}

// addPrepared adds the prepared transactions when one of them has a lock: which one is not to be seen.
func (w *writers) addPrepared(h holders, prepared []string) {
	if h.prepared {
		for _, x := range prepared {
			w.prepared[x] = struct{}{}
		}
	}
}

// update takes away who has ended. Of a session that is gone, the transaction may live on as a prepared one.
func (w *writers) update(h holders, prepared []string) {
	gone := false
	for s := range w.sessions {
		if _, ok := h.sessions[s]; !ok {
			delete(w.sessions, s)
			gone = true
		}
	}
	now := make(map[string]struct{}, len(prepared))
	for _, x := range prepared {
		now[x] = struct{}{}
	}
	for x := range w.prepared {
		if _, ok := now[x]; !ok || !h.prepared {
			delete(w.prepared, x)
		}
	}
	if gone {
		w.addPrepared(h, prepared)
	}
}

func (w *writers) done() bool { return len(w.sessions) == 0 && len(w.prepared) == 0 }

// awaitWriters looks once for all tables at the barrier, and lets those go on whose writers have ended.
func (m *Manager) awaitWriters(ctx context.Context, s *session) error {
	jobs := m.inPhase(barrier, ready) // ready: not since the server started
	if len(jobs) == 0 {
		return nil
	}
	var relations []uint32
	tableOf := make(map[uint32][]*table) // a partition may belong to two tables that are waited for
	m.mu.Lock()
	for _, j := range jobs {
		for _, oid := range j.tab.relations {
			relations = append(relations, oid)
			tableOf[oid] = append(tableOf[oid], j.tab)
		}
	}
	m.mu.Unlock()
	results, err := s.exec(ctx, fmt.Sprintf(locksSQL, sqltext.OIDs(relations)))
	if err != nil {
		return fmt.Errorf("read locks: %w", err)
	}
	holding := make(map[*table]*holders)
	for _, row := range results[0].Rows {
		oid, err := parseOID(row[0])
		if err != nil {
			return fmt.Errorf("read locks: %w", err)
		}
		for _, tab := range tableOf[oid] {
			h := holding[tab]
			if h == nil {
				h = &holders{sessions: make(map[string]struct{})}
				holding[tab] = h
			}
			if string(row[2]) == "t" {
				h.prepared = true
			} else {
				h.sessions[string(row[1])] = struct{}{}
			}
		}
	}
	var prepared []string
	for _, row := range results[1].Rows {
		prepared = append(prepared, string(row[0]))
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range jobs {
		tab := j.tab
		if tab.phase != barrier && tab.phase != ready {
			continue
		}
		var h holders
		if holding[tab] != nil {
			h = *holding[tab]
		}
		if tab.writers == nil {
			tab.writers = newWriters(h, prepared)
		} else {
			tab.writers.update(h, prepared)
		}
		if tab.writers.done() && tab.phase == ready {
			m.readyLocked(tab)
			continue
		}
		if tab.writers.done() {
			tab.phase, tab.tries, tab.next = refreshing, 0, time.Time{}
			continue
		}
		tab.lastErr = errStillWriting
		tab.next = time.Now().Add(min(barrierPollMax, 2*time.Millisecond<<min(tab.tries, 10)))
		tab.tries++
	}
	return nil
}
