package where_test

import (
	"strings"
	"testing"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/where"
)

// benchClauses are typical clauses; every one must evaluate without memory.
var benchClauses = []struct{ name, text string }{
	{"int=", "id = 7"},
	{"int<", "n > 10"},
	{"chain", "id = 1 AND n > 10 AND c"},
	{"or", "id = 7 OR n = 20 OR n = 21"},
	{"between", "n BETWEEN 1 AND 30"},
	{"in4", "n IN (1, 5, 9, 20)"},
	{"in1000", "n = ANY ($1)"},
	{"text=", "t = 'The quick brown fox jumps over it'"},
	{"text<", "t < 'b'"},
	{"like-prefix", "t LIKE 'The quick%'"},
	{"like-infix", "t LIKE '%fox%over%'"},
	{"like-underscore", "t LIKE '%b_own%'"},
	{"regex", `t ~ '^The (quick|slow) [^ ]+n'`},
	{"ilike-32", "t ILIKE '%FOX%OVER%'"},
	{"uuid=", "g = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"},
	{"enum=", "m = 'ok'"},
	{"numeric>", "e > 1.25"},
	{"float>", "h > 1.25"},
	{"date>", "d > '2024-01-01'"},
	{"timestamptz>", "ts > '2024-01-01 00:00:00+00'"},
	{"is-null", "n IS NOT NULL AND t IS NOT NULL"},
	{"arithmetic", "id + n > 20"},
}

func BenchmarkMatch(b *testing.B) {
	list := make([]string, 1000)
	for i := range list {
		list[i] = "20" + strings.Repeat("1", i%7)
	}
	params := map[string]string{"1": "{" + strings.Join(list, ",") + "}"}
	row := testRow("20", "The quick brown fox jumps over i", "t")
	for _, bc := range benchClauses {
		b.Run(bc.name, func(b *testing.B) {
			p := params
			if !strings.Contains(bc.text, "$1") {
				p = nil
			}
			e, err := where.Parse(bc.text, p, testScope())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				e.Match(row)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := where.Parse("id = 1 AND n > 10 AND t ILIKE 'x%'", nil, testScope()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMatchTakesNoMemory holds what BenchmarkMatch measures.
func TestMatchTakesNoMemory(t *testing.T) {
	row := testRow("20", "The quick brown fox jumps over i", "t")
	for _, bc := range benchClauses {
		e, err := where.Parse(bc.text, map[string]string{"1": "{1,20}"}, testScope())
		if err != nil {
			t.Fatalf("%s: %v", bc.text, err)
		}
		if n := testing.AllocsPerRun(100, func() { e.Match(row) }); n != 0 {
			t.Errorf("%s: %v allocations per row", bc.text, n)
		}
	}
}

func builtinType(oid uint32, name string) *where.Type {
	return &where.Type{OID: oid, Schema: "pg_catalog", Name: name, Kind: where.KindBase}
}

// testScope is a table with columns of the common types, without a database.
func testScope() where.Scope {
	libc := where.Collation{Name: "C.UTF-8", Provider: 'c', Deterministic: true}
	en := where.Collation{Name: "en_US.UTF-8", Provider: 'c', Deterministic: true}
	nd := where.Collation{Name: "und-u-ks-level2", Provider: 'i'}
	mood := &where.Type{OID: 20000, Schema: "public", Name: "mood", Kind: where.KindEnum, Labels: []string{"sad", "ok"}}
	col := func(name string, t *where.Type, c where.Collation) where.Column {
		return where.Column{Name: name, Type: t, TypeMod: -1, Collation: c}
	}
	none := where.Collation{}
	return where.Scope{Schema: "public", Table: "items", Default: libc, Columns: []where.Column{
		col("id", builtinType(23, "int4"), none),
		col("n", builtinType(23, "int4"), none),
		col("t", builtinType(25, "text"), libc),
		col("c", builtinType(16, "bool"), none),
		col("g", builtinType(2950, "uuid"), none),
		col("m", mood, none),
		col("e", builtinType(1700, "numeric"), none),
		col("h", builtinType(701, "float8"), none),
		col("d", builtinType(1082, "date"), none),
		col("ts", builtinType(1184, "timestamptz"), none),
		col("arr", &where.Type{OID: 1007, Schema: "pg_catalog", Name: "_int4", Kind: where.KindArray, Elem: builtinType(23, "int4")}, none),
		col("en", builtinType(25, "text"), en),
		col("ci", builtinType(25, "text"), nd),
		col("Odd name", builtinType(23, "int4"), none),
		col("select", builtinType(20, "int8"), none),
		col("p", builtinType(600, "point"), none),
		col("bc", builtinType(1042, "bpchar"), libc),
		col("cc", builtinType(25, "text"), where.Collation{Name: "C", Provider: 'c', Deterministic: true}),
	}}
}

// testRow is a row of testScope; "NULL" is NULL and id is 1.
func testRow(n, t, c string) changes.Row {
	texts := []string{
		"1", n, t, c, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "ok", "1.50", "2.5", "2024-02-29", "2024-01-02 03:04:05.678+00", "{1,2,NULL}",
		"x", "x", "5", "6", "(1,2)", "ab   ", "É",
	}
	row := make(changes.Row, len(texts))
	for i, s := range texts {
		row[i] = changes.Value{Kind: changes.Text, Bytes: []byte(s)}
		if s == "NULL" {
			row[i] = changes.Value{Kind: changes.Null}
		}
	}
	return row
}
