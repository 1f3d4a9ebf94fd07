package where

import (
	"bytes"
	"math"
	"slices"

	"github.com/shapeserver/shapeserver/changes"
)

// jsonWriter writes the items of a canonical container.
type jsonWriter struct {
	out   []byte
	items int
}

func newJSONWriter(object bool, size int) *jsonWriter {
	w := &jsonWriter{out: make([]byte, 0, size)}
	if object {
		w.out = append(w.out, '{')
	} else {
		w.out = append(w.out, '[')
	}
	return w
}

// item adds an element, or with a quoted key a pair.
func (w *jsonWriter) item(key, val []byte) {
	if w.items > 0 {
		w.out = append(w.out, ", "...)
	}
	w.items++
	if key != nil {
		w.out = append(append(w.out, key...), ": "...)
	}
	w.out = append(w.out, val...)
}

func (w *jsonWriter) done() []byte {
	if w.out[0] == '{' {
		return append(w.out, '}')
	}
	return append(w.out, ']')
}

// concatJSONB is ||: two objects become one, the right side winning; everything else is taken for an array, of one
// element where it is none, and the two are joined.
func concatJSONB(a, b value) value {
	x, y := a.b, b.b
	if len(x)+len(y) > maxText {
		return failedValue
	}
	if x[0] == '{' && y[0] == '{' {
		return bytesValue(mergeObjects(x, y))
	}
	if isJSONContainer(x) && isJSONContainer(y) && x[0] == y[0] {
		// The empty array adds nothing, which the general way gives as well.
		if len(x) == len("[]") {
			return b
		}
	}
	w := newJSONWriter(false, len(x)+len(y)+len("[, ]"))
	for _, part := range [][]byte{x, y} {
		if part[0] != '[' {
			w.item(nil, part)
			continue
		}
		for it, ok := jsonNext(jsonFirst(part), false); ok; it, ok = jsonNext(it.rest, false) {
			w.item(nil, it.val)
		}
	}
	return bytesValue(w.done())
}

// compareKeys orders quoted keys as jsonb stores them: shorter ones first, then by bytes.
func compareKeys(a, b []byte) int {
	a, b = unescapeJSON(a), unescapeJSON(b)
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}

func mergeObjects(x, y []byte) []byte {
	w := newJSONWriter(true, len(x)+len(y))
	a, moreA := jsonNext(jsonFirst(x), true)
	b, moreB := jsonNext(jsonFirst(y), true)
	for moreA || moreB {
		c := 0
		switch {
		case !moreB:
			c = -1
		case !moreA:
			c = 1
		default:
			c = compareKeys(a.key, b.key)
		}
		if c < 0 {
			w.item(a.key, a.val)
		} else {
			w.item(b.key, b.val)
		}
		if c <= 0 {
			a, moreA = jsonNext(a.rest, true)
		}
		if c >= 0 {
			b, moreB = jsonNext(b.rest, true)
		}
	}
	return w.done()
}

// deleteKeys is "-" with a text or several: it takes pairs out of an object, or strings out of an array.
func deleteKeys(doc []byte, keys []value) value {
	if !isJSONContainer(doc) {
		return failedValue
	}
	var quoted [][]byte
	for _, k := range keys {
		if k.st == isSet {
			quoted = append(quoted, quoteJSON(k.b))
		}
	}
	object := doc[0] == '{'
	w := newJSONWriter(object, len(doc))
	for it, ok := jsonNext(jsonFirst(doc), object); ok; it, ok = jsonNext(it.rest, object) {
		name := it.val
		if object {
			name = it.key
		}
		if !slices.ContainsFunc(quoted, func(q []byte) bool { return bytes.Equal(q, name) }) {
			w.item(it.key, it.val)
		}
	}
	return bytesValue(w.done())
}

// deleteElement is "-" with an integer: it takes an element out of an array, from the end for a negative one.
func deleteElement(doc []byte, i int64) value {
	if doc[0] != '[' {
		return failedValue
	}
	if i < 0 {
		n := jsonLength(doc)
		if i += n; i < 0 {
			i = n // nothing is that far from the end
		}
	}
	w := newJSONWriter(false, len(doc))
	for it, ok := jsonNext(jsonFirst(doc), false); ok; it, ok = jsonNext(it.rest, false) {
		if i != 0 {
			w.item(nil, it.val)
		}
		i--
	}
	return bytesValue(w.done())
}

