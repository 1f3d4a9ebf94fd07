package snapshot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/where"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink records what a Reader does.
type sink struct {
	register func() error
	begin    func(n int) error
	row      func() error
	calls    []string
	snap     changes.Snapshot
	lsn      changes.LSN
	rows     []string
	begins   int
}

func (s *sink) Register() error {
	s.calls = append(s.calls, "register")
	if s.register != nil {
		return s.register()
	}
	return nil
}

func (s *sink) Begin(snap changes.Snapshot, lsn changes.LSN) error {
	s.calls = append(s.calls, "begin")
	s.snap, s.lsn = snap, lsn
	s.begins++
	if s.begin != nil {
		return s.begin(s.begins)
	}
	return nil
}

func (s *sink) Row(item []byte) error {
	s.rows = append(s.rows, string(item))
	if s.row != nil {
		return s.row()
	}
	return nil
}

// values returns the rows' values by column.
func (s *sink) values(t *testing.T) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, r := range s.rows {
		var item struct{ Value map[string]any }
		require.NoError(t, json.Unmarshal([]byte(r), &item), r)
		all = append(all, item.Value)
	}
	return all
}

func define(t testing.TB, pool *pgxpool.Pool, table string, columns ...string) *shape.Definition {
	t.Helper()
	tab, err := inspector.New(pool, inspector.Options{}).Table(t.Context(), "public", table, 0)
	require.NoError(t, err)
	d := &shape.Definition{Table: tab, Replica: shape.ReplicaDefault, Log: shape.LogFull, Explicit: len(columns) > 0}
	for i, c := range tab.Columns {
		if len(columns) == 0 || slices.Contains(columns, c.Name) {
			d.Columns = append(d.Columns, i)
		}
	}
	return d
}

func encoder(d *shape.Definition) *shapelog.Encoder {
	return shapelog.NewEncoder(d.Table.Schema, d.Table.Name, d.ColumnNames(), d.KeyPositions())
}

func TestReadGivesCoordinatesThenRows(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE items (id int PRIMARY KEY, gone int, v text, n int);
ALTER TABLE items DROP COLUMN gone;
INSERT INTO items VALUES (1, 'a', NULL), (2, '', 5)`)
	pool := db.Pool(t)
	// A transaction that is open when the snapshot is taken is in xip, and its row is not seen.
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	var xid uint64
	require.NoError(t, tx.QueryRow(t.Context(), "INSERT INTO items VALUES (3, 'open', 1) RETURNING pg_current_xact_id()::text::int8").Scan(&xid))
	var before, after string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&before))

	d := define(t, pool, "items")
	var s sink
	require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s))
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&after))

	assert.Equal(t, []string{"register", "begin"}, s.calls)
	assert.False(t, s.snap.Visible(changes.Xid(xid)))
	low, err := changes.ParseLSN(before)
	require.NoError(t, err)
	high, err := changes.ParseLSN(after)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, s.lsn, low)
	assert.LessOrEqual(t, s.lsn, high)
	assert.Equal(t, []string{
		`{"key":"\"public\".\"items\"/\"1\"","value":{"id":"1","v":"a","n":null},"headers":{"operation":"insert","relation":["public","items"]}}`,
		`{"key":"\"public\".\"items\"/\"2\"","value":{"id":"2","v":"","n":"5"},"headers":{"operation":"insert","relation":["public","items"]}}`,
	}, s.rows)
}

// The clause and the columns are the definition's, and the clause's operators are Postgres's own whatever the role has
// in its search_path.
func TestClauseAndColumns(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE SCHEMA "Odd"; CREATE TYPE "Odd".mood AS ENUM ('sad', 'it''s ok');
CREATE TABLE items (id int PRIMARY KEY, "V 1" text, m "Odd".mood, n numeric);
INSERT INTO items VALUES (1, 'a', 'sad', 1), (2, 'b', 'it''s ok', 2), (3, 'é\', 'it''s ok', 3), (4, NULL, NULL, NULL);
CREATE FUNCTION public.never(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR public.= (FUNCTION = public.never, LEFTARG = text, RIGHTARG = text);
ALTER DATABASE `+db.Name+` SET search_path = public, pg_catalog`)
	pool := db.Pool(t)
	for clause, want := range map[string][]string{
		`m = 'it''s ok' AND n >= 2.5`:   {"3"},
		`"V 1" = 'é\'`:                  {"3"},
		`"V 1" LIKE 'b%' OR m IS NULL`:  {"2", "4"},
		`id = ANY (ARRAY[1, 4])`:        {"1", "4"},
		`"V 1" IN ('a', 'b') AND n > 0`: {"1", "2"},
	} {
		d := define(t, pool, "items", "id", "V 1")
		var err error
		d.Where, err = where.Parse(clause, nil, d.Table.WhereScope())
		require.NoError(t, err, clause)
		var s sink
		require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s), clause)
		var got []string
		for _, v := range s.values(t) {
			assert.Len(t, v, 2)
			got = append(got, v["id"].(string))
		}
		assert.ElementsMatch(t, want, got, clause)
	}
}

