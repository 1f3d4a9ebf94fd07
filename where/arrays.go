package where

import (
	"math"
	"slices"

	"github.com/shapeserver/shapeserver/changes"
)

func registerArrays() {
	registerArrayFuncs()
	register("arraycontains", &builtin{needs: needDeterministic, buildTest: buildContains(false, containsAll), check: equatableElements})
	register("arraycontained", &builtin{needs: needDeterministic, buildTest: buildContains(true, containsAll), check: equatableElements})
	register("arrayoverlap", &builtin{needs: needDeterministic, buildTest: buildContains(false, containsSome), check: equatableElements})

	register("array_ndims", &builtin{f1: func(v value) value {
		if len(v.a.dims) == 0 {
			return nullValue
		}
		return intValue(int64(len(v.a.dims)))
	}})
	register("array_length", &builtin{f2: func(v, n value) value {
		if n.i < 1 || n.i > int64(len(v.a.dims)) {
			return nullValue
		}
		return intValue(int64(v.a.dims[n.i-1].length))
	}})
	register("array_lower", &builtin{f2: func(v, n value) value {
		if n.i < 1 || n.i > int64(len(v.a.dims)) {
			return nullValue
		}
		return intValue(int64(v.a.dims[n.i-1].lower))
	}})
	register("array_upper", &builtin{f2: func(v, n value) value {
		if n.i < 1 || n.i > int64(len(v.a.dims)) {
			return nullValue
		}
		d := v.a.dims[n.i-1]
		return intValue(int64(d.lower + d.length - 1))
	}})
	register("array_cardinality", &builtin{f1: func(v value) value { return intValue(int64(len(v.a.elems))) }})
	register("array_append", &builtin{build: buildAppend(0, 1)})
	register("array_prepend", &builtin{build: buildAppend(1, 0)})
	register("array_cat", &builtin{fn: func(a []value) value { return concatArrays(a[0], a[1]) }})
}

// comparableElements refuses arrays whose elements have no order.
func comparableElements(n *node) error {
	if codecOf(n.args[0].typ.baseType().elem).compare == nil {
		return errorAt(n.loc, "comparing %s is not supported", n.args[0].typ)
	}
	return nil
}

// buildArrayComparison is buildComparison, except that enums have labels whose order may not be known.
func buildArrayComparison(n *node) test {
	t := n.args[0].typ.baseType()
	o := builtins[n.fn.key].order
	if t.elem.baseType().kind != KindEnum || o == orderEQ || o == orderNE {
		return buildComparison(n)
	}
	compare := codecOf(t).compare
	x, y := compile(n.args[0]), compile(n.args[1])
	return func(row changes.Row) Tri {
		return strict2(func(a, b value) value {
			if hasNewLabel(t, a) || hasNewLabel(t, b) {
				return failedValue
			}
			return boolValue(o.holds(compare(a, b)))
		}, x(row), y(row)).tri()
	}
}

// hasNewLabel reports whether an enum value, or an element of an array of enums, has a label that the catalogue did
// not list.
func hasNewLabel(t *typ, v value) bool {
	if v.st != isSet {
		return false
	}
	switch t = t.baseType(); t.kind {
	case KindEnum:
		return v.i == -1
	case KindArray:
		if t.elem.baseType().kind == KindEnum {
			return slices.ContainsFunc(v.a.elems, func(e value) bool { return hasNewLabel(t.elem, e) })
		}
	default:
	}
	return false
}

// equatableElements refuses arrays whose elements have no equality here.
func equatableElements(n *node) error {
	if codecOf(n.args[0].typ.baseType().elem).compare == nil {
		return errorAt(n.loc, "comparing elements of %s is not supported", n.args[0].typ)
	}
	return nil
}

// elementOrder is an order of a type's values that agrees with its "="; for enums by label, since the catalogue's
// order may have grown.
func elementOrder(elem *typ) func(a, b value) int {
	if elem.baseType().kind == KindEnum {
		return compareBytes
	}
	return codecOf(elem).compare
}

// buildContains compiles @>, <@ (swapped) and &&. The right side is brought into order, once when it is constant.
func buildContains(swapped bool, holds func(whole, part []value, compare func(a, b value) int) bool) func(*node) test {
	return func(n *node) test {
		l, r := n.args[0], n.args[1]
		compare := elementOrder(l.typ.baseType().elem)
		if swapped {
			l, r = r, l
		}
		whole, part := compile(l), compile(r)
		prepare := func(v value) value {
			if v.st == isSet {
				v.a = &array{elems: ordered(v.a.elems, compare)}
			}
			return v
		}
		if r.isConst() {
			v := prepare(r.val)
			part = func(changes.Row) value { return v }
		} else {
			inner := part
			part = func(row changes.Row) value { return prepare(inner(row)) }
		}
		return func(row changes.Row) Tri {
			a, b := whole(row), part(row)
			switch {
			case a.st == isFailed || b.st == isFailed:
				return Failed
			case a.st == isNull || b.st == isNull:
				return Unknown
			}
			return triOf(holds(a.a.elems, b.a.elems, compare))
		}
	}
}

