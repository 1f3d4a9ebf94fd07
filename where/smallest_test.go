package where_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/shapeserver/shapeserver/where"
)

// smallest looks for the shortest part of an expression that differs from Postgres by itself for a row, and describes it.
func (o *oracle) smallest(t testing.TB, text string, r int) string {
	t.Helper()
	for _, part := range parts(text) {
		v, err := where.ParseValue(part, o.scope)
		if err != nil || len(part) >= len(text) {
			continue
		}
		rows, err := o.try(t, fmt.Sprintf("SELECT outcome($e$%s$e$, %d)", part, r))
		if err != nil {
			continue
		}
		if want, got := string(rows[0][0]), v.Text(o.rows[r]); want != got {
			return fmt.Sprintf("\n smallest part that differs: %s\n  with %s\n  here %q, in Postgres %q", part, o.show(r, part), got, want)
		}
	}
	return ""
}

// parts lists the expressions inside an expression, shortest first.
func parts(text string) []string {
	const wrapper = "SELECT 1 WHERE "
	tree, err := pg.Parse(wrapper + text)
	if err != nil {
		return nil
	}
	var out []string
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		if n, ok := m.Interface().(*pg.Node); ok {
			sel := &pg.SelectStmt{
				TargetList:  tree.GetStmts()[0].GetStmt().GetSelectStmt().GetTargetList(),
				WhereClause: n, LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE,
			}
			stmt := &pg.RawStmt{Stmt: &pg.Node{Node: &pg.Node_SelectStmt{SelectStmt: sel}}}
			sql, err := pg.Deparse(&pg.ParseResult{Version: tree.GetVersion(), Stmts: []*pg.RawStmt{stmt}})
			if err == nil {
				out = append(out, strings.TrimPrefix(sql, wrapper))
			}
		}
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case fd.Kind() != protoreflect.MessageKind:
			case fd.IsList():
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			default:
				walk(v.Message())
			}
			return true
		})
	}
	walk(tree.GetStmts()[0].GetStmt().GetSelectStmt().GetWhereClause().ProtoReflect())
	slices.SortStableFunc(out, func(a, b string) int { return len(a) - len(b) })
	return slices.Compact(out)
}

// The parts of an expression are found, so that a difference is told by the smallest of them.
func TestParts(t *testing.T) {
	got := parts("a = 1 AND (b || 'x' LIKE 'y%' OR c IS NULL)")
	for _, want := range []string{"a", "1", "a = 1", "b || 'x'", "b || 'x' LIKE 'y%'", "c IS NULL"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
}
