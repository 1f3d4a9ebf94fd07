package where_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/where"
)

// settings are those of every session that reads data (protocol.md §7.1).
const settings = `SET bytea_output='hex'; SET DateStyle='ISO, DMY'; SET TimeZone='UTC'; SET extra_float_digits=1; SET IntervalStyle='iso_8601'`

// oracle is Postgres with a table that has a column of every type and rows of edge values.
type oracle struct {
	conn  *pgx.Conn
	scope where.Scope
	rows  []changes.Row
	kinds []kind

	compared, accepted, refused, differences int
	unfolded                                 int // fail in Postgres as written only, see mutable
	infinite                                 int // failed here for an infinite interval, or the age of an infinite time

	version int // Postgres's major

	sample *rand.Rand
}

// No two timestamps of kinds are more than 292 000 years apart: Postgres 15 lets their difference wrap around, later
// releases refuse it, and so does this package.

// kind is a column's type with values worth trying, as they are written in SQL without quotes; none holds a quote that
// is not doubled.
type kind struct {
	column, ddl, cast string
	values            []string
}

func kinds() []kind {
	text := []string{"", "a", "A", "abc", "aBc", "a b", " a", "a ", "a%b", "a_b", `a\b`, "é", "É", "école", "École", "ß", "straße", "STRASSE", "日本", "😀x", "i", "I", "İ", "ı", "1", "-5", "1.5", "t", "true", "NULL", "null", "2024-01-01", "li\nne", "{1,2}", "{a,b}", "zzz", "aab", "x'')--", "ǅ", "ﬁ", "Σς", "e\u0301", "ẞ", "𐐀𐐨", "Ꭰꭰ", "Აა", "𠀀", "𰀀", "a\U000E0100", "\U000F0000", "\U0010FFFD", "\x01\x7f", "\u2028", "\uFFFD", "I\u0307", "ŉ", "ΐ"}
	return []kind{
		{"c_bool", "bool", "bool", []string{"t", "f"}},
		{"c_int2", "int2", "int2", []string{"0", "1", "-1", "2", "7", "32767", "-32768"}},
		{"c_int4", "int4", "int4", []string{"0", "1", "-1", "2", "3", "10", "100", "2147483647", "-2147483648"}},
		{"c_int8", "int8", "int8", []string{"0", "1", "-1", "2", "5", "4294967296", "9223372036854775807", "-9223372036854775808", "9007199254740993"}},
		{"c_oid", "oid", "oid", []string{"0", "1", "4294967295"}},
		{"c_num", "numeric", "numeric", []string{"0", "1", "-1", "1.0", "1.50", "2.5", "-2.5", "0.5", "-0.5", "0.00001", "99999999999999999999.99", "-99999999999999999999.99", "NaN", "Infinity", "-Infinity", "0.1", "100", "3", "1e20", "123456789.987654321"}},
		{"c_num2", "numeric(8,2)", "numeric", []string{"0", "1.5", "-1.25", "999999.99", "0.01", "NaN"}},
		{"c_float4", "float4", "float4", []string{"0", "-0", "1", "-1", "1.5", "0.1", "3.4e38", "1e-45", "NaN", "Infinity", "-Infinity", "16777217", "1e20", "123456"}},
		{"c_float8", "float8", "float8", []string{"0", "-0", "1", "-1", "1.5", "2.5", "0.1", "1e308", "5e-324", "NaN", "Infinity", "-Infinity", "9007199254740993", "1e15", "123456789012345678", "0.0001", "0.00001"}},
		{"c_text", "text", "text", text},
		{"c_textc", `text COLLATE "C"`, "text", text},
		{"c_varchar", "varchar(12)", "varchar", []string{"", "a", "abc", "ABC", "a ", "é", "ÉA", "1"}},
		{"c_bpchar", "char(5)", "bpchar", []string{"", "a", "abc", "ABC", "a b", "é", "1", "12345"}},
		{"c_name", "name", "name", []string{"", "a", "abc", "ABC", "é", strings.Repeat("n", 63)}},
		{"c_uuid", "uuid", "uuid", []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"}},
		{"c_bytea", "bytea", "bytea", []string{`\x`, `\x00`, `\xff`, `\x0aff`, `abc`, `\x616263`}},
		{"c_date", "date", "date", []string{"2000-01-01", "1999-12-31", "2024-02-29", "2024-01-31", "2023-03-01", "0044-03-15 BC", "4714-11-24 BC", "5874897-12-31", "infinity", "-infinity", "1970-01-01", "294277-01-01", "20240131"}},
		{"c_time", "time", "time", []string{"00:00", "23:59:59.999999", "24:00:00", "12:34:56.789", "01:00"}},
		{"c_timetz", "timetz", "timetz", []string{"00:00+00", "23:59:59.999999+00", "12:00+02", "12:00-02:30", "10:00+00", "24:00-15"}},
		{"c_ts", "timestamp", "timestamp", []string{"2000-01-01 00:00", "1999-12-31 23:59:59.999999", "2024-02-29 12:34:56.789", "2024-01-31 00:00", "0044-03-15 12:00:00 BC", "4714-11-24 00:00:00 BC", "200000-12-31 23:59:59.999999", "infinity", "-infinity", "epoch", "2024-06-01T10:00:00"}},
		{"c_tstz", "timestamptz", "timestamptz", []string{"2000-01-01 00:00+00", "1999-12-31 23:59:59.999999+00", "2024-02-29 12:34:56.789+02", "2024-01-31 00:00Z", "0044-03-15 12:00:00+00 BC", "infinity", "-infinity", "epoch", "2024-06-01 10:00:00", "2024-06-01 00:00:00+02", "200000-12-31 23:59:59.999999+00"}},
		{"c_iv", "interval", "interval", []string{"1 day", "24 hours", "1 month", "30 days", "-1 day", "1 year 2 months 3 days 04:05:06.789", "P1Y2M3DT4H5M6.5S", "0", "PT0S", "1 month -1 day", "-1 month 31 days", "1.5 hours", "2 weeks", "100 years", "-0.000001 seconds", "178000000 years", "P-1Y-2M"}},
		{"c_mood", "mood", "mood", []string{"sad", "ok", "very happy"}},
		{"c_json", "json", "json", []string{
			`{"a": 1}`, `[1,2]`, `null`, `"x"`, ` {"b":  2, "a": {"c": [1, null]}}`,
			`{"a":{"b":1},"a":{"c":2}}`, `{"a":[1,2],"a":[3]}`, `[ {"a" : "é\u00e9\n"} , -1.50e1, "\ud83d\ude00" ]`, `{"a":"\u0000"}`, ` 12 `, `["\ud83d"]`, `[[1,[2]],{"a":null}]`, `{"a":"t","b":null}`,
		}},
		{"c_jsonb", "jsonb", "jsonb", []string{`{"a": 1}`, `{"a": 1.0, "b": null}`, `[1, 2, 3]`, `[]`, `{}`, `null`, `"x"`, `"a"`, `1`, `1.0`, `true`, `{"a": {"b": [1, {"c": "d"}]}, "k": "v"}`, `["a", "b", 1]`, `{"b": 2, "aa": 1}`, `-0.5e2`, `"é\n\"\\"`, `[[1], [2, null]]`, `{"": 1}`, `{"a": [1,1]}`, `12345678901234567890.5`}},
		{"c_ints", "int4[]", "int4[]", []string{"{}", "{1}", "{1,2}", "{NULL,1}", "{{1,2},{3,4}}", "[0:1]={5,6}", "{1,1}", "{3,2,1}", "{NULL}"}},
		{"c_texts", "text[]", "text[]", []string{"{}", "{a}", "{a,b}", "{NULL}", "{a,NULL}", `{"a,b","c\"d"," a"}`, `{"NULL"}`, `{""}`, "{é,É}"}},
		{"c_floats", "float8[]", "float8[]", []string{"{}", "{1}", "{NaN,1}", "{-0}", "{0}", "{Infinity}"}},
		{"c_moods", "mood[]", "mood[]", []string{"{}", "{sad}", "{ok,NULL}", `{"very happy",sad}`}},
		{"c_tss", "timestamptz[]", "timestamptz[]", []string{"{}", `{"2024-01-01 00:00:00+00"}`, "{infinity}"}},
		{"c_moods2", "mood[]", "mood[]", []string{"{}", "{ok}", "{{sad,ok},{ok,NULL}}"}},
		{"c_posints", "posint[]", "int4[]", []string{"{}", "{1,2}", "{NULL,1}"}},
		{"c_uuids", "uuid[]", "uuid[]", []string{"{}", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}", "{00000000-0000-0000-0000-000000000000}"}},
		{"c_jsonbs", "jsonb[]", "jsonb[]", []string{"{}", `{"{\"a\": 1}",1,NULL}`, `{"[]","\"x\""}`}},
		{"c_grid", "int8[]", "int8[]", []string{"{}", "{{1,2,3},{4,5,6}}", "[2:3][-1:0]={{1,2},{3,NULL}}", "{{{1},{2}},{{3},{4}}}", "[-5:-4]={7,8}", "{1,2,3,4,5,1}", "[2147483646:2147483646]={9}"}},
		{"c_pos", "posint", "int4", []string{"1", "5", "100"}},
		{"c_mail", "mail", "text", []string{"a@b", "A@B", ""}},
		{"c_inet", "inet", "inet", []string{"10.0.0.1", "10.0.0.0/8", "::1", "10.1.2.3/16", "0.0.0.0/0", "255.255.255.255", "2001:db8::1:2/64", "::ffff:1.2.3.4", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0", "192.168.0.0/24"}},
		{"c_range", "int4range", "int4range", []string{"[1,5)", "empty", "(,)", "[5,9)", "(,3)", "[2147483647,)", "[-5,1)"}},
	}
}

// moreKinds are columns of the less common types; tests that combine every column with every other leave them out.
func moreKinds() []kind {
	return []kind{
		{"c_cidr", "cidr", "cidr", []string{"10.0.0.0/8", "10.0.0.1", "::/0", "2001:db8::/32", "0.0.0.0/0", "192.168.0.0/24", "::ffff:0:0/96"}},
		{"c_mac", "macaddr", "macaddr", []string{"08:00:2b:01:02:03", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"}},
		{"c_mac8", "macaddr8", "macaddr8", []string{"08:00:2b:ff:fe:01:02:03", "08:00:2b:01:02:03:04:05", "ff:ff:ff:ff:ff:ff:ff:ff", "00:00:00:ff:fe:00:00:00"}},
		{"c_inets", "inet[]", "inet[]", []string{"{}", "{10.0.0.1,::1}", "{10.0.0.0/8,NULL}"}},
		{"c_range8", "int8range", "int8range", []string{"[1,5)", "empty", "(,)", "[9223372036854775807,)", "[-5,2)"}},
		{"c_nrange", "numrange", "numrange", []string{"[1,5)", "empty", "(1.5,2.50]", "[1.0,1]", "(,0)", "[NaN,]", "[5,7]"}},
		{"c_drange", "daterange", "daterange", []string{"[2024-01-01,2024-02-01)", "empty", "(,2024-01-10)", "[2024-02-01,infinity]", "[-infinity,2000-01-01)", "[0044-03-15 BC,)"}},
		{"c_tsrange", "tsrange", "tsrange", []string{"[2024-01-01 00:00,2024-02-01 12:34:56.789)", "empty", "(,2024-01-10]", "[2024-01-10,2024-01-10]", "(-infinity,infinity)"}},
		{"c_tzrange", "tstzrange", "tstzrange", []string{"[2024-01-01 00:00+00,2024-02-01 12:00+02)", "empty", "(2024-01-10 00:00Z,)", "[epoch,infinity]"}},
		{"c_mrange", "int4multirange", "int4multirange", []string{"{}", "{[1,5)}", "{[1,2),[4,5),[7,9)}", "{(,1),[3,)}", "{(,)}", "{[-2147483648,0),[2147483646,2147483647)}"}},
		{"c_nmrange", "nummultirange", "nummultirange", []string{"{}", "{[1,2),(2,3.5]}", "{(,1),(5,)}"}},
		{"c_ranges", "int4range[]", "int4range[]", []string{"{}", `{"[1,5)",empty,NULL}`, `{"(,)"}`}},
		{"c_pair", "pair", "pair", []string{"(1,a)", "(,)", "(1,)", `(,"")`, `(2,"a,""b\\)")`, `(3," x(")`}},
		{"c_lsn", "pg_lsn", "pg_lsn", []string{"0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF", "1/0", "0/FFFFFFFF"}},
		{"c_xid8", "xid8", "xid8", []string{"0", "1", "4294967296", "18446744073709551615"}},
		{"c_xid", "xid", "xid", []string{"0", "1", "4294967295"}},
		{"c_char", `"char"`, `"char"`, []string{"", "a", "Z", "0", " "}},
		{"c_bit", "bit(5)", `"bit"`, []string{"00000", "10110", "11111", "00001"}},
		{"c_varbit", "varbit", "varbit", []string{"", "0", "1", "10", "01", "10110", "101101110", "000000000"}},
	}
}

func newOracle(t testing.TB, seed uint64, rows int) *oracle {
	t.Helper()
	return newOracleOn(t, pgtest.New(t).Pool(t), seed, rows)
}

// newOracleOn makes the table in the pool's database.
func newOracleOn(t testing.TB, pool *pgxpool.Pool, seed uint64, rows int) *oracle {
	t.Helper()
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err, sql)
	}
	o := &oracle{kinds: append(kinds(), moreKinds()...)}
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&o.version))
	var cols, types []string
	for _, k := range o.kinds {
		cols = append(cols, k.column)
		types = append(types, k.column+" "+k.ddl)
	}
	exec("CREATE TYPE mood AS ENUM ('sad', 'ok', 'very happy'); CREATE DOMAIN posint AS int4 CHECK (VALUE > 0); CREATE DOMAIN mail AS text; CREATE TYPE pair AS (a int4, b text);" +
		outcome + "; CREATE TABLE t (id int PRIMARY KEY, " + strings.Join(types, ", ") + ")")
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range rows {
		vals := make([]string, len(o.kinds))
		for j, k := range o.kinds {
			vals[j] = "NULL"
			if i > 0 && rng.IntN(8) > 0 {
				values := k.values
				if k.cast == "interval" && o.version >= 17 {
					values = append(slices.Clone(values), "infinity", "-infinity") // refused in literals
				}
				vals[j] = "'" + values[rng.IntN(len(values))] + "'"
			}
		}
		exec(fmt.Sprintf("INSERT INTO t (id, %s) VALUES (%d, %s)", strings.Join(cols, ", "), i, strings.Join(vals, ", ")))
	}
	var err error
	o.conn, err = pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.conn.Close(context.WithoutCancel(t.Context())) })
	_, err = o.conn.PgConn().Exec(t.Context(), settings).ReadAll()
	require.NoError(t, err)

	table, err := inspector.New(pool, inspector.Options{}).Table(t.Context(), "public", "t", 0)
	require.NoError(t, err)
	o.scope = where.Scope{Schema: "public", Table: "t", Columns: table.WhereColumns()}
	for _, c := range table.Columns {
		if c.Name == "c_text" {
			o.scope.Default = c.Collation
		}
	}
	for _, r := range o.query(t, "SELECT * FROM t ORDER BY id") {
		row := make(changes.Row, len(r))
		for i, b := range r {
			row[i] = changes.Value{Kind: changes.Null}
			if b != nil {
				row[i] = changes.Value{Kind: changes.Text, Bytes: b}
			}
		}
		o.rows = append(o.rows, row)
	}
	require.Len(t, o.rows, rows)
	return o
}

