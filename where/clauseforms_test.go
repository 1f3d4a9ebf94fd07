package where_test

import "strings"

// form is an expression that only the kind's family has, with operands to put in for %s and %t; "" when there is none.
func (g *generator) form(k kind) string {
	switch {
	case strings.HasSuffix(k.cast, "[]"):
		return g.pick("(%s || %t)", "array_cat(%s, %t)", "(%s)[1:2]", "(%s)[2:]", "ARRAY[(%s)[1], (%t)[2]]", "array_remove(%s, (%t)[1])", "array_replace(%s, (%t)[1], NULL)", "array_append(%s, (%t)[1])",
			"array_position(%s, (%t)[1])", "array_positions(%s, (%t)[1])", "array_to_string(%s, '-')", "trim_array(%s, 1)", "(%s)[c_int2]", "cardinality(%s)", "array_dims(%s)", "ARRAY[%s, %t]")
	case k.cast == "jsonb":
		return g.pick("(%s || %t)", "(%s - 'a')", "(%s - 0)", "(%s #- '{a,b}')", "(%s -> 'a')", "(%s ->> 'a')", "(%s #> '{a,b,1}')", "(%s)['a']", "(%s)[0]", "jsonb_strip_nulls(%s)", "jsonb_typeof(%s)", "(%s - c_texts)", "(%s -> c_int4)")
	case k.cast == "json":
		return g.pick("(%s -> 'a')", "(%s ->> 0)", "(%s #>> '{a,b}')", "json_typeof(%s)", "(%s)::jsonb")
	case k.cast == "inet" || k.cast == "cidr":
		return g.pick("(%s & %t)", "(%s | %t)", "(~ %s)", "(%s + c_int2)", "(%s - 1)", "(%s - %t)", "network(%s)", "broadcast(%s)", "set_masklen(%s, 8)", "inet_merge(%s, %t)", "host(%s)", "(%s)::text")
	case strings.HasSuffix(k.cast, "range"):
		return g.pick("(%s + %t)", "(%s * %t)", "(%s - %t)", "lower(%s)", "upper(%s)", "isempty(%s)", "range_merge(%s)", "range_merge(%s, %t)", "multirange(%s)", "upper_inc(%s)")
	case strings.Contains(k.cast, "bit"):
		return g.pick("(%s || %t)", "(%s & %t)", "(%s # %t)", "(~ %s)", "(%s << 1)", "(%s >> 2)")
	default:
		return ""
	}
}