// What Register did is seen by the snapshot: it comes before.
func TestRegisterComesBeforeTheSnapshot(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY)")
	pool := db.Pool(t)
	d := define(t, pool, "items")
	s := sink{register: func() error {
		_, err := pool.Exec(t.Context(), "INSERT INTO items VALUES (1)")
		return err
	}}
	require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s))
	assert.Len(t, s.rows, 1)
}

func TestErrAgainStartsOver(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1)")
	pool := db.Pool(t)
	d := define(t, pool, "items")
	r := snapshot.New(pool, snapshot.Options{MaxTries: 3})
	s := sink{begin: func(n int) error {
		if n < 3 {
			return fmt.Errorf("not yet: %w", snapshot.ErrAgain)
		}
		return nil
	}}
	require.NoError(t, r.Read(t.Context(), d, encoder(d), &s))
	assert.Equal(t, []string{"register", "begin", "register", "begin", "register", "begin"}, s.calls)
	assert.Len(t, s.rows, 1)

	s = sink{begin: func(int) error { return snapshot.ErrAgain }}
	require.ErrorIs(t, r.Read(t.Context(), d, encoder(d), &s), snapshot.ErrUnavailable)
	assert.Equal(t, 3, s.begins)
	assertPoolUsable(t, pool)
}

func TestSinkErrorsEndTheRead(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items SELECT generate_series(1, 20000)")
	pool := db.Pool(t)
	d := define(t, pool, "items")
	boom := errors.New("boom")
	for name, s := range map[string]*sink{
		"register": {register: func() error { return boom }},
		"begin":    {begin: func(int) error { return boom }},
		"row":      {row: func() error { return boom }},
	} {
		t.Run(name, func(t *testing.T) {
			err := snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), s)
			require.ErrorIs(t, err, boom)
			var own *snapshot.Error
			require.NotErrorAs(t, err, &own)
			assert.LessOrEqual(t, len(s.rows), 1)
		})
	}
	assertPoolUsable(t, pool)
}

func TestChangesOnlyGivesNoRows(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1)")
	pool := db.Pool(t)
	d := define(t, pool, "items")
	d.Log = shape.LogChangesOnly
	var s sink
	require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s))
	assert.Equal(t, 1, s.begins)
	assert.Empty(t, s.rows)
	assertPoolUsable(t, pool)
}

