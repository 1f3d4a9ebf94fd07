package where_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/where"
)

// Equivalent texts give one SQL, and a clause is another one where protocol.md §8.1 and transcript 04 say so.
func TestSQLIsTheIdentity(t *testing.T) {
	for _, tc := range []struct{ text, sql string }{
		{"n > 10", "(n > 10)"},
		{"n   >   10", "(n > 10)"},
		{"(n > 10)", "(n > 10)"},
		{"n > /* c */ 10 -- x", "(n > 10)"},
		{"items.n > 10", "(n > 10)"},
		{"public.items.n > 10", "(n > 10)"},
		{"N > 10", "(n > 10)"},
		{"n > $1", "(n > '10'::int4)"},
		{"n > '10'", "(n > '10'::int4)"},
		{"n > CAST('10' AS int)", "(n > '10'::int4)"},
		{"10 < n", "(10 < n)"},
		{"n > -10", "(n > (-10))"},
		{"n = 1 AND (c AND t = 'x')", "((n = 1) AND c AND (t = 'x'::text))"},
		{"n IN (1, 5)", "(n = ANY ('{1,5}'::int4[]))"},
		{"n = ANY(ARRAY[1,5])", "(n = ANY ('{1,5}'::int4[]))"},
		{"n NOT IN (1, NULL)", "(n <> ALL ('{1,NULL}'::int4[]))"},
		{"n IN (1, id)", "((n = 1) OR (n = id))"},
		{"n BETWEEN 1 AND 3", "((n >= 1) AND (n <= 3))"},
		{`"Odd name" = 1 AND "select" = 2`, `(("Odd name" = 1) AND ("select" = 2))`},
		{"g = '{A0EEBC999C0B4EF8BB6D6BB9BD380A11}'", "(g = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid)"},
		{"m = 'sad'", "(m = 'sad'::public.mood)"},
		{"ts > '2024-01-01'", "(ts > '2024-01-01 00:00:00+00'::timestamptz)"},
		{`t = 'it''s \ "x"'`, `(t = E'it''s \\ "x"'::text)`},
		{"n = 1 + 1", "(n = '2'::int4)"},
		{"e < CASE WHEN 1 = 1 THEN n ELSE e END", "(e < (n)::numeric)"},
		{"e < CASE WHEN c THEN n WHEN 1 = 2 THEN e ELSE id END", "(e < CASE WHEN c THEN (n)::numeric ELSE (id)::numeric END)"},
		{"1 = 1", "true"},
		{"NULL", "NULL::bool"},
		{"n = NULL", "NULL::bool"},
		{"t NOT LIKE 'a%'", "(t !~~ 'a%'::text)"},
		{`t COLLATE "C" < 'b'`, `((t COLLATE "C") < 'b'::text)`},
		{"n IS DISTINCT FROM NULL", "(n IS NOT NULL)"},
		{"(n, id) < (1, 2)", "(ROW(n, id) < ROW(1, 2))"},
		{"p IS NULL", "(p IS NULL)"},
	} {
		e, err := where.Parse(tc.text, map[string]string{"1": "10"}, testScope())
		require.NoError(t, err, tc.text)
		assert.Equal(t, tc.sql, e.SQL(), tc.text)
		again, err := where.Restore(e.SQL(), testScope())
		if assert.NoError(t, err, tc.text) {
			assert.Equal(t, e.SQL(), again.SQL())
		}
	}
}

