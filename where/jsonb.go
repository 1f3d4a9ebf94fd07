package where

import (
	"bytes"
	"cmp"
	"math"

	"github.com/shapeserver/shapeserver/changes"
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
			i, ok := inputInt(math.MinInt32, math.MaxInt32)(string(bytes.TrimLeft(step.b, " \t\n\v\f\r")))
			if last := len(step.b) - 1; !ok || step.b[last]-'0' > 9 {
				return nil
			}
			b = jsonElement(b, i.i)
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

// compareJSONB orders documents token by token. It agrees with jsonb's "=", which is what it is used for; jsonb's
// "<" is another order.
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

func registerJSON() {
	register("jsonb_eq", &builtin{order: orderEQ, compare: compareJSONB, buildTest: buildComparison})
	register("jsonb_ne", &builtin{order: orderNE, compare: compareJSONB, buildTest: buildComparison})
	register("jsonb_object_field", &builtin{build: buildField(jsonValue)})
	register("jsonb_object_field_text", &builtin{build: buildField(jsonText)})
	element := func(wrap func([]byte) value) func(a, b value) value {
		return func(doc, i value) value {
			if !isJSONContainer(doc.b) && (i.i == 0 || i.i == -1) {
				return wrap(doc.b) // Postgres stores a scalar document as an array of one
			}
			return wrap(jsonElement(doc.b, i.i))
		}
	}
	register("jsonb_array_element", &builtin{f2: element(jsonValue)})
	register("jsonb_array_element_text", &builtin{f2: element(jsonText)})
	register("jsonb_extract_path", &builtin{build: buildPath(jsonValue)})
	register("jsonb_extract_path_text", &builtin{build: buildPath(jsonText)})
	register("jsonb_contains", &builtin{f2: func(a, b value) value { return boolValue(containsJSON(a.b, b.b)) }})
	register("jsonb_contained", &builtin{f2: func(a, b value) value { return boolValue(containsJSON(b.b, a.b)) }})
	register("jsonb_exists", &builtin{f2: func(doc, key value) value { return boolValue(jsonHasKey(doc.b, quoteJSON(key.b))) }})
	exists := func(all bool) func(doc, keys value) value {
		return func(doc, keys value) value {
			for _, k := range keys.a.elems {
				if k.st == isSet && jsonHasKey(doc.b, quoteJSON(k.b)) != all {
					return boolValue(!all)
				}
			}
			return boolValue(all)
		}
	}
	register("jsonb_exists_any", &builtin{f2: exists(false)})
	register("jsonb_exists_all", &builtin{f2: exists(true)})
	register("jsonb_typeof", &builtin{f1: func(v value) value { return bytesValue([]byte(jsonType(v.b))) }})
	register("jsonb_array_length", &builtin{f1: func(v value) value {
		if v.b[0] != '[' {
			return failedValue
		}
		return intValue(jsonLength(v.b))
	}})
	number := func(then func(value) value) func(value) value {
		return func(v value) value {
			if !isDigit(v.b[0]) {
				return failedValue
			}
			return then(v)
		}
	}
	for key, f := range map[string]func(value) value{
		"jsonb_numeric": number(func(v value) value { return v }),
		"jsonb_int2":    number(numericToInt(math.MinInt16, math.MaxInt16)),
		"jsonb_int4":    number(numericToInt(math.MinInt32, math.MaxInt32)),
		"jsonb_int8":    number(numericToInt(math.MinInt64, math.MaxInt64)),
		"jsonb_float4":  number(numericToFloat(32)),
		"jsonb_float8":  number(numericToFloat(64)),
		"jsonb_bool": func(v value) value {
			if v.b[0] != 't' && v.b[0] != 'f' {
				return failedValue
			}
			return boolValue(v.b[0] == 't')
		},
	} {
		register(key, &builtin{f1: f})
	}
}

func numericToFloat(bits int) func(value) value {
	input := inputFloat(bits)
	return func(v value) value {
		out, ok := input(string(v.b))
		if !ok {
			return failedValue
		}
		return out
	}
}

func jsonType(b []byte) string {
	switch b[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	default:
		return "number"
	}
}

// buildField compiles -> and ->> with a key, which is quoted once when it is constant.
func buildField(wrap func([]byte) value) func(*node) eval {
	return func(n *node) eval {
		doc := compile(n.args[0])
		if k := n.args[1]; k.isConst() && k.val.st == isSet {
			key := quoteJSON(k.val.b)
			return func(row changes.Row) value {
				v := doc(row)
				if v.st != isSet {
					return v
				}
				return wrap(jsonField(v.b, key))
			}
		}
		key := compile(n.args[1])
		return func(row changes.Row) value {
			return strict2(func(d, k value) value { return wrap(jsonField(d.b, quoteJSON(k.b))) }, doc(row), key(row))
		}
	}
}

// buildPath compiles #> and #>>, whose path is an array, and jsonb_extract_path, whose path is its arguments.
func buildPath(wrap func([]byte) value) func(*node) eval {
	return func(n *node) eval {
		doc := compile(n.args[0])
		if len(n.args) == 2 && n.args[1].typ.isArray() {
			path := compile(n.args[1])
			return func(row changes.Row) value {
				return strict2(func(d, p value) value { return wrap(jsonPath(d.b, p.a.elems)) }, doc(row), path(row))
			}
		}
		steps := compileAll(n.args[1:])
		return func(row changes.Row) value {
			d := doc(row)
			path := make([]value, len(steps))
			for i, s := range steps {
				if path[i] = s(row); path[i].st == isFailed {
					return failedValue
				}
			}
			if d.st != isSet {
				return d
			}
			return wrap(jsonPath(d.b, path))
		}
	}
}
