package where_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var clauseCount = flag.Int("where.clauses", 2500, "how many random clauses TestClausesAgreeWithPostgres tries")

// generator writes random clauses over the oracle's table, most of which type-check.
type generator struct {
	*rand.Rand
	kinds []kind
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
	if depth <= 0 || g.IntN(3) == 0 {
		if g.IntN(2) == 0 {
			return k.column
		}
		return g.literal(k)
	}
	a, b := g.scalar(k, depth-1), g.scalar(k, depth-1)
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
	k := g.kind()
	a := g.scalar(k, depth)
	switch g.IntN(10) {
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
		return fmt.Sprintf("(%s %s %s)", a, g.pick("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "@>", "&&"), g.scalar(k, depth))
	}
}

// TestClausesAgreeWithPostgres evaluates random clauses here and in Postgres for every row. -where.clauses makes a
// soak of it.
func TestClausesAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 5, 80)
	t.Logf("-where.seed=%d", *sampleSeed)
	g := &generator{rand.New(rand.NewPCG(*sampleSeed, 2)), o.kinds}
	for tried := 0; tried < *clauseCount && !t.Failed(); tried += 500 {
		exprs := make([]string, 500)
		for i := range exprs {
			exprs[i] = g.clause(3)
		}
		o.check(t, exprs)
	}
	o.report(t)
}
