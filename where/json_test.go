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