// What is refused is refused with a place and a name (protocol.md §8.4; transcripts 05 and 09).
func TestRefusals(t *testing.T) {
	for _, tc := range []struct{ text, message string }{
		{"t =", "At location 18: syntax error at end of input"},
		{"1 x 1", `At location 17: syntax error at or near "x"`},
		{"", "At location 15: syntax error at end of input"},
		{"nope = 1", "At location 0: unknown reference nope"},
		{"other.n = 5", "At location 0: unknown reference other.n"},
		{"t", "WHERE clause must return a boolean"},
		{"'abc'", "WHERE clause must return a boolean"},
		{"NULL::int", "WHERE clause must return a boolean"},
		{"ARRAY[true]", "WHERE clause must return a boolean"},
		{"t = 1", "At location 2: Could not select an operator overload"},
		{"n = t", "At location 2: Could not select an operator overload"},
		{"n = $2", "At location 4: parameter $2 was not provided"},
		{"id = $1", "At location 5: invalid syntax for type int4: x"},
		{"n = 'x'", "At location 4: invalid syntax for type int4: x"},
		{"arr = 'x'", "At location 6: invalid syntax for type int4[]: x"},
		{"m = 'happy'", "At location 4: invalid syntax for type enum mood: happy"},
		{"now() > ts", "At location 0: unknown or unsupported function now/0"},
		{"current_user = t", "At location 0: SQLValueFunction is not supported in this context"},
		{"ts > 'now'", "At location 5: invalid syntax for type timestamptz: now"},
		{"d = 'today'", "At location 4: invalid syntax for type date: today"},
		{"ts > '01/02/2024'", "At location 5: invalid syntax for type timestamptz: 01/02/2024"},
		{"count(id) > 1", "At location 0: unknown or unsupported function count/1"},
		{"lower(DISTINCT t) = 'x'", "At location 0: aggregation is not supported in this context"},
		{"concat(VARIADIC arr) = 'x'", "At location 0: explicit VARIADIC function calls are not currently supported"},
		{"lower(n) = 'x'", "At location 0: Could not select a function overload for lower(int4)"},
		{"id = 1; DROP TABLE items", `unescaped ";" causing statement split`},
		{"id = 1;", `unescaped ";" causing statement split`},
		{"1=1 LIMIT 5", "malformed query ending with SQL clauses"},
		{"1=1 GROUP BY 1", "malformed query ending with SQL clauses"},
		{"1=1 UNION SELECT 1", "malformed query ending with SQL clauses"},
		{"1=1 FOR UPDATE", "malformed query ending with SQL clauses"},
		{"n = B'1'", "At location 4: BitString values are not supported"},
		{"n IS TRUE", "At location 0: argument of IS TRUE must be bool, not int4"},
		{"NOT n", "At location 4: argument of NOT must be bool, not int4"},
		{"n = ANY(5)", "At location 2: argument of ANY must be an array"},
		{"n + ANY(arr)", "At location 2: ANY/ALL requires operator that returns bool"},
		{"n / 0 = 1 AND 1/0 = 1", "At location 15: Failed to apply function to constant arguments"},
		{"n IN (SELECT id FROM items)", "At location 2: subqueries are not supported in where clauses"},
		{"EXISTS (SELECT 1)", "At location 0: subqueries are not supported in where clauses"},
		{"n = $1 AND t = $1", "At location 4: invalid syntax for type int4: x"},
		{"t = $1 AND n = $1", "At location 15: type conflict for $1: text and int4"},
		{"n = 1::bpchar::nosuch", "At location 15: unsupported type nosuch"},
		{"c::date = d", "At location 1: unknown cast from type bool to type date"},
		{"p ~= '(1,2)'", "At location 5: unsupported type point: geometric operators round; store the coordinates in columns of their own"},
		{"n %% 2 = 1", `At location 2: unknown binary operator "%%"`},
		{"ARRAY[1, 'x'] = arr", "At location 9: invalid syntax for type int4: x"},
		{"COALESCE(n, t) = 'x'", "At location 0: COALESCE types int4 and text cannot be matched"},
		{`t LIKE 'a\'`, "At location 7: LIKE pattern must not end with escape character"},
		{"en < 'b'", `At location 3: the order of text under collation "en_US.UTF-8" is not supported; add COLLATE "C" to one side`},
		{"en ILIKE 'b'", `At location 3: lower and upper case under collation "en_US.UTF-8" are not supported; add COLLATE "C" to the argument`},
		{"ci = 'b'", `At location 3: collation "und-u-ks-level2" is not deterministic, which is not supported; add COLLATE "C" to one side`},
		{"cc = en", `At location 3: the collations of the two sides differ; add COLLATE "C" to one side`},
		{"t < 'b' COLLATE \"de_DE\"", `At location 8: collation "de_DE" is not supported; COLLATE "C" is`},
		{"ts AT TIME ZONE 'Europe/Berlin' < '2024-06-01'", `At location 16: time zone "Europe/Berlin" is not supported, since its rules depend on the database server's release of the time zone data; UTC and an interval such as interval '2 hours' are`},
		{"t = 'a\x00b'", "WHERE clause contains a NUL byte"},
		{"t = '\xff'", "WHERE clause is not valid UTF-8"},
		{"t = '" + strings.Repeat("a", 65536) + "'", "WHERE clause is bigger than maximum size of 65536 bytes"},
	} {
		_, err := where.Parse(tc.text, map[string]string{"1": "x"}, testScope())
		var bad *where.Error
		if assert.ErrorAs(t, err, &bad, tc.text) {
			assert.Equal(t, tc.message, bad.Error(), tc.text)
			assert.Equal(t, "where", bad.Field)
		}
	}
}

