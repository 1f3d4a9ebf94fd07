package where

import (
	"slices"
	"strings"
)

// The value of a range is an array of its two bounds, and in i what holds for them. The value of a multirange is an
// array of its ranges, which are in order and neither touch nor overlap.
const (
	rangeEmpty = 1 << iota
	lowerInc
	upperInc
	lowerInf
	upperInf
)

// bound is one end of a range.
type bound struct {
	val   value
	inf   bool
	inc   bool
	lower bool
}

// rangeType is what the ranges over one subtype need.
type rangeType struct {
	sub  *codec
	next func(value) (value, bool) // of a discrete subtype: the value that follows; ok is false beyond the last one
}

// rangeOf describes the range type t, or the ranges that the multirange type t is made of.
func rangeOf(t *typ) *rangeType {
	t = t.baseType()
	if t.kind == KindMultirng {
		t = t.rng
	}
	r := &rangeType{sub: codecOf(t.sub)}
	following := func(last int64) func(value) (value, bool) {
		return func(v value) (value, bool) { return intValue(v.i + 1), v.i < last }
	}
	switch t.sub.oid {
	case oidInt4:
		r.next = following(1<<31 - 1)
	case oidInt8:
		r.next = following(maxInt64)
	case oidDate:
		r.next = func(v value) (value, bool) {
			if v.i == dateNegInf || v.i == datePosInf {
				return v, true
			}
			return intValue(v.i + 1), v.i+1 < endDateDay
		}
	}
	return r
}

// bounds takes a range that is not empty apart.
func bounds(v value) (lower, upper bound) {
	return bound{v.a.elems[0], v.i&lowerInf != 0, v.i&lowerInc != 0, true},
		bound{v.a.elems[1], v.i&upperInf != 0, v.i&upperInc != 0, false}
}

func isEmptyRange(v value) bool { return v.i&rangeEmpty != 0 }

func emptyRange() value { return value{st: isSet, i: rangeEmpty, a: &array{elems: make([]value, 2)}} }

// compareValues compares where two bounds lie, whether they belong to their ranges or not (range_cmp_bound_values).
func (r *rangeType) compareValues(a, b bound) int {
	end := func(b bound) int {
		switch {
		case !b.inf:
			return 0
		case b.lower:
			return -1
		default:
			return 1
		}
	}
	if a.inf || b.inf {
		return end(a) - end(b)
	}
	return r.sub.compare(a.val, b.val)
}

// compareBounds compares two bounds: of those at the same place, an upper one that does not belong to its range is
// before one that does, a lower one behind it (range_cmp_bounds).
func (r *rangeType) compareBounds(a, b bound) int {
	if c := r.compareValues(a, b); c != 0 || a.inf {
		return c
	}
	side := func(b bound) int {
		switch {
		case b.inc:
			return 0
		case b.lower:
			return 1
		default:
			return -1
		}
	}
	return side(a) - side(b)
}

// build makes a range of two bounds: empty when nothing lies between them, with discrete bounds as "[)". It fails
// when they are in the wrong order.
func (r *rangeType) build(lower, upper bound) value {
	out, ok := r.plain(lower, upper)
	if !ok || r.next == nil || isEmptyRange(out) {
		return orFailed(out, ok)
	}
	lower, upper = bounds(out)
	for _, b := range []*bound{&lower, &upper} {
		if b.inf || b.inc == b.lower {
			continue
		}
		next, ok := r.next(b.val)
		if !ok {
			return failedValue
		}
		if next.i != b.val.i { // an infinite date stays as it is
			b.val, b.inc = next, b.lower
		}
	}
	return orFailed(r.plain(lower, upper))
}

func orFailed(v value, ok bool) value {
	if !ok {
		return failedValue
	}
	return v
}

func (r *rangeType) plain(lower, upper bound) (value, bool) {
	c := r.compareValues(lower, upper)
	if c > 0 {
		return value{}, false
	}
	if c == 0 && (!lower.inc || !upper.inc) {
		return emptyRange(), true
	}
	v := value{st: isSet, a: &array{elems: []value{lower.val, upper.val}}}
	for _, f := range []struct {
		bound    bound
		inf, inc int64
	}{{lower, lowerInf, lowerInc}, {upper, upperInf, upperInc}} {
		switch {
		case f.bound.inf: // and so never part of the range
			v.i |= f.inf
		case f.bound.inc:
			v.i |= f.inc
		}
	}
	return v, true
}

// compareRanges is range_cmp: the empty range first, then by the lower and the upper bound.
func (r *rangeType) compareRanges(a, b value) int {
	switch x, y := isEmptyRange(a), isEmptyRange(b); {
	case x && y:
		return 0
	case x:
		return -1
	case y:
		return 1
	}
	l1, u1 := bounds(a)
	l2, u2 := bounds(b)
	if c := r.compareBounds(l1, l2); c != 0 {
		return c
	}
	return r.compareBounds(u1, u2)
}

// compareMultiranges goes range by range; what has more of them is greater.
func (r *rangeType) compareMultiranges(a, b value) int {
	return slices.CompareFunc(a.a.elems, b.a.elems, r.compareRanges)
}

