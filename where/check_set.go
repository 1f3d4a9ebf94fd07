package where

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// inList checks IN as Postgres rewrites it: constants become one ANY over an array of their common type, what refers
// to columns is compared one by one.
func (c *checker) inList(e *pg.A_Expr, name string, loc int) (*node, error) {
	left, err := c.operand(e.GetLexpr())
	if err != nil {
		return nil, err
	}
	var rest, consts []*node
	for _, item := range e.GetRexpr().GetList().GetItems() {
		n, err := c.operand(item)
		if err != nil {
			return nil, err
		}
		rest = append(rest, n)
		if !hasColumn(n) {
			consts = append(consts, n)
		}
	}
	if len(rest) == 0 {
		return nil, unsupported(loc, "IN without a list")
	}
	or := name == "="
	var parts []*node
	if len(consts) > 1 && left.kind != nodeRow {
		types := []*typ{left.typ}
		for _, n := range consts {
			types = append(types, n.typ)
		}
		common, ok := c.types.commonOf(types)
		if ok && common.is(oidUnknown) {
			common = c.types.oid(oidText)
		}
		if ok && !common.is(oidRecord) && c.types.arrayOf(common) != nil {
			arr, err := c.makeArray(consts, c.types.arrayOf(common), false, loc)
			if err != nil {
				return nil, err
			}
			n, err := c.anyAll(name, left, arr, !or, loc)
			if err != nil {
				return nil, err
			}
			parts = append(parts, n)
			kept := rest[:0]
			for _, n := range rest {
				if hasColumn(n) {
					kept = append(kept, n)
				}
			}
			rest = kept
		}
	}
	for _, n := range rest {
		cmp, err := c.binary(name, left, n, loc)
		if err != nil {
			return nil, err
		}
		parts = append(parts, cmp)
	}
	kind := nodeAnd
	if or {
		kind = nodeOr
	}
	return c.junction(kind, parts, loc), nil
}

func hasColumn(n *node) bool {
	found := false
	n.walk(func(n *node) { found = found || n.kind == nodeColumn })
	return found
}

func (c *checker) junction(kind nodeKind, parts []*node, loc int) *node {
	if len(parts) == 1 {
		return parts[0]
	}
	n := &node{kind: kind, typ: c.types.oid(oidBool), loc: loc}
	for _, p := range parts {
		if p.kind == kind {
			n.args = append(n.args, p.args...)
		} else {
			n.args = append(n.args, p)
		}
	}
	return n
}

// between checks BETWEEN as the comparisons it stands for.
func (c *checker) between(e *pg.A_Expr, loc int) (*node, error) {
	bounds := e.GetRexpr().GetList().GetItems()
	if len(bounds) != 2 {
		return nil, unsupported(loc, "BETWEEN without two bounds")
	}
	var err error
	one := func(lowOp, highOp string, join nodeKind, low, high *pg.Node) *node {
		var parts []*node
		for i, b := range []*pg.Node{low, high} {
			op := lowOp
			if i == 1 {
				op = highOp
			}
			// Postgres copies the untyped expression into both comparisons; so it is checked anew for each.
			var l, r, n *node
			if err == nil {
				l, err = c.operand(e.GetLexpr())
			}
			if err == nil {
				r, err = c.operand(b)
			}
			if err == nil {
				n, err = c.binary(op, l, r, loc)
			}
			parts = append(parts, n)
		}
		if err != nil {
			return nil
		}
		return c.junction(join, parts, loc)
	}
	var n *node
	switch e.GetKind() {
	case pg.A_Expr_Kind_AEXPR_BETWEEN:
		n = one(">=", "<=", nodeAnd, bounds[0], bounds[1])
	case pg.A_Expr_Kind_AEXPR_NOT_BETWEEN:
		n = one("<", ">", nodeOr, bounds[0], bounds[1])
	case pg.A_Expr_Kind_AEXPR_BETWEEN_SYM:
		a, b := one(">=", "<=", nodeAnd, bounds[0], bounds[1]), one(">=", "<=", nodeAnd, bounds[1], bounds[0])
		if err == nil {
			n = c.junction(nodeOr, []*node{a, b}, loc)
		}
	default:
		a, b := one("<", ">", nodeOr, bounds[0], bounds[1]), one("<", ">", nodeOr, bounds[1], bounds[0])
		if err == nil {
			n = c.junction(nodeAnd, []*node{a, b}, loc)
		}
	}
	return n, err
}

