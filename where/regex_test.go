package where_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/where"
)

// addTexts adds rows in which only the columns of text are set.
func (o *oracle) addTexts(t *testing.T, texts []string) {
	t.Helper()
	from := len(o.rows)
	for i, s := range texts {
		_, err := o.conn.Exec(t.Context(), "INSERT INTO t (id, c_text, c_textc, c_varchar, c_bpchar, c_name) VALUES ($1, $2, $2, substr($2, 1, 12), substr($2, 1, 5), $2)", from+i, s)
		require.NoError(t, err)
	}
	for _, r := range o.query(t, fmt.Sprintf("SELECT * FROM t WHERE id >= %d ORDER BY id", from)) {
		row := make(changes.Row, len(r))
		for i, b := range r {
			row[i] = changes.Value{Kind: changes.Null}
			if b != nil {
				row[i] = changes.Value{Kind: changes.Text, Bytes: b}
			}
		}
		o.rows = append(o.rows, row)
	}
}

// patterns writes random regular expressions, most of them valid.
type patterns struct{ *rand.Rand }

func (p patterns) pick(s ...string) string { return s[p.IntN(len(s))] }

func (p patterns) atom(depth int) string {
	switch p.IntN(12) {
	case 0, 1:
		if depth > 0 {
			return p.pick("(", "(?:") + p.regex(depth-1) + ")"
		}
		return "a"
	case 2:
		return "."
	case 3, 4:
		var b strings.Builder
		b.WriteString(p.pick("[", "[", "[^"))
		for range 1 + p.IntN(3) {
			b.WriteString(p.pick("a", "b", "B", "é", "a-c", "A-b", "1-9", "_", " ", ".", "$", "^", "*", "[:digit:]", "[:alpha:]", "[:space:]", "[:upper:]", "[:xdigit:]", "[:punct:]", "[:word:]", `\d`, `\w`, `\s`, `\n`, `\\`, `\]`, "(", "|", "-", "é-ü", "[", "]"))
		}
		return b.String() + p.pick("]", "]", "-]")
	case 5:
		return p.pick(`\d`, `\w`, `\s`, `\D`, `\W`, `\S`, `\n`, `\.`, `\\`, `\(`, `\u00e9`, `\U0001F600`, `\t`, `\B`, `\^`)
	case 6:
		return p.pick("^", "$", `\A`, `\Z`, `\y`, `\Y`)
	default:
		return p.pick("a", "b", "c", "A", "B", "1", "_", " ", "é", "É", "ß", "x", "-", "]", "}", "{", "日", "😀", "ǅ", "İ", "ı", "ſ", "K", ",", "σ")
	}
}

func (p patterns) regex(depth int) string {
	var b strings.Builder
	for range p.IntN(4) + p.IntN(2) {
		b.WriteString(p.atom(depth))
		if p.IntN(3) == 0 {
			b.WriteString(p.pick("*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0}", "{0,1}", "{2,}", "{,2}", "{1,2}?", "{3", "{", "{2,1}", "{300}", "**", "{0,0}", "{1}+"))
		}
	}
	if p.IntN(4) == 0 {
		b.WriteString("|" + p.regex(depth-1))
	}
	return b.String()
}

