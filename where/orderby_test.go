package where_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/where"
)

func TestOrderBy(t *testing.T) {
	for _, tc := range []struct{ text, sql string }{
		{"id", "id"},
		{"ID asc", "id"},
		{"id DESC NULLS LAST", "id DESC NULLS LAST"},
		{"t, id desc", "t, id DESC"},
		{"t nulls first", "t NULLS FIRST"},
		{`"id"`, "id"},
		{`"Odd name" DESC, "select"`, `"Odd name" DESC, "select"`},
		{"(id)", "id"},
		{" items.id ", "id"},
		{"public.items.id", "id"},
		{`t COLLATE "C"`, `t COLLATE pg_catalog."C"`},
		{`t COLLATE pg_catalog."en-x-icu" DESC`, `t COLLATE pg_catalog."en-x-icu" DESC`},
		{`t COLLATE "x""; DROP"`, `t COLLATE pg_catalog."x""; DROP"`},
		{"id, id DESC, n, id", "id, n"},
		{`t COLLATE "C", t, t COLLATE "C" DESC`, `t COLLATE pg_catalog."C", t`},
		{"p", "p"}, // Postgres itself says that points have no order
	} {
		o, err := where.ParseOrderBy(tc.text, testScope())
		if assert.NoError(t, err, tc.text) {
			assert.Equal(t, tc.sql, o.SQL(), tc.text)
		}
	}
}

func TestOrderByIsMadeTotal(t *testing.T) {
	for _, tc := range []struct{ text, sql string }{
		{"t DESC", `t DESC, id, "select"`},
		{"id DESC, t", `id DESC, t, "select"`},
		{`"select", id`, `"select", id`},
		{`id, "select" DESC, t COLLATE "C"`, `id, "select" DESC, t COLLATE pg_catalog."C"`},
	} {
		o, err := where.ParseOrderBy(tc.text, testScope())
		require.NoError(t, err, tc.text)
		assert.Equal(t, tc.sql, o.SQL("id", "select"), tc.text)
	}
	o, err := where.ParseOrderBy(`t COLLATE "en-x-icu"`, testScope())
	require.NoError(t, err)
	assert.Equal(t, `t COLLATE pg_catalog."en-x-icu", t`, o.SQL("t"), "equal under another collation is not equal")
}

