package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/where"
)

// question makes a Subset on the table of a definition.
func question(t *testing.T, d *shape.Definition, clause, order string, limit, offset int64) snapshot.Subset {
	t.Helper()
	q := snapshot.Subset{Table: d.Table, Limit: limit, Offset: offset}
	var err error
	if clause != "" {
		q.Where, err = where.Parse(clause, nil, d.Table.WhereScope())
		require.NoError(t, err, clause)
	}
	if order != "" {
		q.OrderBy, err = where.ParseOrderBy(order, d.Table.WhereScope())
		require.NoError(t, err, order)
	}
	return q
}

func ids(t *testing.T, s *sink) []string {
	t.Helper()
	got := []string{}
	for _, v := range s.values(t) {
		got = append(got, v["id"].(string))
	}
	return got
}

// Where, order, limit and offset are Postgres's; the shape's own clause binds as a whole (B073).
func TestReadSubset(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE items (id int PRIMARY KEY, org int, pub bool, v text COLLATE "C", m mood);
INSERT INTO items VALUES (1, 1, false, 'x', 'ok'), (2, 1, false, 'Y', 'sad'), (3, 2, true, 'x', NULL), (4, 2, true, 'y', 'ok'), (5, 2, false, 'x', 'sad')`)
	pool := db.Pool(t)
	r := snapshot.New(pool, snapshot.Options{})
	for _, log := range []shape.LogMode{shape.LogFull, shape.LogChangesOnly} {
		d := define(t, pool, "items", "id", "v")
		d.Log = log
		var err error
		d.Where, err = where.Parse("org = 1 OR pub", nil, d.Table.WhereScope())
		require.NoError(t, err)
		for _, tc := range []struct {
			where, order  string
			limit, offset int64
			want          []string
		}{
			{"v = 'x'", "id", 0, 0, []string{"1", "3"}},
			{"v = 'x' OR v = 'zz'", "id DESC", 1, 0, []string{"3"}},
			{"v = 'x' OR true", "id", 0, 0, []string{"1", "2", "3", "4"}},
			{"", "id DESC", 2, 1, []string{"3", "2"}},
			{"", "id", 0, 3, []string{"4"}},
			{"", "id", 1 << 62, 1 << 62, []string{}},
			{"", "v", 0, 0, []string{"2", "1", "3", "4"}},
			{"", `v COLLATE "und-x-icu" DESC, id`, 0, 0, []string{"2", "4", "1", "3"}},
			{"", "m", 0, 0, []string{"2", "1", "4", "3"}},
			{"", "m DESC NULLS LAST, id DESC", 0, 0, []string{"4", "1", "2", "3"}},
			{"", "m NULLS FIRST", 1, 0, []string{"3"}},
			{"m = 'ok'", "id", 0, 0, []string{"1", "4"}},
			{"pub AND v = 'nosuch'", "id", 5, 0, []string{}},
		} {
			var s sink
			require.NoError(t, r.ReadSubset(t.Context(), d, question(t, d, tc.where, tc.order, tc.limit, tc.offset), &s))
			assert.Equal(t, tc.want, ids(t, &s), "%s %s", tc.where, tc.order)
			assert.Equal(t, []string{"register", "begin"}, s.calls)
			assert.NotZero(t, s.lsn)
			for _, v := range s.values(t) {
				assert.Len(t, v, 2, "the shape's columns and no others")
			}
		}
	}
	assertPoolUsable(t, pool)
}

// Pages part the rows whatever they are ordered by: every row is in exactly one of them.
func TestPagesPartTheRows(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE items (a int, b text, n int, PRIMARY KEY (b, a));
INSERT INTO items SELECT i, 'b' || i % 5, i % 3 FROM generate_series(1, 1000) i; CREATE INDEX ON items (n); ANALYZE items`)
	pool := db.Pool(t)
	d := define(t, pool, "items")
	r := snapshot.New(pool, snapshot.Options{})
	for _, order := range []string{"n", "n DESC", "b, n", "a"} {
		seen := map[string]int{}
		for page := range int64(10) {
			db.Exec(t, "UPDATE items SET n = n WHERE a % 7 = 1") // moves rows about in the table
			var s sink
			require.NoError(t, r.ReadSubset(t.Context(), d, question(t, d, "", order, 100, page*100), &s))
			for _, v := range s.values(t) {
				seen[fmt.Sprint(v["a"])]++
			}
		}
		assert.Len(t, seen, 1000, order)
	}
}