func (o *oracle) query(t testing.TB, sql string) [][][]byte {
	t.Helper()
	rows, err := o.try(t, sql)
	require.NoError(t, err, sql)
	return rows
}

// try returns rows in text form, nil for NULL.
func (o *oracle) try(t testing.TB, sql string) ([][][]byte, error) {
	t.Helper()
	results, err := o.conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[0].Rows, nil
}

// check compares expressions with Postgres over every row, in batches; what is refused here is counted and left out.
func (o *oracle) check(t testing.TB, exprs []string) {
	t.Helper()
	o.compareAll(t, exprs, 1)
}

var (
	all        = flag.Bool("where.all", false, "compare every generated expression with Postgres, not a part of them")
	gaps       = flag.Bool("where.gaps", false, "log what is refused here and not by Postgres")
	sampleSeed = flag.Uint64("where.seed", 16201966180985733690, "which part of the generated expressions is compared; make soak/where takes another each time")
)

// checkSome compares one in so many of the expressions, others with another -where.seed, unless -where.all is given.
func (o *oracle) checkSome(t testing.TB, exprs []string, oneIn int) {
	t.Helper()
	if o.sample == nil {
		o.sample = rand.New(rand.NewPCG(*sampleSeed, 3))
		t.Logf("-where.seed=%d", *sampleSeed)
	}
	if *all {
		oneIn = 1
	}
	o.compareAll(t, exprs, oneIn)
}

