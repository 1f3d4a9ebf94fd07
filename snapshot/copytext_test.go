package snapshot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shapelog"
)

func text(s string) changes.Value { return changes.Value{Kind: changes.Text, Bytes: []byte(s)} }

var null = changes.Value{Kind: changes.Null}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		line string
		want changes.Row
	}{
		{"", changes.Row{text("")}},
		{`\N`, changes.Row{null}},
		{"\t", changes.Row{text(""), text("")}},
		{"1\t\\N\tx", changes.Row{text("1"), null, text("x")}},
		{`\\N`, changes.Row{text(`\N`)}},
		{`\\.`, changes.Row{text(`\.`)}},
		{`a\tb\nc\rd\be\ff\vg\\h` + "\t" + `\t`, changes.Row{text("a\tb\nc\rd\be\ff\vg\\h"), text("\t")}},
		{"é\t😀", changes.Row{text("é"), text("😀")}},
		{"\xe9", changes.Row{text("\xe9")}},
	} {
		p := copyText{row: make(changes.Row, len(c.want))}
		got, err := p.parse([]byte(c.line))
		require.NoError(t, err, "%q", c.line)
		require.Len(t, got, len(c.want))
		for i := range got {
			assert.Equal(t, c.want[i].Kind, got[i].Kind, "%q", c.line)
			assert.Equal(t, string(c.want[i].Bytes), string(got[i].Bytes), "%q", c.line)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		line    string
		columns int
		want    error
	}{
		{"a\tb", 1, errColumns},
		{"a", 2, errColumns},
		{`a\`, 1, errEscape},
		{`\x41`, 1, errEscape},
		{`\101`, 1, errEscape},
		{`a\N`, 1, errEscape},
	} {
		p := copyText{row: make(changes.Row, c.columns)}
		_, err := p.parse([]byte(c.line))
		require.ErrorIs(t, err, c.want, "%q", c.line)
	}
}

// appendEscaped is COPY TO's side of the format.
func appendEscaped(dst []byte, s string) []byte {
	r := strings.NewReplacer("\\", `\\`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`)
	return append(dst, r.Replace(s)...)
}

// FuzzRoundTrip writes three columns as COPY TO does, cuts the bytes anywhere, and wants them back.
func FuzzRoundTrip(f *testing.F) {
	f.Add("a", "b", "c", uint(1), uint8(0))
	f.Add("\\N", "\t\n", "", uint(3), uint8(2))
	f.Add("\\", "\\.", "x\\", uint(0), uint8(7))
	f.Fuzz(func(t *testing.T, a, b, c string, cut uint, nulls uint8) {
		var line []byte
		want := make(changes.Row, 3)
		for i, s := range []string{a, b, c} {
			if i > 0 {
				line = append(line, '\t')
			}
			if nulls>>i&1 == 1 {
				line = append(line, '\\', 'N')
				want[i] = null
				continue
			}
			line = appendEscaped(line, s)
			want[i] = text(s)
		}
		line = append(line, '\n')
		line = append(line, line...)
		enc := shapelog.NewEncoder("s", "t", []string{"a", "b", "c"}, []int{0})
		var got []string
		w := &rowWriter{enc: enc, text: copyText{row: make(changes.Row, 3)}, sink: rowFunc(func(item []byte) { got = append(got, string(item)) })}
		at := int(cut % uint(len(line)+1)) //nolint:gosec // within the line
		for _, part := range [][]byte{line[:at], line[at:]} {
			n, err := w.Write(bytes.Clone(part))
			require.NoError(t, err)
			require.Equal(t, len(part), n)
		}
		item := string(enc.AppendInsert(nil, shapelog.Position{}, want, shapelog.KeyChange{}))
		require.Equal(t, []string{item, item}, got)
	})
}

// FuzzParse wants no panic, and rows of the right width or a documented error.
func FuzzParse(f *testing.F) {
	f.Add([]byte("1\t\\N\tx"))
	f.Add([]byte(`a\`))
	f.Fuzz(func(t *testing.T, line []byte) {
		p := copyText{row: make(changes.Row, 2)}
		before := bytes.Clone(line)
		_, err := p.parse(line)
		require.Equal(t, before, line, "the input is not the parser's to change")
		if err != nil {
			require.True(t, assert.ErrorIs(new(testing.T), err, errColumns) || assert.ErrorIs(new(testing.T), err, errEscape))
		}
	})
}

type rowFunc func([]byte)

func (f rowFunc) Register() error                           { return nil }
func (f rowFunc) Begin(changes.Snapshot, changes.LSN) error { return nil }
func (f rowFunc) Row(item []byte) error                     { f(item); return nil }

var benchLines = map[string]string{
	"plain":   "1234567\tsome title of an item\t2024-03-01 12:34:56.789+00\tf\t12.50\t" + strings.Repeat("lorem ipsum ", 6) + "\n",
	"escapes": "1234567\tsome \\\"title\\\" of\\tan item\t\\N\tf\t\\N\t" + strings.Repeat("lorem\\nipsum ", 6) + "\n",
}

func BenchmarkRow(b *testing.B) {
	for name, line := range benchLines {
		b.Run(name, func(b *testing.B) {
			w := &rowWriter{
				enc:  shapelog.NewEncoder("public", "items", []string{"id", "title", "at", "done", "price", "body"}, []int{0}),
				text: copyText{row: make(changes.Row, 6)},
				sink: rowFunc(func([]byte) {}),
			}
			data := []byte(line)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Write(data); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