// deletePath is #-: it takes out what the path leads to. Steps beyond what is found are not looked at; of those that
// are, NULL and what is no place in an array fail.
func deletePath(doc []byte, path []value) ([]byte, bool) {
	if path[0].st != isSet {
		return nil, false
	}
	if !isJSONContainer(doc) {
		return doc, true
	}
	object := doc[0] == '{'
	place, key := int64(0), []byte(nil)
	if object {
		key = quoteJSON(path[0].b)
	} else {
		i, ok := pathPlace(path[0].b)
		if !ok {
			return nil, false
		}
		if place = i; place < 0 {
			if place += jsonLength(doc); place < 0 {
				place = math.MaxInt64
			}
		}
	}
	w := newJSONWriter(object, len(doc))
	at := int64(0)
	for it, ok := jsonNext(jsonFirst(doc), object); ok; it, ok = jsonNext(it.rest, object) {
		hit := !object && at == place || object && bytes.Equal(it.key, key)
		at++
		switch {
		case !hit:
			w.item(it.key, it.val)
		case len(path) > 1:
			val, ok := deletePath(it.val, path[1:])
			if !ok {
				return nil, false
			}
			w.item(it.key, val)
		}
	}
	return w.done(), true
}

// pathPlace reads a step of a path as C's strtol reads an int: white space and a sign may stand before it, nothing
// behind.
func pathPlace(step []byte) (int64, bool) {
	i, ok := inputInt(math.MinInt32, math.MaxInt32)(string(bytes.TrimLeft(step, " \t\n\v\f\r")))
	return i.i, ok && step[len(step)-1]-'0' <= 9
}

// stripNulls leaves out the pairs of objects whose value is null, at every depth.
func stripNulls(doc []byte) []byte {
	if !isJSONContainer(doc) {
		return doc
	}
	object := doc[0] == '{'
	w := newJSONWriter(object, len(doc))
	for it, ok := jsonNext(jsonFirst(doc), object); ok; it, ok = jsonNext(it.rest, object) {
		if !object || it.val[0] != 'n' {
			w.item(it.key, stripNulls(it.val))
		}
	}
	return w.done()
}

func registerJSONBChange() {
	register("jsonb_concat", &builtin{f2: concatJSONB})
	register("jsonb_delete", &builtin{f2: func(doc, key value) value { return deleteKeys(doc.b, []value{key}) }})
	register("jsonb_delete_idx", &builtin{f2: func(doc, i value) value { return deleteElement(doc.b, i.i) }})
	register("jsonb_delete_array", &builtin{check: oneArray, f2: func(doc, keys value) value {
		if len(keys.a.dims) > 1 {
			return failedValue
		}
		return deleteKeys(doc.b, keys.a.elems)
	}})
	register("jsonb_delete_path", &builtin{f2: func(doc, path value) value {
		switch {
		case len(path.a.dims) > 1 || !isJSONContainer(doc.b):
			return failedValue
		case len(path.a.elems) == 0 || jsonLength(doc.b) == 0:
			return doc
		}
		out, ok := deletePath(doc.b, path.a.elems)
		if !ok {
			return failedValue
		}
		return bytesValue(out)
	}})
	register("jsonb_strip_nulls", &builtin{f1: func(v value) value { return bytesValue(stripNulls(v.b)) }})
	register("to_jsonb", &builtin{build: buildToJSONB, check: jsonbOf})
}

// oneArray refuses the form of a function that takes its keys as arguments of their own.
func oneArray(n *node) error {
	if len(n.args) != 2 || !n.args[1].typ.isArray() {
		return errorAt(n.loc, "unknown or unsupported function %s", signature(n.fn.name, n.args))
	}
	return nil
}

// jsonbOf refuses the types whose JSON form is not known here.
func jsonbOf(n *node) error {
	switch t := n.args[0].typ.baseType(); {
	case t.kind == KindEnum:
	case t.is(oidBool), t.is(oidInt2), t.is(oidInt4), t.is(oidInt8), t.is(oidNumeric), t.is(oidFloat4), t.is(oidFloat8),
		t.is(oidText), t.is(oidVarchar), t.is(oidBpchar), t.is(oidName), t.is(oidUUID), t.is(oidJSONB):
	default:
		return errorAt(n.loc, "to_jsonb(%s) is not supported; cast the value to text", n.args[0].typ)
	}
	return nil
}

func buildToJSONB(n *node) eval {
	arg := compile(n.args[0])
	t := n.args[0].typ.baseType()
	output := codecOf(t).output
	return func(row changes.Row) value {
		v := arg(row)
		switch {
		case v.st != isSet || t.is(oidJSONB):
			return v
		case t.is(oidBool):
			return bytesValue([]byte(outputBoolWord(v)))
		case t.category == 'N':
			// Infinities and NaN become strings.
			if num, ok := inputNumeric(output(v)); ok && isDigit(num.b[0]) && !isInf(num) {
				return num
			}
		}
		return bytesValue(quoteJSON([]byte(output(v))))
	}
}
