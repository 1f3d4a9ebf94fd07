package inspector_test

import (
	"context"
	"sync"
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
	"github.com/shapeserver/shapeserver/where"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustTable(t *testing.T, in *inspector.Inspector, name string) *shape.Table {
	t.Helper()
	table, err := in.Table(t.Context(), "public", name, 0)
	require.NoError(t, err)
	return table
}

func column(t *testing.T, table *shape.Table, name string) shape.Column {
	t.Helper()
	for _, c := range table.Columns {
		if c.Name == name {
			return c
		}
	}
	require.Failf(t, "no column", "%s", name)
	return shape.Column{}
}

func TestTableDescribesColumnsTypesAndKey(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `
CREATE SCHEMA "Odd";
CREATE TYPE "Odd".mood AS ENUM ('sad', 'happy');
ALTER TYPE "Odd".mood ADD VALUE 'ok' BEFORE 'happy';
CREATE DOMAIN short AS varchar(10);
CREATE DOMAIN shorter AS short CHECK (length(value) < 5);
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN ints AS int[];
CREATE TABLE "Odd"."My Table" (
	gone int,
	c int NOT NULL,
	b varchar(20) COLLATE "C",
	a timestamptz,
	m "Odd".mood,
	ms "Odd".mood[][],
	d shorter,
	r int4range,
	mr int4multirange,
	p pair,
	g int GENERATED ALWAYS AS (c * 2) STORED,
	n numeric(10,2),
	da ints,
	v int2vector,
	i int GENERATED ALWAYS AS IDENTITY,
	extra text,
	PRIMARY KEY (b, a) INCLUDE (extra)
);
ALTER TABLE "Odd"."My Table" DROP COLUMN gone;`)
	in := inspector.New(db.Pool(t), inspector.Options{})
	table, err := in.Table(t.Context(), "Odd", "My Table", 0)
	require.NoError(t, err)

	assert.NotZero(t, table.OID)
	assert.Equal(t, "Odd", table.Schema)
	assert.Equal(t, "My Table", table.Name)
	assert.Equal(t, byte('r'), table.Kind)
	assert.Empty(t, table.Partitions)
	var names []string
	for _, c := range table.Columns {
		names = append(names, c.Name)
	}
	assert.Equal(t, []string{"c", "b", "a", "m", "ms", "d", "r", "mr", "p", "g", "n", "da", "v", "i", "extra"}, names)
	assert.Equal(t, []int{1, 2}, table.Key, "key order, without the included column")

	c := column(t, table, "c")
	assert.Equal(t, "int4", c.Type.Name)
	assert.Equal(t, "pg_catalog", c.Type.Schema)
	assert.Equal(t, where.KindBase, c.Type.Kind)
	assert.True(t, c.NotNull)
	assert.Equal(t, int32(-1), c.TypeMod)
	assert.Equal(t, where.Collation{}, c.Collation)

	b := column(t, table, "b")
	assert.Equal(t, int32(24), b.TypeMod)
	assert.Equal(t, where.Collation{Name: "C", Provider: 'c', Deterministic: true}, b.Collation)

	m := column(t, table, "m")
	assert.Equal(t, where.KindEnum, m.Type.Kind)
	assert.Equal(t, []string{"sad", "ok", "happy"}, m.Type.Labels, "sort order, not order of creation")
	assert.Equal(t, "Odd", m.Type.Schema)

	ms := column(t, table, "ms")
	assert.Equal(t, where.KindArray, ms.Type.Kind)
	assert.Equal(t, 2, ms.Dims)
	assert.Same(t, m.Type, ms.Type.Elem)

	d := column(t, table, "d")
	assert.Equal(t, where.KindDomain, d.Type.Kind)
	assert.Equal(t, "short", d.Type.Base.Name)
	assert.Equal(t, "varchar", d.Type.Base.Base.Name)

	r := column(t, table, "r")
	assert.Equal(t, where.KindRange, r.Type.Kind)
	assert.Equal(t, "int4", r.Type.Elem.Name)
	assert.Equal(t, where.KindMultirng, column(t, table, "mr").Type.Kind)
	assert.Equal(t, where.KindComposite, column(t, table, "p").Type.Kind)

	assert.True(t, column(t, table, "g").Generated)
	assert.False(t, column(t, table, "i").Generated, "identity columns are in the stream")
	assert.Equal(t, int32(10<<16+2+4), column(t, table, "n").TypeMod)

	da := column(t, table, "da")
	assert.Equal(t, where.KindDomain, da.Type.Kind)
	assert.Equal(t, where.KindArray, da.Type.Base.Kind)
	assert.Equal(t, "int4", da.Type.Base.Elem.Name)
}

