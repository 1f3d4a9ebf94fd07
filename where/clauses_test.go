package where_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/where"
)

var (
	clauseCount = flag.Int("where.clauses", 1500, "how many random clauses TestClausesAgreeWithPostgres tries")
	rowCount    = flag.Int("where.rows", 80, "how many rows it compares each clause on")
	pairs       = flag.Int("where.pairs", 0, "how many pairs of a clause and a row it compares, instead of -where.clauses")
	duration    = flag.Duration("where.duration", 0, "how long it goes on, instead of -where.clauses")
	locale      = flag.String("where.locale", "", `the locale of its database: "" is the tests' own, "en_US.UTF-8" one of libc, "icu en-US" one of ICU`)
)

// generator writes random clauses over the oracle's table, most of which type-check.
type generator struct {
	*rand.Rand
	kinds []kind
	scope where.Scope // once set, parts that are refused are mostly replaced, since whole clauses would be refused for them
}

// accepted makes a part again when it is refused, a few times.
func (g *generator) accepted(part func() string) string {
	text := part()
	for range 4 {
		if g.scope.Columns == nil {
			break
		}
		if _, err := where.ParseValue(text, g.scope); err == nil {
			break
		}
		text = part()
	}
	return text
}

func (g *generator) pick(s ...string) string { return s[g.IntN(len(s))] }

func (g *generator) kind() kind { return g.kinds[g.IntN(len(g.kinds))] }

func (g *generator) literal(k kind) string {
	v := quote(k.values[g.IntN(len(k.values))])
	switch g.IntN(4) {
	case 0:
		return v + "::" + k.cast
	case 1:
		return "CAST(" + v + " AS " + k.cast + ")"
	case 2:
		if g.IntN(8) == 0 {
			return "NULL"
		}
		return v
	default:
		return v
	}
}

// scalar is an expression of a kind's type, or one that is close to it.
func (g *generator) scalar(k kind, depth int) string {
	return g.accepted(func() string { return g.anyScalar(k, depth) })
}

func (g *generator) anyScalar(k kind, depth int) string {
	if depth <= 0 || g.IntN(3) == 0 {
		if g.IntN(2) == 0 {
			return k.column
		}
		return g.literal(k)
	}
	a, b := g.scalar(k, depth-1), g.scalar(k, depth-1)
	if f := g.form(k); f != "" && g.IntN(2) == 0 {
		return strings.NewReplacer("%s", a, "%t", b).Replace(f)
	}
	switch g.IntN(12) {
	case 0:
		return fmt.Sprintf("coalesce(%s, %s)", a, b)
	case 1:
		return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", g.clause(depth-1), a, b)
	case 2:
		return fmt.Sprintf("nullif(%s, %s)", a, b)
	case 3:
		return fmt.Sprintf("%s(%s, %s)", g.pick("greatest", "least"), a, b)
	case 4:
		return fmt.Sprintf("(%s)::text", a)
	case 5:
		return fmt.Sprintf("%s(%s)", g.pick("lower", "upper", "abs", "length", "-", "btrim"), a)
	case 6:
		return fmt.Sprintf("(%s %s %s)", a, g.pick("+", "-", "*", "/", "%", "||", "&"), g.scalar(g.kind(), 0))
	case 7:
		return fmt.Sprintf("(%s)::%s", a, g.kind().cast)
	case 8:
		return fmt.Sprintf("CASE %s WHEN %s THEN %s END", a, b, g.scalar(k, 0))
	default:
		return fmt.Sprintf("(%s %s %s)", a, g.pick("+", "-", "*", "||"), b)
	}
}

// clause is a boolean expression.
func (g *generator) clause(depth int) string {
	if depth > 0 && g.IntN(3) > 0 {
		switch g.IntN(8) {
		case 0, 1:
			return fmt.Sprintf("(%s AND %s)", g.clause(depth-1), g.clause(depth-1))
		case 2, 3:
			return fmt.Sprintf("(%s OR %s)", g.clause(depth-1), g.clause(depth-1))
		case 4, 5:
			return "NOT " + g.clause(depth-1)
		case 6:
			return fmt.Sprintf("(%s) IS %s%s", g.clause(depth-1), g.pick("", "NOT "), g.pick("TRUE", "FALSE", "UNKNOWN", "NULL"))
		default:
			return fmt.Sprintf("(%s) %s (%s)", g.clause(depth-1), g.pick("=", "<>", "IS DISTINCT FROM", "<"), g.clause(depth-1))
		}
	}
	return g.accepted(func() string { return g.leaf(depth) })
}

