package publication

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/internal/sqltext"
)

// refresh makes the tables ready whose writers have ended, and before that, where it is needed, has the server's decoding look
// at them again.
//
// Servers without Postgres commit 4909b38af0 keep, from decoding a transaction that wrote before the table was
// published, that the table is in no publication, and leave out every later change. Nothing but a change of pg_publication_rel
// makes them forget it; ALTER PUBLICATION … SET does not. So the tables leave the publication and join it again, in one
// transaction, which the stream does not see.
func (m *Manager) refresh(ctx context.Context, s *session) error {
	jobs := m.inPhase(refreshing)
	if len(jobs) == 0 {
		return nil
	}
	var again []job
	for _, j := range jobs {
		if m.opts.Manual || j.member == "" || !keepsStaleEntries(s.conn.PgConn().ParameterStatus("server_version")) {
			m.refreshed(j.tab)
			continue
		}
		again = append(again, j)
	}
	if len(again) == 0 {
		return nil
	}
	switch err := m.rejoin(ctx, s, again); {
	case err == nil:
		for _, j := range again {
			m.refreshed(j.tab)
		}
		return nil
	case kindOf(err) == noServer:
		return fmt.Errorf("refresh %d tables: %w", len(again), err)
	}
	for _, j := range again {
		err := m.rejoin(ctx, s, []job{j})
		switch {
		case err == nil:
			m.refreshed(j.tab)
		case kindOf(err) == noServer:
			return fmt.Errorf("refresh %s: %w", j.name, err)
		case isPrivilege(err):
			// Published by somebody else, who is not likely to have done it this moment.
			m.opts.Logger.WarnContext(ctx, "table is not ours to refresh in the publication", "publication", m.name, "table", j.name.String(), "err", err)
			m.refreshed(j.tab)
		case isLockTimeout(err):
			m.later(j.tab, err)
		default: // it is not what it was when it was published
			m.mu.Lock()
			m.startLocked(j.tab)
			m.mu.Unlock()
			m.later(j.tab, err)
		}
	}
	return nil
}

// rejoin takes tables out of the publication and puts them in again, in one transaction.
func (m *Manager) rejoin(ctx context.Context, s *session, jobs []job) error {
	var names []string
	limit := dropLockTimeout
	for _, j := range jobs {
		names = append(names, j.member)
		if len(jobs) == 1 && j.tries >= 2 {
			busy, err := s.autovacuumed(ctx, j.tab.oid)
			if err != nil {
				return err
			}
			if busy {
				limit = vacuumLockTimeout
			}
		}
	}
	alter := "ALTER PUBLICATION " + sqltext.Ident(m.name)
	return s.transact(ctx, setLockTimeout(limit), alter+" DROP TABLE "+join(names), alter+" ADD TABLE "+join(names))
}

// refreshed ends the way to ready.
func (m *Manager) refreshed(tab *table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if tab.phase == refreshing {
		m.readyLocked(tab)
	}
}

// keepsStaleEntries reports whether a server, by its server_version, is without commit 4909b38af0 (May 2025: 14.18,
// 15.13, 16.9, 17.5, and everything since 18).
func keepsStaleEntries(version string) bool {
	major, minor := parseVersion(version)
	fixed := map[int]int{13: 21, 14: 18, 15: 13, 16: 9, 17: 5}
	since, ok := fixed[major]
	return major < 18 && (!ok || minor < since)
}

func isLockTimeout(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "55P03"
}