// B097: an ordinary table stands for itself; B096: a partitioned one for its partitions.
func TestInheritanceAndPartitions(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE par (id int PRIMARY KEY); CREATE TABLE chi (x int) INHERITS (par);
INSERT INTO par VALUES (1); INSERT INTO chi VALUES (2, 9);
CREATE TABLE pt (id int PRIMARY KEY) PARTITION BY LIST (id);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES IN (1); CREATE TABLE pt2 PARTITION OF pt FOR VALUES IN (2);
INSERT INTO pt VALUES (1), (2);`)
	pool := db.Pool(t)
	for table, want := range map[string]int{"par": 1, "chi": 1, "pt": 2, "pt1": 1} {
		d := define(t, pool, table)
		var s sink
		require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s))
		assert.Len(t, s.rows, want, table)
	}
}

// The text of values does not depend on the role's settings (B133), and no limit of the role's hits a snapshot (B132).
func TestSessionSettingsOfTheRoleDoNotMatter(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE s (id int PRIMARY KEY, b bytea, d date, ts timestamptz, f float8, i interval, v xml);
INSERT INTO s VALUES (1, '\x00ff', '2024-03-01', '2024-03-01 00:00:00+00', 0.1::float8 + 0.2::float8, '1 day 02:00', '<a/>');
ALTER DATABASE `+db.Name+` SET bytea_output = 'escape';
ALTER DATABASE `+db.Name+` SET datestyle = 'German';
ALTER DATABASE `+db.Name+` SET timezone = 'Asia/Tokyo';
ALTER DATABASE `+db.Name+` SET extra_float_digits = -5;
ALTER DATABASE `+db.Name+` SET intervalstyle = 'sql_standard';
ALTER DATABASE `+db.Name+` SET client_encoding = 'LATIN1';
ALTER DATABASE `+db.Name+` SET search_path = 'nowhere';
ALTER DATABASE `+db.Name+` SET standard_conforming_strings = off;
ALTER DATABASE `+db.Name+` SET statement_timeout = '300ms';
ALTER DATABASE `+db.Name+` SET idle_in_transaction_session_timeout = '100ms';
ALTER DATABASE `+db.Name+` SET default_transaction_isolation = 'read committed';`)
	pool := db.Pool(t)
	d := define(t, pool, "s")
	s := sink{begin: func(int) error {
		_, err := pool.Exec(t.Context(), "SET statement_timeout = 0; SELECT pg_sleep(0.4)")
		return err
	}}
	require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s))
	assert.Equal(t, []map[string]any{{
		"id": "1", "b": `\x00ff`, "d": "2024-03-01", "ts": "2024-03-01 00:00:00+00", "f": "0.30000000000000004", "i": "P1DT2H", "v": "<a/>",
	}}, s.values(t))
	// Nothing of ours stays on the connection.
	conns := pool.AcquireAllIdle(t.Context())
	require.NotEmpty(t, conns)
	for _, c := range conns {
		var tz string
		require.NoError(t, c.QueryRow(t.Context(), "SHOW timezone").Scan(&tz))
		assert.Equal(t, "Asia/Tokyo", tz)
		c.Release()
	}
}

// B090, B079: every character survives COPY's escapes and JSON's.
func TestEveryCharacterSurvives(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE jv (id int PRIMARY KEY, s text);
INSERT INTO jv SELECT i, chr(i) FROM generate_series(1, 1000) i;
INSERT INTO jv SELECT 2000 + n, s FROM unnest(ARRAY['\N', '\.', '\', '\\', '\t', E'\t\n\r\b\f\v', E'a\tb', 'x\', repeat('\"', 100000), '', U&'\2028', '😀']) WITH ORDINALITY u(s, n);`)
	pool := db.Pool(t)
	d := define(t, pool, "jv")
	var s sink
	require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s))
	got := make(map[string]any)
	for _, v := range s.values(t) {
		got[v["id"].(string)] = v["s"]
	}
	rows, err := pool.Query(t.Context(), "SELECT id::text, s FROM jv")
	require.NoError(t, err)
	want := make(map[string]any)
	var id, text string
	_, err = pgx.ForEachRow(rows, []any{&id, &text}, func() error { want[id] = text; return nil })
	require.NoError(t, err)
	require.NoError(t, rows.Err())
	assert.Equal(t, want, got)
}

