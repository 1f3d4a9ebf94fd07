package publication

import (
	"context"
	"errors"
	"fmt"
	"maps"

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
	var again, done []job
	for _, j := range jobs {
		if m.opts.Manual || j.member == "" || !keepsStaleEntries(s.conn.PgConn().ParameterStatus("server_version")) {
			done = append(done, j)
			continue
		}
		again = append(again, j)
	}
	rejoined, err := m.rejoinAll(ctx, s, again)
	if err != nil {
		return err
	}
	return m.refreshed(ctx, s, append(done, rejoined...))
}

// rejoinAll has tables rejoin, and returns those that did. It puts the others off.
func (m *Manager) rejoinAll(ctx context.Context, s *session, again []job) (done []job, err error) {
	if len(again) == 0 {
		return nil, nil
	}
	switch err := m.rejoin(ctx, s, again); {
	case err == nil:
		return again, nil
	case kindOf(err) == noServer:
		return nil, fmt.Errorf("refresh %d tables: %w", len(again), err)
	}
	for _, j := range again {
		err := m.rejoin(ctx, s, []job{j})
		switch {
		case err == nil:
			done = append(done, j)
		case kindOf(err) == noServer:
			return nil, fmt.Errorf("refresh %s: %w", j.name, err)
		case isPrivilege(err):
			// Published by somebody else, who is not likely to have done it this moment.
			m.opts.Logger.WarnContext(ctx, "table is not ours to refresh in the publication", "publication", m.name, "table", j.name.String(), "err", err)
			done = append(done, j)
		case isLockTimeout(err):
			m.later(j.tab, err)
		default: // it is not what it was when it was published
			m.mu.Lock()
			m.startLocked(j.tab)
			m.mu.Unlock()
			m.later(j.tab, err)
		}
	}
	return done, nil
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

// refreshed ends the way to ready, and notes the place in the publication that the tables have from here on.
func (m *Manager) refreshed(ctx context.Context, s *session, done []job) error {
	results, err := s.exec(ctx, fmt.Sprintf(`SELECT o::int8, concat(pr.oid, ' ', p.xmin) FROM unnest('%s'::oid[]) o
JOIN pg_catalog.pg_publication p ON p.pubname = %s LEFT JOIN pg_catalog.pg_publication_rel pr ON pr.prpubid = p.oid AND pr.prrelid = o`,
		sqltext.OIDs(oidsOf(done)), sqltext.Literal(m.name)))
	if err != nil {
		return fmt.Errorf("read places in the publication: %w", err)
	}
	places := make(map[uint32]string)
	for _, row := range results[0].Rows {
		oid, err := parseOID(row[0])
		if err != nil {
			return fmt.Errorf("read places in the publication: %w", err)
		}
		places[oid] = string(row[1])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range done {
		if j.tab.phase != refreshing {
			continue
		}
		attached := maps.Clone(j.tab.attached)
		attached[j.tab.oid] = places[j.tab.oid]
		j.tab.attached = attached
		m.readyLocked(j.tab)
	}
	return nil
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
