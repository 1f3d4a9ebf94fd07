package where_test

import "testing"

// What is folded away, and what is kept since its value alone would lose a type or a collation, is evaluated and written
// again as Postgres does, also where another part fails for a row.
func TestFoldingAgreesWithPostgres(t *testing.T) {
	o := newOracle(t, 12, 40)
	o.check(t, []string{
		"nullif(length(NULL), c_float8 + c_float8) IS NULL", "nullif(c_float8 + c_float8, NULL) IS NULL", "nullif(c_int2, NULL::numeric) = 1", "nullif(NULL::int2, c_num)::int4 = 1",
		"NULL::int2 + (c_int2 * c_int2) IS NULL", "c_int8 + NULL * (c_int8 / 0) = 1", "(c_int2, c_int4 + 1) < (NULL, 7)", "(c_int2 + c_int2, c_int4) < (NULL, 7)",
		"CASE WHEN true THEN c_int2 ELSE 32767::int2 + c_int2 END = 1", "false AND 1 / c_int4 = 1", "1 / c_int4 = 1 AND false", "c_bool OR true OR 1 / c_int4 = 1", "coalesce(c_int4, 1 / c_int4) = 1",
		"(NULL || substr(c_name, 1, c_int4)) IS NULL", `((NULL COLLATE "C") || substr(c_name, 1, c_int4)) IS NULL`, "(((NULL || c_name) || substr(c_text, 1, c_int4)) || '') IS NULL",
		"coalesce(NULL || c_name, c_text) < 'b'", "btrim(NULL || c_name) IN (c_name, 'ABC', 'a'::name)", "CAST('ABC' AS name) IS NOT DISTINCT FROM (length(''))::name", "c_name = (length(''))::name",
		"(c_textc = 'a')::text < c_text", "(c_text = 'a')::text < 'b'",
		"c_bool AND (coalesce('(,2024-01-10)'::daterange, c_drange) - '[-infinity,2000-01-01)'::daterange) IS NULL", "CASE coalesce('-1', c_int2) WHEN '1'::int2 THEN 1::int2 END + nullif(c_int2 * c_int2, c_int2) IS NULL",
		"coalesce('b', c_textc) < 'c'", "coalesce(c_textc, 'b', c_name) < 'c'", "coalesce(NULL, c_int4) = 1.5", "coalesce(NULL::int4, c_num, 2, c_int4) = 1.5", "coalesce(length(NULL), c_int2, 7, 1 / c_int4) = 7",
		// Postgres does not fold what depends on a setting, as the order of a date and a timestamptz does.
		"1 / c_int4 = 1 AND date '2024-01-01' < timestamptz '2000-01-01'",
		// An array of a domain stays one beside a literal; Postgres does not compare it with an array of the type below.
		"array_replace(c_posints, (c_posints)[1], NULL) = '{1}'::int4[]", "array_replace('{}', (c_posints)[1], NULL) < '{1}'::int4[]", "array_append(c_posints, NULL) IS NULL", "NULL::posint IS NULL",
		"array_append(c_posints, (c_posints)[1]) = c_posints", "c_pos IN (NULL, 1, 5)", "coalesce(c_pos, NULL) = 5",
	})
	o.report(t)
}