// ordered returns the distinct elements in order, NULL last.
func ordered(elems []value, compare func(a, b value) int) []value {
	full := func(a, b value) int {
		switch {
		case a.st == isSet && b.st == isSet:
			return compare(a, b)
		case a.st == b.st:
			return 0
		case a.st == isNull:
			return 1
		default:
			return -1
		}
	}
	out := slices.Clone(elems)
	slices.SortFunc(out, full)
	return slices.CompactFunc(out, func(a, b value) bool { return full(a, b) == 0 })
}

// containsAll reports whether every element of part, which is ordered, is in whole. NULL equals nothing.
func containsAll(whole, part []value, compare func(a, b value) int) bool {
	if len(part) == 0 {
		return true
	}
	if part[len(part)-1].st == isNull {
		return false
	}
	if len(part) <= smallList {
		for _, p := range part {
			if !slices.ContainsFunc(whole, func(w value) bool { return w.st == isSet && compare(w, p) == 0 }) {
				return false
			}
		}
		return true
	}
	seen := make([]bool, len(part))
	missing := len(part)
	for _, w := range whole {
		if w.st != isSet {
			continue
		}
		if i, ok := slices.BinarySearchFunc(part, w, compare); ok && !seen[i] {
			seen[i] = true
			missing--
		}
	}
	return missing == 0
}

// containsSome reports whether an element of part, which is ordered, is in whole.
func containsSome(whole, part []value, compare func(a, b value) int) bool {
	if len(part) > 0 && part[len(part)-1].st == isNull {
		part = part[:len(part)-1]
	}
	return slices.ContainsFunc(whole, func(w value) bool {
		if w.st != isSet {
			return false
		}
		_, ok := slices.BinarySearchFunc(part, w, compare)
		return ok
	})
}

// maxElems bounds what array functions may build.
const maxElems = 1 << 20

// buildAppend is array_append and array_prepend; arr and elem tell which argument is which.
func buildAppend(arr, elem int) func(*node) eval {
	return func(n *node) eval {
		array0, elem0 := compile(n.args[arr]), compile(n.args[elem])
		return func(row changes.Row) value {
			a, e := array0(row), elem0(row)
			if a.st == isFailed || e.st == isFailed {
				return failedValue
			}
			d := dim{lower: 1}
			var elems []value
			if a.st == isSet {
				switch len(a.a.dims) {
				case 0:
				case 1:
					d, elems = a.a.dims[0], a.a.elems
				default:
					return failedValue
				}
			}
			if len(elems) >= maxElems || arr == 0 && d.lower+d.length >= math.MaxInt32 || arr == 1 && d.lower == math.MinInt32 {
				return failedValue
			}
			out := make([]value, 0, len(elems)+1)
			if arr == 0 {
				out = append(append(out, elems...), e)
			} else {
				out = append(append(out, e), elems...)
			}
			d.length++
			return value{st: isSet, a: &array{elems: out, dims: []dim{d}}}
		}
	}
}

// concatArrays is array_cat: NULL is no array, the empty array adds nothing, and what has one dimension less becomes
// an element of the other.
func concatArrays(a, b value) value {
	switch {
	case a.st == isNull:
		return b
	case b.st == isNull:
		return a
	}
	x, y := a.a, b.a
	switch {
	case len(x.dims) == 0:
		return b
	case len(y.dims) == 0:
		return a
	case len(x.elems)+len(y.elems) > maxElems:
		return failedValue
	}
	out := &array{elems: slices.Concat(x.elems, y.elems)}
	inner := func(d []dim) []dim { return d[1:] }
	switch len(x.dims) - len(y.dims) {
	case 0:
		if !slices.Equal(inner(x.dims), inner(y.dims)) {
			return failedValue
		}
		out.dims = slices.Clone(x.dims)
		out.dims[0].length += y.dims[0].length
	case 1:
		if !slices.Equal(inner(x.dims), y.dims) {
			return failedValue
		}
		out.dims = slices.Clone(x.dims)
		out.dims[0].length++
	case -1:
		if !slices.Equal(inner(y.dims), x.dims) {
			return failedValue
		}
		out.dims = slices.Clone(y.dims)
		out.dims[0].length++
	default:
		return failedValue
	}
	if out.dims[0].lower+out.dims[0].length > math.MaxInt32 {
		return failedValue
	}
	return value{st: isSet, a: out}
}
