package where

import (
	"slices"
	"sort"

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

// compileAnyAll compiles "x op ANY (array)": with a constant array and = or <> as a look-up in a sorted list.
func compileAnyAll(n *node) test {
	x, k := compile(n.args[0]), n.args[1]
	apply := compileApply2(n)
	all := n.all
	if k.isConst() && k.val.st == isSet {
		if b := builtins[n.fn.key]; b.order == orderEQ && !all || b.order == orderNE && all {
			if m := compileMember(n, x, b); m != nil {
				return m
			}
		}
	}
	arr := compile(k)
	return func(row changes.Row) Tri {
		v, a := x(row), arr(row)
		if v.st == isFailed {
			return Failed
		}
		if a.st != isSet {
			return a.tri()
		}
		out := triOf(all)
		for _, e := range a.a.elems {
			switch t := strict2(apply, v, e).tri(); t {
			case Failed:
				return Failed
			case Unknown:
				out = Unknown
			case True:
				if !all {
					return True
				}
			case False:
				if all {
					return False
				}
			}
		}
		return out
	}
}

// smallList is up to how many members a list is searched from the left.
const smallList = 8

func compileMember(n *node, x eval, b *builtin) test {
	compare := b.comparator(n)
	elems := slices.Clone(n.args[1].val.a.elems)
	total := len(elems)
	elems = slices.DeleteFunc(elems, func(v value) bool { return v.st == isNull })
	hasNull := len(elems) < total
	for _, e := range elems {
		if e.b != nil && e.i == -1 {
			return nil
		}
	}
	slices.SortFunc(elems, compare)
	found, missing := True, False
	if n.all {
		found, missing = False, True
	}
	if total == 0 {
		return func(row changes.Row) Tri {
			if x(row).st == isFailed {
				return Failed
			}
			return missing
		}
	}
	if hasNull {
		missing = Unknown
	}
	return func(row changes.Row) Tri {
		v := x(row)
		if v.st != isSet {
			return v.tri()
		}
		if v.b != nil && v.i == -1 {
			return missing // an enum label newer than the clause is not in its list
		}
		if len(elems) <= smallList {
			for i := range elems {
				if compare(elems[i], v) == 0 {
					return found
				}
			}
			return missing
		}
		i := sort.Search(len(elems), func(i int) bool { return compare(elems[i], v) >= 0 })
		if i < len(elems) && compare(elems[i], v) == 0 {
			return found
		}
		return missing
	}
}

// compile compiles an expression of any type.
func compile(n *node) eval {
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

func mapArray(v value, f func(value) value) value {
	out := &array{dims: v.a.dims, elems: make([]value, len(v.a.elems))}
	for i, e := range v.a.elems {
		if e.st == isSet {
			if e = f(e); e.st == isFailed {
				return failedValue
			}
		}
		out.elems[i] = e
	}
	return value{st: isSet, a: out}
}

func compileArray(n *node) eval {
	args := compileAll(n.args)
	return func(row changes.Row) value {
		a := &array{elems: make([]value, len(args))}
		if len(args) > 0 {
			a.dims = []dim{{length: len(args), lower: 1}}
		}
		for i, e := range args {
			if a.elems[i] = e(row); a.elems[i].st == isFailed {
				return failedValue
			}
		}
		return value{st: isSet, a: a}
	}
}

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
	enum := n.typ.baseType().kind == KindEnum
	return func(row changes.Row) value {
		best := nullValue
		for _, a := range args {
			v := a(row)
			switch {
			case v.st == isFailed || enum && v.st == isSet && v.i == -1:
				return failedValue
			case v.st == isNull:
			case best.st == isNull || sign*compare(v, best) > 0:
				best = v
			}
		}
		return best
	}
}

// compileIndex reads one element; a subscript outside the array, a NULL one, or the wrong number of them gives NULL.
func compileIndex(n *node) eval {
	arr, subs := compile(n.args[0]), compileAll(n.args[1:])
	return func(row changes.Row) value {
		v := arr(row)
		if v.st != isSet {
			return v
		}
		at, outside := 0, len(subs) != len(v.a.dims)
		for i, s := range subs {
			x := s(row)
			if x.st != isSet {
				return x
			}
			if outside {
				continue
			}
			d := v.a.dims[i]
			off := int(x.i) - d.lower
			if off < 0 || off >= d.length {
				outside = true
				continue
			}
			at = at*d.length + off
		}
		if outside {
			return nullValue
		}
		return v.a.elems[at]
	}
}
