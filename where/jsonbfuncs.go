package where

import (
	"math"

	"github.com/shapeserver/shapeserver/changes"
)

func registerJSON() {
	registerJSONPick()
	registerJSONBChange()
	for _, o := range orders {
		b := &builtin{needs: needFor(o.order), order: o.order, compare: compareJSONBOrder, buildTest: buildComparison}
		if o.order == orderEQ || o.order == orderNE {
			b.compare = compareJSONB
		}
		register("jsonb_"+o.suffix, b)
	}
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
	register("jsonb_extract_path", &builtin{build: buildPath(func(doc []byte, path []value) value { return jsonValue(jsonPath(doc, path)) })})
	register("jsonb_extract_path_text", &builtin{build: buildPath(func(doc []byte, path []value) value { return jsonText(jsonPath(doc, path)) })})
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
func buildPath(follow func(doc []byte, path []value) value) func(*node) eval {
	return func(n *node) eval {
		doc := compile(n.args[0])
		if len(n.args) == 2 && n.args[1].typ.isArray() {
			path := compile(n.args[1])
			return func(row changes.Row) value {
				return strict2(func(d, p value) value { return follow(d.b, p.a.elems) }, doc(row), path(row))
			}
		}
		steps := compileAll(n.args[1:])
		return func(row changes.Row) value {
			d := doc(row)
			path := make([]value, len(steps))
			if !evalAll(steps, row, path) {
				return failedValue
			}
			if d.st != isSet {
				return d
			}
			return follow(d.b, path)
		}
	}
}
