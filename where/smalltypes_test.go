package where_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/where"
)

// TestSmallTypesAgreeWithPostgres tries pg_lsn, xid, xid8, "char", bit and varbit.
func TestSmallTypesAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 51, 60)
	var exprs []string
	add := func(format string, args ...any) { exprs = append(exprs, fmt.Sprintf(format, args...)) }
	literals := map[string][]string{
		"c_lsn": {"0/0", "16/b374d848", "FFFFFFFF/FFFFFFFF", "1/", "/1", "0/100000000", "00000016/0B", "0", ""}, "c_xid8": {"0", "1", "18446744073709551615", "18446744073709551616", "-1", ""},
		"c_xid": {"0", "1", "4294967295", "4294967296"}, "c_char": {"", "a", "Z", " ", "ab", "é"}, "c_bit": {"00000", "10110", "1", "11111", "b10110", "12", ""}, "c_varbit": {"", "0", "1", "10", "01", "101101110", "B1", "x"},
	}
	for column, list := range literals {
		typ := ""
		for _, k := range moreKinds() {
			if k.column == column {
				typ = k.cast
			}
		}
		for _, l := range list {
			add("'%s'::%s", l, typ)
			add("'%s'::%s::text", l, typ)
			for _, op := range []string{"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "-", "||", "&", "|", "#"} {
				add("%s %s '%s'", column, op, l)
				add("'%s' %s %s", l, op, column)
			}
			for _, m := range list {
				add("'%s'::%s < '%s'::%s", l, typ, m, typ)
				add("'%s'::%s = '%s'::%s", l, typ, m, typ)
			}
			add("%s IN ('%s', '%s')", column, l, l)
			add("greatest(%s, '%s')", column, l)
			add("ARRAY[%s] @> ARRAY['%s']::%s[]", column, l, typ)
			add("coalesce(%s, '%s')", column, l)
		}
		for n := -3; n < 8; n++ {
			add("%s << %d", column, n)
			add("%s >> %d", column, n)
			add("%s = %d", column, n)
		}
		for _, f := range []string{"~ %s", "%s::text", "%s::varchar", "%s::int4", "%s::int8", "%s::varbit", "%s::xid", "%[1]s - %[1]s", "%[1]s || %[1]s", "%[1]s = %[1]s", "%s = c_int4", "%[1]s BETWEEN %[1]s AND %[1]s", "%s || 'x'", "concat(%s, '-')", "%s IS NULL", "length(%s)", "%s + 1"} {
			add(f, column)
		}
	}
	for _, e := range []string{"c_pair IS NULL", "c_pair IS NOT NULL", "NOT (c_pair IS NULL)", "(c_pair).a = 1", "c_pair = c_pair", "c_pair::text = '(1,a)'", "c_pair IS DISTINCT FROM NULL", "coalesce(c_pair, c_pair) IS NULL"} {
		add("%s", e)
	}
	o.check(t, exprs)
	o.report(t)
}

// TestRefusedTypesSayWhy checks that types whose values cannot be evaluated are refused by name, with a way out, and
// that IS NULL works for all of them.
func TestRefusedTypesSayWhy(t *testing.T) {
	base := func(oid uint32, name string) *where.Type {
		return &where.Type{OID: oid, Schema: "pg_catalog", Name: name, Kind: where.KindBase}
	}
	for _, c := range []struct {
		typ   *where.Type
		text  string
		wants []string
	}{
		{base(790, "money"), "c = '1'", []string{"money", "lc_monetary", "numeric"}},
		{base(142, "xml"), "c::text = '<a/>'", []string{"xml"}},
		{base(3614, "tsvector"), "c @@ 'a'", []string{"tsquery", "dictionaries"}},
		{base(600, "point"), "c ~= '(1,2)'", []string{"point", "coordinates"}},
		{base(604, "polygon"), "c = '((1,2))'", []string{"polygon", "coordinates"}},
		{base(2205, "regclass"), "c = 'items'", []string{"regclass", "catalogue", "oid"}},
		{base(25, "text"), "c::regclass = 1", []string{"regclass", "catalogue"}},
		{base(3802, "jsonb"), "c @? '$.a'", []string{"jsonpath", "@>"}},
		{&where.Type{OID: 20001, Schema: "public", Name: "pair", Kind: where.KindComposite}, "c = c", []string{"pair", "composite"}},
		{&where.Type{OID: 20001, Schema: "public", Name: "pair", Kind: where.KindComposite}, "(c).a = 1", []string{"composite"}},
		{&where.Type{OID: 20002, Schema: "public", Name: "floatrange", Kind: where.KindRange, Elem: base(701, "float8")}, "c @> 1.5::float8", []string{"floatrange", "built in"}},
		{&where.Type{OID: 20003, Schema: "public", Name: "hstore", Kind: where.KindBase}, "c::text = 'a'", []string{"hstore", "extension"}},
	} {
		scope := where.Scope{Schema: "public", Table: "t", Columns: []where.Column{{Name: "c", Type: c.typ, TypeMod: -1}}}
		_, err := where.Parse(c.text, nil, scope)
		require.Error(t, err, c.text)
		for _, w := range c.wants {
			require.Contains(t, strings.ToLower(err.Error()), strings.ToLower(w), "%s on %s", c.text, c.typ.Name)
		}
		_, err = where.Parse("c IS NOT NULL", nil, scope)
		require.NoError(t, err, c.typ.Name)
	}
}