func (o *oracle) compareAll(t testing.TB, exprs []string, oneIn int) {
	t.Helper()
	const batch = 20
	var pending []*where.Value
	var texts []string
	for _, e := range exprs {
		if oneIn > 1 && o.sample.IntN(oneIn) > 0 {
			continue
		}
		v, err := where.ParseValue(e, o.scope)
		if err != nil {
			var bad *where.Error
			require.ErrorAs(t, err, &bad, e)
			o.refused++
			if *gaps {
				if _, err := o.try(t, "EXPLAIN SELECT "+e+" FROM t"); err == nil {
					t.Logf("gap: %s: %s", e, bad.Message)
				}
			}
			continue
		}
		again, err := where.ParseValue(v.SQL, o.scope)
		if err != nil || again.SQL != v.SQL {
			t.Errorf("%s\n renders to %s\n which reads back as %v, %v", e, v.SQL, again, err)
		}
		o.accepted++
		pending, texts = append(pending, v), append(texts, e)
		if len(pending) == batch {
			o.compare(t, pending, texts)
			pending, texts = nil, nil
		}
	}
	o.compare(t, pending, texts)
}

func (o *oracle) compare(t testing.TB, vals []*where.Value, texts []string) {
	t.Helper()
	if len(vals) == 0 {
		return
	}
	var list []string
	for i, v := range vals {
		list = append(list, "("+texts[i]+")", "("+v.SQL+")")
	}
	rows, err := o.try(t, "SELECT "+strings.Join(list, ", ")+" FROM t ORDER BY id")
	if err == nil {
		for i, v := range vals {
			for r, row := range rows {
				if !o.same(t, v, texts[i], r, pgText(row[2*i]), pgText(row[2*i+1])) {
					break
				}
			}
		}
		return
	}
	if len(vals) > 1 {
		for i := range vals {
			o.compare(t, vals[i:i+1], texts[i:i+1])
		}
		return
	}
	// One expression that fails: row by row, to see for which.
	both := [2]string{texts[0], vals[0].SQL}
	got := [2][][][]byte{}
	for j, e := range both {
		got[j] = o.query(t, fmt.Sprintf("SELECT outcome(%s, id) FROM t ORDER BY id", "$e$"+e+"$e$"))
	}
	for r := range o.rows {
		if want, rendered := string(got[0][r][0]), string(got[1][r][0]); !o.same(t, vals[0], texts[0], r, want, rendered) {
			t.Logf("Postgres says: %v", err)
			return
		}
	}
}

