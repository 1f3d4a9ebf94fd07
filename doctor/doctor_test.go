package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/doctor"
	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/migrations"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/storage/logstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is a database and a storage directory with one healthy shape, on table good.
type patient struct {
	t     *testing.T
	db    *pgtest.DB
	conn  *pgx.Conn
	store *logstore.Store
	opts  doctor.Options
}

const healthy = shape.Handle("1-1700000000000001")

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{t: t, db: pgtest.New(t)}
	require.NoError(t, migrations.Up(t.Context(), p.db.URL, nil))
	id := p.db.Name[strings.LastIndexByte(p.db.Name, '_')+1:]
	p.db.Exec(t, "CREATE TABLE good (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY); CREATE PUBLICATION pub FOR TABLE good;"+
		"INSERT INTO shapeserver.streams VALUES ('default', 1, 'me', now(), '7', 1), ('another', 1, 'me', now(), '7', 1)")
	p.db.Exec(t, "SELECT pg_create_logical_replication_slot('doctor_"+id+"', 'pgoutput')")
	var err error
	p.conn, err = pgx.Connect(t.Context(), p.db.URL)
	require.NoError(t, err)
	p.store, err = logstore.Open(t.TempDir(), logstore.Options{})
	require.NoError(t, err)
	require.NoError(t, p.store.SetConfirmed(1<<62)) // past the slot
	t.Cleanup(func() {
		require.NoError(t, p.store.Close())
		require.NoError(t, p.conn.Close(context.WithoutCancel(t.Context())))
	})
	p.opts = doctor.Options{StreamID: "default", Publication: "pub", Slot: "doctor_" + id, Store: p.store}
	p.row(healthy, "good", "default")
	p.log(healthy, true)
	return p
}

func (p *patient) row(h shape.Handle, table, stream string) {
	p.t.Helper()
	p.db.Exec(p.t, fmt.Sprintf(`INSERT INTO shapeserver.shapes (handle, stream_id, identity, identity_hash, table_oid, table_schema, table_name, columns,
		columns_explicit, replica, log_mode, state, owner, epoch, created_at, last_used_at)
		VALUES ('%[1]s', '%[3]s', 'identity of %[1]s', 1, coalesce(to_regclass('%[2]s')::oid, 99999999), 'public', '%[2]s', '{id}', false, 'default', 'full', 'active', 'me', 1, now(), now())`,
		h, table, stream))
}

func (p *patient) log(h shape.Handle, complete bool) {
	p.t.Helper()
	log, err := p.store.Create(h)
	require.NoError(p.t, err)
	w, err := log.NewSnapshot(changes.Snapshot{Xmin: 1, Xmax: 1}, 1)
	require.NoError(p.t, err)
	require.NoError(p.t, w.Write([]byte(`{"value":{"id":"1"}}`)))
	if complete {
		require.NoError(p.t, w.Finish([]byte(`{"headers":{"control":"snapshot-end"}}`)))
	} else {
		w.Abort()
	}
}

func (p *patient) examine() *doctor.Report {
	p.t.Helper()
	r, err := doctor.Examine(p.t.Context(), p.conn, p.opts)
	require.NoError(p.t, err)
	return r
}

