package where

import (
	"bytes"
	"math"
	"strings"
)

// jsonStep is one step of a path into a json text: a key of an object, a place in an array, or either.
type jsonStep struct {
	key    string
	keyed  bool  // key counts
	place  int64 // in an array; noPlace when the step is none. Counted from the end when negative.
	placed bool
}

// jsonPicker reads a whole json text, as Postgres does, and keeps the part that a path leads to. Unlike jsonb, json
// keeps its text as it was written, with keys that occur twice; the last part that the whole path leads to counts.
type jsonPicker struct {
	cursor
	path  []jsonStep
	depth int
	found []byte // as written, nil when there is none
}

// pickJSON follows a path. A text that Postgres would not read whole fails: among them those with the escape of NUL
// or with half of a surrogate pair, which type json stores but no operator takes.
func pickJSON(doc []byte, path []jsonStep) (part []byte, ok bool) {
	p := jsonPicker{cursor: cursor{s: unsafeString(doc)}, path: path}
	if !p.value(0) {
		return nil, false
	}
	p.blanks()
	return p.found, p.done()
}

func (p *jsonPicker) blanks() {
	for !p.done() && strings.IndexByte(" \t\n\r", p.s[p.pos]) >= 0 {
		p.pos++
	}
}

// value reads a value to which the first steps of the path lead, none of them when that is -1.
func (p *jsonPicker) value(steps int) bool {
	start := p.pos
	p.blanks()
	if c := p.peek(); len(p.path) > 0 || c == '{' || c == '[' {
		start = p.pos // the white space before a document that is a scalar stays when the path is empty
	}
	ok := false
	switch p.peek() {
	case '{':
		ok = p.nested(steps, '}', p.pair)
	case '[':
		ok = p.list(steps)
	default:
		// Scalars are read as jsonb reads them, which is strict about escapes.
		q := jsonParser{cursor: p.cursor, plain: true}
		_, ok = q.value(nil)
		p.pos = q.pos
	}
	if steps == len(p.path) && ok {
		p.found = []byte(p.s[start:p.pos])
	}
	return ok
}

// list reads an array. A place that counts from the end is settled once the array is counted, and for arrays to come
// too: that is what Postgres does when a key that occurs twice leads to two arrays.
func (p *jsonPicker) list(steps int) bool {
	if steps >= 0 && steps < len(p.path) {
		if s := &p.path[steps]; s.placed && s.place < 0 {
			if n := p.count(); -s.place <= n {
				s.place += n
			}
		}
	}
	at := int64(0)
	return p.nested(steps, ']', func(steps int) bool {
		next := -1
		if steps >= 0 && steps < len(p.path) && p.path[steps].placed && p.path[steps].place == at {
			next = steps + 1
		}
		at++
		return p.value(next)
	})
}

// count returns how many elements the array that begins here has.
func (p *jsonPicker) count() (n int64) {
	ahead := jsonPicker{cursor: p.cursor, depth: p.depth}
	ahead.nested(-1, ']', func(int) bool {
		n++
		return ahead.value(-1)
	})
	return n
}

func (p *jsonPicker) pair(steps int) bool {
	p.blanks()
	q := jsonParser{cursor: p.cursor, plain: true}
	if q.peek() != '"' {
		return false
	}
	raw, ok := q.text(nil)
	p.pos = q.pos
	p.blanks()
	if !ok || !p.accept(':') {
		return false
	}
	next := -1
	if steps >= 0 && steps < len(p.path) && p.path[steps].keyed && string(unescapeJSON(raw)) == p.path[steps].key {
		next = steps + 1
	}
	return p.value(next)
}

// nested reads the items of an object or array.
func (p *jsonPicker) nested(steps int, end byte, item func(steps int) bool) bool {
	if p.depth++; p.depth > maxJSONDepth {
		return false
	}
	defer func() { p.depth-- }()
	p.pos++
	p.blanks()
	if p.accept(end) {
		return true
	}
	for {
		if !item(steps) {
			return false
		}
		p.blanks()
		if p.accept(end) {
			return true
		}
		if !p.accept(',') {
			return false
		}
	}
}

// jsonPartText is what ->> makes of a part of a json text: strings without their quotes and escapes, NULL for null.
func jsonPartText(part []byte) value {
	trimmed := bytes.TrimLeft(part, " \t\n\r")
	switch {
	case len(trimmed) == 0 || trimmed[0] == 'n':
		return nullValue
	case trimmed[0] != '"':
		return bytesValue(part)
	}
	p := jsonParser{cursor: cursor{s: unsafeString(trimmed)}}
	canonical, ok := p.text(nil)
	if !ok {
		return failedValue
	}
	return bytesValue(unescapeJSON(canonical))
}

func registerJSONPick() {
	for key, wrap := range map[string]func([]byte) value{"": jsonValue, "_text": jsonPartText} {
		pick := func(doc []byte, path []jsonStep) value {
			part, ok := pickJSON(doc, path)
			if !ok {
				return failedValue
			}
			return wrap(part)
		}
		register("json_object_field"+key, &builtin{f2: func(doc, k value) value {
			return pick(doc.b, []jsonStep{{key: string(k.b), keyed: true}})
		}})
		register("json_array_element"+key, &builtin{f2: func(doc, i value) value {
			return pick(doc.b, []jsonStep{{place: i.i, placed: i.i != math.MinInt32}})
		}})
		register("json_extract_path"+key, &builtin{build: buildPath(func(doc []byte, path []value) value {
			steps := make([]jsonStep, len(path))
			for i, s := range path {
				if s.st != isSet {
					return nullValue
				}
				place, ok := pathPlace(s.b)
				steps[i] = jsonStep{key: string(s.b), keyed: true, place: place, placed: ok && place != math.MinInt32}
			}
			return pick(doc, steps)
		})})
	}
	register("json_typeof", &builtin{f1: func(v value) value {
		return bytesValue([]byte(jsonType(bytes.TrimLeft(v.b, " \t\n\r"))))
	}})
	register("json_array_length", &builtin{f1: func(v value) value {
		p := jsonPicker{cursor: cursor{s: unsafeString(v.b)}}
		p.blanks()
		if p.peek() != '[' {
			return failedValue
		}
		return intValue(p.count())
	}})
}