func TestCollations(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `
CREATE COLLATION nd (provider = icu, locale = 'und', deterministic = false);
CREATE TABLE co (d text, p text COLLATE "POSIX", i text COLLATE nd, n name, ar text[]);`)
	var locale string
	require.NoError(t, db.Pool(t).QueryRow(t.Context(),
		"SELECT datcollate FROM pg_database WHERE datname = current_database()").Scan(&locale))
	table := mustTable(t, inspector.New(db.Pool(t), inspector.Options{}), "co")
	def := where.Collation{Name: locale, Provider: 'c', Deterministic: true}
	assert.Equal(t, def, column(t, table, "d").Collation)
	assert.Equal(t, def, column(t, table, "ar").Collation)
	assert.Equal(t, where.Collation{Name: "POSIX", Provider: 'c', Deterministic: true}, column(t, table, "p").Collation)
	assert.Equal(t, where.Collation{Name: "und", Provider: 'i', Deterministic: false}, column(t, table, "i").Collation)
	assert.Equal(t, "C", column(t, table, "n").Collation.Name)
}

// The collation "default" of a database is that of the database's own provider: ICU since 15, builtin since 17.
func TestDefaultCollationOfADatabase(t *testing.T) {
	for options, c := range map[string]struct {
		since int
		want  where.Collation
	}{
		"LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C'":              {15, where.Collation{Name: "de", Provider: 'i', Deterministic: true}},
		"LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'": {17, where.Collation{Name: "C.UTF-8", Provider: 'b', Deterministic: true}},
		"LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'":                           {14, where.Collation{Name: "C", Ctype: "C.UTF-8", Provider: 'c', Deterministic: true}},
	} {
		t.Run(options, func(t *testing.T) {
			db := pgtest.New(t)
			var major int
			require.NoError(t, db.Pool(t).QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&major))
			if major < c.since {
				t.Skipf("this provider exists since Postgres %d", c.since)
			}
			name := db.Name + "_loc"
			db.Exec(t, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8' "+options)
			t.Cleanup(func() { dropDatabase(t, db, name) })
			cfg, err := pgxpool.ParseConfig(db.URL)
			require.NoError(t, err)
			cfg.ConnConfig.Database = name
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			_, err = pool.Exec(t.Context(), "CREATE TABLE co (d text)")
			require.NoError(t, err)
			table := mustTable(t, inspector.New(pool, inspector.Options{}), "co")
			assert.Equal(t, c.want, column(t, table, "d").Collation)
			assert.Equal(t, c.want, table.Collation)
		})
	}
}

// Columns that are computed when they are read are generated too.
func TestVirtualGeneratedColumn(t *testing.T) {
	db := pgtest.New(t)
	pool := db.Pool(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE gv (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id * 2) VIRTUAL)"); err != nil {
		t.Skipf("virtual columns exist since Postgres 18: %v", err)
	}
	assert.True(t, column(t, mustTable(t, inspector.New(pool, inspector.Options{}), "gv"), "v").Generated)
}

// B193: nothing of the system, nothing without changes in the stream.
func TestUndefinedTables(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `
CREATE TABLE ok9 (id int PRIMARY KEY);
CREATE VIEW vw AS SELECT 1 AS id;
CREATE MATERIALIZED VIEW mvw AS SELECT 1 AS id;
CREATE UNLOGGED TABLE ul (id int PRIMARY KEY);
CREATE SEQUENCE sq; CREATE TYPE ct9 AS (a int); CREATE INDEX ix9 ON ok9(id);
CREATE TABLE z0 (); CREATE TABLE z1 (x int); ALTER TABLE z1 DROP COLUMN x;
CREATE EXTENSION IF NOT EXISTS file_fdw;
CREATE SERVER fs FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE ft (id int) SERVER fs OPTIONS (filename '/dev/null');
CREATE SCHEMA shapeserver; CREATE TABLE shapeserver.shapes (id int);
CREATE TABLE pu (id int) PARTITION BY LIST (id); CREATE UNLOGGED TABLE pu1 PARTITION OF pu FOR VALUES IN (1);`)
	in := inspector.New(db.Pool(t), inspector.Options{})
	missing := `Table "%s"."%s" does not exist. If the table name contains capitals or special characters you must quote it.`
	for _, c := range []struct{ schema, name, message string }{
		{"public", "nope", missing},
		{"nope", "ok9", missing},
		{"public", "OK9", missing},
		{"pg_catalog", "pg_authid", missing},
		{"pg_catalog", "pg_shadow", missing},
		{"information_schema", "tables", missing},
		{"information_schema", "sql_features", missing},
		{"pg_toast", "pg_toast_1255", missing},
		{"pg_temp", "x", missing},
		{"public", "vw", missing},
		{"public", "mvw", missing},
		{"public", "ft", missing},
		{"public", "sq", missing},
		{"public", "ct9", missing},
		{"public", "ix9", missing},
		{"public", "z0", missing},
		{"public", "z1", missing},
		{"shapeserver", "shapes", missing},
		{"public", "ul", "unlogged"},
		{"public", "pu", `"pu1"`},
	} {
		_, err := in.Table(t.Context(), c.schema, c.name, time.Minute)
		require.ErrorIs(t, err, inspector.ErrUndefinedTable, "%s.%s", c.schema, c.name)
		var te *inspector.TableError
		require.ErrorAs(t, err, &te)
		if c.message == missing {
			assert.Equal(t, `Table "`+c.schema+`"."`+c.name+`" does not exist. If the table name contains capitals or special characters you must quote it.`, te.Message)
		} else {
			assert.Contains(t, te.Message, c.message)
		}
	}
}

