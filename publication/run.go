package publication

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
)

const (
	// connectTimeout bounds the wait for a connection in one pass.
	connectTimeout = 5 * time.Second
	// maxBackoff bounds the time between tries, of a table and of a database that is away.
	maxBackoff = time.Second
	// dropLockTimeout is how long adding to or dropping from the publication may wait for its lock. That lock conflicts with
	// DDL and VACUUM only, so nobody of the application queues behind it.
	dropLockTimeout = 100 * time.Millisecond
)

// backoff returns how long to wait after the n-th failure in a row, counted from 1: 25–75 ms, then growing to about 1 s.
func backoff(n int) time.Duration {
	d := min(maxBackoff, 50*time.Millisecond<<min(n-1, 10))
	return d/2 + rand.N(d) //nolint:gosec // jitter
}

// Run does the Manager's work until ctx ends, and returns context.Cause(ctx). A database that is away is waited for.
func (m *Manager) Run(ctx context.Context) error {
	defer m.stop()
	nextCheck := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		checked, err := m.pass(ctx, nextCheck)
		now := time.Now()
		if checked {
			nextCheck = now.Add(m.opts.CheckInterval)
			if m.hurry {
				nextCheck = now.Add(min(maxBackoff, m.opts.CheckInterval))
				m.hurry = false
			}
		}
		var wake <-chan struct{}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			failures++
			m.failPass(err)
			m.opts.Logger.WarnContext(ctx, "publication cannot be kept", "publication", m.name, "err", err)
			timer.Reset(backoff(failures)) // and no waking: whoever comes meanwhile waits for the same database
		default:
			if failures > 0 {
				m.mu.Lock()
				m.away = nil
				m.mu.Unlock()
			}
			failures = 0
			wake = m.wake
			timer.Reset(m.due(nextCheck).Sub(now))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		case <-wake:
		}
	}
}

// stop ends everybody's waiting.
func (m *Manager) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = ErrStopped
	for _, tab := range m.active {
		m.answerLocked(tab, ErrStopped)
	}
	for _, c := range m.checks {
		c <- ErrStopped
	}
	m.checks = nil
}

// failPass notes why nothing moves, for those whose time ends meanwhile.
func (m *Manager) failPass(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = err
	for _, tab := range m.active {
		if tab.phase == dropping {
			m.notDroppedLocked(tab)
		}
	}
	for _, c := range m.checks {
		c <- err
	}
	m.checks = nil
}

// due returns when there is something to do next.
func (m *Manager) due(nextCheck time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := nextCheck
	for _, tab := range m.active {
		if t, ok := tab.dueLocked(); ok && t.Before(next) {
			next = t
		}
	}
	return next
}

// dueLocked returns when Run has to do with the table next.
func (t *table) dueLocked() (time.Time, bool) {
	switch {
	case len(t.waiters) > 0 && (t.phase == adding || t.phase == barrier || t.phase == refreshing || t.phase == ready):
		return t.next, true
	case t.refs == 0 && len(t.waiters) == 0 && t.phase != dropping:
		return t.drop, true
	}
	return time.Time{}, false
}