// Random patterns match random texts exactly when they do in Postgres; what is invalid there is refused with the same
// words.
func TestRegularExpressionsAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 8, 1)
	t.Logf("-where.seed=%d", *sampleSeed)
	p := patterns{rand.New(rand.NewPCG(*sampleSeed, 5))}
	texts := []string{"", "\n", "a\nb", "ab\n", "éÉ", "straße", "😀", "ǅǆǄ", "İıiI", "ſSs", "Kk\u212a", "a.b", "aaa", "a_1", "日本", "-]", "{2}", "x{,2}", `a\b`, "^$", "σςΣ"}
	for range 60 {
		var b strings.Builder
		for range p.IntN(7) {
			b.WriteString(p.pick("a", "b", "c", "A", "B", "1", "_", " ", "é", "É", "x", "-", "\n", "日", ".", "]", "\t", "ü", "{", "}", "Z"))
		}
		texts = append(texts, b.String())
	}
	o.addTexts(t, texts)
	count := 1200
	if *all {
		count *= 8
	}
	var exprs, invalid []string
	for range count {
		column, op := p.pick("c_text", "c_textc", "c_varchar", "c_bpchar", "c_name", "c_textc"), p.pick("~", "~", "~*", "!~", "!~*")
		expr := fmt.Sprintf("%s %s %s", column, op, dollar(p.regex(2)))
		if _, err := where.ParseValue(expr, o.scope); err != nil && strings.Contains(err.Error(), "invalid regular expression") {
			invalid = append(invalid, expr)
			continue
		}
		exprs = append(exprs, expr)
	}
	for _, pattern := range []string{"a", "a|b", "%a_", "[ab]%", "[^a]_%", "(a|b)*%", "a{2}", "%.%", "^%", `\%%`, "!%a", "x#_", `a\d%`, "_+", ""} {
		for _, form := range []string{"%s SIMILAR TO %s", "%s NOT SIMILAR TO %s ESCAPE '!'", "%s SIMILAR TO %s ESCAPE '#'", "%s SIMILAR TO %s ESCAPE ''"} {
			exprs = append(exprs, fmt.Sprintf(form, "c_text", dollar(pattern)), fmt.Sprintf(form, "c_textc", dollar(pattern)))
		}
	}
	exprs = append(exprs, "regexp_like(c_text, 'a+b')", "regexp_like(c_bpchar, ' $')", "c_text ~ NULL", "c_text ~* ('A' || 'b')", "c_bpchar ~ '^.{5}$'", "c_text = 'a' OR c_text ~ '^[a-c]+$'")
	o.check(t, exprs)
	o.report(t)
	for _, e := range invalid {
		_, ours := where.ParseValue(e, o.scope)
		_, err := o.try(t, "SELECT "+e+" FROM t WHERE c_text = 'a.b'")
		var theirs *pgconn.PgError
		if assert.ErrorAsf(t, err, &theirs, "%s: %v, which Postgres takes", e, ours) {
			assert.Contains(t, ours.Error(), theirs.Message, e)
		}
	}
	t.Logf("%d invalid patterns", len(invalid))
}

func dollar(s string) string { return "$re$" + s + "$re$" }

// What could differ, or cost more than linear time, is refused by name.
func TestRefusedRegularExpressions(t *testing.T) {
	for pattern, message := range map[string]string{
		`(a)\1`: `with \1`, `a(?=b)`: "look-around", `(?i)a`: "options", `\mfoo\M`: `with \m`, `[[=a=]]`: "equivalence class", `[[.hyphen.]]`: "collating element",
		`***=a.b`: "prefix", `\x41`: `with \x`, `\cA`: `with \c`, `(((a{255}){255}){255}){255}`: "size", `[[:<:]]a`: "[[:<:]]", `[\W]`: "in brackets", `\u0000`: "no character",
		strings.Repeat("(", 300) + strings.Repeat(")", 300): "parentheses", strings.Repeat("a", 5000): "4096",
		`a{2`: "braces {} not balanced", `*a`: "quantifier operand invalid", `[b-a]`: "invalid character range", `[[:nope:]]`: "invalid character class", `a\`: "invalid escape", `(`: "parentheses () not balanced", `[a`: "brackets [] not balanced",
	} {
		_, err := where.Parse("t ~ "+dollar(pattern), nil, testScope())
		var bad *where.Error
		require.ErrorAs(t, err, &bad, pattern)
		assert.Contains(t, bad.Error(), message, pattern)
		assert.Equal(t, 4, bad.Location)
	}
	_, err := where.Parse("t ~ t", nil, testScope())
	assert.EqualError(t, err, "At location 2: ~ is supported with a constant pattern only")
}
