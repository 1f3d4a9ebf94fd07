package publication

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shapeserver/shapeserver/shape"
)

// Options tunes a Manager. The zero Options is ready to use.
type Options struct {
	// Manual leaves publication and replica identities to the operator: the Manager only looks, and says what is
	// missing.
	Manual bool
	// ManualSetting is the name of the setting behind Manual, for error messages. Empty means
	// SHAPESERVER_MANUAL_TABLE_PUBLISHING.
	ManualSetting string
	// Timeout is how long Acquire waits for locks and writers. Zero means 20 s.
	Timeout time.Duration
	// LockTimeout is how long a REPLICA IDENTITY change may wait for its lock, and thus how long it may make the
	// application's queries wait. Zero means 30 ms.
	LockTimeout time.Duration
	// Linger is how long a table without shapes stays published. Zero means 10 s.
	Linger time.Duration
	// CheckInterval is how often the publication is compared with what is wanted. Zero means 60 s.
	CheckInterval time.Duration
	// OnLost is called when a table that was ready is found dropped, renamed, unpublished, without its replica identity, or
	// with other partitions than it had: shapes on it may have missed changes and must be removed. It runs on the goroutine of
	// Run or ComparePartitions and must not block; it may call Release. Nil ignores it.
	OnLost func(oid uint32, reason shape.Reason)
	// Memory keeps the partitions of tables over restarts. Nil means that changes of them meanwhile go unnoticed.
	Memory Memory
	// Logger takes what is worth knowing; nil discards it.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.ManualSetting = cmp.Or(o.ManualSetting, "SHAPESERVER_MANUAL_TABLE_PUBLISHING")
	o.Timeout = cmp.Or(o.Timeout, 20*time.Second)
	o.LockTimeout = cmp.Or(o.LockTimeout, 30*time.Millisecond)
	o.Linger = cmp.Or(o.Linger, 10*time.Second)
	o.CheckInterval = cmp.Or(o.CheckInterval, time.Minute)
	if o.OnLost == nil {
		o.OnLost = func(uint32, shape.Reason) {}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Manager counts the shapes of each table and keeps the publication in step.
type Manager struct {
	pool *pgxpool.Pool
	name string
	opts Options
	wake chan struct{} // capacity 1: something changed, Run looks again

	hurry    bool // Run's own: the next check comes soon, something is left to do
	recalled bool // Run's own: the tables that were restored know which partitions they had

	mu      sync.Mutex
	tables  map[uint32]*table
	active  map[uint32]*table // those of tables that Run has to do with: all but the ready ones with shapes
	handles map[shape.Handle][]uint32
	checks  []chan error // who waits for a Check
	stopped error
	away    error // why the last pass failed as a whole; nil when it did not
}

// phase is how far a table is; see the drawing in doc.go.
type phase int

const (
	idle       phase = iota // nothing known: not wanted, or found in the publication without a shape
	unverified              // restored from before a restart, to be ready if the first check finds it in order
	leaving                 // lost, and somebody waits: first all shapes of before have to be durably gone, see lose
	adding
	barrier
	refreshing
	ready
	dropping
)

// table is one table's state, guarded by Manager.mu.
type table struct {
	oid         uint32
	partitioned bool      // as last seen
	name        tableName // as the newest shape.Table has it
	refs        int
	phase       phase
	waiters     []chan error              // each with room for one
	drop        time.Time                 // when to drop it; meaningful while refs is 0
	left        map[shape.Handle]struct{} // the shapes that it was lost with and that are not released
	unawaited   bool                      // ready, but no barrier was passed since the server started: see Settled
	lastErr     error                     // why the last try failed

	// What Run needs on the way to ready.
	tries     int
	next      time.Time         // when to try again
	alone     bool              // was in a batch that failed
	member    string            // see job
	relations []uint32          // itself and its partitions, as last seen
	full      map[uint32]bool   // which of them had REPLICA IDENTITY FULL then
	attached  map[uint32]string // since which transaction each was in the tree then; nil before the first look
	saved     map[uint32]string // what Memory has of attached
	writers   *writers          // whom the barrier waits for; nil before the first look
}

// New makes the Manager of the named publication. It talks to Postgres over the pool's connections, one at a time.
// The pool stays the caller's.
func New(pool *pgxpool.Pool, name string, opts Options) *Manager {
	return &Manager{
		pool:    pool,
		name:    name,
		opts:    opts.withDefaults(),
		wake:    make(chan struct{}, 1),
		tables:  make(map[uint32]*table),
		active:  make(map[uint32]*table),
		handles: make(map[shape.Handle][]uint32),
	}
}

// Acquire counts the shape h on t and returns once a snapshot of t may be taken: t is published, its replica identity,
// or that of its partitions, is FULL, and nobody is left who wrote to it before. For a table that is ready this
// needs no database. It returns a *Error, ErrStopped, or context.Cause(ctx); then the shape is not counted.
// Acquiring the same table again for the same shape counts once.
func (m *Manager) Acquire(ctx context.Context, h shape.Handle, t *shape.Table) error {
	m.mu.Lock()
	if m.stopped != nil {
		m.mu.Unlock()
		return m.stopped
	}
	err := m.await(ctx, m.refLocked(h, t))
	if err != nil {
		m.Release(h)
	}
	return err
}

// Settled waits until everything that was committed to a table when the server started can be seen by a new snapshot. A
// commit that waits for a synchronous standby may have gone through the stream before, and no later process hears of it; its
// locks on the table are held as long. It returns at once for a table that is not ready, or has been waited for.
func (m *Manager) Settled(ctx context.Context, oid uint32) error {
	m.mu.Lock()
	tab := m.tables[oid]
	if tab == nil || m.stopped != nil || tab.phase != unverified && (tab.phase != ready || !tab.unawaited) {
		m.mu.Unlock()
		return nil
	}
	return m.await(ctx, tab)
}

// await waits until a table is ready. m.mu must be held, and is let go.
func (m *Manager) await(ctx context.Context, tab *table) error {
	if tab.phase == ready && !tab.unawaited {
		m.mu.Unlock()
		return nil
	}
	if tab.phase == idle {
		m.startLocked(tab)
	}
	m.active[tab.oid] = tab
	result := make(chan error, 1)
	tab.waiters = append(tab.waiters, result)
	m.mu.Unlock()
	m.poke()

	limit := time.NewTimer(m.opts.Timeout)
	defer limit.Stop()
	select {
	case err := <-result:
		return err
	case <-limit.C:
		return m.giveUp(tab, result, func() error { return m.timeoutLocked(tab) })
	case <-ctx.Done():
		return m.giveUp(tab, result, func() error { return context.Cause(ctx) })
	}
}

// giveUp stops waiting. A result that came at the last moment counts.
func (m *Manager) giveUp(tab *table, result chan error, why func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case err := <-result:
		return err
	default:
	}
	tab.waiters = slices.DeleteFunc(tab.waiters, func(c chan error) bool { return c == result })
	return why()
}

// timeoutLocked says what a table could not get in time.
func (m *Manager) timeoutLocked(tab *table) error {
	if m.away != nil {
		return errUnavailable(m.away)
	}
	return errTimeout(tab.lastErr)
}

// Release takes back every count of the shape. It never blocks, and does nothing for a shape that is not counted. A
// table without shapes leaves the publication some time later.
func (m *Manager) Release(h shape.Handle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, oid := range m.handles[h] {
		tab := m.tables[oid]
		tab.refs--
		if _, lost := tab.left[h]; lost {
			if delete(tab.left, h); len(tab.left) == 0 && tab.phase == leaving {
				m.startLocked(tab)
				m.poke()
			}
		}
		if tab.refs == 0 {
			tab.drop = time.Now().Add(m.opts.Linger)
			m.active[oid] = tab
			m.poke()
		}
	}
	delete(m.handles, h)
}

// Restore counts a shape that was there before a restart, whose table was published all the time. Whether it still is
// is the first thing that Run checks; if not, OnLost is called. Call it before Run.
func (m *Manager) Restore(h shape.Handle, t *shape.Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tab := m.refLocked(h, t)
	if tab.phase == idle {
		tab.phase = unverified
	}
}

// Check compares the publication with what is wanted, now instead of at the next interval, and returns when that is
// done, OnLost calls included. It needs a running Run.
func (m *Manager) Check(ctx context.Context) error {
	done := make(chan error, 1)
	m.mu.Lock()
	if m.stopped != nil {
		m.mu.Unlock()
		return m.stopped
	}
	m.checks = append(m.checks, done)
	m.mu.Unlock()
	m.poke()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// CheckSoon asks for a Check and does not wait for it. Any number of calls before it begins make one.
func (m *Manager) CheckSoon() {
	m.mu.Lock()
	if m.stopped == nil && len(m.checks) == 0 {
		m.checks = append(m.checks, make(chan error, 1))
	}
	m.mu.Unlock()
	m.poke()
}

// refLocked counts h on t. m.mu must be held.
func (m *Manager) refLocked(h shape.Handle, t *shape.Table) *table {
	tab, ok := m.tables[t.OID]
	if !ok {
		tab = &table{oid: t.OID}
		m.tables[t.OID] = tab
		m.active[t.OID] = tab
	}
	if name := (tableName{t.Schema, t.Name}); tab.name != name {
		tab.name = name
	}
	if !slices.Contains(m.handles[h], t.OID) {
		m.handles[h] = append(m.handles[h], t.OID)
		tab.refs++
		if tab.phase == ready && len(tab.waiters) == 0 {
			delete(m.active, t.OID)
		}
	}
	return tab
}

// startLocked begins the way to ready from its beginning. m.mu must be held.
func (m *Manager) startLocked(tab *table) {
	tab.phase = adding
	tab.tries, tab.next, tab.alone, tab.writers, tab.lastErr = 0, time.Time{}, false, nil, nil
	m.active[tab.oid] = tab
	if len(tab.left) > 0 {
		tab.phase, tab.lastErr = leaving, errStillLeaving
	}
}

// verifiedLocked makes a table ready that is as it was before the server started. With synchronous replication, the first
// new shape still has a barrier to pass. m.mu must be held.
func (m *Manager) verifiedLocked(tab *table, synchronous bool) {
	if !synchronous {
		m.readyLocked(tab)
		return
	}
	tab.phase, tab.unawaited, tab.writers, tab.tries, tab.next = ready, true, nil, 0, time.Time{}
	if len(tab.waiters) == 0 && tab.refs > 0 {
		delete(m.active, tab.oid)
	}
}

// readyLocked ends the way to ready. m.mu must be held.
func (m *Manager) readyLocked(tab *table) {
	tab.phase, tab.unawaited = ready, false
	tab.writers, tab.lastErr = nil, nil
	m.answerLocked(tab, nil)
	if tab.refs > 0 {
		delete(m.active, tab.oid)
	}
}

// failLocked ends the way to ready with an error that waiting cannot help. m.mu must be held.
func (m *Manager) failLocked(tab *table, err error) {
	tab.phase = idle
	tab.lastErr = err
	m.answerLocked(tab, err)
}

func (m *Manager) answerLocked(tab *table, err error) {
	for _, c := range tab.waiters {
		c <- err
	}
	tab.waiters = nil
}

// poke makes Run look. It never blocks.
func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