func TestTemporaryTable(t *testing.T) {
	db := pgtest.New(t)
	pool := db.Pool(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	var schema string
	_, err = conn.Exec(t.Context(), "CREATE TEMP TABLE tt (id int)")
	require.NoError(t, err)
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'tt'").Scan(&schema))
	_, err = inspector.New(pool, inspector.Options{}).Table(t.Context(), schema, "tt", 0)
	require.ErrorIs(t, err, inspector.ErrUndefinedTable)
}

func TestUnchangedTableKeepsItsPointer(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE a (id int PRIMARY KEY, t text)")
	in := inspector.New(db.Pool(t), inspector.Options{})
	first := mustTable(t, in, "a")
	assert.Same(t, first, mustTable(t, in, "a"))
	byOID, err := in.ByOID(t.Context(), []uint32{first.OID, 1})
	require.NoError(t, err)
	assert.Len(t, byOID, 1)
	assert.Same(t, first, byOID[first.OID])

	db.Exec(t, "ALTER TABLE a ALTER t SET NOT NULL")
	cached, err := in.Table(t.Context(), "public", "a", time.Hour)
	require.NoError(t, err)
	assert.Same(t, first, cached, "within maxAge nothing is asked")
	second := mustTable(t, in, "a")
	assert.NotSame(t, first, second)
	assert.True(t, column(t, second, "t").NotNull)
}

func TestForgetMakesTheNextLookUpAsk(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE a (id int PRIMARY KEY)")
	in := inspector.New(db.Pool(t), inspector.Options{})
	first := mustTable(t, in, "a")
	db.Exec(t, "DROP TABLE a; CREATE TABLE a (x text)")
	in.Forget(first.OID)
	second, err := in.Table(t.Context(), "public", "a", time.Hour)
	require.NoError(t, err)
	assert.NotEqual(t, first.OID, second.OID)
	assert.Equal(t, "x", second.Columns[0].Name)
}

// A renamed table is found under its new name only, and what was dropped is dropped from the cache, too.
func TestRenameAndDrop(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE a (id int PRIMARY KEY)")
	in := inspector.New(db.Pool(t), inspector.Options{})
	a := mustTable(t, in, "a")
	db.Exec(t, "ALTER TABLE a RENAME TO b")
	found, err := in.ByOID(t.Context(), []uint32{a.OID})
	require.NoError(t, err)
	require.Equal(t, "b", found[a.OID].Name)
	_, err = in.Table(t.Context(), "public", "a", time.Hour)
	require.ErrorIs(t, err, inspector.ErrUndefinedTable)
	db.Exec(t, "DROP TABLE b")
	found, err = in.ByOID(t.Context(), []uint32{a.OID})
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = in.Table(t.Context(), "public", "b", time.Hour)
	require.ErrorIs(t, err, inspector.ErrUndefinedTable)
}

func TestPartitionsAndAncestors(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `
CREATE TABLE pt (id int, ts date, PRIMARY KEY (ts, id)) PARTITION BY RANGE (ts);
CREATE TABLE pt_a PARTITION OF pt FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE pt_b PARTITION OF pt FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') PARTITION BY LIST (id);
CREATE TABLE pt_b1 PARTITION OF pt_b FOR VALUES IN (1);
CREATE TABLE par (id int); CREATE TABLE chi (x int) INHERITS (par);`)
	in := inspector.New(db.Pool(t), inspector.Options{})
	pt, a, b, b1 := mustTable(t, in, "pt"), mustTable(t, in, "pt_a"), mustTable(t, in, "pt_b"), mustTable(t, in, "pt_b1")
	assert.Equal(t, byte('p'), pt.Kind)
	assert.Equal(t, []int{1, 0}, pt.Key)
	assert.ElementsMatch(t, []uint32{a.OID, b.OID, b1.OID}, pt.Partitions)
	assert.Equal(t, []uint32{b1.OID}, b.Partitions)
	assert.Empty(t, mustTable(t, in, "par").Partitions)

	for oid, want := range map[uint32][]uint32{
		b1.OID: {b.OID, pt.OID}, a.OID: {pt.OID}, pt.OID: nil, mustTable(t, in, "chi").OID: nil, 1: nil,
	} {
		up, _, err := in.Ancestors(t.Context(), oid)
		require.NoError(t, err)
		if want == nil {
			assert.Empty(t, up)
		} else {
			assert.Equal(t, want, up)
		}
	}
	db.Exec(t, "ALTER TABLE pt DETACH PARTITION pt_a")
	assert.NotContains(t, mustTable(t, in, "pt").Partitions, a.OID)
}