// The coordinates are those of the transaction that read the rows: what is open is in neither, what comes after Begin
// too.
func TestSubsetCoordinatesAreTheRows(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1)")
	pool := db.Pool(t)
	d := define(t, pool, "items")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	var xid, later uint64
	const insert = "INSERT INTO items VALUES ($1) RETURNING pg_current_xact_id()::text::int8"
	require.NoError(t, tx.QueryRow(t.Context(), insert, 2).Scan(&xid))
	s := sink{begin: func(int) error {
		if err := tx.Commit(t.Context()); err != nil {
			return err
		}
		return pool.QueryRow(t.Context(), insert, 3).Scan(&later)
	}}
	require.NoError(t, snapshot.New(pool, snapshot.Options{}).ReadSubset(t.Context(), d, question(t, d, "", "id", 10, 0), &s))
	assert.Equal(t, []string{"1"}, ids(t, &s))
	assert.False(t, s.snap.Visible(changes.Xid(xid)))   //nolint:gosec // small
	assert.False(t, s.snap.Visible(changes.Xid(later))) //nolint:gosec // small
	var now string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&now))
	after, err := changes.ParseLSN(now)
	require.NoError(t, err)
	assert.Less(t, s.lsn, after)
}

// What Postgres says about the client's own words is the client's to correct, and tells nothing of rows.
func TestSubsetsThatPostgresRefuses(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE items (id int PRIMARY KEY, j json, v text, z int); INSERT INTO items VALUES (1, '{}', 'topsecret', 0)`)
	pool := db.Pool(t)
	d := define(t, pool, "items")
	r := snapshot.New(pool, snapshot.Options{})
	for _, tc := range []struct{ where, order, field, message string }{
		{"1 / z = 1", "", "where", "The clause cannot be evaluated on every row: division by zero"},
		{"v::int = 1", "id", "where", "The clause cannot be evaluated on every row: a text is not of the form that a type needs"},
		{"(z - 2147483647) * 2 = 1", "", "where", "The clause cannot be evaluated on every row: a number is out of range"},
		{"", "j", "order_by", "could not identify an ordering operator for type json"},
		{"", `v COLLATE "nosuch"`, "order_by", `collation "pg_catalog.nosuch" for encoding "UTF8" does not exist`},
	} {
		var s sink
		err := r.ReadSubset(t.Context(), d, question(t, d, tc.where, tc.order, 0, 0), &s)
		var refused *snapshot.QueryError
		require.ErrorAs(t, err, &refused, tc.where+tc.order)
		assert.Equal(t, tc.field, refused.Field)
		assert.Equal(t, tc.message, refused.Message)
		assert.Empty(t, s.rows)
	}
	assertPoolUsable(t, pool)
}

func TestSubsetOfAChangedTable(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE items (id int PRIMARY KEY, a int, b text, c int); INSERT INTO items VALUES (1, 2, 'x', 3)`)
	pool := db.Pool(t)
	narrow, all := define(t, pool, "items", "id", "b"), define(t, pool, "items")
	r := snapshot.New(pool, snapshot.Options{})
	ask := func(d *shape.Definition, now *shape.Table, clause string) (*sink, error) {
		on := *d
		on.Table = now
		q := question(t, &on, clause, "id", 0, 0)
		var s sink
		return &s, r.ReadSubset(t.Context(), d, q, &s)
	}

	// A shape that named its columns goes on when others come and go, and can be asked about the new ones.
	db.Exec(t, "ALTER TABLE items DROP COLUMN a; ALTER TABLE items ADD COLUMN e int DEFAULT 7")
	s, err := ask(narrow, narrow.Table, "")
	require.ErrorIs(t, err, snapshot.ErrSchemaChanged, "the table is not looked up yet")
	assert.Zero(t, s.begins)
	now := define(t, pool, "items").Table
	s, err = ask(narrow, now, "e = 7")
	require.NoError(t, err)
	assert.Equal(t, []map[string]any{{"id": "1", "b": "x"}}, s.values(t))

	// One that did not ends.
	_, err = ask(all, now, "")
	require.ErrorIs(t, err, snapshot.ErrSchemaChanged)

	db.Exec(t, "ALTER TABLE items ALTER COLUMN b TYPE varchar(5)")
	_, err = ask(narrow, define(t, pool, "items").Table, "")
	require.ErrorIs(t, err, snapshot.ErrSchemaChanged)
	db.Exec(t, "DROP TABLE items")
	_, err = ask(narrow, now, "")
	require.ErrorIs(t, err, snapshot.ErrSchemaChanged)
	assertPoolUsable(t, pool)
}

