package shape

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/where"
)

func column(name, typ string, mod int32) Column {
	return Column{Column: where.Column{Name: name, Type: &where.Type{Name: typ, Kind: where.KindBase}, TypeMod: mod}}
}

func TestSchemaHeader(t *testing.T) {
	array := column("tags", "_text", -1)
	array.Type.Kind, array.Type.Elem, array.Dims = where.KindArray, &where.Type{Name: "text"}, 1
	dimless := column("raw", "_int4", -1)
	dimless.Type.Kind, dimless.Type.Elem = where.KindArray, &where.Type{Name: "int4"}
	codes := column("codes", "_varchar", 9)
	codes.Type.Kind, codes.Type.Elem, codes.Dims = where.KindArray, &where.Type{Name: "varchar"}, 2
	id, code := column("id", "int4", -1), column("code", "text", -1)
	id.NotNull = true

	for _, tc := range []struct {
		name string
		col  Column
		want string
	}{
		{"plain", column("v", "text", -1), `{"v":{"type":"text"}}`},
		{"array", array, `{"tags":{"type":"text","dims":1}}`},
		{"array without dims", dimless, `{"raw":{"type":"_int4"}}`},
		{"array with length", codes, `{"codes":{"type":"varchar","dims":2,"max_length":5}}`},
		{"varchar", column("v", "varchar", 14), `{"v":{"type":"varchar","max_length":10}}`},
		{"varchar unbounded", column("v", "varchar", -1), `{"v":{"type":"varchar"}}`},
		{"char", column("v", "bpchar", 9), `{"v":{"type":"bpchar","length":5}}`},
		{"bit", column("v", "bit", 3), `{"v":{"type":"bit","length":3}}`},
		{"varbit unbounded", column("v", "varbit", -1), `{"v":{"type":"varbit","length":-1}}`},
		{"numeric", column("v", "numeric", (10<<16|2)+4), `{"v":{"type":"numeric","precision":10,"scale":2}}`},
		{"numeric, scale -3", column("v", "numeric", (5<<16|0x7fd)+4), `{"v":{"type":"numeric","precision":5,"scale":-3}}`},
		{"time", column("v", "time", 3), `{"v":{"type":"time","precision":3}}`},
		{"timestamptz(0)", column("v", "timestamptz", 0), `{"v":{"type":"timestamptz","type_mod":0}}`},
		{"interval", column("v", "interval", -1), `{"v":{"type":"interval"}}`},
		{"interval(3)", column("v", "interval", 0x7fff<<16|3), `{"v":{"type":"interval","precision":3}}`},
		{"interval year", column("v", "interval", 1<<2<<16|0xffff), `{"v":{"type":"interval","fields":"YEAR"}}`},
		{
			"interval day to second(2)", column("v", "interval", (1<<3|1<<10|1<<11|1<<12)<<16|2),
			`{"v":{"type":"interval","fields":"DAY TO SECOND","precision":2}}`,
		},
		{"other typmod", column("v", "geometry", 17), `{"v":{"type":"geometry","type_mod":17}}`},
		{"odd name", column("Ä\"\\\x01😀\x7f", "mood", -1), `{"\u00c4\"\\\u0001\ud83d\ude00\u007f":{"type":"mood"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &Definition{Table: &Table{Columns: []Column{tc.col}}, Columns: []int{0}}
			require.Equal(t, tc.want, string(SchemaHeader(d)))
			require.JSONEq(t, tc.want, string(SchemaHeader(d)))
		})
	}

	d := &Definition{Table: &Table{Columns: []Column{id, column("skipped", "text", -1), code}, Key: []int{2, 0}}, Columns: []int{0, 2}}
	require.JSONEq(t, `{"id":{"type":"int4","pk_index":1,"not_null":true},"code":{"type":"text","pk_index":0}}`, string(SchemaHeader(d)))
}
