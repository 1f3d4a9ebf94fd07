package shape

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRelation(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, tc := range []struct{ in, schema, name, err string }{
		{"items", "public", "items", ""},
		{"Items", "public", "items", ""},
		{"ÀB", "public", "Àb", ""},
		{"s.t$1", "s", "t$1", ""},
		{`"My Schema"."T""q"`, "My Schema", `T"q`, ""},
		{`"a.b"`, "public", "a.b", ""},
		{`"A".b`, "A", "b", ""},
		{`""""`, "public", `"`, ""},
		{long, "public", long, ""},
		{`"` + strings.Repeat("é", 63) + `"`, "public", strings.Repeat("é", 63), ""},
		{`""`, "", "", "Invalid zero-length delimited identifier"},
		{`"`, "", "", "Invalid zero-length delimited identifier"},
		{"", "", "", "Invalid zero-length delimited identifier"},
		{"foo.", "", "", "Invalid zero-length delimited identifier"},
		{".foo", "", "", "Invalid zero-length delimited identifier"},
		{"foo-bar", "", "", "Invalid unquoted identifier contains special characters: foo-bar"},
		{"1a", "", "", "Invalid unquoted identifier contains special characters: 1a"},
		{`"open`, "", "", `Invalid unquoted identifier contains special characters: "open`},
		{"items\n", "", "", "Invalid unquoted identifier contains special characters: items\n"},
		{`"fo"o"`, "", "", `Invalid identifier with unescaped quote: fo"o`},
		{`"fo"""o"`, "", "", `Invalid identifier with unescaped quote: fo"""o`},
		{long + "a", "", "", "Identifier is too long (max length is 63)"},
		{`"` + long + `a"`, "", "", "Identifier is too long (max length is 63)"},
		{"a.b.c", "", "", "Invalid relation identifier, too many delimiters: a.b.c"},
		{`inj" WHERE true --`, "", "", `Invalid unquoted identifier contains special characters: inj" WHERE true --`},
	} {
		schema, name, err := ParseRelation(tc.in)
		if tc.err != "" {
			require.EqualError(t, err, tc.err, "%q", tc.in)
			continue
		}
		require.NoError(t, err, "%q", tc.in)
		require.Equal(t, [2]string{tc.schema, tc.name}, [2]string{schema, name}, "%q", tc.in)
	}
}

func TestParseColumns(t *testing.T) {
	got, err := ParseColumns(`id,"a,b",Title,id,"x""y"`)
	require.NoError(t, err)
	require.Equal(t, []string{"id", "a,b", "title", "id", `x"y`}, got)

	for in, want := range map[string]string{
		"id, name":              "Invalid unquoted identifier contains special characters:  name",
		"id,":                   "Invalid zero-length delimited identifier",
		",":                     "Invalid zero-length delimited identifier",
		"id,(SELECT 1)":         "Invalid unquoted identifier contains special characters: (SELECT 1)",
		`id,"v" FROM hid --`:    `Invalid unquoted identifier contains special characters: "v" FROM hid --`,
		strings.Repeat("b", 64): "Identifier is too long (max length is 63)",
	} {
		_, err := ParseColumns(in)
		require.EqualError(t, err, want, "%q", in)
	}
}

func FuzzParseIdentifiers(f *testing.F) {
	for _, s := range []string{"a", `"a"`, `a.b`, `"a"."b"`, `""`, `"`, `a,"b,c"`, "\xff"} {
		f.Add(s)
	}
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	f.Fuzz(func(t *testing.T, s string) {
		if schema, name, err := ParseRelation(s); err == nil {
			s2, n2, err := ParseRelation(quote(schema) + "." + quote(name))
			require.NoError(t, err)
			require.Equal(t, []string{schema, name}, []string{s2, n2})
		}
		if cols, err := ParseColumns(s); err == nil {
			quoted := make([]string, len(cols))
			for i, c := range cols {
				require.NotEmpty(t, c)
				quoted[i] = quote(c)
			}
			again, err := ParseColumns(strings.Join(quoted, ","))
			require.NoError(t, err)
			require.Equal(t, cols, again)
		}
	})
}