// leaf is a condition without AND, OR and NOT at its top.
func (g *generator) leaf(depth int) string {
	k := g.kind()
	a := g.scalar(k, depth)
	switch g.IntN(11) {
	case 10:
		return fmt.Sprintf("(%s %s %s)", a, g.pick("~", "~*", "!~", "!~*", "SIMILAR TO"), g.pick("'a'", "'^a|b$'", `'[a-c]+\d?'`, "'É'", "'^.{1,3}$'", "'(ab|c)*'"))
	case 0:
		return fmt.Sprintf("(%s IS %sNULL)", a, g.pick("", "NOT "))
	case 1:
		items := make([]string, 1+g.IntN(12))
		for i := range items {
			items[i] = g.scalar(k, 0)
		}
		return fmt.Sprintf("(%s %sIN (%s))", a, g.pick("", "NOT "), strings.Join(items, ", "))
	case 2:
		return fmt.Sprintf("(%s %sBETWEEN %s%s AND %s)", a, g.pick("", "NOT "), g.pick("", "SYMMETRIC "), g.scalar(k, 0), g.scalar(k, 0))
	case 3:
		return fmt.Sprintf("(%s %s %s)", a, g.pick("LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"), g.pick("'%a%'", "'a_c'", `'\%'`, "'É%'", "'_'", "'%b_%'", "c_textc", "'%' || c_textc"))
	case 4:
		return fmt.Sprintf("(%s %s %s(ARRAY[%s, %s]))", a, g.pick("=", "<>", "<", ">="), g.pick("ANY", "ALL"), g.scalar(k, 0), g.scalar(k, 0))
	case 5:
		j := g.kind()
		return fmt.Sprintf("((%s, %s) %s (%s, %s))", a, j.column, g.pick("=", "<>", "<", ">="), g.scalar(k, 0), g.scalar(j, 0))
	default:
		return fmt.Sprintf("(%s %s %s)", a, g.pick("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "@>", "<@", "&&", "<<", ">>", "&<", "-|-", "?|"), g.scalar(k, depth))
	}
}

// TestClausesAgreeWithPostgres evaluates random clauses here and in Postgres for every row. -where.clauses, -where.pairs
// and -where.duration make a soak of it, which ends at the first difference.
func TestClausesAgreeWithPostgres(t *testing.T) {
	t.Logf("-where.seed=%d", *sampleSeed)
	g := &generator{Rand: rand.New(rand.NewPCG(*sampleSeed, 2)), kinds: append(kinds(), moreKinds()...)}
	began := time.Now()
	compared, tried := 0, 0
	more := func() bool {
		switch {
		case t.Failed():
			return false
		case *pairs > 0:
			return compared < *pairs
		case *duration > 0:
			return time.Since(began) < *duration
		default:
			return tried < *clauseCount
		}
	}
	for round := uint64(0); more(); round++ {
		pool, problem := localised(t, *locale)
		if problem != "" {
			t.Fatal(problem)
		}
		o := newOracleOn(t, pool, *sampleSeed+round, *rowCount) // new rows each time
		g.scope = o.scope
		before := compared
		for left := 10_000; left > 0 && more(); left -= 500 {
			exprs := make([]string, 500)
			for i := range exprs {
				exprs[i] = g.clause(3)
			}
			o.check(t, exprs)
			tried += len(exprs)
			compared = before + o.compared
			if *pairs > 0 || *duration > 0 {
				fmt.Fprintf(os.Stderr, "where: %d pairs compared, %d differences, seed %d, %v\n", compared, o.differences, *sampleSeed, time.Since(began).Round(time.Second))
			}
		}
		o.report(t)
	}
}

// In databases of other locales every clause is evaluated as Postgres does, or refused.
func TestClausesAgreeInOtherLocales(t *testing.T) {
	for _, name := range []string{"en_US.UTF-8", "icu en-US", "icu tr-TR", "C"} {
		t.Run(name, func(t *testing.T) {
			pool, problem := localised(t, name)
			if problem != "" {
				t.Skip(problem)
			}
			o := newOracleOn(t, pool, *sampleSeed, 40)
			g := &generator{rand.New(rand.NewPCG(*sampleSeed, 4)), o.kinds, o.scope}
			var exprs []string
			for range 300 {
				exprs = append(exprs, g.clause(2))
			}
			for _, text := range []string{"c_text", "c_varchar", "c_name", "c_bpchar", "c_mail", "c_textc"} {
				for _, v := range []string{"b", "É", "i", "ß", "ss", "e\u0301"} {
					for _, f := range []string{"%s = '%s'", "%s < '%s'", "%s >= '%s'", "lower(%s) = '%s'", "upper(%s) = '%s'", "%s LIKE '%s%%'", "%s ILIKE '%s%%'", "%s IN ('%s', 'x')", "greatest(%s, '%s')", "initcap(%s) = '%s'", "%s ~* '%s'", "position('%[2]s' in %[1]s)"} {
						exprs = append(exprs, fmt.Sprintf(f, text, v))
					}
				}
			}
			o.check(t, exprs)
			o.report(t)
			require.Positive(t, o.compared)
		})
	}
}

// localised returns a new database of a locale, or of the tests' own when name is empty: "en_US.UTF-8" is one of libc,
// "icu en-US" one of ICU. It returns what is missing when the server cannot have it.
func localised(t testing.TB, name string) (pool *pgxpool.Pool, problem string) {
	t.Helper()
	db := pgtest.New(t)
	if name == "" {
		return db.Pool(t), ""
	}
	options := "LOCALE '" + name + "'"
	if icu, ok := strings.CutPrefix(name, "icu "); ok {
		options = "LOCALE_PROVIDER icu ICU_LOCALE '" + icu + "' LOCALE 'C'"
	}
	ctx, admin, other := t.Context(), db.Pool(t), db.Name+"_l"
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+other+" ENCODING 'UTF8' "+options+" TEMPLATE template0"); err != nil {
		return nil, fmt.Sprintf("no database of locale %s: %v (with Debian: apt-get install locales; localedef -i en_US -f UTF-8 en_US.UTF-8, before the server starts)", name, err)
	}
	cfg, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	cfg.ConnConfig.Database = other
	pool, err = pgxpool.NewWithConfig(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		pool.Close()
		_, err := admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+other+" WITH (FORCE)")
		assert.NoError(t, err)
	})
	return pool, ""
}
