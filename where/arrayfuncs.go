package where

import (
	"bytes"
	"math"
	"strconv"

	"github.com/shapeserver/shapeserver/changes"
)

// registerArrayFuncs adds the functions that search, change and print arrays.
func registerArrayFuncs() {
	for key, n := range map[string]int{"array_remove": 2, "array_replace": 3} {
		register(key, &builtin{needs: needDeterministic, check: equatableElements, build: buildReplace(n == 2)})
	}
	register("array_position", &builtin{needs: needDeterministic, check: equatableElements, build: buildPosition})
	register("array_position_start", &builtin{needs: needDeterministic, check: equatableElements, build: buildPosition})
	register("array_positions", &builtin{needs: needDeterministic, check: equatableElements, build: buildPositions})
	register("array_to_text", &builtin{build: buildArrayToText})
	register("array_to_text_null", &builtin{build: buildArrayToText})
	register("text_to_array", &builtin{needs: needDeterministic, fn: textToArray})
	register("text_to_array_null", &builtin{needs: needDeterministic, fn: textToArray})
	register("array_dims", &builtin{f1: func(v value) value {
		if len(v.a.dims) == 0 {
			return nullValue
		}
		return bytesValue(appendDims(nil, v.a.dims))
	}})
	register("trim_array", &builtin{f2: func(v, n value) value {
		length := 0
		if len(v.a.dims) > 0 {
			length = v.a.dims[0].length
		}
		if n.i < 0 || n.i > int64(length) {
			return failedValue
		}
		if length == 0 {
			return v
		}
		return sliceArray(v.a, []int64{math.MinInt64}, []int64{int64(v.a.dims[0].lower) + int64(length) - n.i - 1})
	}})
}

func appendDims(out []byte, dims []dim) []byte {
	for _, d := range dims {
		out = strconv.AppendInt(append(out, '['), int64(d.lower), 10)
		out = strconv.AppendInt(append(out, ':'), int64(d.lower+d.length-1), 10)
		out = append(out, ']')
	}
	return out
}

// sameElement is the equality of array functions: NULL is equal to NULL.
func sameElement(a, b value, compare func(a, b value) int) bool {
	return a.st == b.st && (a.st == isNull || compare(a, b) == 0)
}

// buildReplace is array_replace(array, search, replacement), or array_remove(array, search).
func buildReplace(remove bool) func(*node) eval {
	return func(n *node) eval {
		args := compileAll(n.args)
		compare := elementOrder(n.args[0].typ.baseType().elem)
		return func(row changes.Row) value {
			var vals [3]value
			if !evalAll(args, row, vals[:]) {
				return failedValue
			}
			v, search, with := vals[0], vals[1], vals[2]
			switch {
			case v.st == isNull || len(v.a.elems) == 0:
				return v
			case remove && len(v.a.dims) > 1:
				return failedValue
			}
			out := &array{elems: make([]value, 0, len(v.a.elems)), dims: v.a.dims}
			for _, e := range v.a.elems {
				switch {
				case !sameElement(e, search, compare):
					out.elems = append(out.elems, e)
				case !remove:
					out.elems = append(out.elems, with)
				}
			}
			if remove {
				out.dims = nil
				if len(out.elems) > 0 {
					out.dims = []dim{{length: len(out.elems), lower: v.a.dims[0].lower}}
				}
			}
			return value{st: isSet, a: out}
		}
	}
}

