package where

import (
	"github.com/shapeserver/shapeserver/changes"
)

// eval computes an expression for a row. It keeps no reference to the row and needs no memory for the common types.
type eval func(row changes.Row) value

// test computes a boolean expression for a row.
type test func(row changes.Row) Tri

// compileTest compiles a boolean expression; the logic around comparisons needs no value in between.
func compileTest(n *node) test {
	switch n.kind {
	case nodeAnd:
		return compileAnd(n)
	case nodeOr:
		return compileOr(n)
	case nodeNot:
		arg := compileTest(n.args[0])
		return func(row changes.Row) Tri {
			switch t := arg(row); t {
			case True:
				return False
			case False:
				return True
			default:
				return t
			}
		}
	case nodeNullTest:
		return compileNullTest(n)
	case nodeBoolTest:
		return compileBoolTest(n)
	case nodeDistinct:
		return compileDistinct(n)
	case nodeAnyAll:
		return compileAnyAll(n)
	case nodeRowCompare:
		return compileRowCompare(n)
	case nodeOp, nodeFunc:
		if b := builtins[n.fn.key]; b.buildTest != nil {
			return b.buildTest(n)
		}
	default:
	}
	e := compile(n)
	return func(row changes.Row) Tri { return e(row).tri() }
}

// compileAnd evaluates from the left and stops at the first that is false or fails, as Postgres does.
func compileAnd(n *node) test {
	args := compileTests(n.args)
	if len(args) == 2 {
		a, b := args[0], args[1]
		return func(row changes.Row) Tri {
			x := a(row)
			if x == False || x == Failed {
				return x
			}
			if y := b(row); y != True {
				return y
			}
			return x
		}
	}
	return func(row changes.Row) Tri {
		out := True
		for _, a := range args {
			switch a(row) {
			case False:
				return False
			case Failed:
				return Failed
			case Unknown:
				out = Unknown
			default:
			}
		}
		return out
	}
}

func compileOr(n *node) test {
	args := compileTests(n.args)
	return func(row changes.Row) Tri {
		out := False
		for _, a := range args {
			switch a(row) {
			case True:
				return True
			case Failed:
				return Failed
			case Unknown:
				out = Unknown
			default:
			}
		}
		return out
	}
}

func compileTests(nodes []*node) []test {
	out := make([]test, len(nodes))
	for i, n := range nodes {
		out[i] = compileTest(n)
	}
	return out
}

func compileNullTest(n *node) test {
	want := triOf(!n.not)
	other := triOf(n.not)
	if arg := n.args[0]; arg.kind == nodeColumn {
		// This needs only the kind of the value, so it works for every type.
		i := arg.column
		if arg.typ.baseType().kind == KindComposite {
			return compileRowNullTest(i, n.not)
		}
		return func(row changes.Row) Tri {
			switch {
			case i >= len(row):
				return Failed
			case row[i].IsNull():
				return want
			default:
				return other
			}
		}
	}
	e := compile(n.args[0])
	return func(row changes.Row) Tri {
		switch e(row).st {
		case isNull:
			return want
		case isFailed:
			return Failed
		default:
			return other
		}
	}
}

func compileBoolTest(n *node) test {
	arg := compileTest(n.args[0])
	want := [...]Tri{testTrue: True, testFalse: False, testUnknown: Unknown}[n.test]
	not := n.not
	return func(row changes.Row) Tri {
		t := arg(row)
		if t == Failed {
			return Failed
		}
		return triOf((t == want) != not)
	}
}

func compileDistinct(n *node) test {
	a, b := compile(n.args[0]), compile(n.args[1])
	eq := compileApply2(n)
	not := n.not
	return func(row changes.Row) Tri {
		x, y := a(row), b(row)
		switch {
		case x.st == isFailed || y.st == isFailed:
			return Failed
		case x.st == isNull || y.st == isNull:
			return triOf((x.st != y.st) != not)
		}
		t := eq(x, y).tri()
		if t == Failed {
			return Failed
		}
		return triOf((t != True) != not)
	}
}

// compileApply2 returns the function of n.fn for two values that are set.
func compileApply2(n *node) func(a, b value) value {
	b := builtins[n.fn.key]
	if b.order != 0 {
		compare, order := b.comparator(n), b.order
		return func(x, y value) value {
			if x.i == -1 && x.b != nil || y.i == -1 && y.b != nil {
				return compareNewLabels(x, y, order)
			}
			return boolValue(order.holds(compare(x, y)))
		}
	}
	return b.f2
}

// buildComparison compiles the six comparison operators; a constant on the right, the common case, is not evaluated
// again.
func buildComparison(n *node) test {
	b := builtins[n.fn.key]
	compare, order := b.comparator(n), b.order
	if n.args[0].typ.baseType().kind == KindEnum {
		if k := n.args[1]; k.isConst() && k.val.st == isSet {
			if t := compareColumn(n.args[0], k.val, order); t != nil {
				return t
			}
		}
		apply := compileApply2(n)
		x, y := compile(n.args[0]), compile(n.args[1])
		return func(row changes.Row) Tri { return strict2(apply, x(row), y(row)).tri() }
	}
	left := compile(n.args[0])
	if k := n.args[1]; k.isConst() && k.val.st == isSet {
		right := k.val
		if t := compareColumn(n.args[0], right, order); t != nil {
			return t
		}
		return func(row changes.Row) Tri {
			v := left(row)
			if v.st != isSet {
				return v.tri()
			}
			return triOf(order.holds(compare(v, right)))
		}
	}
	right := compile(n.args[1])
	return func(row changes.Row) Tri {
		a, b := left(row), right(row)
		switch {
		case a.st == isFailed || b.st == isFailed:
			return Failed
		case a.st == isNull || b.st == isNull:
			return Unknown
		}
		return triOf(order.holds(compare(a, b)))
	}
}

func strict2(f func(a, b value) value, a, b value) value {
	switch {
	case a.st == isFailed || b.st == isFailed:
		return failedValue
	case a.st == isNull || b.st == isNull:
		return nullValue
	}
	return f(a, b)
}

// compareNewLabels compares enum values of which one was added to the type after the clause was checked. Whether
// they are equal is known, their order is not.
func compareNewLabels(a, b value, order order) value {
	switch same := string(a.b) == string(b.b); order {
	case orderEQ:
		return boolValue(same)
	case orderNE:
		return boolValue(!same)
	case orderLE, orderGE:
		if same {
			return boolValue(true)
		}
	default:
		if same {
			return boolValue(false)
		}
	}
	return failedValue
}