// Each kind of damage is named, repaired, and gone then; the healthy shape is not touched, nor another stream's.
func TestDamage(t *testing.T) {
	const h = shape.Handle("2-1700000000000002")
	for _, tc := range []struct {
		name   string
		damage func(*patient)
		want   string
		left   bool // to the next start
	}{
		{"nothing", func(*patient) {}, "", false},
		{"row without log", func(p *patient) { p.row(h, "good", "default") }, "a status row without a log", false},
		{"log without row", func(p *patient) { p.log(h, true) }, "a log without a status row", false},
		{"log that is not complete", func(p *patient) { p.row(h, "good", "default"); p.log(h, false) }, "its log cannot be served", false},
		{"table gone", func(p *patient) { p.row(h, "nowhere", "default"); p.log(h, true) }, "its table public.nowhere is gone or renamed", false},
		{"table renamed", func(p *patient) {
			p.row(h, "other", "default")
			p.log(h, true)
			p.db.Exec(p.t, "ALTER PUBLICATION pub ADD TABLE other; ALTER TABLE other RENAME TO another")
		}, "its table public.other is gone or renamed", false},
		{"table not published", func(p *patient) { p.row(h, "other", "default"); p.log(h, true) }, "its table public.other is not in the publication", false},
		{"published without a shape", func(p *patient) { p.db.Exec(p.t, "ALTER PUBLICATION pub ADD TABLE other") }, "table public.other is published and has no shape", false},
		{"another stream's row", func(p *patient) { p.row(h, "other", "another") }, "", false},
		{"no slot", func(p *patient) { p.db.Exec(p.t, "SELECT pg_drop_replication_slot('"+p.opts.Slot+"')") }, "there is no replication slot", true},
		{"no publication", func(p *patient) { p.db.Exec(p.t, "DROP PUBLICATION pub") }, "is not in the publication", false},
		{"storage set back", func(p *patient) { require.NoError(p.t, p.store.SetConfirmed(1)) }, "past what the storage directory has", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPatient(t)
			tc.damage(p)
			r := p.examine()
			var out strings.Builder
			require.NoError(t, r.Print(&out))
			if tc.want == "" {
				require.Empty(t, r.Problems, out.String())
			} else {
				require.Contains(t, out.String(), tc.want)
			}
			require.Contains(t, out.String(), string(healthy))
			require.NoError(t, r.Fix(t.Context(), p.conn))
			after := p.examine()
			if tc.left {
				require.Len(t, after.Problems, r.Left())
				require.NotZero(t, r.Left())
				return
			}
			require.Empty(t, after.Problems)
			if tc.name == "no publication" {
				return // every shape may have missed something
			}
			var rows int
			require.NoError(t, p.conn.QueryRow(t.Context(), "SELECT count(*) FROM shapeserver.shapes WHERE handle = $1", healthy).Scan(&rows))
			assert.Equal(t, 1, rows)
			assert.Equal(t, []shape.Handle{healthy}, p.store.Handles())
		})
	}
}

// While a server holds the stream's lock, or the storage directory, nothing is repaired.
func TestNothingIsRepairedUnderAServer(t *testing.T) {
	p := newPatient(t)
	p.log("2-1700000000000002", true)
	server, err := pgx.Connect(t.Context(), p.db.URL)
	require.NoError(t, err)
	_, err = server.Exec(t.Context(), "SELECT pg_advisory_lock(hashtext($1))", p.opts.Slot)
	require.NoError(t, err)
	r := p.examine()
	require.True(t, r.Served)
	require.ErrorIs(t, r.Fix(t.Context(), p.conn), doctor.ErrServed)
	require.Len(t, p.store.Handles(), 2)
	require.NoError(t, server.Close(t.Context()))
	require.Eventually(t, func() bool { // Postgres takes a moment to end the session
		err := r.Fix(t.Context(), p.conn)
		if !errors.Is(err, doctor.ErrServed) {
			require.NoError(t, err)
		}
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	require.Len(t, p.store.Handles(), 1)

	p.opts.Store = nil
	r = p.examine()
	require.Empty(t, r.Problems, "what cannot be looked at is not held against a shape")
	require.NoError(t, r.Print(os.Stderr))
	require.ErrorIs(t, r.Fix(t.Context(), p.conn), doctor.ErrServed)
}

func TestDatabaseWithoutSchema(t *testing.T) {
	db := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = doctor.Examine(t.Context(), conn, doctor.Options{StreamID: "default", Publication: "pub", Slot: "slot"})
	require.ErrorContains(t, err, "shapeserver migrate up")
}