// canonical brings ranges into order and joins those that touch or overlap, as multiranges are stored.
func (r *rangeType) canonical(ranges []value) value {
	sorted := slices.DeleteFunc(slices.Clone(ranges), isEmptyRange)
	slices.SortStableFunc(sorted, r.compareRanges)
	out := &array{}
	for _, v := range sorted {
		if last := len(out.elems) - 1; last >= 0 && (r.overlaps(out.elems[last], v) || r.adjacent(out.elems[last], v)) {
			out.elems[last] = r.span(out.elems[last], v)
			continue
		}
		out.elems = append(out.elems, v)
	}
	return value{st: isSet, a: out}
}

// parse reads a range from c: "empty", or bounds in brackets, quoted as in arrays or with doubled quotes (manual,
// "Range Input/Output").
func (r *rangeType) parse(c *cursor, input func(string) (value, bool)) (value, bool) {
	c.blanks()
	if rest := c.s[c.pos:]; len(rest) >= 5 && strings.EqualFold(rest[:5], "empty") {
		c.pos += 5
		c.blanks()
		return emptyRange(), true
	}
	lower, upper := bound{lower: true}, bound{}
	lower.inc = c.accept('[')
	if !lower.inc && !c.accept('(') {
		return value{}, false
	}
	if !parseBound(c, &lower, input) || !c.accept(',') || !parseBound(c, &upper, input) {
		return value{}, false
	}
	upper.inc = c.accept(']')
	if !upper.inc && !c.accept(')') {
		return value{}, false
	}
	c.blanks()
	v := r.build(lower, upper)
	return v, v.st == isSet
}

func parseBound(c *cursor, b *bound, input func(string) (value, bool)) bool {
	if strings.IndexByte(",)]", c.peek()) >= 0 {
		b.inf = true
		return !c.done()
	}
	var text []byte
	for quoted := false; quoted || strings.IndexByte(",)]", c.peek()) < 0; {
		if c.done() {
			return false
		}
		ch := c.s[c.pos]
		c.pos++
		switch {
		case ch == '\\':
			if c.done() {
				return false
			}
			text = append(text, c.s[c.pos])
			c.pos++
		case ch == '"' && quoted && c.peek() == '"':
			text = append(text, '"')
			c.pos++
		case ch == '"':
			quoted = !quoted
		default:
			text = append(text, ch)
		}
	}
	var ok bool
	b.val, ok = input(string(text))
	return ok
}

// blanks skips what C's isspace takes for white space.
func (c *cursor) blanks() {
	for !c.done() && strings.IndexByte(" \t\n\v\f\r", c.s[c.pos]) >= 0 {
		c.pos++
	}
}

func (r *rangeType) write(b *strings.Builder, v value) {
	if isEmptyRange(v) {
		b.WriteString("empty")
		return
	}
	lower, upper := bounds(v)
	b.WriteByte("(["[v.i&lowerInc/lowerInc])
	r.writeBound(b, lower)
	b.WriteByte(',')
	r.writeBound(b, upper)
	b.WriteByte(")]"[v.i&upperInc/upperInc])
}

func (r *rangeType) writeBound(b *strings.Builder, x bound) {
	if x.inf {
		return
	}
	text := r.sub.output(x.val)
	if text != "" && !strings.ContainsAny(text, "\"\\()[], \t\n\v\f\r") {
		b.WriteString(text)
		return
	}
	b.WriteString(`"` + strings.NewReplacer(`"`, `""`, `\`, `\\`).Replace(text) + `"`)
}

// rangeCodec reads and writes ranges.
func rangeCodec(t *typ) *codec {
	r := rangeOf(t)
	read := func(s string, input func(string) (value, bool)) (value, bool) {
		c := cursor{s: s}
		v, ok := r.parse(&c, input)
		return v, ok && c.done()
	}
	return &codec{
		input: func(s string) (value, bool) { return read(s, r.sub.input) },
		read: func(b []byte) (value, bool) {
			return read(unsafeString(b), func(s string) (value, bool) { return r.sub.read(unsafeBytes(s)) })
		},
		output: func(v value) string {
			var b strings.Builder
			r.write(&b, v)
			return b.String()
		},
		compare: r.compareRanges,
	}
}

// multirangeCodec reads and writes multiranges: "{[1,3),[5,)}".
func multirangeCodec(t *typ) *codec {
	r := rangeOf(t)
	read := func(s string, input func(string) (value, bool)) (value, bool) {
		c := cursor{s: s}
		c.blanks()
		if !c.accept('{') {
			return value{}, false
		}
		var ranges []value
		for c.blanks(); !c.accept('}'); {
			if len(ranges) > 0 && !c.accept(',') {
				return value{}, false
			}
			v, ok := r.parse(&c, input)
			if !ok {
				return value{}, false
			}
			ranges = append(ranges, v)
		}
		c.blanks()
		v := r.canonical(ranges)
		return v, v.st == isSet && c.done()
	}
	return &codec{
		input: func(s string) (value, bool) { return read(s, r.sub.input) },
		read: func(b []byte) (value, bool) {
			return read(unsafeString(b), func(s string) (value, bool) { return r.sub.read(unsafeBytes(s)) })
		},
		output: func(v value) string {
			var b strings.Builder
			b.WriteByte('{')
			for i, e := range v.a.elems {
				if i > 0 {
					b.WriteByte(',')
				}
				r.write(&b, e)
			}
			b.WriteByte('}')
			return b.String()
		},
		compare: r.compareMultiranges,
	}
}
