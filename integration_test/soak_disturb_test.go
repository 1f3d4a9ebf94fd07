package integration

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// soakDisturbances are the harms that a run does: each so many times in a deck, which is dealt in random order.
var soakDisturbances = []struct {
	name   string
	weight int
	do     func(*soak, *testing.T)
}{
	{"kill", 3, func(s *soak, t *testing.T) { s.srv.kill(t); s.srv.start(t) }},
	{"restart", 1, func(s *soak, t *testing.T) { s.srv.restart(t) }},
	{"freeze", 1, (*soak).freeze},
	{"end walsender", 2, func(s *soak, t *testing.T) {
		s.sql(t, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL AND database = current_database()")
	}},
	{"end connections", 2, func(s *soak, t *testing.T) {
		s.sql(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'shapeserver%'")
	}},
	{"end any connection", 1, func(s *soak, t *testing.T) {
		s.sql(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5")
	}},
	{"delete shape", 4, (*soak).deleteShape},
	{"truncate", 2, func(s *soak, t *testing.T) {
		table := s.table()
		s.sql(t, "TRUNCATE "+table.name+"; "+table.fill)
	}},
	{"drop table", 1, func(s *soak, t *testing.T) {
		table := s.table()
		s.sql(t, "DROP TABLE "+table.name+" CASCADE; "+table.create+"; "+table.fill)
	}},
	{"ddl", 6, (*soak).ddl},
	{"publication", 1, func(s *soak, t *testing.T) {
		s.sql(t, `DO $$ DECLARE p name; BEGIN FOR p IN SELECT pubname FROM pg_publication LOOP EXECUTE format('ALTER PUBLICATION %I DROP TABLE `+s.table().name+`', p); END LOOP; END $$`)
	}},
	{"lose slot", 1, (*soak).loseSlot},
	{"clients", 4, (*soak).exchangeClients},
}

// disturb does harm until the round is over, or a client has seen something that must not be.
func (s *soak) disturb(t *testing.T, broken <-chan struct{}) {
	t.Helper()
	for end := time.After(soakRound); ; {
		select {
		case <-end:
			return
		case <-broken:
			return
		case <-time.After(time.Duration(s.rng.IntN(2000)) * time.Millisecond):
		}
		if len(s.deck) == 0 {
			for i, d := range soakDisturbances {
				for range d.weight {
					s.deck = append(s.deck, i)
				}
			}
			s.rng.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
		}
		d := soakDisturbances[s.deck[0]]
		s.deck = s.deck[1:]
		s.events.add("%s", d.name)
		d.do(s, t)
		s.events.count(d.name)
	}
}

func (s *soak) table() *soakTable { return soakTables[s.rng.IntN(len(soakTables))] }

// sql runs statements as one transaction. What the writers or an earlier disturbance make impossible is left undone.
func (s *soak) sql(t *testing.T, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.PgConn().Exec(ctx, "SET lock_timeout = '5s'").ReadAll()
	require.NoError(t, err)
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr, sql)
	}
	s.events.add("  %s: %v", sql, err)
}

// ddl runs one of a table's schema changes. Those of several transactions are carried through, so that the table is
// back in the end.
func (s *soak) ddl(t *testing.T) {
	table := s.table()
	sql := fill(s.rng, table.ddl[s.rng.IntN(len(table.ddl))], 10)
	steps, each := strings.CutPrefix(sql, "--each ")
	if !each {
		s.sql(t, sql)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	all := strings.Split(steps, "; ")
	for i, step := range all {
		_, err := conn.PgConn().Exec(ctx, step).ReadAll()
		s.events.add("  %s: %v", step, err)
		if i == 0 && err != nil {
			return
		}
		for err != nil && i == len(all)-1 && ctx.Err() == nil { // a deadlock with a writer
			_, err = conn.PgConn().Exec(ctx, step).ReadAll()
		}
		if i == len(all)-1 {
			require.NoError(t, err, step)
		}
		s.pause(time.Duration(s.rng.IntN(400)) * time.Millisecond)
	}
}

func (s *soak) pause(d time.Duration) { <-time.After(d) }

// freeze stops the server's process and lets it go on.
func (s *soak) freeze(t *testing.T) {
	require.NoError(t, s.srv.cmd.Process.Signal(syscall.SIGSTOP))
	s.pause(time.Duration(200+s.rng.IntN(1500)) * time.Millisecond)
	require.NoError(t, s.srv.cmd.Process.Signal(syscall.SIGCONT))
}

// deleteShape has the shape of a random client removed, consumer and all.
func (s *soak) deleteShape(t *testing.T) {
	c := s.clients[s.rng.IntN(len(s.clients))]
	s.events.add("  %v", c.shape.params())
	s.delete(t, shape(c.shape.params()...))
}

// delete asks for the removal of a shape.
func (s *soak) delete(t *testing.T, q url.Values) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.srv.url+"/v1/shape?"+q.Encode(), http.NoBody)
	require.NoError(t, err)
	res, err := s.http.Do(req)
	if err != nil {
		return
	}
	res.Body.Close()
}

// loseSlot drops the replication slot while the server is away.
func (s *soak) loseSlot(t *testing.T) {
	s.srv.kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	for { // the walsender may need a moment to notice
		_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "55006" {
			break
		}
		s.pause(20 * time.Millisecond)
	}
	require.NoError(t, err)
	s.srv.start(t)
}

// exchangeClients makes a few clients leave at the end of the round. Their successors come now, are cut off in the middle
// of something, and go on from there in the next round.
func (s *soak) exchangeClients(t *testing.T) {
	for range 1 + s.rng.IntN(5) {
		i := s.rng.IntN(len(s.clients))
		late := s.clientOf(s.clients[i].shape)
		s.release(late)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+s.rng.IntN(1000))*time.Millisecond)
		_ = late.CatchUp(ctx) // an error is the cut
		cancel()
		s.late[i] = late
	}
}
