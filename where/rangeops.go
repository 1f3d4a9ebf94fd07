package where

// The relations and operations of ranges (manual, "Range/Multirange Functions and Operators"). A multirange is looked
// at through its first lower and its last upper bound where only those matter.

// ends returns the outer bounds of a range or multirange; ok is false when it is empty.
func ends(v value, multi bool) (lower, upper bound, ok bool) {
	if !multi {
		if isEmptyRange(v) {
			return lower, upper, false
		}
		lower, upper = bounds(v)
		return lower, upper, true
	}
	if len(v.a.elems) == 0 {
		return lower, upper, false
	}
	lower, _ = bounds(v.a.elems[0])
	_, upper = bounds(v.a.elems[len(v.a.elems)-1])
	return lower, upper, true
}

// parts are the ranges of a multirange, or the range itself unless it is empty.
func parts(v value, multi bool) []value {
	switch {
	case multi:
		return v.a.elems
	case isEmptyRange(v):
		return nil
	default:
		return []value{v}
	}
}

func (r *rangeType) containsValue(v, elem value) bool {
	if isEmptyRange(v) {
		return false
	}
	lower, upper := bounds(v)
	if !lower.inf {
		if c := r.sub.compare(lower.val, elem); c > 0 || c == 0 && !lower.inc {
			return false
		}
	}
	if !upper.inf {
		if c := r.sub.compare(upper.val, elem); c < 0 || c == 0 && !upper.inc {
			return false
		}
	}
	return true
}

func (r *rangeType) contains(a, b value) bool {
	switch {
	case isEmptyRange(b):
		return true
	case isEmptyRange(a):
		return false
	}
	l1, u1 := bounds(a)
	l2, u2 := bounds(b)
	return r.compareBounds(l1, l2) <= 0 && r.compareBounds(u1, u2) >= 0
}

func (r *rangeType) overlaps(a, b value) bool {
	if isEmptyRange(a) || isEmptyRange(b) {
		return false
	}
	l1, u1 := bounds(a)
	l2, u2 := bounds(b)
	return r.compareBounds(l1, u2) <= 0 && r.compareBounds(l2, u1) <= 0
}

func (r *rangeType) adjacent(a, b value) bool {
	if isEmptyRange(a) || isEmptyRange(b) {
		return false
	}
	l1, u1 := bounds(a)
	l2, u2 := bounds(b)
	return r.touch(u1, l2) || r.touch(u2, l1)
}

// touch reports whether nothing lies between an upper bound and a lower one, and nothing in both.
func (r *rangeType) touch(upper, lower bound) bool {
	c := r.compareValues(upper, lower)
	switch {
	case c == 0:
		return upper.inc != lower.inc
	case c > 0 || r.next == nil:
		return false
	}
	between := r.build(flip(upper), flip(lower))
	return between.st == isSet && isEmptyRange(between)
}

// flip makes of an upper bound the lower bound of what is behind it, and the other way round.
func flip(b bound) bound {
	b.inc, b.lower = !b.inc, !b.lower
	return b
}

func (r *rangeType) minBound(a, b bound) bound {
	if r.compareBounds(a, b) <= 0 {
		return a
	}
	return b
}

func (r *rangeType) maxBound(a, b bound) bound {
	if r.compareBounds(a, b) >= 0 {
		return a
	}
	return b
}

// span is the smallest range that has both in it. Of equal bounds it takes b's, whose text may differ (1 and 1.0).
func (r *rangeType) span(a, b value) value {
	switch {
	case isEmptyRange(a):
		return b
	case isEmptyRange(b):
		return a
	}
	l1, u1 := bounds(a)
	l2, u2 := bounds(b)
	return r.build(r.minBound(l2, l1), r.maxBound(u2, u1))
}

// union fails when there is something between the two.
func (r *rangeType) union(a, b value) value {
	if !isEmptyRange(a) && !isEmptyRange(b) && !r.overlaps(a, b) && !r.adjacent(a, b) {
		return failedValue
	}
	return r.span(a, b)
}

// intersect takes a's bound of two that are equal.
func (r *rangeType) intersect(a, b value) value {
	if !r.overlaps(a, b) {
		return emptyRange()
	}
	l1, u1 := bounds(a)
	l2, u2 := bounds(b)
	return r.build(r.maxBound(l1, l2), r.minBound(u1, u2))
}