// outcome evaluates an expression for one row and returns its text, NULL, or FAILED with the SQLSTATE.
const outcome = `CREATE FUNCTION outcome(e text, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
  EXECUTE 'SELECT CASE WHEN (' || e || ') IS NULL THEN ''NULL'' ELSE ''='' || format(''%s'', (' || e || ')) END FROM t WHERE id = ' || n INTO r;
  RETURN r;
EXCEPTION WHEN OTHERS THEN RETURN 'FAILED ' || SQLSTATE;
END $$`

// cutFailure parts FAILED from the SQLSTATE behind it.
func cutFailure(s string) (outcome, state string) {
	if state, ok := strings.CutPrefix(s, "FAILED "); ok {
		return "FAILED", state
	}
	return s, ""
}

func pgText(b []byte) string {
	if b == nil {
		return "NULL"
	}
	return "=" + string(b)
}

func (o *oracle) same(t testing.TB, v *where.Value, text string, r int, want, rendered string) bool {
	t.Helper()
	o.compared++
	got := v.Text(o.rows[r])
	want, failure := cutFailure(want)
	rendered, _ = cutFailure(rendered)
	if got == "FAILED" && want == rendered && want != got && o.infiniteInterval(t, text, r) {
		o.infinite++
		return true
	}
	if got != want && got == rendered && strings.HasPrefix(failure, "22") && o.mutable(t, text) {
		o.unfolded++
		return true
	}
	if got != want || rendered != want {
		o.differences++
		t.Errorf("%s\n rendered %s\n row %d (%s)\n here %q, in Postgres %q, rendered in Postgres %q%s", text, v.SQL, r, o.show(r, text), got, want, rendered, o.smallest(t, text, r))
	}
	return got == want && rendered == want
}

