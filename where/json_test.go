package where_test

import (
	"fmt"
	"testing"
)

// TestJSONAgreesWithPostgres tries the operators and functions of jsonb with documents of every shape.
func TestJSONAgreesWithPostgres(t *testing.T) {
	o := newOracle(t, 11, 40)
	var docs []string
	for _, k := range o.kinds {
		if k.column == "c_jsonb" {
			docs = k.values
		}
	}
	var exprs []string
	add := func(format string, args ...any) { exprs = append(exprs, fmt.Sprintf(format, args...)) }
	for _, l := range append(docs, `{"b":1,"a":2,"b":3}`, ` [ 1 , 2.50e1 ] `, `"\u00e9\u0001\/"`, `"\ud83d\ude00"`, `"\ud83d"`, `[1,[2,[3]]]`,
		`{"a":{}}`, `{"a":[]}`, `[{"c":"d"}]`, `{"a":{"b":[{"c":"d"}]}}`, `-0`, `1e-3`, `[null]`, `{"a":1.00}`, `01`, `"\u0000"`, `{a:1}`, `[1,]`, `1 2`, ``) {
		for _, op := range []string{"=", "<>", "@>", "<@", "<", "IS DISTINCT FROM"} {
			add("c_jsonb %s '%s'", op, l)
		}
		add("'%s'::jsonb", l)
		add("'%s'::json", l)
		add("'%s'::jsonb @> c_jsonb", l)
		for _, m := range docs {
			add("'%s'::jsonb @> '%s'", l, m)
			add("'%s'::jsonb = '%s'", l, m)
		}
	}
	for _, k := range []string{"a", "b", "aa", "", "k", "x", "0", "-1", "é", " 1", "1 ", "+1"} {
		for _, op := range []string{"->", "->>", "?", "-"} {
			add("c_jsonb %s '%s'", op, k)
			add("c_jsonb -> 'a' %s '%s'", op, k)
		}
		add(`c_jsonb #> '{"%s"}'`, k)
		add(`c_jsonb #>> '{a,"%s"}'`, k)
		add(`c_jsonb #>> '{a,b,"%s"}'`, k)
		add(`c_jsonb ?| '{"%s",zz}'`, k)
		add(`c_jsonb ?& '{"%s",a}'`, k)
		add("jsonb_extract_path(c_jsonb, '%s')", k)
		add("jsonb_extract_path_text(c_jsonb, 'a', 'b', '%s')", k)
	}
	for i := -4; i < 5; i++ {
		add("c_jsonb -> %d", i)
		add("c_jsonb ->> %d", i)
		add("c_jsonb -> 'a' -> %d", i)
	}
	for _, typ := range []string{"int2", "int4", "int8", "numeric", "float4", "float8", "bool", "text", "json", "int4[]"} {
		add("c_jsonb::%s", typ)
		add("(c_jsonb->'a')::%s", typ)
		add("(c_jsonb->>'a')::%s", typ)
	}
	exprs = append(exprs, "jsonb_typeof(c_jsonb)", "jsonb_array_length(c_jsonb)", "c_jsonb #> '{}'", "c_jsonb ? NULL", "c_jsonb ?| '{NULL}'",
		"c_jsonb ?& '{}'", "c_jsonb #> '{NULL}'", "c_json::jsonb", "c_json::text", "c_jsonb ->> c_text", "c_jsonb ? c_text",
		"c_jsonb IN ('1', '{}', '1.00', '[]')", "c_jsonb @> c_jsonb", "(c_jsonb->>'a') < 'b'", "c_jsonb->'a' IS NULL", "c_jsonb->>'b' IS NULL")
	o.check(t, exprs)
	o.report(t)
}

