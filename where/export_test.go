package where

import (
	"slices"

	"github.com/shapeserver/shapeserver/changes"
)

// Value is an expression of any type, for the tests that compare with Postgres value by value.
type Value struct {
	SQL    string
	Type   string
	eval   eval
	output func(value) string
}

// ParseValue is Parse without the demand for a boolean.
func ParseValue(text string, scope Scope) (*Value, error) {
	tree, err := parseTree(text, limits{MaxText, restoreDepth, maxComments})
	if err != nil {
		return nil, err
	}
	c := newChecker(scope, nil)
	n, err := c.expr(tree)
	if err != nil {
		return nil, err
	}
	if n.isUnknown() {
		if n, err = c.coerce(n, c.types.oid(oidText), contextImplicit, -1, 0); err != nil {
			return nil, err
		}
	}
	if n, err = fold(n); err != nil {
		return nil, err
	}
	if !n.typ.known() {
		return nil, unsupported(0, "a value of type "+n.typ.name)
	}
	return &Value{SQL: render(n, scope), Type: n.typ.name, eval: compile(n), output: codecOf(n.typ).output}, nil
}

// Text returns the value for a row as Postgres's output function writes it, "NULL", or "FAILED".
func (v *Value) Text(row changes.Row) string {
	switch out := v.eval(row); out.st {
	case isNull:
		return "NULL"
	case isFailed:
		return "FAILED"
	default:
		return "=" + v.output(out)
	}
}

// Operators lists the names of all operators of the catalogue.
func Operators() (binary, prefix []string) {
	for name, procs := range theCatalog().ops {
		b, p := false, false
		for _, o := range procs {
			b, p = b || len(o.args) == 2, p || len(o.args) == 1
		}
		if b {
			binary = append(binary, name)
		}
		if p {
			prefix = append(prefix, name)
		}
	}
	slices.Sort(binary)
	slices.Sort(prefix)
	return binary, prefix
}

// Functions lists the functions of the catalogue with their numbers of arguments.
func Functions() map[string][]int {
	out := map[string][]int{}
	for name, procs := range theCatalog().funcs {
		for _, p := range procs {
			n := len(p.args)
			out[name] = append(out[name], n)
			if p.variadic != nil {
				out[name] = append(out[name], n+1)
			}
		}
		slices.Sort(out[name])
		out[name] = slices.Compact(out[name])
	}
	return out
}