// Keys of several columns, with included ones, in another order than the columns, and none.
func TestKeys(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE k1 (gone int, c int, b text, a int, PRIMARY KEY (a, b) INCLUDE (c)); ALTER TABLE k1 DROP COLUMN gone;
CREATE TABLE k2 (b int, a int); CREATE UNIQUE INDEX ON k2 (a);
INSERT INTO k1 VALUES (1, 'x', 2); INSERT INTO k2 VALUES (1, 2)`)
	pool := db.Pool(t)
	for table, key := range map[string]string{"k1": `/\"2\"/\"x\""`, "k2": `/\"1\"/\"2\""`} {
		d := define(t, pool, table)
		var s sink
		require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s), table)
		require.Len(t, s.rows, 1)
		assert.Contains(t, s.rows[0], key)
	}
}

func TestChangedTables(t *testing.T) {
	for name, ddl := range map[string]string{
		"dropped":      "DROP TABLE items",
		"renamed":      "ALTER TABLE items RENAME TO other",
		"made again":   "DROP TABLE items; CREATE TABLE items (id int PRIMARY KEY, v text)",
		"column added": "ALTER TABLE items ADD COLUMN w int",
		"column gone":  "ALTER TABLE items DROP COLUMN v",
		"other type":   "ALTER TABLE items ALTER v TYPE varchar(5)",
		"other key":    "ALTER TABLE items DROP CONSTRAINT items_pkey; ALTER TABLE items ADD PRIMARY KEY (v)",
		"no key":       "ALTER TABLE items DROP CONSTRAINT items_pkey",
		"longer key":   "ALTER TABLE items DROP CONSTRAINT items_pkey; ALTER TABLE items ADD PRIMARY KEY (id, v)",
		"schema moved": "CREATE SCHEMA s2; ALTER TABLE items SET SCHEMA s2",
	} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, v text)")
			pool := db.Pool(t)
			d := define(t, pool, "items")
			db.Exec(t, ddl)
			var s sink
			err := snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s)
			require.ErrorIs(t, err, snapshot.ErrSchemaChanged)
			require.NotErrorIs(t, err, snapshot.ErrUnavailable)
			assert.Zero(t, s.begins)
			assertPoolUsable(t, pool)
		})
	}
}

// A table that is rewritten by DDL which was waiting for its lock looks empty to older snapshots; the lock before the
// snapshot rules that out.
func TestRewriteBetweenLockAndSnapshot(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, v int); INSERT INTO items VALUES (1, 1)")
	pool := db.Pool(t)
	d := define(t, pool, "items")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "ALTER TABLE items ALTER v TYPE int USING v + 0; CLUSTER items USING items_pkey")
	require.NoError(t, err)
	var s sink
	done := make(chan error, 1)
	go func() { done <- snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s) }()
	waitForLockWait(t, pool)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	assert.Len(t, s.rows, 1)
}

func TestLockTimeout(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY)")
	pool := db.Pool(t)
	d := define(t, pool, "items")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "LOCK TABLE items IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	var s sink
	err = snapshot.New(pool, snapshot.Options{LockTimeout: 20 * time.Millisecond}).Read(t.Context(), d, encoder(d), &s)
	requireUnavailable(t, err, "Snapshot timed out while waiting for a table lock")
	assert.Empty(t, s.calls, "the sink was bothered without need")
}

func TestQueueTimeout(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1)")
	pool := db.Pool(t)
	d := define(t, pool, "items")
	r := snapshot.New(pool, snapshot.Options{MaxConcurrent: 1, QueueTimeout: 30 * time.Millisecond})
	s := sink{begin: func(int) error {
		var second sink
		requireUnavailable(t, r.Read(t.Context(), d, encoder(d), &second), "Snapshot creation failed because of a connection pool queue timeout")
		return nil
	}}
	require.NoError(t, r.Read(t.Context(), d, encoder(d), &s))
}

// B181: a query without a first row is cancelled, in the database too.
func TestFirstRowTimeout(t *testing.T) {
	db := pgtest.New(t)
	pool := db.Pool(t)
	d := slowTable(t, db, pool)
	var s sink
	err := snapshot.New(pool, snapshot.Options{FirstRowTimeout: 50 * time.Millisecond}).Read(t.Context(), d, encoder(d), &s)
	requireUnavailable(t, err, "Snapshot query took too long to return data (cancelled after 50ms). Please ensure snapshot "+
		"queries are using an index to avoid taking up all database connections.")
	waitForNoQuery(t, pool)
}

func TestCancelledReadEndsTheQuery(t *testing.T) {
	db := pgtest.New(t)
	pool := db.Pool(t)
	d := slowTable(t, db, pool)
	gone := errors.New("client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := sink{begin: func(int) error {
		time.AfterFunc(20*time.Millisecond, func() { cancel(gone) })
		return nil
	}}
	require.ErrorIs(t, snapshot.New(pool, snapshot.Options{}).Read(ctx, d, encoder(d), &s), gone)
	waitForNoQuery(t, pool)
}

func TestPrivileges(t *testing.T) {
	db := pgtest.New(t)
	role := "low_" + db.Name[len(db.Name)-10:]
	db.Exec(t, `CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1);
