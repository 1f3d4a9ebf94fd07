package where_test

import (
	"fmt"
	"testing"
)

// rangeTexts are ranges of every kind and shape, by the name of their type.
var rangeTexts = map[string][]string{
	"int4range": {"[1,5)", "empty", "(,)", "[1,5]", "(1,5)", "(1,2)", "[3,3]", "[3,3)", "[5,9)", "[,3)", "[7,]", "[-2147483648,0)", "(2147483646,2147483647)", "[1,2147483647]", " [ 1 , 5 ) ", "[5,1]", "EMPTY ", "[1;5)", "(1,1)", "[4,6)"},
	"int8range": {"[1,5)", "empty", "(,9223372036854775807)", "[0,9223372036854775807]", "(9223372036854775807,)", "[-5,-1]", "[5,6]"},
	"numrange":  {"[1,5)", "[1.0,5.00)", "(1,1.5]", "empty", "(,)", "[NaN,]", "[1,NaN]", "[5,7]", "(5,7)", "[-Infinity,Infinity)", "[1.5,1.5]", "[2,3)"},
	"daterange": {"[2024-01-01,2024-02-01)", "[2024-01-01,2024-02-01]", "(2024-01-01,2024-01-02)", "empty", "(,2024-01-15)", "[2024-02-01,infinity]", "[-infinity,2024-01-01)", "[infinity,infinity]", "(2024-01-31,)", "[0044-03-15 BC,2000-01-01]", "[5874897-12-31,5874897-12-31]"},
	"tsrange":   {"[2024-01-01 00:00,2024-02-01 12:00)", `["2024-01-01 00:00","2024-01-01 00:00"]`, "empty", "(,infinity]", "[-infinity,2024-01-01]", "(2024-02-01 12:00,)", "(2024-01-10,2024-03-01)"},
	"tstzrange": {"[2024-01-01 00:00+00,2024-02-01 12:00+02)", "empty", "(,)", `("2024-02-01 10:00:00+00",)`, "[2024-01-15 00:00Z,2024-01-15 00:00Z]"},
}

var multirangeTexts = map[string][]string{
	"int4multirange": {"{}", "{[1,5)}", "{[1,3),[5,7)}", "{[5,7),[1,3)}", "{[1,3),[3,7)}", "{(,2),[9,)}", "{empty}", "{empty,[1,1]}", " { [1,3) , [2,9] } ", "{(,)}", "{[3,5)}", "{[-5,0),[1,2),[4,6),[8,9)}", "{[1,3)", "{1}"},
	"nummultirange":  {"{}", "{[1,2),(2,3]}", "{[1,2),[2,3]}", "{(1,1.5),[1.5,2]}", "{[0,10]}", "{(,1),(5,)}"},
	"datemultirange": {"{[2024-01-01,2024-01-10],[2024-01-11,2024-02-01)}", "{[2024-01-05,2024-01-06)}", "{}"},
	"int8multirange": {"{[1,5),[6,8)}"},
	"tsmultirange":   {"{[2024-01-01,2024-01-10),(2024-01-10,2024-02-01)}"},
	"tstzmultirange": {"{[2024-01-01 00:00+00,)}"},
}

var rangeOperators = []string{"=", "<>", "<", "<=", ">", ">=", "@>", "<@", "&&", "<<", ">>", "&<", "&>", "-|-", "+", "*", "-"}

