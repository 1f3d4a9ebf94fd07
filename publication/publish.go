package publication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
)

const (
	// batchTables bounds a batch: the locks of its REPLICA IDENTITY changes are held until its end.
	batchTables = 50
	// publishBudget bounds the time one pass spends on tables that have to be done one by one, so that barriers and
	// new tables get their turn in between.
	publishBudget = 250 * time.Millisecond
	// vacuumLockTimeout is longer than the default deadlock_timeout, after which an autovacuum that is in the way
	// is cancelled.
	vacuumLockTimeout = 1200 * time.Millisecond
)

// change is what has to be done for one table.
type change struct {
	job
	add       string      // "" or what stands after ADD TABLE
	readd     bool        // drop it first: it is published with a filter
	identity  []tableName // which relations need REPLICA IDENTITY FULL
	published bool
	relations []relation
}

// publish brings the tables that are wanted into the publication, with the replica identity they need.
func (m *Manager) publish(ctx context.Context, s *session) error {
	jobs := m.inPhase(adding)
	if len(jobs) == 0 {
		return nil
	}
	v, err := s.look(ctx, oidsOf(jobs))
	if err != nil {
		return err
	}
	if changed, err := m.settle(ctx, s, v); err != nil {
		var own *Error
		switch {
		case errors.Is(err, errStillLeaving):
			for _, j := range jobs {
				m.later(j.tab, err)
			}
			return nil
		case errors.As(err, &own):
			for _, j := range jobs {
				m.fail(j.tab, own)
			}
			return nil
		}
		return err
	} else if changed {
		if v, err = s.look(ctx, oidsOf(jobs)); err != nil {
			return err
		}
	}
	todo := m.plan(jobs, v)
	batch := slices.DeleteFunc(slices.Clone(todo), func(c *change) bool { return c.alone || len(c.identity) > 1 })
	single := slices.DeleteFunc(todo, func(c *change) bool { return !c.alone && len(c.identity) <= 1 })
	for part := range slices.Chunk(batch, batchTables) {
		err := failpoint.Err(failpoint.PublishBegun)
		if err == nil {
			err = s.transact(ctx, m.statements(part, m.opts.LockTimeout, dropLockTimeout)...)
		}
		if err == nil {
			err = failpoint.Err(failpoint.PublishDone)
		}
		switch {
		case err == nil:
			for _, c := range part {
				m.published(ctx, c)
			}
		case kindOf(err) == noServer:
			return fmt.Errorf("publish %d tables: %w", len(part), err)
		case len(part) == 1:
			m.notPublished(part[0], err)
		default:
			single = append(single, part...)
		}
	}
	// Those that failed least often first, so that hopeless ones delay nobody.
	slices.SortFunc(single, func(a, b *change) int { return cmp.Compare(a.tries, b.tries) })
	began := time.Now()
	for _, c := range single {
		m.mu.Lock()
		c.tab.alone = true
		m.mu.Unlock()
		if time.Since(began) > publishBudget {
			continue // stays due: the next pass comes at once
		}
		if err := m.publishOne(ctx, s, c); err != nil {
			return err
		}
	}
	return nil
}

// publishOne does one table by itself.
func (m *Manager) publishOne(ctx context.Context, s *session, c *change) error {
	// Partitions one transaction each: a lock that is not to be had keeps no other from being released.
	for len(c.identity) > 1 {
		err := s.transact(ctx, setLockTimeout(m.opts.LockTimeout), setFull(c.identity[0]))
		if err != nil {
			return m.failedStep(c, err)
		}
		c.identity = c.identity[1:]
	}
	ddlTimeout := dropLockTimeout
	if c.tries >= 2 {
		busy, err := s.autovacuumed(ctx, c.tab.oid)
		if err != nil {
			return err
		}
		if busy {
			ddlTimeout = vacuumLockTimeout
		}
	}
	if err := s.transact(ctx, m.statements([]*change{c}, m.opts.LockTimeout, ddlTimeout)...); err != nil {
		return m.failedStep(c, err)
	}
	m.published(ctx, c)
	return nil
}

func (m *Manager) failedStep(c *change, err error) error {
	if kindOf(err) == noServer {
		return fmt.Errorf("publish %s: %w", c.name, err)
	}
	m.notPublished(c, err)
	return nil
}