func TestEqualityNeedsNoOrder(t *testing.T) {
	for _, text := range []string{"en = 'b'", "en IN ('a','b')", "en LIKE 'a%'", `en COLLATE "C" < 'b'`, `lower(en COLLATE "C") = 'b'`, "ci IS NULL", `ci COLLATE "C" = 'x'`} {
		_, err := where.Parse(text, nil, testScope())
		assert.NoError(t, err, text)
	}
}

func TestParameters(t *testing.T) {
	for _, tc := range []struct {
		params  map[string]string
		message string
	}{
		{map[string]string{"a": "1"}, "Parameters can only use numbers as keys"},
		{map[string]string{"": "1"}, "Parameters can only use numbers as keys"},
		{map[string]string{"2": "1"}, "Parameters must be numbered sequentially, starting from 1"},
		{map[string]string{"01": "1"}, "Parameters must be numbered sequentially, starting from 1"},
		{map[string]string{"1": "1", "3": "1"}, "Parameters must be numbered sequentially, starting from 1"},
		{map[string]string{"1": "a\x00b"}, "parameter $1 contains a NUL byte"},
		{map[string]string{"1": "\xc3\x28"}, "parameter $1 is not valid UTF-8"},
	} {
		_, err := where.Parse("t = $1", tc.params, testScope())
		var bad *where.Error
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, "params", bad.Field)
		assert.Equal(t, tc.message, bad.Error())
	}
	_, err := where.Parse("t = $1", map[string]string{"1": "a", "2": "not used"}, testScope())
	assert.NoError(t, err)
}

// Three-valued logic (fault B052): NULL in one branch does not make the whole NULL.
func TestLogicWithNull(t *testing.T) {
	row := testRow("NULL", "x", "NULL")
	for text, want := range map[string]where.Tri{
		"id = 1 OR n = 1":          where.True,
		"n = 1 OR id = 1":          where.True,
		"id = 2 OR n = 1":          where.Unknown,
		"id = 2 AND n = 1":         where.False,
		"n = 1 AND id = 2":         where.False,
		"NOT (id = 2 AND n = 1)":   where.True,
		"id = 1 AND c":             where.Unknown,
		"NOT c":                    where.Unknown,
		"id IN (1, NULL)":          where.True,
		"id IN (2, NULL)":          where.Unknown,
		"id NOT IN (2, NULL)":      where.Unknown,
		"id NOT IN (1, NULL)":      where.False,
		"n IN (1, 2)":              where.Unknown,
		"n = ANY('{}')":            where.False,
		"n <> ALL('{}')":           where.True,
		"n IS NULL":                where.True,
		"c IS UNKNOWN":             where.True,
		"c IS NOT TRUE":            where.True,
		"n IS NOT DISTINCT FROM 1": where.False,
		"n IS DISTINCT FROM 1":     where.True,
		"10 / (id - 1) = 1":        where.Failed,
		"NOT (10 / (id - 1) = 1)":  where.Failed,
		"id = 2 AND 10/(id-1) = 1": where.False,
	} {
		e, err := where.Parse(text, nil, testScope())
		require.NoError(t, err, text)
		assert.Equal(t, want, e.Eval(row), text)
		assert.Equal(t, want == where.True, e.Match(row), text)
	}
}

// A varchar cast to character(n)'s type is compared without its trailing blanks.
func TestRelabelledColumnKeepsTheComparisonOfItsType(t *testing.T) {
	e, err := where.Parse("t::varchar::bpchar = 'ab'", nil, testScope())
	require.NoError(t, err)
	assert.True(t, e.Match(testRow("1", "ab  ", "t")))
	assert.Empty(t, e.Keys())
}

// A row that does not fit the clause never matches, and never panics.
func TestOddRowsDoNotMatch(t *testing.T) {
	e, err := where.Parse("n > 10 OR t = 'x' OR d = '2024-01-01' OR m = 'ok'", nil, testScope())
	require.NoError(t, err)
	assert.Equal(t, where.Failed, e.Eval(nil))
	assert.Equal(t, where.Failed, e.Eval(testRow("not a number", "y", "t")))
	row := testRow("1", "y", "t")
	row[2] = changes.Value{Kind: changes.Unchanged}
	assert.Equal(t, where.Failed, e.Eval(row))
}

