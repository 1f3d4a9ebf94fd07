package where

import (
	"slices"

	"github.com/shapeserver/shapeserver/changes"
)

// compile compiles an expression of any type.
func compile(n *node) eval {
	if n.typ.collatable && alwaysNull(n) {
		return func(changes.Row) value { return nullValue }
	}
	switch n.kind {
	case nodeConst:
		v := n.val
		return func(changes.Row) value { return v }
	case nodeColumn:
		return compileColumn(n)
	case nodeCast:
		return compileCast(n)
	case nodeCollate:
		return compile(n.args[0])
	case nodeOp, nodeFunc:
		return compileCall(n)
	case nodeArray:
		return compileArray(n)
	case nodeCase:
		return compileCase(n)
	case nodeCoalesce:
		args := compileAll(n.args)
		return func(row changes.Row) value {
			for _, a := range args {
				if v := a(row); v.st != isNull {
					return v
				}
			}
			return nullValue
		}
	case nodeNullIf:
		return compileNullIf(n)
	case nodeGreatest, nodeLeast:
		return compileExtreme(n)
	case nodeIndex:
		return compileIndex(n)
	case nodeSlice:
		return compileSlice(n)
	default:
		t := compileTest(n)
		return func(row changes.Row) value { return t(row).value() }
	}
}

func compileAll(nodes []*node) []eval {
	out := make([]eval, len(nodes))
	for i, n := range nodes {
		out[i] = compile(n)
	}
	return out
}

// evalAll evaluates into vals, which has room for all, and returns false at the first that fails.
func evalAll(evals []eval, row changes.Row, vals []value) bool {
	for i, e := range evals {
		if vals[i] = e(row); vals[i].st == isFailed {
			return false
		}
	}
	return true
}

func compileColumn(n *node) eval {
	i := n.column
	c := codecOf(n.typ)
	if c == nil {
		return func(changes.Row) value { return failedValue }
	}
	read := c.read
	return func(row changes.Row) value {
		if i >= len(row) {
			return failedValue
		}
		v := &row[i]
		switch v.Kind {
		case changes.Text:
			if out, ok := read(v.Bytes); ok {
				return out
			}
			return failedValue
		case changes.Null:
			return nullValue
		default: // an unchanged TOAST value that nobody filled in
			return failedValue
		}
	}
}

// compileCall compiles operators and functions.
func compileCall(n *node) eval {
	b := builtins[n.fn.key]
	if b.order == 0 && !b.infinite {
		n = finiteArgs(n)
	}
	if b.build != nil {
		return b.build(n)
	}
	if b.buildTest != nil {
		t := b.buildTest(n)
		return func(row changes.Row) value { return t(row).value() }
	}
	args := compileAll(n.args)
	switch {
	case b.f1 != nil:
		a, f := args[0], b.f1
		return func(row changes.Row) value {
			v := a(row)
			if v.st != isSet {
				return v
			}
			return f(v)
		}
	case b.f2 != nil:
		a0, a1, f := args[0], args[1], b.f2
		return func(row changes.Row) value { return strict2(f, a0(row), a1(row)) }
	default:
		f, strict := b.fn, n.fn.strict
		return func(row changes.Row) value {
			vals := make([]value, len(args))
			null := false
			for i, a := range args {
				vals[i] = a(row)
				if vals[i].st == isFailed {
					return failedValue
				}
				null = null || vals[i].st == isNull
			}
			if strict && null {
				return nullValue
			}
			return f(vals)
		}
	}
}

// finiteArgs returns n with arguments that fail where they are infinite intervals.
func finiteArgs(n *node) *node {
	args := n.args
	for i, a := range args {
		if !a.typ.baseType().is(oidInterval) || a.isConst() { // constants are finite
			continue
		}
		if &args[0] == &n.args[0] {
			args = slices.Clone(args)
		}
		args[i] = &node{kind: nodeCast, typ: a.typ, loc: a.loc, args: []*node{a}, implicit: true, method: castFinite, typmod: -1}
	}
	c := *n
	c.args = args
	return &c
}

func compileCast(n *node) eval {
	arg := compile(n.args[0])
	convert := castFuncOf(n)
	return func(row changes.Row) value {
		v := arg(row)
		if v.st != isSet {
			return v
		}
		return convert(v)
	}
}

// castFuncOf returns the conversion of one set value.
func castFuncOf(n *node) func(value) value {
	from, to := n.args0Type(), n.typ
	var f func(value) value
	switch n.method {
	case castFunc:
		f = builtins[n.key].f1
	case castFinite:
		f = func(v value) value {
			if !finiteInterval(v) {
				return failedValue
			}
			return v
		}
	case castText:
		output, input := codecOf(from).output, codecOf(to).input
		f = func(v value) value {
			out, ok := input(output(v))
			if !ok {
				return failedValue
			}
			return out
		}
	case castArray:
		if n.sub == nil || n.sub.kind != nodeCast {
			f = func(v value) value { return v }
			break
		}
		elem := castFuncOf(n.sub)
		return func(v value) value { return mapArray(v, elem) }
	default:
		f = func(v value) value { return v }
	}
	if from.baseType().is(oidOid) != to.baseType().is(oidOid) {
		f = wrapOID(f, to.baseType().oid)
	}
	if n.typmod < 0 {
		return f
	}
	typmod := n.typmod
	return func(v value) value {
		v = f(v)
		if v.st != isSet {
			return v
		}
		return applyTypmod(v, to, typmod, true)
	}
}

// wrapOID makes the conversions between oid and the integers keep the bits, as Postgres's do.
func wrapOID(f func(value) value, to uint32) func(value) value {
	return func(v value) value {
		if v = f(v); v.st == isSet && v.b == nil {
			switch to {
			case oidOid:
				v.i = int64(uint32(v.i)) //nolint:gosec // the low word is what is wanted
			case oidInt4:
				v.i = int64(int32(v.i)) //nolint:gosec // as above
			}
		}
		return v
	}
}

// args0Type is the type a cast converts from; the cast of an array's element has a stand-in argument.
func (n *node) args0Type() *typ { return n.args[0].typ }

func compileCase(n *node) eval {
	last := len(n.args) - 1
	var conds []test
	var results []eval
	for i := 0; i < last; i += 2 {
		conds = append(conds, compileTest(n.args[i]))
		results = append(results, compile(n.args[i+1]))
	}
	otherwise := compile(n.args[last])
	return func(row changes.Row) value {
		for i, c := range conds {
			switch c(row) {
			case True:
				return results[i](row)
			case Failed:
				return failedValue
			default:
			}
		}
		return otherwise(row)
	}
}

func compileNullIf(n *node) eval {
	a, b := compile(n.args[0]), compile(n.args[1])
	eq := compileApply2(n)
	return func(row changes.Row) value {
		x, y := a(row), b(row)
		switch {
		case x.st == isFailed || y.st == isFailed:
			return failedValue
		case x.st == isNull || y.st == isNull:
			return x
		}
		switch eq(x, y).tri() {
		case True:
			return nullValue
		case Failed:
			return failedValue
		default:
			return x
		}
	}
}

func compileExtreme(n *node) eval {
	args := compileAll(n.args)
	compare := codecOf(n.typ).compare
	sign := 1
	if n.kind == nodeLeast {
		sign = -1
	}
	t := n.typ
	return func(row changes.Row) value {
		best := nullValue
		for _, a := range args {
			v := a(row)
			switch {
			case v.st == isFailed || hasNewLabel(t, v):
				return failedValue
			case v.st == isNull:
			case best.st == isNull || sign*compare(v, best) > 0:
				best = v
			}
		}
		return best
	}
}
