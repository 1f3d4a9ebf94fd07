package where

import (
	"fmt"
	"strings"
)

// coerce converts n to a type, or says that it cannot be done. loc is where the conversion is asked for.
func (c *checker) coerce(n *node, to *typ, ctx castContext, typmod int32, loc int) (*node, error) {
	switch {
	case n.isUnknown():
		return c.literal(n, to, typmod)
	case n.typ.oid == to.oid && typmod < 0:
		return n, nil
	case to.base != nil:
		return nil, errorAt(loc, "casts to domain %s are not supported", to)
	}
	method, key, ok := c.types.pathway(n.typ, to, ctx)
	if !ok {
		return nil, errorAt(loc, "unknown cast from type %s to type %s", n.typ, to)
	}
	if !to.known() || !n.typ.known() {
		return nil, errorAt(loc, "unsupported type %s%s", firstUnknown(n.typ, to), typeRefusal(firstUnknown(n.typ, to)))
	}
	cast := &node{
		kind: nodeCast, typ: to, loc: loc, args: []*node{n}, implicit: ctx == contextImplicit, method: method, key: key, typmod: typmod,
	}
	if method == castArray {
		elem := &node{kind: nodeColumn, typ: n.typ.baseType().elem, loc: loc}
		sub, err := c.coerce(elem, to.elem, ctx, typmod, loc)
		if err != nil {
			return nil, err
		}
		if sub == elem {
			cast.method = castRelabel
		}
		cast.sub = sub
	}
	if method == castText && !exactText(n.typ.baseType(), to.baseType()) {
		return nil, errorAt(loc, "the cast from type %s to type %s is supported for constants only", n.typ, to)
	}
	if method == castFunc && builtins[key] == nil {
		return nil, errorAt(loc, "the cast from type %s to type %s is not supported", n.typ, to)
	}
	if to.collatable {
		cast.coll = n.handsOn()
		if cast.coll.strength == collNone {
			cast.coll = c.ofType(to)
		}
	}
	return cast, nil
}

// exactText reports whether a cast through text reads nothing but what an output function wrote, or reads all that
// Postgres does.
func exactText(from, to *typ) bool {
	if from.kind == KindArray && to.kind == KindArray {
		return exactText(from.elem.baseType(), to.elem.baseType())
	}
	return from.category != 'S' || exactInput(to)
}

// exactInput reports whether a type's input here takes everything that Postgres's takes. Others take less, which is
// right for constants, where the rest is refused, but would turn a column's values into failures.
func exactInput(t *typ) bool {
	switch t.baseType().oid {
	case oidBool, oidInt2, oidInt4, oidInt8, oidFloat4, oidFloat8, oidNumeric, oidText, oidVarchar, oidBpchar, oidName, oidUUID:
		return true
	default:
		return false
	}
}

func firstUnknown(ts ...*typ) *typ {
	for _, t := range ts {
		if !t.known() {
			return t
		}
	}
	return ts[0]
}

// literal reads an unknown literal or parameter as a type.
func (c *checker) literal(n *node, to *typ, typmod int32) (*node, error) {
	if to.is(oidUnknown) || to.is(oidAny) {
		to = c.types.oid(oidText)
	}
	k := &node{kind: nodeConst, typ: to, loc: n.loc}
	if to.collatable {
		k.coll = c.ofType(to)
	}
	if n.param != 0 {
		if was, ok := c.paramTypes[n.param]; ok && was.oid != to.oid {
			return nil, errorAt(n.loc, "type conflict for $%d: %s and %s", n.param, was, to)
		}
		c.paramTypes[n.param] = to
	}
	if to.base != nil { // also of NULL, which its constraints may forbid
		return nil, errorAt(n.loc, "casts to domain %s are not supported", to)
	}
	if n.val.st == isNull {
		k.val = nullValue
		return k, nil
	}
	if !to.known() {
		return nil, errorAt(n.loc, "unsupported type %s%s", to, typeRefusal(to))
	}
	v, ok := codecOf(to).input(n.text)
	if !ok {
		bad := errorAt(n.loc, "invalid syntax for type %s: %s", describe(to), excerpt(n.text))
		if to.kind == KindEnum {
			return nil, bad.because(&LabelError{Type: to.name, Label: excerpt(n.text)})
		}
		return nil, bad
	}
	if to.kind == KindArray && to.elem.base != nil && len(v.a.elems) > 0 {
		return nil, errorAt(n.loc, "casts to domain %s are not supported", to.elem) // its constraints are not known
	}
	if typmod >= 0 {
		if v = applyTypmod(v, to, typmod, true); v.st == isFailed {
			return nil, errorAt(n.loc, "value out of range for type %s: %s", describe(to), excerpt(n.text))
		}
	}
	k.val = v
	return k, nil
}

func describe(t *typ) string {
	if t.kind == KindEnum {
		return "enum " + t.name
	}
	return t.name
}

// excerpt keeps error texts of a bearable length.
func excerpt(s string) string {
	const limit = 200
	if len(s) <= limit {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:limit], ""), len(s))
}