// A label that was added to an enum after the clause was checked is equal to itself only, and has no order.
func TestNewEnumLabels(t *testing.T) {
	row := testRow("1", "y", "t")
	row[5] = changes.Value{Kind: changes.Text, Bytes: []byte("mad")}
	for text, want := range map[string]where.Tri{
		"m = 'ok'": where.False, "m <> 'ok'": where.True, "m IN ('ok', 'sad')": where.False, "m NOT IN ('ok','sad')": where.True,
		"m::text = 'mad'": where.True, "m > 'sad'": where.Failed, "m = m": where.True, "m IS NOT NULL": where.True,
	} {
		e, err := where.Parse(text, nil, testScope())
		require.NoError(t, err, text)
		assert.Equal(t, want, e.Eval(row), text)
	}
}

func TestColumnsAndKeys(t *testing.T) {
	key := func(c int, v ...string) where.Key { return where.Key{Column: c, Values: v} }
	for _, tc := range []struct {
		text    string
		columns []int
		keys    []where.Key
	}{
		{"id = 7", []int{0}, []where.Key{key(0, "7")}},
		{"'7' = id", []int{0}, []where.Key{key(0, "7")}},
		{"id = 5000000000", []int{0}, []where.Key{key(0, "5000000000")}},
		{"id IN (9, 10, NULL, 9)", []int{0}, []where.Key{key(0, "10", "9")}},
		{"n > 1 AND id = 7 AND t = 'x'", []int{0, 1, 2}, []where.Key{key(0, "7"), key(2, "x")}},
		{"id = 1 OR id = 2", []int{0}, []where.Key{key(0, "1", "2")}},
		{"id = 1 OR n = 2", []int{0, 1}, nil},
		{"(id = 1 AND n = 2) OR (id = 3 AND n > 5)", []int{0, 1}, []where.Key{key(0, "1", "3")}},
		{"id = 1 AND id = 2", []int{0}, []where.Key{key(0)}},
		{"id IN (1,2) AND id IN (2,3)", []int{0}, []where.Key{key(0, "2")}},
		{"NOT (id = 1)", []int{0}, nil},
		{"id <> 1", []int{0}, nil},
		{"id = n", []int{0, 1}, nil},
		{"c", []int{3}, []where.Key{key(3, "t")}},
		{"NOT c", []int{3}, []where.Key{key(3, "f")}},
		{"c = true", []int{3}, []where.Key{key(3, "t")}},
		{"m = 'ok'", []int{5}, []where.Key{key(5, "ok")}},
		{"g = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", []int{4}, []where.Key{key(4, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")}},
		{"d = '20240131'", []int{8}, []where.Key{key(8, "2024-01-31")}},
		{"en = 'x'", []int{11}, []where.Key{key(11, "x")}},
		{"e = 1.5", []int{6}, nil},    // 1.5 and 1.50 are equal
		{"h = 1.5", []int{7}, nil},    // so are 0 and -0
		{"bc = 'ab'", []int{16}, nil}, // padding does not count
		{"true", nil, nil},
	} {
		e, err := where.Parse(tc.text, nil, testScope())
		require.NoError(t, err, tc.text)
		assert.Equal(t, tc.columns, e.Columns(), tc.text)
		assert.Empty(t, tc.keys == nil && len(e.Keys()) > 0, tc.text)
		if tc.keys != nil {
			require.Len(t, e.Keys(), len(tc.keys), tc.text)
			for i, k := range tc.keys {
				assert.Equal(t, k.Column, e.Keys()[i].Column, tc.text)
				assert.ElementsMatch(t, k.Values, e.Keys()[i].Values, tc.text)
			}
		}
	}
}

// Huge and deeply nested texts (fault B190) are answered or refused in bounded time, and never end the process.
func TestHugeTexts(t *testing.T) {
	ids := make([]string, 9000)
	for i := range ids {
		ids[i] = "1" + strings.Repeat("0", i%5)
	}
	pairs := strings.TrimSuffix(strings.Repeat("(id=1 OR id=2) AND ", 30), " AND ")
	for name, tc := range map[string]struct {
		text string
		ok   bool
	}{
		"parentheses":  {strings.Repeat("(", 2000) + "id=1" + strings.Repeat(")", 2000), false},
		"some":         {strings.Repeat("(", 200) + "id=1" + strings.Repeat(")", 200), true},
		"not":          {strings.Repeat("NOT ", 3000) + "id=1", false},
		"or":           {"id=0" + strings.Repeat(" OR id=1", 3000), true},
		"and":          {"id<>0" + strings.Repeat(" AND id<>1", 3000), true},
		"in":           {"id IN (" + strings.Join(ids, ",") + ")", true},
		"minus":        {"id = " + strings.Repeat("- ", 5000) + "1", false},
		"plus":         {"id = 1" + strings.Repeat("+1", 8000), false},
		"concat":       {"t = 'a'" + strings.Repeat("||'a'", 4000), false},
		"long":         {"t = '" + strings.Repeat("a", 60000) + "'", true},
		"dnf":          {pairs, true},
		"array":        {"id = ANY(ARRAY" + strings.Repeat("[", 200) + "1" + strings.Repeat("]", 200) + ")", false},
		"case":         {strings.Repeat("CASE WHEN id=1 THEN ", 800) + "true" + strings.Repeat(" END", 800), false},
		"between-deep": {nest(40, func(s string) string { return "((" + s + ") BETWEEN false AND true)" }), false},
		"symmetric":    {nest(30, func(s string) string { return "((" + s + ") BETWEEN SYMMETRIC false AND true)" }), false},
		"in-columns":   {nest(60, func(s string) string { return "((" + s + ") IN (c, c))" }), false},
		"case-subject": {nest(40, func(s string) string { return "(CASE " + s + " WHEN true THEN c WHEN false THEN c END)" }), false},
		"row":          {"(" + strings.Repeat("id,", 3000) + "id) < (" + strings.Repeat("id,", 3000) + "id)", false},
		"casts":        {"id" + strings.Repeat("::int4", 5000) + " = 1", false},
		"subscripts":   {"arr" + strings.Repeat("[1]", 5000) + " = 1", false},
		"quotes":       {"t = '" + strings.Repeat("''", 30000) + "'", true},
		"comment":      {"id = 1 " + strings.Repeat("/*", 30000), false},
		"comments":     {"id = 1 " + strings.Repeat("/**/", 15000), false},
	} {
		began := processorTime(t)
		e, err := where.Parse(tc.text, nil, testScope())
		if took := processorTime(t) - began; took > 5*time.Second { // it is 0.3 s at most, without -race
			t.Errorf("%s took %v", name, took)
		}
		var bad *where.Error
		if !tc.ok {
			require.ErrorAs(t, err, &bad, name)
			continue
		}
		if assert.NoError(t, err, name) {
			again, err := where.Restore(e.SQL(), testScope())
			if assert.NoError(t, err, name) {
				assert.Equal(t, e.SQL(), again.SQL(), name)
			}
		}
	}
}

// processorTime is what this process has computed so far, which other processes of a busy machine do not change.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func nest(n int, f func(string) string) string {
	s := "c"
	for range n {
		s = f(s)
	}
	return s
}

// A list of 100 000 members comes as a parameter; it is parsed once and searched in logarithmic time.
func TestHugeListParameter(t *testing.T) {
	var b strings.Builder
	b.WriteString("{0")
	for i := range 100_000 {
		b.WriteString(",")
		b.WriteString(strings.Repeat("7", 1+i%3) + string(rune('0'+i%10)))
	}
	b.WriteString("}")
	e, err := where.Parse("n = ANY($1)", map[string]string{"1": b.String()}, testScope())
	require.NoError(t, err)
	assert.True(t, e.Match(testRow("777", "x", "t")))
	assert.False(t, e.Match(testRow("9", "x", "t")))
	again, err := where.Restore(e.SQL(), testScope())
	require.NoError(t, err)
	assert.Equal(t, e.SQL(), again.SQL())
}

// Patterns that make backtracking matchers slow (fault B196) take time linear in the text.
func TestLikeDoesNotBacktrack(t *testing.T) {
	text := strings.Repeat("a", 20000)
	row := testRow("1", text, "t")
	for _, pattern := range []string{strings.Repeat("%a", 15) + "%b", strings.Repeat("%_", 13) + "%q", strings.Repeat("%", 1000) + "b", strings.Repeat("%a_", 20) + "b"} {
		for _, op := range []string{"LIKE", "ILIKE"} {
			e, err := where.Parse("t "+op+" '"+pattern+"'", nil, testScope())
			require.NoError(t, err)
			began := time.Now()
			assert.False(t, e.Match(row))
			assert.Less(t, time.Since(began), 2*time.Second, pattern)
		}
	}
}