// infiniteInterval reports whether an expression fails here for one of the two reasons of docs/where.md: since Postgres 17
// a part of it is an infinite interval; before, it is the age of an infinite time, which is nonsense there.
func (o *oracle) infiniteInterval(t testing.TB, text string, r int) bool {
	t.Helper()
	for _, part := range parts(text) {
		if o.version >= 17 {
			rows, err := o.try(t, fmt.Sprintf("SELECT pg_typeof(%[1]s) = 'interval'::regtype AND (%[1]s)::text IN ('infinity', '-infinity') FROM t WHERE id = %[2]d", part, r))
			if err == nil && string(rows[0][0]) == "t" {
				return true
			}
			continue
		}
		v, err := where.ParseValue(part, o.scope)
		if err == nil && v.Text(o.rows[r]) == "FAILED" { // the shortest part that fails by itself
			return strings.HasPrefix(v.SQL, "pg_catalog.age(")
		}
	}
	return false
}

// mutable reports whether an expression has a part that Postgres does not call immutable: an index over it is refused.
//
// It is the one thing that may fail in Postgres as written and be folded away here. Postgres leaves the order of evaluation
// open (manual, 4.2.14 "Expression Evaluation Rules"), and its planner folds constants, so that 1 / 0 = n AND false is false;
// but it folds nothing that depends on a setting, as date '2024-01-01' < timestamptz '2000-01-01' does, and which is
// known here, since the settings of our sessions are. The rendered clause has the value and agrees with the stream.
func (o *oracle) mutable(t testing.TB, text string) bool {
	t.Helper()
	_, err := o.try(t, "BEGIN; CREATE INDEX ON t (("+text+")); ROLLBACK")
	if err == nil {
		return false
	}
	o.query(t, "ROLLBACK")
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr, text)
	return pgErr.Code == "42P17" // functions in index expression must be marked IMMUTABLE
}

// show prints the columns of a row that a text names.
func (o *oracle) show(r int, text string) string {
	var out []string
	for i, c := range o.scope.Columns {
		if strings.Contains(text, c.Name) {
			out = append(out, fmt.Sprintf("%s=%q", c.Name, o.rows[r][i].Bytes))
		}
	}
	return strings.Join(out, " ")
}

func (o *oracle) report(t testing.TB) {
	t.Helper()
	t.Logf("%d expressions accepted, %d refused, %d values compared, %d of them fail here for infinite intervals, %d in Postgres for parts that it does not fold", o.accepted, o.refused, o.compared, o.infinite, o.unfolded)
}

func quote(s string) string { return "'" + s + "'" }
