package where_test

import (
	"fmt"
	"testing"
)

// TestArraysAgreeWithPostgres tries constructors, subscripts, slices and the functions of arrays with arrays of every
// shape and element type.
func TestArraysAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 21, 40)
	var exprs []string
	add := func(format string, args ...any) { exprs = append(exprs, fmt.Sprintf(format, args...)) }
	elems := map[string][]string{
		"c_ints": {"1", "NULL", "c_int4", "2147483647"}, "c_grid": {"1", "NULL", "c_int8", "5000000000"},
		"c_texts": {"'a'", "NULL", "c_text", "'NULL'", "''"}, "c_floats": {"'NaN'", "0", "NULL", "c_float8"},
		"c_moods": {"'sad'", "NULL", "c_mood"}, "c_tss": {"'2024-01-01'", "NULL", "c_tstz"}, "c_posints": {"1", "c_pos", "NULL"},
		"c_uuids": {"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "c_uuid", "NULL"}, "c_jsonbs": {"'1'", "c_jsonb", "NULL", `'{"a": 1.0}'`},
	}
	subscripts := []string{
		"[1]", "[0]", "[-1]", "[NULL]", "[2][1]", "[3][0]", "[1][1][1]", "[c_int4]", "[c_int2][2]", "[1:2]", "[:1]", "[2:]", "[:]",
		"[0:0]", "[2:1]", "[NULL:2]", "[1:2][1:1]", "[1:2][2]", "[2][1:2]", "[:][:1]", "[2:][:]", "[:][:][:]", "[c_int4:c_int8]", "['1']", "[1.6]", "[-5:-4]",
		"[1:1][1:1][1:1][1:1][1:1][1:1]", "[1:1][1:1][1:1][1:1][1:1][1:1][1:1]",
	}
	for a, list := range elems {
		for _, s := range subscripts {
			add("%s%s", a, s)
			add("(%s || %s)%s", a, a, s)
		}
		for _, f := range []string{
			"array_ndims(%s)", "array_dims(%s)", "cardinality(%s)", "%s::text", "array_to_string(%s, ',')", "array_to_string(%s, '', 'null')",
			"array_to_string(%s, NULL)", "array_to_string(%s, '-', NULL)", "array_to_string(%s, c_text, c_text)", "ARRAY[%[1]s, %[1]s]", "ARRAY[%s, '{}']", "ARRAY[%s, NULL]",
			"%[1]s || %[1]s", "'{}' || %s", "%s || '{}'", "NULL || %s", "%[1]s || ARRAY[%[1]s, %[1]s]", "ARRAY[%[1]s] || %[1]s", "array_cat(%[1]s, %[1]s[1:2])",
			"%[1]s = %[1]s[:]", "%[1]s IS DISTINCT FROM %[1]s || %[1]s", "greatest(%[1]s, %[1]s[2:])", "nullif(%[1]s, '{}')", "%[1]s IN ('{}', %[1]s[1:1])",
			"%s @> ARRAY[]::int4[]", "(%s)[1:1][1]", "coalesce(%[1]s, '{}')", "CASE WHEN %[1]s IS NULL THEN '{}' ELSE %[1]s[2:] END",
		} {
			add(f, a)
		}
		for i := -1; i < 4; i++ {
			for _, f := range []string{"array_length", "array_lower", "array_upper", "trim_array"} {
				add("%s(%s, %d)", f, a, i)
				add("%s(%s, c_int2)", f, a)
			}
		}
		for b := range elems {
			for _, op := range []string{"=", "<>", "<", "<=", ">", ">=", "@>", "<@", "&&", "||"} {
				add("%s %s %s", a, op, b)
				add("%s %s %s[2:]", a, op, b)
			}
		}
		for _, e := range list {
			for _, f := range []string{
				"array_append(%s, %s)", "array_prepend(%[2]s, %[1]s)", "%s || %s", "%[2]s || %[1]s", "array_remove(%s, %s)", "array_position(%s, %s)",
				"array_positions(%s, %s)", "array_position(%s, %s, 2)", "array_position(%s, %s, NULL)", "array_position(%s, %s, c_int4)", "array_replace(%s, %s, NULL)",
				"array_replace(%[1]s, %[2]s, %[1]s[1])", "array_replace(%[1]s, NULL, %[2]s)", "%[2]s = ANY (%[1]s)", "%[2]s <> ALL (%[1]s)", "%[2]s < ANY (%[1]s)", "ARRAY[%[2]s, %[1]s[1]]",
				"%[1]s @> ARRAY[%[2]s]", "%[1]s && ARRAY[%[2]s, NULL]", "ARRAY[%[2]s] <@ %[1]s", "%[1]s = ARRAY[%[2]s]", "%[1]s < ARRAY[%[2]s]", "ARRAY[[%[2]s], [NULL]]", "ARRAY[[%[2]s, %[1]s[1]], [%[1]s[2], %[2]s]]",
			} {
				add(f, a, e)
			}
		}
	}
	for _, s := range []string{"c_text", "c_textc", "''", "'a,b,,c'", "',a'", "NULL", "'日本,é'", "'a%b%b'"} {
		for _, sep := range []string{"','", "NULL", "''", "'a'", "c_text", "'本'", "',,'"} {
			add("string_to_array(%s, %s)", s, sep)
			for _, null := range []string{"''", "'a'", "NULL", "c_text"} {
				add("string_to_array(%s, %s, %s)", s, sep, null)
			}
		}
	}
	for _, x := range []string{
		"ARRAY[1,2]", "ARRAY[[1,2],[3,4]]", "ARRAY[[1],[2,3]]", "ARRAY[1, 2.5]", "ARRAY['1', 2]", "ARRAY[]", "ARRAY[]::text[]", "ARRAY[[],[]]::int4[]", "ARRAY[['1','2'],['3','4']]::int8[]",
		"ARRAY[[[1]]] || 5", "ARRAY[ARRAY[1,2], c_ints]", "ARRAY[c_ints, c_posints]", "ARRAY[NULL, NULL]::int4[]", "ARRAY[[1,2], NULL]", "ARRAY[[1,2], '{3,4}']", "ARRAY['{1,2}'::int4[], '{3}']",
		"ARRAY[c_int2, c_int8]", "ARRAY[c_mood, 'ok']", "ARRAY[c_text, c_varchar]", "ARRAY[c_date, c_ts]", "ARRAY[c_jsonb, '{}']", "ARRAY[c_json]", "ARRAY[c_pos]", "ARRAY[c_bpchar, c_text]",
		"'{{},{}}'::int4[]", "'[1:2]={1}'::int4[]", "'[2147483647:2147483647]={1}'::int4[]", "'[2147483646:2147483646]={1}'::int4[] || 1", "'[2147483646:2147483646]={1}'::int4[] || '{1}'", "'[-2147483648:-2147483648]={1}'::int4[]",
		"array_prepend(1, '[-2147483648:-2147483648]={2}'::int4[])", "'{{1,2},{3}}'::int4[]", "'{-1}'::posint[]", "c_posints = '{1,2}'", "c_posints @> '{1}'", "c_posints::int8[]", "c_posints::int4[] = '{1,2}'",
		"c_ints[1][2] IS NULL", "c_text[1]", "c_name[1]", "c_json[1]", "c_grid[1:2][1:2] || c_grid", "(ARRAY[[1,2],[3,4]])[2][1]", "(ARRAY[[1,2],[3,4]])[2:][:1]", "('[5:6]={1,2}'::int4[])[:5]", "trim_array(c_ints, 0) = c_ints",
	} {
		add("%s", x)
	}
	o.checkSome(t, exprs, 8)
	o.report(t)
}