// orderedDocs differ in every way that jsonb's order looks at.
var orderedDocs = []string{
	`[]`, `{}`, `null`, `true`, `false`, `0`, `-1`, `1.0`, `1`, `10`, `1e2`, `""`, `"a"`, `"b"`, `"ab"`, `"é"`, `"\n"`, `"\u0001"`, `"\""`, `"\\"`, `[1]`, `[null]`, `["a"]`, `[[]]`, `[{}]`, `[1, 2]`, `[2, 1]`,
	`[[1], 2]`, `[[1, 2], 1]`, `[{"a": 1}, 1]`, `{"a": 1}`, `{"a": 1.0}`, `{"a": 2}`, `{"b": 1}`, `{"aa": 1}`, `{"a": 1, "b": 2}`, `{"a": [], "b": {}}`, `{"a": {}, "b": []}`, `{"a": {"b": 1}}`, `{"a": {"b": [1, 2]}}`,
	`{"a": {"b": [1, 3]}}`, `{"\n": 1}`, `[true]`, `[false, true]`, `[[[]]]`, `[[[], []]]`, `{"a": null, "b": [null, {"c": null}]}`, `[null, "a", "a"]`,
}

// TestJSONBOrderAndChangesAgreeWithPostgres compares documents in jsonb's order, and what changes or subscripts them.
func TestJSONBOrderAndChangesAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 12, 40)
	var exprs []string
	add := func(format string, args ...any) { exprs = append(exprs, fmt.Sprintf(format, args...)) }
	for _, a := range orderedDocs {
		for _, b := range orderedDocs {
			add("'%s'::jsonb < '%s'", a, b)
			add("'%s'::jsonb >= '%s'", a, b)
			add("'%s'::jsonb || '%s'", a, b)
		}
		for _, op := range []string{"<", "<=", ">", ">=", "||"} {
			add("c_jsonb %s '%s'", op, a)
			add("'%s' %s c_jsonb", a, op)
		}
		for _, k := range []string{"'a'", "'b'", "'aa'", "''", "0", "1", "-1", "-5", "2147483647", "'{a,b}'::text[]", "'{}'::text[]", "'{NULL,a}'::text[]", "'{{a},{b}}'::text[]", "c_text", "c_int4", "NULL::text"} {
			add("'%s'::jsonb - %s", a, k)
			add("c_jsonb || '%s' - %s", a, k)
		}
		for _, p := range []string{"{}", "{a}", "{0}", "{-1}", "{a,b}", "{a,b,1}", "{a,b,x}", "{1,a}", "{-9}", "{NULL}", "{a,NULL}", "{b,1,c}", "{{a}}", "{0,0,0}"} {
			add("'%s'::jsonb #- '%s'", a, p)
			add("c_jsonb #- '%s'", p)
		}
		add("jsonb_strip_nulls('%s')", a)
		add("greatest(c_jsonb, '%s')", a)
		add("c_jsonb BETWEEN '%s' AND '[1, 2]'", a)
		add("c_jsonb = ANY (ARRAY['%s', '{}']::jsonb[])", a)
		add("c_jsonb < ANY (ARRAY['%s', '{}']::jsonb[])", a)
		add("c_jsonbs < ARRAY['%s']::jsonb[]", a)
		add("c_jsonbs @> ARRAY['%s']::jsonb[]", a)
		add("array_position(c_jsonbs, '%s')", a)
	}
	for _, s := range []string{"['a']", "['a']['b']", "[0]", "[-1]", "[1]['c']", "['a']['b'][1]['c']", "[NULL]", "['0']", "[c_int4]", "[c_int2]", "[c_int8]", "[c_text]", "[c_varchar]", "[c_name]", "['a'][c_int4]", "[1.5]", "[1:2]", "['']", "['k']"} {
		add("c_jsonb%s", s)
		add("(c_jsonb->'a')%s", s)
		add("c_jsonb%s = '1'", s)
		add("c_json%s", s)
	}
	for _, k := range []string{"c_bool", "c_int2", "c_int4", "c_int8", "c_num", "c_float4", "c_float8", "c_text", "c_varchar", "c_bpchar", "c_name", "c_uuid", "c_mood", "c_jsonb", "c_json", "c_date", "c_ints", "c_pos", "'a'", "'a'::text", "1", "NULL::int4", "c_oid"} {
		add("to_jsonb(%s)", k)
		add("to_jsonb(%s) = c_jsonb", k)
	}
	for _, e := range []string{
		"c_jsonb - c_texts", "c_jsonb #- c_texts", "c_jsonb || c_jsonb", "c_jsonb || to_jsonb(c_text)", "jsonb_strip_nulls(c_jsonb)", "c_jsonb @? '$.a'", "c_jsonb @@ '$.a == 1'", "jsonb_object_keys(c_jsonb)",
		"jsonb_delete(c_jsonb, 'a')", "jsonb_delete(c_jsonb, 'a', 'b')", "jsonb_delete(c_jsonb, 0)", "jsonb_concat(c_jsonb, '{}')", "jsonb_exists(c_jsonb, 'a')", "jsonb_exists_any(c_jsonb, '{a}')", "jsonb_exists_all(c_jsonb, c_texts)",
		"jsonb_contained('1', c_jsonb)", "c_jsonb < c_jsonb", "c_jsonb::text", "c_jsonb::varchar(3)", "c_jsonb::json", "jsonb_set(c_jsonb, '{a}', '1')", "jsonb_object_field(c_jsonb, 'a')",
	} {
		add("%s", e)
	}
	o.checkSome(t, exprs, 8)
	o.report(t)
}

