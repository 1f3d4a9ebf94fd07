package where

import "github.com/shapeserver/shapeserver/changes"

// rowComparison checks a comparison of two rows. Equality is that of all pairs; order is decided by the first pair
// that differs (manual, "Row and Array Comparisons").
func (c *checker) rowComparison(name string, left, right *node, loc int) (*node, error) {
	if left.kind != nodeRow || right.kind != nodeRow {
		return nil, errorAt(loc, "Could not select an operator overload")
	}
	if len(left.args) != len(right.args) || len(left.args) == 0 {
		return nil, errorAt(loc, "unequal number of entries in row expressions")
	}
	if len(left.args) > maxRow {
		return nil, errorAt(loc, "rows of more than %d entries are not supported", maxRow)
	}
	switch name {
	case "=", "<>", "<", "<=", ">", ">=":
	default:
		return nil, errorAt(loc, "Could not select an operator overload")
	}
	n := &node{kind: nodeRowCompare, typ: c.types.oid(oidBool), loc: loc}
	var pairs []*node
	for i := range left.args {
		p, err := c.binary(name, left.args[i], right.args[i], loc)
		if err != nil {
			return nil, err
		}
		if len(left.args) > 1 && (builtins[p.fn.key].order == 0 || codecOf(p.args[0].typ).compare == nil) {
			return nil, errorAt(loc, "rows with a %s cannot be compared, since it has no order", p.args[0].typ)
		}
		pairs = append(pairs, p)
		n.args = append(n.args, p.args...)
		n.pairs = append(n.pairs, p.fn)
	}
	switch {
	case name == "=":
		return c.junction(nodeAnd, pairs, loc), nil
	case name == "<>":
		return c.junction(nodeOr, pairs, loc), nil
	case len(pairs) == 1:
		return pairs[0], nil
	default:
		return n, nil
	}
}

// compileRowCompare compares pair by pair: both sides of a pair are evaluated, a NULL makes the result NULL, and what
// is behind the pair that decides is not looked at.
func compileRowCompare(n *node) test {
	args := compileAll(n.args)
	compare := make([]func(a, b value) int, len(n.pairs))
	for i, fn := range n.pairs {
		compare[i] = builtins[fn.key].comparator(&node{kind: nodeOp, fn: fn, args: n.args[2*i : 2*i+2]})
	}
	order := builtins[n.pairs[0].key].order
	nodes := n.args
	return func(row changes.Row) Tri {
		c := 0
		for i := 0; i < len(compare) && c == 0; i++ {
			x, y := args[2*i](row), args[2*i+1](row)
			switch {
			case x.st == isFailed || y.st == isFailed:
				return Failed
			case x.st == isNull || y.st == isNull:
				return Unknown
			}
			c = compare[i](x, y)
			if c != 0 && (hasNewLabel(nodes[2*i].typ, x) || hasNewLabel(nodes[2*i+1].typ, y)) {
				return Failed
			}
		}
		return triOf(order.holds(c))
	}
}

// rowCompare writes both rows with their operator.
func (r *renderer) rowCompare(n *node) {
	for side, word := range []string{"(ROW(", " " + n.pairs[0].name + " ROW("} {
		r.WriteString(word)
		for i := side; i < len(n.args); i += 2 {
			if i > 1 {
				r.WriteString(", ")
			}
			r.node(n.args[i])
		}
		r.WriteByte(')')
	}
	r.WriteByte(')')
}
