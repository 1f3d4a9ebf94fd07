package where

import (
	"bytes"

	"github.com/shapeserver/shapeserver/changes"
)

// textForm returns how a value of the type is written, as its output function does.
func textForm(t *typ) func(v value) []byte {
	c := codecOf(t)
	return func(v value) []byte {
		if t.baseType().category == 'S' {
			return v.b
		}
		return []byte(c.output(v))
	}
}

// buildConcat is concat(), and with a separator concat_ws(): NULLs are left out.
func buildConcat(n *node, sep eval) eval {
	nodes := n.args
	if sep != nil {
		nodes = nodes[1:]
	}
	args := compileAll(nodes)
	forms := make([]func(value) []byte, len(nodes))
	for i, a := range nodes {
		forms[i] = textForm(a.typ)
	}
	return func(row changes.Row) value {
		var between value
		if sep != nil {
			if between = sep(row); between.st == isFailed {
				return failedValue
			}
		}
		out := []byte{}
		first := true
		for i, a := range args {
			v := a(row)
			if v.st == isFailed {
				return failedValue
			}
			if v.st == isNull {
				continue
			}
			if !first {
				out = append(out, between.b...)
			}
			first = false
			if out = append(out, forms[i](v)...); len(out) > maxText {
				return failedValue
			}
		}
		if sep != nil && between.st == isNull {
			return nullValue
		}
		return bytesValue(out)
	}
}

// buildAnyConcat is || between text and anything else, which is cast to text first.
func buildAnyConcat(n *node) eval {
	args := compileAll(n.args)
	var forms [2]func(value) []byte
	for i, a := range n.args {
		switch b := a.typ.baseType(); {
		case b.is(oidBool):
			forms[i] = func(v value) []byte { return []byte(outputBoolWord(v)) }
		case b.is(oidInet):
			forms[i] = func(v value) []byte { return []byte(outputCidr(v)) } // its cast to text, not its output
		case b.is(oidBpchar):
			forms[i] = func(v value) []byte { return bytes.TrimRight(v.b, " ") }
		default:
			forms[i] = textForm(a.typ)
		}
	}
	return func(row changes.Row) value {
		return strict2(func(a, b value) value {
			out := append(append([]byte{}, forms[0](a)...), forms[1](b)...)
			if len(out) > maxText {
				return failedValue
			}
			return bytesValue(out)
		}, args[0](row), args[1](row))
	}
}