// TestJSONTextAgreesWithPostgres follows paths into json, whose text stays as it was written.
func TestJSONTextAgreesWithPostgres(t *testing.T) {
	o := newOracle(t, 13, 60)
	var exprs []string
	add := func(format string, args ...any) { exprs = append(exprs, fmt.Sprintf(format, args...)) }
	docs := []string{
		"c_json", `'{"a":1,"a":2}'::json`, `'{"a":[1,2,3],"a":[4]}'::json`, `'{"a":[4],"a":[1,2,3]}'::json`, `'{"a":{"b":1},"a":{"c":2}}'::json`, `'{"a":{"b":1},"a":2}'::json`, `' [ 1 , {"x":[ ]} ] '::json`,
		`'{"":1}'::json`, `'"\u00e9\/\n"'::json`, `'["a","\t"]'::json`, `' null '::json`, `' "a\\u00e9" '::json`, `' [1] '::json`, `'[null]'::json`, `'01'::json`, `'[1,]'::json`, `'{"a":1e400}'::json`, `'{"A":1}'::json`,
	}
	for _, d := range docs {
		for _, k := range []string{"'a'", "'b'", "''", "0", "1", "-1", "-2", "-4", "'0'", "'-1'", "c_text", "c_int4", "NULL::int4", "-2147483648"} {
			add("%s -> %s", d, k)
			add("%s ->> %s", d, k)
			add("%s -> 'a' ->> %s", d, k)
			add("%s -> 0 -> %s", d, k)
		}
		for _, p := range []string{"{}", "{a}", "{a,b}", "{a,c}", "{a,-1}", "{a,-2}", "{a,0}", "{0}", "{-1}", "{ 1}", "{1 }", "{+0}", "{NULL}", "{a,NULL}", "{0,1,0}", "{1,x}", "{-2147483648}", "{{a},{b}}", "{\"\"}", "{99999999999}"} {
			add("%s #> '%s'", d, p)
			add("%s #>> '%s'", d, p)
		}
		for _, f := range []string{"json_typeof(%s)", "json_array_length(%s)", "json_extract_path(%s, 'a', 'b')", "json_extract_path_text(%s, 'a')", "%s::text", "%s::jsonb", "(%s)::jsonb -> 'a'", "%s IS NULL", "%[1]s = %[1]s", "(%s->>'a')::int4", "%s -> 'a' IS NULL"} {
			add(f, d)
		}
	}
	o.checkSome(t, exprs, 8)
	o.report(t)
}