// Every wait of a subset is bounded, and what is waited for in vain is left as it was.
func TestSubsetLimits(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i`)
	pool := db.Pool(t)
	d := define(t, pool, "items")
	q := question(t, d, "", "id DESC", 0, 0)

	t.Run("no connection in time", func(t *testing.T) {
		r := snapshot.New(pool, snapshot.Options{MaxConcurrent: 1, QueueTimeout: 50 * time.Millisecond})
		first := sink{begin: func(int) error { return r.ReadSubset(t.Context(), d, q, &sink{}) }}
		requireUnavailable(t, r.ReadSubset(t.Context(), d, q, &first), "Snapshot creation failed because of a connection pool queue timeout")
	})
	t.Run("locked table", func(t *testing.T) {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "LOCK TABLE items IN ACCESS EXCLUSIVE MODE")
		require.NoError(t, err)
		var s sink
		err = snapshot.New(pool, snapshot.Options{LockTimeout: 50 * time.Millisecond}).ReadSubset(t.Context(), d, q, &s)
		require.NoError(t, tx.Rollback(t.Context()))
		require.ErrorIs(t, err, snapshot.ErrUnavailable)
		assert.ErrorContains(t, err, "Snapshot timed out while waiting for a table lock")
	})
	t.Run("no row in time", func(t *testing.T) {
		slow := slowTable(t, db, pool)
		r := snapshot.New(pool, snapshot.Options{FirstRowTimeout: 50 * time.Millisecond})
		err := r.ReadSubset(t.Context(), slow, question(t, slow, "", "", 0, 0), &sink{})
		require.ErrorIs(t, err, snapshot.ErrUnavailable)
		require.ErrorContains(t, err, "Snapshot query took too long to return data (cancelled after 50ms)")
		waitForNoQuery(t, pool)
	})
	t.Run("slow reader", func(t *testing.T) {
		r := snapshot.New(pool, snapshot.Options{ReadTimeout: 300 * time.Millisecond})
		s := sink{row: func() error {
			<-time.After(20 * time.Millisecond)
			return nil
		}}
		err := r.ReadSubset(t.Context(), d, q, &s)
		require.ErrorIs(t, err, snapshot.ErrUnavailable)
		require.ErrorContains(t, err, "took too long to return all data (cancelled after 300ms)")
		waitForNoQuery(t, pool)
	})
	t.Run("client goes away", func(t *testing.T) {
		ctx, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		s := sink{row: func() error { leave(gone); return nil }}
		require.ErrorIs(t, snapshot.New(pool, snapshot.Options{}).ReadSubset(ctx, d, q, &s), gone)
		waitForNoQuery(t, pool)
	})
	assertPoolUsable(t, pool)
}

// Random questions against Postgres's own answers.
func TestSubsetsAgreeWithPostgres(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE items (id int PRIMARY KEY, n int, v text COLLATE "C");
INSERT INTO items SELECT i, nullif(i * 7 % 11, 0), chr(97 + i * 5 % 26) FROM generate_series(1, 200) i`)
	pool := db.Pool(t)
	d := define(t, pool, "items")
	r := snapshot.New(pool, snapshot.Options{})
	clauses := []string{"", "n > 3", "n IS NULL OR v < 'k'", "v LIKE '%a%' AND NOT n = 5", "id IN (1, 5, 9, 200)"}
	orders := []string{"id", "n DESC", "n NULLS FIRST, v DESC", "v, n", `v COLLATE "POSIX" DESC, id DESC`}
	for i := range 60 {
		clause, order := clauses[i%len(clauses)], orders[i/len(clauses)%len(orders)]
		limit, offset := int64(i*13%50), int64(i*i%37)
		sql := "SELECT id::text AS shown FROM items"
		if clause != "" {
			sql += " WHERE " + clause
		}
		sql += " ORDER BY " + order + ", id OFFSET " + strconv.FormatInt(offset, 10)
		if limit > 0 {
			sql += " LIMIT " + strconv.FormatInt(limit, 10)
		}
		rows, err := pool.Query(t.Context(), sql)
		require.NoError(t, err)
		want := []string{}
		for rows.Next() {
			var id string
			require.NoError(t, rows.Scan(&id))
			want = append(want, id)
		}
		require.NoError(t, rows.Err())
		var s sink
		require.NoError(t, r.ReadSubset(t.Context(), d, question(t, d, clause, order, limit, offset), &s))
		require.True(t, slices.Equal(want, ids(t, &s)), "%s: want %v, got %v", sql, want, ids(t, &s))
	}
}