// An ACCESS EXCLUSIVE lock of the application must not hold up a look-up.
func TestLookUpTakesNoLock(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE pt (id int) PARTITION BY LIST (id); CREATE TABLE pt1 PARTITION OF pt FOR VALUES IN (1)")
	pool := db.Pool(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "LOCK TABLE pt, pt1 IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	in := inspector.New(pool, inspector.Options{Timeout: 5 * time.Second})
	pt := mustTable(t, in, "pt")
	_, err = in.ByOID(t.Context(), []uint32{pt.OID, pt.Partitions[0]})
	require.NoError(t, err)
	_, _, err = in.Ancestors(t.Context(), pt.Partitions[0])
	require.NoError(t, err)
}

func TestKnownTableIsServedWhileTheDatabaseIsAway(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE a (id int PRIMARY KEY)")
	pool, err := pgxpool.New(t.Context(), db.URL)
	require.NoError(t, err)
	in := inspector.New(pool, inspector.Options{})
	first := mustTable(t, in, "a")
	pool.Close() // from here on every look-up fails to get a connection
	assert.Same(t, first, mustTable(t, in, "a"))
	assert.Same(t, first, mustTable(t, in, "a"))
	_, err = in.Table(t.Context(), "public", "b", 0)
	require.ErrorIs(t, err, inspector.ErrUnreachable)
	_, err = in.ByOID(t.Context(), []uint32{first.OID})
	require.ErrorIs(t, err, inspector.ErrUnreachable)
}

// Many look-ups at once, with Forget in between, end with one pointer. Run with -race.
func TestConcurrentLookUps(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE a (id int PRIMARY KEY)")
	in := inspector.New(db.Pool(t), inspector.Options{})
	oid := mustTable(t, in, "a").OID
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if i%10 == 0 {
				in.Forget(oid)
			}
			_, err := in.Table(t.Context(), "public", "a", 0)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	last := mustTable(t, in, "a")
	assert.Same(t, last, mustTable(t, in, "a"))
}

func dropDatabase(t *testing.T, db *pgtest.DB, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, db.URL)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	require.NoError(t, err)
}

func TestLayouts(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE k1 (a int, "B b" int, d int, c int, PRIMARY KEY (c, "B b") INCLUDE (a)); ALTER TABLE k1 DROP COLUMN d; ALTER TABLE k1 ADD e int; CREATE TABLE k2 (a int UNIQUE)`)
	pool := db.Pool(t)
	var one, two uint32
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT 'k1'::regclass::oid, 'k2'::regclass::oid").Scan(&one, &two))
	db.Exec(t, "CREATE TABLE k3 (a int PRIMARY KEY DEFERRABLE)")
	var three uint32
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT 'k3'::regclass::oid").Scan(&three))
	found, _, err := inspector.New(pool, inspector.Options{}).Layouts(t.Context(), []uint32{one, two, three, 1})
	require.NoError(t, err)
	for oid, l := range found {
		for name, c := range l.Columns {
			l.Columns[name] = changes.ColumnLayout{Number: c.Number}
		}
		require.Equal(t, oid == 1, l.Files == "")
		l.Files = ""
		found[oid] = l
	}
	require.Equal(t, map[uint32]changes.Layout{
		one:   {Key: []string{"c", "B b"}, Columns: map[string]changes.ColumnLayout{"a": {Number: 1}, "B b": {Number: 2}, "c": {Number: 4}, "e": {Number: 5}}},
		two:   {Key: []string{}, Columns: map[string]changes.ColumnLayout{"a": {Number: 1}}},
		three: {Key: []string{}, Columns: map[string]changes.ColumnLayout{"a": {Number: 1}}}, // a deferrable key is none
		1:     {Key: []string{}, Columns: map[string]changes.ColumnLayout{}},
	}, found)
}
