package where

import (
	"slices"
	"strconv"

	"github.com/shapeserver/shapeserver/changes"
)

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
	nested := n.nested
	return func(row changes.Row) value {
		elems := make([]value, len(args))
		if !evalAll(args, row, elems) {
			return failedValue
		}
		if nested {
			return stackArrays(elems)
		}
		a := &array{elems: elems}
		if len(args) > 0 {
			a.dims = []dim{{length: len(args), lower: 1}}
		}
		return value{st: isSet, a: a}
	}
}

// stackArrays makes an array of arrays of equal shape. Where some are NULL or empty all must be: then it is the empty
// array.
func stackArrays(parts []value) value {
	var first *array
	empty := false
	total := 0
	for _, p := range parts {
		if p.st != isSet || len(p.a.dims) == 0 {
			empty = true
			continue
		}
		if first == nil {
			first = p.a
		}
		total += len(p.a.elems)
		if !slices.Equal(first.dims, p.a.dims) {
			return failedValue
		}
	}
	switch {
	case first == nil:
		return value{st: isSet, a: &array{}}
	case empty || len(first.dims) == maxDims || total > maxElems:
		return failedValue
	}
	out := &array{elems: make([]value, 0, total), dims: append([]dim{{length: len(parts), lower: 1}}, first.dims...)}
	for _, p := range parts {
		out.elems = append(out.elems, p.a.elems...)
	}
	return value{st: isSet, a: out}
}

// compileIndex reads one element; a subscript outside the array, a NULL one, or the wrong number of them gives NULL.
func compileIndex(n *node) eval {
	if !n.args[0].typ.isArray() {
		return compileJSONIndex(n)
	}
	arr, subs := compile(n.args[0]), compileAll(n.args[1:])
	return func(row changes.Row) value {
		v := arr(row)
		if v.st != isSet {
			return v
		}
		at, outside := 0, len(subs) != len(v.a.dims)
		for i, s := range subs {
			x := s(row)
			switch x.st {
			case isFailed:
				return x
			case isNull:
				outside = true // but those behind it may still fail
			default:
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

// compileJSONIndex follows subscripts of a document as #> follows a path.
func compileJSONIndex(n *node) eval {
	doc, subs := compile(n.args[0]), compileAll(n.args[1:])
	number := make([]bool, len(subs))
	for i := range subs {
		number[i] = n.args[i+1].typ.is(oidInt4)
	}
	return func(row changes.Row) value {
		d := doc(row)
		if d.st != isSet {
			return d
		}
		path := make([]value, len(subs))
		for i, s := range subs {
			if path[i] = s(row); path[i].st == isFailed {
				return failedValue
			}
			if number[i] && path[i].st == isSet {
				path[i].b = strconv.AppendInt(nil, path[i].i, 10)
			}
		}
		return jsonValue(jsonPath(d.b, path))
	}
}

// compileSlice takes a part of an array, whose lower bounds become 1; a bound that is not written is the array's own.
func compileSlice(n *node) eval {
	arr, subs, bounded := compile(n.args[0]), compileAll(n.args[1:]), n.bounded
	return func(row changes.Row) value {
		v := arr(row)
		if v.st != isSet {
			return v
		}
		lower, upper := [maxDims]int64{}, [maxDims]int64{}
		next, null := 0, false
		for i, written := range bounded {
			bound := int64(minInt64)
			if i%2 == 1 {
				bound = maxInt64
			}
			if written {
				x := subs[next](row)
				next++
				if x.st == isFailed {
					return x
				}
				null = null || x.st == isNull
				bound = x.i
			}
			if i%2 == 0 {
				lower[i/2] = bound
			} else {
				upper[i/2] = bound
			}
		}
		if null {
			return nullValue
		}
		return sliceArray(v.a, lower[:len(bounded)/2], upper[:len(bounded)/2])
	}
}

// sliceArray cuts the first dimensions of an array to [lower, upper] each (array_get_slice): too many bounds, or
// bounds that hold nothing, give the empty array.
func sliceArray(a *array, lower, upper []int64) value {
	empty := value{st: isSet, a: &array{}}
	if len(a.dims) < len(lower) || len(a.dims) == 0 {
		return empty
	}
	out := &array{dims: make([]dim, len(a.dims))}
	var from [maxDims]int
	for i, d := range a.dims {
		out.dims[i] = dim{length: d.length, lower: 1}
		if i >= len(lower) {
			continue
		}
		lo, hi := max(lower[i], int64(d.lower)), min(upper[i], int64(d.lower+d.length-1))
		if lo > hi {
			return empty
		}
		from[i], out.dims[i].length = int(lo)-d.lower, int(hi-lo)+1
	}
	// copyDims appends the elements of dimension i and below, of which at counts those before in row-major order.
	var copyDims func(i, at int)
	copyDims = func(i, at int) {
		for j := range out.dims[i].length {
			next := at*a.dims[i].length + from[i] + j
			if i+1 < len(a.dims) {
				copyDims(i+1, next)
				continue
			}
			out.elems = append(out.elems, a.elems[next])
		}
	}
	copyDims(0, 0)
	return value{st: isSet, a: out}
}
