package publication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
)

// check compares what is with what is wanted (protocol.md §7.3, §11.4).
func (m *Manager) check(ctx context.Context, s *session) error {
	var jobs []job
	m.mu.Lock()
	for _, tab := range m.tables {
		if tab.phase == ready || tab.phase == unverified {
			jobs = append(jobs, job{tab: tab, name: tab.name})
		}
	}
	m.mu.Unlock()
	v, err := s.look(ctx, oidsOf(jobs))
	if err != nil {
		return err
	}
	below := byRoot(v.Relations)
	lost := make(map[*table]shape.Reason)
	var repair []tableName
	m.mu.Lock()
	for _, j := range jobs {
		if j.tab.phase != ready && j.tab.phase != unverified {
			continue
		}
		reason, unset := m.judgeLocked(j, below[j.tab.oid], v)
		if reason != "" {
			lost[j.tab] = reason
			continue
		}
		repair = append(repair, unset...)
		j.tab.seenLocked(below[j.tab.oid])
		if j.tab.phase == unverified {
			m.verifiedLocked(j.tab, v.Synchronous)
		}
	}
	m.mu.Unlock()
	m.lose(ctx, lost)
	if m.opts.Manual {
		return nil
	}
	if _, err := m.settle(ctx, s, v); err != nil {
		var own *Error
		switch {
		case errors.Is(err, errStillLeaving):
			m.hurry = true
			return nil
		case !errors.As(err, &own):
			return err
		}
		m.opts.Logger.ErrorContext(ctx, "publication is not what it has to be", "publication", m.name, "err", own)
	}
	for _, n := range repair {
		if err := s.transact(ctx, setLockTimeout(m.opts.LockTimeout), setFull(n)); err != nil {
			if kindOf(err) == noServer {
				return fmt.Errorf("set replica identity of %s: %w", n, err)
			}
			m.opts.Logger.WarnContext(ctx, "new partition has no full replica identity yet", "table", n.String(), "err", err)
			m.hurry = true
		}
	}
	m.adopt(v)
	return nil
}

// judgeLocked says why a table is lost, or which new partitions still need their replica identity. m.mu must be held.
func (m *Manager) judgeLocked(j job, relations []relation, v *view) (reason shape.Reason, unset []tableName) {
	var root *relation
	for i := range relations {
		if relations[i].OID == j.tab.oid {
			root = &relations[i]
		}
	}
	switch {
	case root == nil:
		return shape.ReasonTableDropped, nil
	case root.name() != j.name:
		return shape.ReasonSchemaChanged, nil
	case v.Publication == nil, !root.Published, root.Filtered, !v.Publication.Complete, v.Publication.ViaRoot && root.Partition:
		return shape.ReasonOrphaned, nil
	case j.tab.rowsMovedLocked(relations):
		return shape.ReasonSchemaChanged, nil
	}
	for i := range relations {
		r := &relations[i]
		if r.Kind != "r" || r.full() {
			continue
		}
		// A partition that was attached since, perhaps before a restart: until it is set, the stream tells the key
		// alone of its old rows, and the consumer notices. One that was in order has been changed by somebody. In
		// manual mode nobody will set it.
		if m.opts.Manual || r.OID == root.OID || j.tab.full[r.OID] {
			return shape.ReasonIdentityLost, nil
		}
		unset = append(unset, r.name())
	}
	return "", unset
}

// adopt takes over the tables that are in the publication and that nobody wants: leftovers of a crash, or of a server
// before this one. They are dropped after the linger time, unless a shape comes for them.
func (m *Manager) adopt(v *view) {
	if v.Publication == nil || v.Publication.AllTables {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, oid := range v.Publication.Members {
		if m.tables[oid] == nil {
			tab := &table{oid: oid, drop: time.Now().Add(m.opts.Linger)}
			m.tables[oid] = tab
			m.active[oid] = tab
		}
	}
}

// createSQL makes a publication without tables. At start that is done by replication; here it is for one that was
// dropped while the server runs.
func createSQL(name string) string {
	return "CREATE PUBLICATION " + sqltext.Ident(name) + " WITH (" + publishAll + ")"
}