// pass does what is due. An error is about the connection or the publication, not about one table.
func (m *Manager) pass(ctx context.Context, nextCheck time.Time) (checked bool, err error) {
	now := time.Now()
	m.mu.Lock()
	checks := m.checks
	check := len(checks) > 0 || !now.Before(nextCheck)
	work := check
	for _, tab := range m.active {
		if t, ok := tab.dueLocked(); ok && !t.After(now) {
			work = true
			break
		}
	}
	m.mu.Unlock()
	if !work {
		return false, nil
	}
	acquire, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := m.pool.Acquire(acquire)
	if err != nil {
		return false, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	s := &session{conn: conn.Conn(), pub: m.name}
	if check {
		if err := m.recall(ctx); err != nil {
			return false, err
		}
		if err := m.check(ctx, s); err != nil {
			return false, err
		}
		m.mu.Lock()
		for _, c := range checks {
			c <- nil
		}
		m.checks = m.checks[len(checks):]
		m.mu.Unlock()
	}
	for _, step := range []func(context.Context, *session) error{m.publish, m.remember, m.awaitWriters, m.refresh, m.remember, m.unpublish} {
		if err := step(ctx, s); err != nil {
			return check, err
		}
	}
	return check, nil
}

// inPhase returns the tables of a phase, or of two, that somebody waits for and that are due, with their names.
func (m *Manager) inPhase(phases ...phase) []job {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	var jobs []job
	for _, tab := range m.active {
		if slices.Contains(phases, tab.phase) && len(tab.waiters) > 0 && !tab.next.After(now) {
			jobs = append(jobs, job{tab: tab, name: tab.name, tries: tab.tries, alone: tab.alone, member: tab.member})
		}
	}
	return jobs
}

// job is a table as Run found it, so that it need not hold the lock while it asks Postgres.
type job struct {
	tab   *table
	name  tableName
	tries int
	alone bool
	// member is how the publication names the table, when it does; empty when something else publishes it.
	member string
}

func oidsOf(jobs []job) []uint32 {
	oids := make([]uint32, len(jobs))
	for i, j := range jobs {
		oids[i] = j.tab.oid
	}
	return oids
}

// later puts a table off after a failed try.
func (m *Manager) later(tab *table, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tab.tries++
	tab.lastErr = err
	tab.next = time.Now().Add(backoff(tab.tries))
}

// fail ends a table's way to ready.
func (m *Manager) fail(tab *table, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failLocked(tab, err)
}

// unpublish drops the tables that have had no shapes for a while.
func (m *Manager) unpublish(ctx context.Context, s *session) error {
	now := time.Now()
	var jobs []job
	m.mu.Lock()
	for _, tab := range m.active {
		if t, ok := tab.dueLocked(); ok && tab.refs == 0 && len(tab.waiters) == 0 && !t.After(now) {
			if m.opts.Manual {
				m.forgetLocked(tab)
				continue
			}
			tab.phase = dropping
			jobs = append(jobs, job{tab: tab, name: tab.name})
		}
	}
	m.mu.Unlock()
	if len(jobs) == 0 {
		return nil
	}
	v, err := s.look(ctx, oidsOf(jobs))
	if err != nil {
		return err
	}
	members := make(map[uint32]string)
	for _, r := range v.Relations {
		if r.OID == r.Root && r.Member {
			members[r.OID] = "ONLY " + r.name().quoted()
		}
	}
	var names []string
	for _, name := range members {
		names = append(names, name)
	}
	if len(names) == 0 {
		for _, j := range jobs {
			m.dropped(j.tab)
		}
		return nil
	}
	drop := func(names ...string) error {
		if err := failpoint.Err(failpoint.UnpublishBegun); err != nil {
			return err
		}
		if err := s.transact(ctx, setLockTimeout(dropLockTimeout), "ALTER PUBLICATION "+sqltext.Ident(m.name)+" DROP TABLE "+join(names)); err != nil {
			return err
		}
		return failpoint.Err(failpoint.UnpublishDone)
	}
	if err := drop(names...); err == nil {
		m.opts.Logger.InfoContext(ctx, "tables unpublished", "publication", m.name, "tables", len(names))
		for _, j := range jobs {
			m.dropped(j.tab)
		}
		return nil
	} else if kindOf(err) == noServer {
		return fmt.Errorf("unpublish: %w", err)
	}
	for _, j := range jobs { // one of them cannot be dropped now: the others can
		name, ok := members[j.tab.oid]
		if !ok {
			m.dropped(j.tab)
			continue
		}
		switch err := drop(name); {
		case err == nil:
			m.dropped(j.tab)
		case kindOf(err) == noServer:
			return fmt.Errorf("unpublish: %w", err)
		case isPrivilege(err):
			m.opts.Logger.WarnContext(ctx, "table stays published: not ours to drop", "publication", m.name, "table", j.name.String(), "err", err)
			m.dropped(j.tab)
		default:
			m.opts.Logger.DebugContext(ctx, "table stays published for now", "table", j.name.String(), "err", err)
			m.mu.Lock()
			m.notDroppedLocked(j.tab)
			m.mu.Unlock()
		}
	}
	return nil
}

// dropped forgets a table that is not published any more, or begins anew for who came meanwhile.
func (m *Manager) dropped(tab *table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if tab.refs > 0 || len(tab.waiters) > 0 {
		m.startLocked(tab)
		return
	}
	m.forgetLocked(tab)
}

// notDroppedLocked puts a removal off. m.mu must be held.
func (m *Manager) notDroppedLocked(tab *table) {
	if tab.refs > 0 || len(tab.waiters) > 0 {
		m.startLocked(tab)
		return
	}
	tab.phase = idle
	tab.drop = time.Now().Add(m.opts.Linger)
}

// forgetLocked removes a table without shapes. m.mu must be held.
func (m *Manager) forgetLocked(tab *table) {
	delete(m.tables, tab.oid)
	delete(m.active, tab.oid)
}

// lose takes readiness from tables and tells OnLost. Such a table does not begin anew before the shapes of before are released,
// which comes after their status rows: were the server ended in between, the next one would find the table in order, and
// the shapes with it.
func (m *Manager) lose(ctx context.Context, lost map[*table]shape.Reason) {
	var told []*table
	m.mu.Lock()
	for tab := range lost {
		switch tab.phase {
		case ready, unverified:
		case barrier, refreshing:
			m.startLocked(tab) // nobody relies on it yet
			continue
		case idle, leaving, adding, dropping:
			continue
		}
		tab.left = make(map[shape.Handle]struct{})
		told = append(told, tab)
		m.active[tab.oid] = tab
		tab.phase, tab.unawaited = idle, false
	}
	for h, oids := range m.handles {
		for _, oid := range oids {
			if tab := m.tables[oid]; slices.Contains(told, tab) {
				tab.left[h] = struct{}{}
			}
		}
	}
	for _, tab := range told {
		if len(tab.waiters) > 0 {
			m.startLocked(tab)
		}
	}
	m.mu.Unlock()
	for _, tab := range told {
		m.opts.Logger.WarnContext(ctx, "table was lost from the publication", "publication", m.name, "oid", tab.oid, "reason", string(lost[tab]))
		m.opts.OnLost(tab.oid, lost[tab])
	}
}

var errStillLeaving = errors.New("shapes of before are still being removed")

var errStillWriting = errors.New("transactions that wrote to the table are still open")