// TestRangesAgreeWithPostgres tries every operator between ranges and multiranges of every shape, with elements, and
// the functions and constructors.
func TestRangesAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 41, 40)
	var exprs []string
	add := func(format string, args ...any) { exprs = append(exprs, fmt.Sprintf(format, args...)) }
	multiOf := map[string]string{"int4range": "int4multirange", "numrange": "nummultirange", "daterange": "datemultirange", "int8range": "int8multirange", "tsrange": "tsmultirange", "tstzrange": "tstzmultirange"}
	elems := map[string][]string{
		"int4range": {"1", "5", "c_int4", "c_int2", "c_int8", "NULL", "'3'"}, "int8range": {"1::int8", "c_int8", "1"}, "numrange": {"1.0", "c_num", "1", "'NaN'::numeric", "1.5"}, "daterange": {"'2024-01-01'::date", "c_date", "'infinity'::date", "c_ts"},
		"tsrange": {"c_ts", "'2024-01-01'::timestamp", "c_date"}, "tstzrange": {"c_tstz", "'2024-02-01 10:00+00'::timestamptz"},
	}
	unary := []string{"lower(%s)", "upper(%s)", "isempty(%s)", "lower_inc(%s)", "upper_inc(%s)", "lower_inf(%s)", "upper_inf(%s)", "%s::text", "(%s)::text || 'x'", "multirange(%s)", "range_merge(%s)", "%s IS NULL", "ARRAY[%s]::text", "ARRAY[%[1]s] @> ARRAY[%[1]s]"}
	for typ, texts := range rangeTexts {
		multi := multiOf[typ]
		column := map[string]string{"int4range": "c_range", "numrange": "c_nrange", "daterange": "c_drange", "int8range": "c_range8", "tsrange": "c_tsrange", "tstzrange": "c_tzrange"}[typ]
		for _, a := range texts {
			add("'%s'::%s", a, typ)
			add("'%s'::%s::%s", a, typ, multi)
			for _, f := range unary {
				add(f, fmt.Sprintf("'%s'::%s", a, typ))
			}
			for _, op := range rangeOperators {
				add("%s %s '%s'", column, op, a)
				add("'%s' %s %s", a, op, column)
				for _, b := range texts {
					add("'%s'::%s %s '%s'::%s", a, typ, op, b, typ)
				}
				for _, m := range multirangeTexts[multi] {
					add("'%s'::%s %s '%s'::%s", a, typ, op, m, multi)
					add("'%s'::%s %s '%s'::%s", m, multi, op, a, typ)
					add("%s %s '%s'::%s", column, op, m, multi)
				}
			}
			for _, e := range elems[typ] {
				add("'%s'::%s @> %s", a, typ, e)
				add("%s <@ '%s'::%s", e, a, typ)
			}
			for _, m := range multirangeTexts[multi] {
				add("range_merge('%s'::%s, '%s')", a, typ, a)
				add("%s('%s'::%s, %s)", multi, a, typ, column)
				add("'%s'::%s = %s('%s'::%s)", m, multi, multi, a, typ)
			}
		}
		for _, m := range multirangeTexts[multi] {
			add("'%s'::%s", m, multi)
			for _, f := range unary {
				add(f, fmt.Sprintf("'%s'::%s", m, multi))
			}
			for _, op := range rangeOperators {
				for _, b := range multirangeTexts[multi] {
					add("'%s'::%s %s '%s'::%s", m, multi, op, b, multi)
				}
			}
			for _, e := range elems[typ] {
				add("'%s'::%s @> %s", m, multi, e)
				add("%s <@ '%s'::%s", e, m, multi)
			}
		}
		for _, f := range unary {
			add(f, column)
		}
		for _, a := range elems[typ] {
			for _, b := range elems[typ] {
				add("%s(%s, %s)", typ, a, b)
				for _, form := range []string{"[]", "()", "(]", "[)", "[", "x", ""} {
					add("%s(%s, %s, '%s')", typ, a, b, form)
				}
			}
			add("%s(NULL, %s)", typ, a)
			add("%s(%s, NULL, NULL)", typ, a)
			add("%s(%s, NULL, c_text)", typ, a)
			add("%s @> %s", column, a)
			add("%s <@ %s", a, column)
		}
		add("%s()", multi)
		add("%s IN ('empty', '(,)')", column)
		add("greatest(%s, '(,)')", column)
		add("%s IS DISTINCT FROM 'empty'", column)
		add("coalesce(%s, 'empty')", column)
		add("%s BETWEEN 'empty' AND '(,)'", column)
		add("%s = ANY (ARRAY[%s, 'empty'])", column, column)
		add("lower(%s) < upper(%s)", column, column)
		add("%s && c_mrange", column)
		add("c_mrange @> %s", column)
		add("%s::text::%s", column, typ)
	}
	for _, f := range append(unary, "%s @> c_int4", "c_int4 <@ %s", "%[1]s + %[1]s", "%[1]s * c_mrange", "%s - c_mrange", "%s && c_range", "c_range <@ %s", "%s = '{}'", "unnest(%s)", "range_agg(%s)", "%s -|- c_range", "greatest(%[1]s, '{}')") {
		add(f, "c_mrange")
	}
	o.checkSome(t, exprs, 8)
	o.report(t)
}