// without is what of a lies before b and what lies behind b; both can be empty.
func (r *rangeType) without(a, b value) (before, after value) {
	if !r.overlaps(a, b) {
		return a, emptyRange()
	}
	before, after = emptyRange(), emptyRange()
	l1, u1 := bounds(a)
	l2, u2 := bounds(b)
	if r.compareBounds(l1, l2) < 0 {
		before = r.build(l1, flip(l2))
	}
	if r.compareBounds(u1, u2) > 0 {
		after = r.build(flip(u2), u1)
	}
	return before, after
}

// minus fails when two pieces remain.
func (r *rangeType) minus(a, b value) value {
	before, after := r.without(a, b)
	switch {
	case before.st == isFailed || after.st == isFailed:
		return failedValue
	case isEmptyRange(before):
		return after
	case isEmptyRange(after):
		return before
	default:
		return failedValue
	}
}

// minusAll takes the ranges of one multirange out of another's. Both are in order, so one pass does.
func (r *rangeType) minusAll(a, b []value) value {
	var out []value
	i := 0
	for _, rest := range a {
		for ; i < len(b); i++ {
			_, u := bounds(b[i])
			l, _ := bounds(rest)
			if r.compareBounds(u, l) >= 0 {
				break
			}
		}
		for j := i; j < len(b) && !isEmptyRange(rest); j++ {
			l, _ := bounds(b[j])
			_, u := bounds(rest)
			if r.compareBounds(l, u) > 0 {
				break
			}
			var before value
			if before, rest = r.without(rest, b[j]); before.st == isFailed || rest.st == isFailed {
				return failedValue
			}
			if !isEmptyRange(before) {
				out = append(out, before)
			}
		}
		if !isEmptyRange(rest) {
			out = append(out, rest)
		}
	}
	return r.canonical(out)
}

func (r *rangeType) intersectAll(a, b []value) value {
	var out []value
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if x := r.intersect(a[i], b[j]); x.st == isFailed {
			return failedValue
		} else if !isEmptyRange(x) {
			out = append(out, x)
		}
		_, u1 := bounds(a[i])
		_, u2 := bounds(b[j])
		if r.compareBounds(u1, u2) <= 0 {
			i++
		} else {
			j++
		}
	}
	return r.canonical(out)
}

// relations are those between two ranges or multiranges, which multi1 and multi2 tell.
var relations = map[string]func(r *rangeType, a, b value, multi1, multi2 bool) bool{
	"contains": func(r *rangeType, a, b value, multi1, multi2 bool) bool {
		whole := parts(a, multi1)
		for _, p := range parts(b, multi2) {
			if !r.anyPart(whole, p, r.contains) {
				return false
			}
		}
		return true
	},
	"overlaps": func(r *rangeType, a, b value, multi1, multi2 bool) bool {
		whole := parts(a, multi1)
		for _, p := range parts(b, multi2) {
			if r.anyPart(whole, p, r.overlaps) {
				return true
			}
		}
		return false
	},
	"before": onEnds(func(r *rangeType, _, u1, l2, _ bound) bool { return r.compareBounds(u1, l2) < 0 }),
	"after":  onEnds(func(r *rangeType, l1, _, _, u2 bound) bool { return r.compareBounds(l1, u2) > 0 }),
	"overleft": onEnds(func(r *rangeType, _, u1, _, u2 bound) bool {
		return r.compareBounds(u1, u2) <= 0
	}),
	"overright": onEnds(func(r *rangeType, l1, _, l2, _ bound) bool { return r.compareBounds(l1, l2) >= 0 }),
	"adjacent":  onEnds(func(r *rangeType, l1, u1, l2, u2 bound) bool { return r.touch(u1, l2) || r.touch(u2, l1) }),
}

// anyPart looks for a range that holds with p; of ranges in order only the first that does not end before p begins,
// and what touches p there, can.
func (r *rangeType) anyPart(ranges []value, p value, holds func(a, b value) bool) bool {
	lo, hi := 0, len(ranges)
	l, _ := bounds(p)
	for lo < hi {
		mid := (lo + hi) / 2
		if _, u := bounds(ranges[mid]); r.compareBounds(u, l) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(ranges) && holds(ranges[lo], p)
}

// onEnds is a relation that looks at outer bounds only, and does not hold for what is empty.
func onEnds(f func(r *rangeType, l1, u1, l2, u2 bound) bool) func(r *rangeType, a, b value, multi1, multi2 bool) bool {
	return func(r *rangeType, a, b value, multi1, multi2 bool) bool {
		l1, u1, ok1 := ends(a, multi1)
		l2, u2, ok2 := ends(b, multi2)
		return ok1 && ok2 && f(r, l1, u1, l2, u2)
	}
}