// B186: what is no column is refused, and says where.
func TestOrderByRefuses(t *testing.T) {
	many := make([]string, where.MaxOrderColumns+1)
	wide := testScope()
	for i := range many {
		many[i] = "c" + strconv.Itoa(i)
		wide.Columns = append(wide.Columns, where.Column{Name: many[i], Type: builtinType(23, "int4"), TypeMod: -1})
	}
	for _, tc := range []struct{ text, message string }{
		{"nosuch", "At location 0: unknown reference nosuch"},
		{"id, nosuch DESC", "At location 4: unknown reference nosuch"},
		{"other.id", "At location 0: unknown reference other.id"},
		{"ctid", "At location 0: unknown reference ctid"},
		{"id, xmin", "At location 4: unknown reference xmin"},
		{"items", "At location 0: unknown reference items"},
		{"(SELECT 1)", "At location 0: SubLink expressions are not allowed in ORDER BY clauses"},
		{"id, (SELECT s FROM hidden)", "At location 4: SubLink expressions are not allowed in ORDER BY clauses"},
		{"CAST((SELECT s FROM hidden) AS int)", "At location 0: TypeCast expressions are not allowed in ORDER BY clauses"},
		{"id::text", "At location 2: TypeCast expressions are not allowed in ORDER BY clauses"},
		{"pg_sleep(3)", "At location 0: FuncCall expressions are not allowed in ORDER BY clauses"},
		{"lower(t)", "At location 0: FuncCall expressions are not allowed in ORDER BY clauses"},
		{"lower(t) COLLATE \"C\"", "At location 0: FuncCall expressions are not allowed in ORDER BY clauses"},
		{"random()", "At location 0: FuncCall expressions are not allowed in ORDER BY clauses"},
		{"CASE WHEN 1=1 THEN id END", "At location 0: CaseExpr expressions are not allowed in ORDER BY clauses"},
		{"id + 1", "At location 3: AExpr expressions are not allowed in ORDER BY clauses"},
		{"1", "At location 0: AConst expressions are not allowed in ORDER BY clauses"},
		{"arr[1]", "At location 0: AIndirection expressions are not allowed in ORDER BY clauses"},
		{"(id).x", "At location 0: AIndirection expressions are not allowed in ORDER BY clauses"},
		{"*", `At location 0: syntax error at or near "*"`},
		{"items.*", "At location 0: * is not supported in this context"},
		{"$1", "At location 0: parameter $1 is not supported in ORDER BY clauses"},
		{"id, $12 DESC", "At location 4: parameter $12 is not supported in ORDER BY clauses"},
		{"id USING >", "At location 0: USING is not allowed in ORDER BY clauses"},
		{"id; DROP TABLE items", "Unexpected `;` in order by"},
		{"id;", "Unexpected `;` in order by"},
		{"id -- x", "At location 3: comments are not allowed in ORDER BY clauses"},
		{"id /* x */", "At location 3: comments are not allowed in ORDER BY clauses"},
		{"id LIMIT 1", "malformed query ending with SQL clauses"},
		{"id OFFSET 1", "malformed query ending with SQL clauses"},
		{"id FOR UPDATE", "malformed query ending with SQL clauses"},
		{"id) UNION SELECT (1", `At location 2: syntax error at or near ")"`},
		{"id UNION SELECT 1", `At location 3: syntax error at or near "UNION"`},
		{"id id", `At location 3: syntax error at or near "id"`},
		{"id,", "At location 3: syntax error at end of input"},
		{"", "At location 0: syntax error at end of input"},
		{`"id`, `At location 0: unterminated quoted identifier at or near ""id"`},
		{`id COLLATE "C"`, "At location 3: collations are not supported by type int4"},
		{`t COLLATE public."C"`, `At location 2: collation "public.C" is not supported, only those of pg_catalog are`},
		{"i\xffd", "ORDER BY clause is not valid UTF-8"},
		{"i\x00d", "ORDER BY clause contains a NUL byte"},
		{strings.Repeat("id,", 22_000) + "id", "ORDER BY clause is bigger than maximum size of 65536 bytes"},
		{strings.Repeat("(", 30_000) + "id" + strings.Repeat(")", 30_000), "At location 50: ORDER BY clause is nested too deeply"},
		{strings.Join(many, ","), "ORDER BY has more than 100 columns"},
	} {
		_, err := where.ParseOrderBy(tc.text, wide)
		var bad *where.Error
		require.ErrorAs(t, err, &bad, "%.80s", tc.text)
		assert.Equal(t, "order_by", bad.Field, "%.80s", tc.text)
		assert.Equal(t, tc.message, bad.Error(), "%.80s", tc.text)
	}
}

// Callers tell these from others.
func TestCauses(t *testing.T) {
	_, err := where.Parse("n IN (SELECT 1)", nil, testScope())
	require.ErrorIs(t, err, where.ErrSubquery)
	_, err = where.Parse("m = 'nosuch'", nil, testScope())
	var label *where.LabelError
	require.ErrorAs(t, err, &label)
	require.Equal(t, `invalid input value for enum mood: "nosuch"`, label.Error())
	_, err = where.Parse("n = 'nosuch'", nil, testScope())
	require.NotErrorAs(t, err, &label)
	require.NotErrorIs(t, err, where.ErrSubquery)
}

// FuzzOrderBy wants no panic, and of every accepted list an SQL that is accepted and stays as it is.
func FuzzOrderBy(f *testing.F) {
	for _, s := range []string{"id", "id DESC NULLS LAST, t", `t COLLATE "C"`, "(id)", "id; x", "id -- x", `"Odd name"`, "((id", "$1", "id USING <"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := where.ParseOrderBy(text, testScope())
		if err != nil {
			var bad *where.Error
			require.ErrorAs(t, err, &bad)
			require.Equal(t, "order_by", bad.Field)
			require.NotEmpty(t, bad.Message)
			return
		}
		again, err := where.ParseOrderBy(o.SQL(), testScope())
		require.NoError(t, err, o.SQL())
		require.Equal(t, o.SQL(), again.SQL())
	})
}