// buildPosition is array_position(array, element [, start]): the subscript of the first element that is not distinct,
// from the subscript start on.
func buildPosition(n *node) eval {
	args := compileAll(n.args)
	compare := elementOrder(n.args[0].typ.baseType().elem)
	return func(row changes.Row) value {
		var vals [3]value
		if !evalAll(args, row, vals[:]) {
			return failedValue
		}
		a, e, start := vals[0], vals[1], vals[2]
		switch {
		case a.st == isNull:
			return a
		case len(a.a.dims) > 1:
			return failedValue
		case len(a.a.dims) == 0 || e.st == isNull && !hasNullElement(a.a):
			return nullValue
		case len(args) == 3 && start.st == isNull:
			return failedValue // Postgres says "initial position must not be null"
		}
		lower := a.a.dims[0].lower
		from := 0
		if len(args) == 3 {
			from = int(max(start.i-int64(lower), 0))
		}
		for i := from; i < len(a.a.elems); i++ {
			if sameElement(a.a.elems[i], e, compare) {
				return intValue(int64(lower + i))
			}
		}
		return nullValue
	}
}

func hasNullElement(a *array) bool {
	for _, e := range a.elems {
		if e.st == isNull {
			return true
		}
	}
	return false
}

// buildPositions is array_positions(array, element): the subscripts of all elements that are not distinct.
func buildPositions(n *node) eval {
	arr, elem := compile(n.args[0]), compile(n.args[1])
	compare := elementOrder(n.args[0].typ.baseType().elem)
	return func(row changes.Row) value {
		a, e := arr(row), elem(row)
		switch {
		case a.st == isFailed || e.st == isFailed:
			return failedValue
		case a.st == isNull:
			return a
		case len(a.a.dims) > 1:
			return failedValue
		}
		var out []value
		for i, x := range a.a.elems {
			if sameElement(x, e, compare) {
				out = append(out, intValue(int64(a.a.dims[0].lower+i)))
			}
		}
		return listValue(out)
	}
}

// listValue is an array of one dimension that begins at 1, or the empty array.
func listValue(elems []value) value {
	a := &array{elems: elems}
	if len(elems) > 0 {
		a.dims = []dim{{length: len(elems), lower: 1}}
	}
	return value{st: isSet, a: a}
}

// buildArrayToText is array_to_string(array, separator [, null]): all elements in storage order; NULL is left out
// unless there is a text for it.
func buildArrayToText(n *node) eval {
	args := compileAll(n.args)
	output := codecOf(n.args[0].typ.baseType().elem).output
	return func(row changes.Row) value {
		var vals [3]value
		if !evalAll(args, row, vals[:]) {
			return failedValue
		}
		a, sep, null := vals[0], vals[1], vals[2]
		if a.st == isNull || sep.st == isNull {
			return nullValue
		}
		out := []byte{}
		first := true
		for _, e := range a.a.elems {
			if e.st == isNull && null.st == isNull {
				continue
			}
			if !first {
				out = append(out, sep.b...)
			}
			first = false
			if e.st == isNull {
				out = append(out, null.b...)
			} else {
				out = append(out, output(e)...)
			}
			if len(out) > maxText {
				return failedValue
			}
		}
		return bytesValue(out)
	}
}

// textToArray is string_to_array(text, separator [, null]): without a separator every character is an element, an
// empty one does not split, and what equals the third argument becomes NULL.
func textToArray(args []value) value {
	text, sep, null := args[0], args[1], value{}
	if len(args) == 3 {
		null = args[2]
	}
	if text.st == isNull {
		return text
	}
	var out []value
	add := func(part []byte) bool {
		v := bytesValue(part)
		if null.st == isSet && bytes.Equal(part, null.b) {
			v = nullValue
		}
		out = append(out, v)
		return len(out) <= maxElems
	}
	switch {
	case len(text.b) == 0:
	case sep.st == isNull:
		for rest := text.b; len(rest) > 0; {
			n := charOffset(rest, 1)
			if !add(rest[:n]) {
				return failedValue
			}
			rest = rest[n:]
		}
	case len(sep.b) == 0:
		add(text.b)
	default:
		rest := text.b
		for {
			part, after, found := bytes.Cut(rest, sep.b)
			if !add(part) {
				return failedValue
			}
			if !found {
				break
			}
			rest = after
		}
	}
	return listValue(out)
}
