package where

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// arrayExpr checks ARRAY[…]; want is the array type that a cast asks for, nil for the one its elements have in common.
// A constructor that holds arrays has one dimension more than they have (transformArrayExpr).
func (c *checker) arrayExpr(a *pg.A_ArrayExpr, want *typ) (*node, error) {
	loc := local(a.GetLocation())
	var elems []*node
	nested := false
	for _, e := range a.GetElements() {
		var n *node
		var err error
		if inner := e.GetAArrayExpr(); inner != nil {
			n, err = c.arrayExpr(inner, want)
			nested = true
		} else {
			n, err = c.expr(e)
		}
		if err != nil {
			return nil, err
		}
		nested = nested || n.typ.kind == KindArray
		elems = append(elems, n)
	}
	if want == nil {
		if len(elems) == 0 {
			return nil, errorAt(loc, "cannot determine type of empty array")
		}
		common, err := c.common(elems, "ARRAY", loc)
		if err != nil {
			return nil, err
		}
		if want = c.types.arrayOf(common); nested {
			want = common
		}
		if want == nil || want.kind != KindArray {
			return nil, errorAt(loc, "unsupported type %s[]", common)
		}
		return c.makeArray(elems, want, nested, loc)
	}
	elem := want.elem
	if nested {
		elem = want
	}
	for i, n := range elems {
		var err error
		ctx := contextExplicit
		if c.types.canCoerce([]*typ{n.typ}, []*typ{elem}) {
			ctx = contextImplicit // the same conversion, which needs no words when it is rendered
		}
		if elems[i], err = c.coerce(n, elem, ctx, -1, n.loc); err != nil {
			return nil, err
		}
	}
	return c.makeArray(elems, want, nested, loc)
}

// makeArray coerces elements implicitly and builds the array node. The elements of a nested one are arrays of its own
// type.
func (c *checker) makeArray(elems []*node, t *typ, nested bool, loc int) (*node, error) {
	if !t.known() {
		return nil, errorAt(loc, "unsupported type %s", t)
	}
	elem := t.elem
	if nested {
		elem = t
	}
	n := &node{kind: nodeArray, typ: t, loc: loc, args: make([]*node, len(elems)), nested: nested}
	for i, e := range elems {
		var err error
		if n.args[i], err = c.coerce(e, elem, contextImplicit, -1, e.loc); err != nil {
			return nil, err
		}
	}
	var err error
	n.coll, err = c.inputCollation(n.args, loc)
	return n, err
}

// indirection checks subscripts of arrays. When one of them is a slice, a single one counts as the slice that begins
// at 1 (manual, "Accessing Arrays").
func (c *checker) indirection(x *pg.A_Indirection) (*node, error) {
	arg, err := c.expr(x.GetArg())
	if err != nil {
		return nil, err
	}
	if arg.typ.baseType().is(oidJSONB) {
		return c.subscriptJSONB(arg, x)
	}
	if len(x.GetIndirection()) > 0 && x.GetIndirection()[0].GetAIndices() == nil {
		return nil, unsupported(arg.loc, "access to a field of a composite value")
	}
	if !arg.typ.isArray() {
		return nil, errorAt(arg.loc, "cannot subscript type %s because it is not an array", arg.typ)
	}
	t := arg.typ.baseType()
	n := &node{kind: nodeIndex, typ: t.elem, loc: arg.loc, args: []*node{arg}, coll: arg.coll}
	if !n.typ.known() {
		return nil, errorAt(arg.loc, "subscripts of %s are not supported", arg.typ)
	}
	for _, i := range x.GetIndirection() {
		idx := i.GetAIndices()
		if idx == nil {
			return nil, unsupported(arg.loc, "access to a field of a composite value")
		}
		if idx.GetIsSlice() {
			n.kind, n.typ = nodeSlice, t
		}
	}
	if len(x.GetIndirection()) > maxDims {
		return nil, errorAt(arg.loc, "number of array dimensions exceeds the maximum allowed (%d)", maxDims)
	}
	for _, i := range x.GetIndirection() {
		idx := i.GetAIndices()
		if n.kind == nodeIndex {
			sub, err := c.subscript(idx.GetUidx())
			if err != nil {
				return nil, err
			}
			n.args = append(n.args, sub)
			continue
		}
		bounds := [2]*node{}
		if !idx.GetIsSlice() {
			bounds[0] = &node{kind: nodeConst, typ: c.types.oid(oidInt4), loc: arg.loc, val: intValue(1), literal: "1"}
		}
		for j, b := range []*pg.Node{idx.GetLidx(), idx.GetUidx()} {
			if b == nil {
				continue
			}
			if bounds[j], err = c.subscript(b); err != nil {
				return nil, err
			}
		}
		for _, b := range bounds {
			n.bounded = append(n.bounded, b != nil)
			if b != nil {
				n.args = append(n.args, b)
			}
		}
	}
	return n, nil
}

func (c *checker) subscript(x *pg.Node) (*node, error) {
	sub, err := c.expr(x)
	if err != nil {
		return nil, err
	}
	return c.coerce(sub, c.types.oid(oidInt4), contextAssignment, -1, sub.loc)
}

// subscriptJSONB checks subscripts of a document: each is a key or, as a text or an integer, a place in an array
// (manual, "jsonb Subscripting").
func (c *checker) subscriptJSONB(arg *node, x *pg.A_Indirection) (*node, error) {
	n := &node{kind: nodeIndex, typ: c.types.oid(oidJSONB), loc: arg.loc, args: []*node{arg}}
	for _, i := range x.GetIndirection() {
		idx := i.GetAIndices()
		switch {
		case idx == nil:
			return nil, unsupported(arg.loc, "access to a field of a composite value")
		case idx.GetIsSlice():
			return nil, errorAt(arg.loc, "jsonb subscript does not support slices")
		}
		sub, err := c.expr(idx.GetUidx())
		if err != nil {
			return nil, err
		}
		to := c.types.oid(oidText)
		if !sub.isUnknown() {
			number := c.types.canCoerce([]*typ{sub.typ}, []*typ{c.types.oid(oidInt4)})
			if number == c.types.canCoerce([]*typ{sub.typ}, []*typ{to}) {
				return nil, errorAt(sub.loc, "subscript type %s is not supported; use an int4 or a text", sub.typ)
			}
			if number {
				to = c.types.oid(oidInt4)
			}
		}
		if sub, err = c.coerce(sub, to, contextImplicit, -1, sub.loc); err != nil {
			return nil, err
		}
		n.args = append(n.args, sub)
	}
	return n, nil
}
