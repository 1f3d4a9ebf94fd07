package where

import "slices"

// fold replaces what depends on no column by its value, from the leaves up, as Postgres's planner does. What would
// fail for every row is refused.
func fold(n *node) (*node, error) {
	all := true
	for i, a := range n.args {
		f, err := fold(a)
		if err != nil {
			return nil, err
		}
		n.args[i] = f
		all = all && (f.isConst() || f.free)
	}
	n.free = all && n.kind != nodeColumn && n.kind != nodeRow
	switch n.kind {
	case nodeConst, nodeColumn, nodeCollate, nodeRow:
		return n, nil
	case nodeNot:
		// NOT (NOT x) and NOT of a test keep their form: nothing is gained by rewriting them.
	default:
	}
	if !all && n.kind == nodeOp {
		if b := builtins[n.fn.key]; b.checkFolded != nil {
			if err := b.checkFolded(n); err != nil {
				return nil, err
			}
		}
	}
	if !all && (n.kind == nodeAnd || n.kind == nodeOr) {
		return foldJunction(n), nil
	}
	if !all && n.kind == nodeCase {
		return foldCase(n), nil
	}
	if !all && n.kind == nodeCoalesce {
		return foldCoalesce(n), nil
	}
	if !all && n.kind == nodeNullIf && slices.ContainsFunc(n.args, alwaysNull) {
		return written(n.args[0]), nil // nothing equals NULL
	}
	if !all && !alwaysNull(n) {
		return n, nil
	}
	if n.typ.collatable && n.coll.strength == collExplicit || losesCollation(n) {
		return n, nil // its value alone would lose the collation
	}
	v := nullValue
	if all {
		v = compile(n)(nil)
	}
	if v.st == isFailed {
		return nil, errorAt(max(n.loc, 0), "Failed to apply function to constant arguments")
	}
	k := &node{kind: nodeConst, typ: n.typ, loc: n.loc, val: v, coll: n.coll}
	if n.typ.is(oidBool) && v.st == isSet {
		k.literal = outputBoolWord(v)
	}
	return k, nil
}

// losesCollation reports whether a constant of n's type would have another collation than n: constants of type name have
// C, which they hand on, those of other types the database's.
func losesCollation(n *node) bool {
	if !n.typ.collatable {
		return false
	}
	if n.typ.is(oidName) {
		return n.coll.strength != collImplicit
	}
	return n.coll.strength == collImplicit
}

// foldJunction leaves out of an AND what is true, and makes it false when one of its sides is; the same for OR the
// other way round. Postgres does so too, even where another side would fail.
func foldJunction(n *node) *node {
	decides := int64(0)
	if n.kind == nodeOr {
		decides = 1
	}
	var rest []*node
	for _, a := range n.args {
		switch {
		case a.kind == n.kind: // what was between them is gone
			rest = append(rest, a.args...)
		case !a.isConst() || a.val.st == isNull:
			rest = append(rest, a)
		case a.val.i == decides:
			return a
		}
	}
	if len(rest) == 1 {
		return rest[0]
	}
	n.args, n.size = rest, 0
	return n
}

// foldCase leaves out the branches that are never taken. It keeps a CASE whose one remaining branch has a collation of
// its own, since that would decide in its place. The branches that were left out may have given the others their type.
func foldCase(n *node) *node {
	last := len(n.args) - 1
	var args []*node
	otherwise := n.args[last]
	for i := 0; i < last; i += 2 {
		cond := n.args[i]
		if !cond.isConst() {
			args = append(args, cond, n.args[i+1])
			continue
		}
		if cond.val.st == isSet && cond.val.i != 0 {
			otherwise = n.args[i+1]
			break
		}
	}
	if len(args) == last && otherwise == n.args[last] {
		return n
	}
	if len(args) == 0 {
		if otherwise.handsOn() != n.coll {
			return n
		}
		return written(otherwise)
	}
	args = append(args, written(otherwise))
	for i := 1; i < len(args); i += 2 {
		args[i] = written(args[i])
	}
	n.args, n.size = args, 0
	return n
}

// foldCoalesce leaves out what is NULL, and what stands behind a constant. It keeps a COALESCE whose collation the others
// would not give.
func foldCoalesce(n *node) *node {
	var args []*node
	var coll collation
	for _, a := range n.args {
		if a.isConst() && a.val.st == isNull {
			continue
		}
		args = append(args, written(a))
		coll, _ = coll.merge(a.handsOn())
		if a.isConst() {
			break
		}
	}
	switch {
	case len(args) == len(n.args) || coll != n.coll:
		return n
	case len(args) == 1:
		return args[0]
	}
	n.args, n.size = args, 0
	return n
}

// written makes an implicit cast explicit, for a place that no longer asks for it.
func written(n *node) *node {
	if n.kind != nodeCast || !n.implicit {
		return n
	}
	c := *n
	c.implicit = false
	return &c
}

// alwaysNull reports whether n, whose arguments are folded, is NULL or a strict operator, function or cast of what is: then
// Postgres does not evaluate its other arguments, which might fail. An argument that is no constant can be always NULL
// only where fold kept its collation.
func alwaysNull(n *node) bool {
	switch n.kind {
	case nodeConst:
		return n.val.st == isNull
	case nodeOp, nodeFunc:
		if !n.fn.strict || n.fn.variadic != nil { // the arguments of a variadic function are elements of one
			return false
		}
	case nodeCast, nodeCollate:
	default:
		return false
	}
	return slices.ContainsFunc(n.args, func(a *node) bool { return (a.isConst() || a.typ.collatable) && alwaysNull(a) })
}