CREATE TABLE rls (id int PRIMARY KEY); ALTER TABLE rls ENABLE ROW LEVEL SECURITY;
CREATE ROLE `+role+` LOGIN PASSWORD 'p'; GRANT SELECT ON rls TO `+role)
	admin := db.Pool(t)
	t.Cleanup(func() {
		_, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		assert.NoError(t, err)
	})
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(role, "p")
	low, err := pgxpool.New(t.Context(), u.String())
	require.NoError(t, err)
	t.Cleanup(low.Close)

	d := define(t, admin, "items")
	r := snapshot.New(low, snapshot.Options{})
	var s sink
	requireUnavailable(t, r.Read(t.Context(), d, encoder(d), &s),
		`Unable to create initial snapshot: permission denied for table items. Run: GRANT SELECT ON "public"."items" TO "`+role+`"`)
	assertPoolUsable(t, low)
	db.Exec(t, "GRANT SELECT ON items TO "+role)
	require.NoError(t, r.Read(t.Context(), d, encoder(d), &s))
	require.Len(t, s.rows, 1)

	// Rows that a policy hides would be in the stream, so a filtered snapshot is refused.
	d = define(t, admin, "rls")
	err = r.Read(t.Context(), d, encoder(d), &sink{})
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	require.ErrorContains(t, err, "row-level security")
	require.ErrorContains(t, err, "BYPASSRLS")
}

func TestDeadServer(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY)")
	d := define(t, db.Pool(t), "items")
	cfg, err := pgxpool.ParseConfig("postgres://postgres@127.0.0.1:1/nowhere?sslmode=disable")
	require.NoError(t, err)
	dead, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer dead.Close()
	requireUnavailable(t, snapshot.New(dead, snapshot.Options{}).Read(t.Context(), d, encoder(d), &sink{}), "Database connection not available")
}

// B098: a LATIN1 database gives UTF-8, a SQL_ASCII one valid JSON.
func TestDatabaseEncodings(t *testing.T) {
	db := pgtest.New(t)
	for encoding, want := range map[string]string{"LATIN1": "é", "SQL_ASCII": "\ufffd"} {
		t.Run(encoding, func(t *testing.T) {
			name := db.Name + "_" + strings.ToLower(encoding[:2])
			db.Exec(t, "CREATE DATABASE "+name+" ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
			admin := db.Pool(t)
			cfg, err := pgxpool.ParseConfig(db.URL)
			require.NoError(t, err)
			cfg.ConnConfig.Database = name
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(func() {
				pool.Close()
				_, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
				assert.NoError(t, err)
			})
			_, err = pool.Exec(t.Context(), `CREATE TABLE e (id int PRIMARY KEY, t text)`)
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), `INSERT INTO e VALUES (1, convert_from('\xe9', '`+encoding+`'))`)
			require.NoError(t, err)
			d := define(t, pool, "e")
			var s sink
			require.NoError(t, snapshot.New(pool, snapshot.Options{}).Read(t.Context(), d, encoder(d), &s))
			assert.Equal(t, []map[string]any{{"id": "1", "t": want}}, s.values(t))
		})
	}
}

// slowTable makes a table whose one row takes an hour to read: the output function of its type is pg_sleep.
func slowTable(t *testing.T, db *pgtest.DB, pool *pgxpool.Pool) *shape.Definition {
	t.Helper()
	db.Exec(t, `
CREATE TYPE lazy;
CREATE FUNCTION lazy_in(cstring) RETURNS lazy LANGUAGE internal IMMUTABLE STRICT AS 'float8in';
CREATE FUNCTION lazy_out(lazy) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'pg_sleep';
CREATE TYPE lazy (INPUT = lazy_in, OUTPUT = lazy_out, LIKE = float8);
CREATE TABLE slow (id lazy);
INSERT INTO slow VALUES ('3600');`)
	return define(t, pool, "slow")
}

func requireUnavailable(t *testing.T, err error, message string) {
	t.Helper()
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	var own *snapshot.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, message, own.Message)
}

// assertPoolUsable checks that no connection was left in a transaction, or held.
func assertPoolUsable(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	// A connection that is closed in the middle of a query counts until the pool has seen to it.
	require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, 10*time.Second, 5*time.Millisecond)
	for _, c := range pool.AcquireAllIdle(t.Context()) {
		assert.Equal(t, byte('I'), c.Conn().PgConn().TxStatus())
		c.Release()
	}
}

func waitForLockWait(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IS NOT NULL AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&n)
		return err == nil && n > 0
	}, 10*time.Second, 5*time.Millisecond)
}

func waitForNoQuery(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query ILIKE 'COPY%'").Scan(&n)
		return err == nil && n == 0
	}, 10*time.Second, 10*time.Millisecond)
}
