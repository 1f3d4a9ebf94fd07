package where

import (
	"bytes"
	"cmp"
)

// compareJSONBOrder is jsonb's btree order (manual, "jsonb Indexing"; compareJsonbContainers): object > array > boolean
// > number > string > null, containers of more items greater, then item by item, keys like values. One thing is not
// in the manual: a document that is a scalar counts as an array of one that is less than other arrays of one, so that
// the empty array is less than it. Texts compare by the database's collation, which the checker demands to be bytewise.
//
// It goes through both texts at once: while nothing differs their structures are equal, so no stack is needed.
func compareJSONBOrder(a, b value) int {
	x, y := a.b, b.b
	if bytes.Equal(x, y) {
		return 0
	}
	if isJSONContainer(x) != isJSONContainer(y) {
		return compareScalarDocument(x, y)
	}
	xn, yn := jsonCounts(x), jsonCounts(y)
	for container := 0; ; {
		x, y = jsonToken(x), jsonToken(y)
		if len(x) == 0 || len(y) == 0 {
			return cmp.Compare(len(x), len(y))
		}
		if c := cmp.Compare(jsonRank(x[0]), jsonRank(y[0])); c != 0 {
			return c
		}
		n, m := 1, 1
		c := 0
		switch x[0] {
		case '{', '[':
			c = cmp.Compare(xn[container], yn[container])
			container++
		case '"':
			n, m = jsonStringEnd(x), jsonStringEnd(y)
			if !bytes.Equal(x[:n], y[:m]) {
				c = bytes.Compare(unescapeJSON(x[:n]), unescapeJSON(y[:m]))
			}
		case 't', 'f':
			n, m = jsonEnd(x), jsonEnd(y)
			c = cmp.Compare(x[0], y[0])
		case 'n':
			n, m = jsonEnd(x), jsonEnd(y)
		default:
			n, m = jsonEnd(x), jsonEnd(y)
			c = compareNumeric(bytesValue(x[:n]), bytesValue(y[:m]))
		}
		if c != 0 {
			return c
		}
		x, y = x[n:], y[m:]
	}
}

// compareScalarDocument compares a document that is a scalar with one that is not, in either order.
func compareScalarDocument(x, y []byte) int {
	if isJSONContainer(x) {
		return -compareScalarDocument(y, x)
	}
	if y[0] == '[' && jsonLength(y) == 0 {
		return 1
	}
	return -1
}

// jsonToken skips what stands between the tokens that are compared.
func jsonToken(b []byte) []byte { return bytes.TrimLeft(b, " ,:]}") }

// jsonRank orders the kinds of values by how they begin.
func jsonRank(c byte) int {
	switch c {
	case 'n':
		return 0
	case '"':
		return 1
	case 't', 'f':
		return 3
	case '[':
		return 4
	case '{':
		return 5
	default: // a number
		return 2
	}
}

// jsonCounts lists how many items each container of a canonical text has, in the order in which they begin.
func jsonCounts(b []byte) []int {
	var counts, open []int
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += jsonStringEnd(b[i:]) - 1
		case '{', '[':
			open = append(open, len(counts))
			n := 1
			if i+1 < len(b) && (b[i+1] == ']' || b[i+1] == '}') {
				n = 0
			}
			counts = append(counts, n)
		case '}', ']':
			open = open[:max(len(open)-1, 0)]
		case ',':
			if len(open) > 0 {
				counts[open[len(open)-1]]++
			}
		}
	}
	return counts
}