// statements renders changes as one transaction. Joining the publication comes first: its lock waits for no writer, and once it
// is held no autovacuum is in the way of the other.
func (m *Manager) statements(changes []*change, identity, ddl time.Duration) []string {
	var add, readd, sql []string
	for _, c := range changes {
		if c.readd {
			readd = append(readd, c.add)
		}
		if c.add != "" {
			add = append(add, c.add)
		}
	}
	sql = append(sql, setLockTimeout(ddl))
	if len(readd) > 0 {
		sql = append(sql, "ALTER PUBLICATION "+sqltext.Ident(m.name)+" DROP TABLE "+join(readd))
	}
	if len(add) > 0 {
		sql = append(sql, "ALTER PUBLICATION "+sqltext.Ident(m.name)+" ADD TABLE "+join(add))
	}
	sql = append(sql, setLockTimeout(identity))
	for _, c := range changes {
		for _, n := range c.identity {
			sql = append(sql, setFull(n))
		}
	}
	return sql
}

func setFull(n tableName) string { return "ALTER TABLE ONLY " + n.quoted() + " REPLICA IDENTITY FULL" }

func join(names []string) string { return strings.Join(names, ", ") }

// plan compares what is wanted with what is, fails the tables for which nothing can be done, and sends those for which
// nothing has to be done on their way.
func (m *Manager) plan(jobs []job, v *view) []*change {
	below := byRoot(v.Relations)
	var todo []*change
	for _, j := range jobs {
		relations := below[j.tab.oid]
		i := slices.IndexFunc(relations, func(r relation) bool { return r.OID == r.Root })
		if i < 0 || relations[i].name() != j.name {
			m.fail(j.tab, errTableGone(j.name))
			continue
		}
		root := relations[i]
		c := &change{job: j, relations: relations, published: root.Published}
		c.member = ""
		if root.Member {
			c.member = "ONLY " + root.name().quoted()
		}
		for _, r := range relations {
			// Inner partitioned tables hold no rows; the table itself is set for those who look at it.
			if !r.full() && (r.Kind == "r" || r.OID == root.OID) {
				c.identity = append(c.identity, r.name())
			}
		}
		if m.opts.Manual {
			if err := m.verify(&root, relations, v); err != nil {
				m.fail(j.tab, err)
				continue
			}
			m.atBarrier(c)
			continue
		}
		// A partition that only its root publishes gets an entry of its own: the root's shapes may go first.
		if !root.Published || root.Filtered || root.Partition && !root.Member && !v.Publication.AllTables {
			c.member = "ONLY " + root.name().quoted()
			c.add, c.readd = c.member, root.Filtered
		}
		if c.add == "" && len(c.identity) == 0 {
			m.atBarrier(c)
			continue
		}
		todo = append(todo, c)
	}
	return todo
}

// verify says what is missing in manual mode. Only relations with rows need the identity.
func (m *Manager) verify(root *relation, relations []relation, v *view) error {
	switch {
	case v.Publication == nil:
		return m.errNoPublication(nil)
	case !root.Published:
		return m.errMissing(root.name())
	case root.Filtered:
		return errFiltered(root.name(), m.name)
	case !v.Publication.Complete:
		return m.errOperations()
	case v.Publication.ViaRoot && root.Partition:
		return m.errViaRoot()
	}
	for _, r := range relations {
		if r.Kind == "r" && !r.full() {
			return errIdentity(root.name(), r.name())
		}
	}
	return nil
}

// settle makes the publication itself what it has to be, in automatic mode. When it was not, shapes on any table
// have missed changes. It returns a *Error when only the operator can help, and whether it changed anything.
func (m *Manager) settle(ctx context.Context, s *session, v *view) (changed bool, err error) {
	if m.opts.Manual || v.Publication != nil && v.Publication.Complete && !v.Publication.ViaRoot {
		return false, nil
	}
	if v.Publication == nil || !v.Publication.Complete {
		if m.loseAll(ctx); m.anyLeft() {
			return false, errStillLeaving // a crash after the repair would bring them back, and nothing be wrong with them
		}
	}
	if v.Publication == nil {
		_, err = s.exec(ctx, createSQL(m.name))
	} else {
		err = s.transact(ctx, setLockTimeout(dropLockTimeout), "ALTER PUBLICATION "+sqltext.Ident(m.name)+" SET ("+publishAll+")")
	}
	switch {
	case err == nil:
		m.opts.Logger.InfoContext(ctx, "publication was made what it has to be", "publication", m.name, "created", v.Publication == nil)
		return true, nil
	case isPrivilege(err) && v.Publication == nil:
		return false, m.errNoPublication(err)
	case isPrivilege(err) && !v.Publication.Complete:
		return false, m.errOperations()
	case isPrivilege(err):
		return false, m.errViaRoot()
	}
	return false, fmt.Errorf("settle publication: %w", err)
}

