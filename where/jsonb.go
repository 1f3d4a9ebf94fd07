package where

import (
	"bytes"
	"cmp"
)

// Values of jsonb are their canonical text, in which keys are sorted and unique and strings have one spelling. So a
// part of a document is a part of its text, and looking up a key needs no tree and no memory.

// jsonEnd returns where the value that begins at b[0] ends, len(b) at most.
func jsonEnd(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"':
		return jsonStringEnd(b)
	case '{', '[':
		depth := 0
		for i := 0; i < len(b); {
			switch b[i] {
			case '"':
				i += jsonStringEnd(b[i:])
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(b)
	default:
		for i, c := range b {
			if c == ',' || c == ']' || c == '}' {
				return i
			}
		}
		return len(b)
	}
}

func jsonStringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(b)
}

// jsonItem is a step through an array or object: the key is nil in arrays.
type jsonItem struct{ key, val, rest []byte }

// jsonFirst prepares to step through a container: jsonNext then yields its items.
func jsonFirst(b []byte) []byte { return b[1 : len(b)-1] }

func jsonNext(rest []byte, object bool) (jsonItem, bool) {
	if len(rest) == 0 {
		return jsonItem{}, false
	}
	var it jsonItem
	if object {
		n := jsonStringEnd(rest)
		it.key = rest[:n]
		rest = rest[min(n+len(": "), len(rest)):]
	}
	n := jsonEnd(rest)
	it.val = rest[:n]
	it.rest = rest[min(n+len(", "), len(rest)):]
	return it, true
}

func isJSONContainer(b []byte) bool { return b[0] == '{' || b[0] == '[' }

// jsonField finds the value of a key, which is quoted canonically; nil if b is no object or has no such key.
func jsonField(b, key []byte) []byte {
	if len(b) < 2 || b[0] != '{' {
		return nil
	}
	for it, ok := jsonNext(jsonFirst(b), true); ok; it, ok = jsonNext(it.rest, true) {
		if bytes.Equal(it.key, key) {
			return it.val
		}
	}
	return nil
}

// jsonElement finds an element by its place, from the end for a negative one; nil if there is none.
func jsonElement(b []byte, i int64) []byte {
	if len(b) < 2 || b[0] != '[' {
		return nil
	}
	if i < 0 {
		i += jsonLength(b)
	}
	if i < 0 {
		return nil
	}
	for it, ok := jsonNext(jsonFirst(b), false); ok; it, ok = jsonNext(it.rest, false) {
		if i == 0 {
			return it.val
		}
		i--
	}
	return nil
}

func jsonLength(b []byte) (n int64) {
	object := b[0] == '{'
	for it, ok := jsonNext(jsonFirst(b), object); ok; it, ok = jsonNext(it.rest, object) {
		n++
	}
	return n
}

// jsonPath follows a path of keys and places (operator #>); an element of the path that is NULL gives NULL.
func jsonPath(b []byte, path []value) []byte {
	for _, step := range path {
		switch {
		case step.st != isSet || b == nil:
			return nil
		case b[0] == '{':
			b = jsonField(b, quoteJSON(step.b))
		case b[0] == '[':
			i, ok := pathPlace(step.b)
			if !ok {
				return nil
			}
			b = jsonElement(b, i)
		default:
			return nil
		}
	}
	return b
}

func jsonValue(b []byte) value {
	if b == nil {
		return nullValue
	}
	return bytesValue(b)
}

// jsonText is what ->> makes of a value: strings without their quotes, NULL for null.
func jsonText(b []byte) value {
	switch {
	case b == nil || b[0] == 'n':
		return nullValue
	case b[0] == '"':
		return bytesValue(unescapeJSON(b))
	default:
		return bytesValue(b)
	}
}

// compareJSONB orders documents token by token without memory. It agrees with jsonb's "=", which is what it is used
// for; compareJSONBOrder is jsonb's "<".
func compareJSONB(a, b value) int {
	x, y := a.b, b.b
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] == '"' && y[0] == '"':
			n, m := jsonStringEnd(x), jsonStringEnd(y)
			if c := bytes.Compare(x[:n], y[:m]); c != 0 {
				return c
			}
			x, y = x[n:], y[m:]
		case isDigit(x[0]) && isDigit(y[0]):
			n, m := jsonEnd(x), jsonEnd(y)
			if c := compareNumeric(bytesValue(x[:n]), bytesValue(y[:m])); c != 0 {
				return c
			}
			x, y = x[n:], y[m:]
		case isDigit(x[0]):
			return -1
		case isDigit(y[0]):
			return 1
		case x[0] != y[0]:
			return cmp.Compare(x[0], y[0])
		default:
			x, y = x[1:], y[1:]
		}
	}
	return cmp.Compare(len(x), len(y))
}

// isDigit tells where a number begins in canonical text.
func isDigit(c byte) bool { return c >= '0' && c <= '9' || c == '-' }

// containsJSON is @>: b's structure and values are found in a.
func containsJSON(a, b []byte) bool {
	switch {
	case !isJSONContainer(b):
		// A scalar is contained in an equal one, and in an array that has it.
		if !isJSONContainer(a) {
			return sameJSON(a, b)
		}
		return a[0] == '[' && arrayHas(a, b)
	case a[0] != b[0]:
		return false
	case b[0] == '{':
		for it, ok := jsonNext(jsonFirst(b), true); ok; it, ok = jsonNext(it.rest, true) {
			v := jsonField(a, it.key)
			switch {
			case v == nil:
				return false
			case isJSONContainer(v) != isJSONContainer(it.val):
				return false
			case !isJSONContainer(v):
				if !sameJSON(v, it.val) {
					return false
				}
			case !containsJSON(v, it.val):
				return false
			}
		}
		return true
	default:
		for it, ok := jsonNext(jsonFirst(b), false); ok; it, ok = jsonNext(it.rest, false) {
			if !arrayHas(a, it.val) {
				return false
			}
		}
		return true
	}
}

// arrayHas reports whether an element of the array is equal to a scalar, or contains a container of its kind.
func arrayHas(array, v []byte) bool {
	container := isJSONContainer(v)
	for it, ok := jsonNext(jsonFirst(array), false); ok; it, ok = jsonNext(it.rest, false) {
		if isJSONContainer(it.val) != container {
			continue
		}
		if container && containsJSON(it.val, v) || !container && sameJSON(it.val, v) {
			return true
		}
	}
	return false
}

func sameJSON(a, b []byte) bool { return compareJSONB(bytesValue(a), bytesValue(b)) == 0 }

// jsonHasKey is "?": a key of an object, a string of an array, or the string itself.
func jsonHasKey(b, quoted []byte) bool {
	switch b[0] {
	case '{':
		return jsonField(b, quoted) != nil
	case '[':
		for it, ok := jsonNext(jsonFirst(b), false); ok; it, ok = jsonNext(it.rest, false) {
			if bytes.Equal(it.val, quoted) {
				return true
			}
		}
		return false
	default:
		return bytes.Equal(b, quoted)
	}
}