// anyAll checks "left op ANY (array)".
func (c *checker) anyAll(name string, left, right *node, all bool, loc int) (*node, error) {
	word := "ANY"
	if all {
		word = "ALL"
	}
	if left.kind == nodeRow || right.kind == nodeRow {
		return nil, unsupported(loc, "a row before "+word)
	}
	if c.types.cat.ops[name] == nil {
		return nil, errorAt(loc, "unknown binary operator %q", name)
	}
	elem := right.typ
	if !right.isUnknown() {
		if !right.typ.isArray() {
			return nil, errorAt(loc, "argument of %s must be an array", word)
		}
		elem = right.typ.baseType().elem
	}
	p := c.types.binaryOperator(name, left.typ, elem)
	if p == nil {
		return nil, errorAt(loc, "Could not select an operator overload")
	}
	if !p.ret.is(oidBool) {
		return nil, errorAt(loc, "ANY/ALL requires operator that returns bool")
	}
	// Check the operator over one element, then take its right side back to the array.
	stand := &node{kind: nodeColumn, typ: elem, loc: right.loc, coll: right.coll}
	if right.isUnknown() {
		stand = &node{kind: nodeConst, typ: elem, loc: right.loc}
	}
	one, err := c.call(nodeOp, candidate{p, p.args}, []*node{left, stand}, loc)
	if err != nil {
		return nil, err
	}
	array := c.types.arrayOf(one.args[1].typ)
	if array == nil {
		return nil, errorAt(loc, "argument of %s must be an array", word)
	}
	if right, err = c.coerce(right, array, contextImplicit, -1, right.loc); err != nil {
		return nil, err
	}
	return &node{
		kind: nodeAnyAll, typ: one.typ, loc: loc, fn: p, args: []*node{one.args[0], right}, all: all, coll: one.coll,
	}, nil
}

// distinct checks IS [NOT] DISTINCT FROM, which is "=" with NULL taken for a value.
func (c *checker) distinct(left, right *node, not bool, loc int) (*node, error) {
	if left.kind == nodeRow || right.kind == nodeRow {
		return nil, unsupported(loc, "IS DISTINCT FROM between rows")
	}
	// x IS DISTINCT FROM NULL needs no operator, so it works for every type.
	for i, n := range []*node{left, right} {
		other := []*node{right, left}[i]
		if n.isUnknown() && n.val.st == isNull && !other.isUnknown() && other.typ.baseType().kind != KindComposite {
			return &node{kind: nodeNullTest, typ: c.types.oid(oidBool), loc: loc, args: []*node{other}, not: !not}, nil
		}
	}
	eq, err := c.binary("=", left, right, loc)
	if err != nil {
		return nil, err
	}
	return &node{kind: nodeDistinct, typ: eq.typ, loc: loc, fn: eq.fn, args: eq.args, not: not, coll: eq.coll}, nil
}

// nullIf checks NULLIF, whose result has the type of its first argument.
func (c *checker) nullIf(left, right *node, loc int) (*node, error) {
	eq, err := c.binary("=", left, right, loc)
	if err != nil {
		return nil, err
	}
	in, err := c.inputCollation(eq.args, loc) // of both: NULLIF(text, name) is compared, and ordered, as name is
	if err != nil {
		return nil, err
	}
	return &node{kind: nodeNullIf, typ: eq.args[0].typ, loc: loc, fn: eq.fn, args: eq.args, coll: in}, nil
}