// anyLeft reports whether shapes that were lost are not gone yet.
func (m *Manager) anyLeft() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, tab := range m.tables {
		if len(tab.left) > 0 {
			return true
		}
	}
	return false
}

// loseAll takes readiness from every table.
func (m *Manager) loseAll(ctx context.Context) {
	lost := make(map[*table]shape.Reason)
	m.mu.Lock()
	for _, tab := range m.tables {
		lost[tab] = shape.ReasonOrphaned
	}
	m.mu.Unlock()
	m.lose(ctx, lost)
}

// published sends a table on to the barrier.
func (m *Manager) published(ctx context.Context, c *change) {
	m.opts.Logger.InfoContext(ctx, "table published", "publication", m.name, "table", c.name.String(), "identities", len(c.identity))
	m.atBarrier(c)
}

func (m *Manager) atBarrier(c *change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.tab.seenLocked(c.relations)
	for _, r := range c.relations {
		c.tab.full[r.OID] = true // by now
	}
	c.tab.member = c.member
	c.tab.phase, c.tab.writers, c.tab.tries, c.tab.next = barrier, nil, 0, time.Time{}
}

// seenLocked keeps what was seen of a table. m.mu must be held.
func (t *table) seenLocked(relations []relation) {
	t.relations = t.relations[:0]
	t.full = make(map[uint32]bool, len(relations))
	t.attached = make(map[uint32]string, len(relations))
	for _, r := range relations {
		if r.OID == r.Root {
			t.partitioned = r.Kind == "p"
		}
		t.relations = append(t.relations, r.OID)
		t.full[r.OID] = r.full()
		t.attached[r.OID] = r.Attached
	}
}

// rowsMovedLocked reports whether rows came or went with a partition since the last look: one that was attached with what
// it held, or one that is not there any more. The stream tells neither. Nor does it tell what was written while the table was
// out of the publication: then it has another place in it now. m.mu must be held.
func (t *table) rowsMovedLocked(relations []relation) bool {
	if t.attached == nil {
		return false
	}
	still := 0
	for _, r := range relations {
		switch since, known := t.attached[r.OID]; {
		case r.OID == r.Root && (since == "" || r.Attached == ""):
			still++ // not known yet, or not published by its own name
		case known && since == r.Attached:
			still++
		case known || !r.Born:
			return true
		}
	}
	return still < len(t.attached)
}

// notPublished puts a table off, or fails it.
func (m *Manager) notPublished(c *change, err error) {
	if kindOf(err) == tryAgain {
		m.later(c.tab, err)
		return
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42501" {
		m.fail(c.tab, m.errPrivilege(c.name, c.published, pgErr))
		return
	}
	message := err.Error()
	if pgErr != nil {
		message = pgErr.Message
		if pgErr.Detail != "" {
			message += ": " + pgErr.Detail
		}
	}
	m.fail(c.tab, &Error{Code: CodeRefused, Message: "Unable to create initial snapshot: " + message, Err: err})
}

func isPrivilege(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "42501"
}

func parseOID(b []byte) (uint32, error) {
	n, err := strconv.ParseUint(string(b), 10, 32)
	return uint32(n), err
}

// autovacuumed reports whether an autovacuum holds a lock on a table. Roles that may not see others' sessions never
// see one.
func (s *session) autovacuumed(ctx context.Context, oid uint32) (bool, error) {
	results, err := s.exec(ctx, fmt.Sprintf(`SELECT 1 FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = %d AND l.granted AND a.backend_type = 'autovacuum worker' AND l.database = (
  SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`, oid))
	if err != nil {
		return false, fmt.Errorf("read autovacuum: %w", err)
	}
	return len(results[0].Rows) > 0, nil
}
