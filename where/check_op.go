package where

import (
	"math"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

const (
	minInt64 = math.MinInt64
	maxInt64 = math.MaxInt64
)

// operatorExpr checks everything the grammar writes with an operator.
func (c *checker) operatorExpr(e *pg.A_Expr) (*node, error) {
	loc := local(e.GetLocation())
	name, err := operatorName(e.GetName(), loc)
	if err != nil {
		return nil, err
	}
	switch e.GetKind() {
	case pg.A_Expr_Kind_AEXPR_IN:
		return c.inList(e, name, loc)
	case pg.A_Expr_Kind_AEXPR_BETWEEN, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN, pg.A_Expr_Kind_AEXPR_BETWEEN_SYM, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM:
		return c.between(e, loc)
	case pg.A_Expr_Kind_AEXPR_OP, pg.A_Expr_Kind_AEXPR_LIKE, pg.A_Expr_Kind_AEXPR_ILIKE, pg.A_Expr_Kind_AEXPR_SIMILAR:
		return c.plainOperator(e, name, loc)
	default:
	}
	left, err := c.operand(e.GetLexpr())
	if err != nil {
		return nil, err
	}
	right, err := c.operand(e.GetRexpr())
	if err != nil {
		return nil, err
	}
	switch e.GetKind() {
	case pg.A_Expr_Kind_AEXPR_OP_ANY, pg.A_Expr_Kind_AEXPR_OP_ALL:
		return c.anyAll(name, left, right, e.GetKind() == pg.A_Expr_Kind_AEXPR_OP_ALL, loc)
	case pg.A_Expr_Kind_AEXPR_DISTINCT, pg.A_Expr_Kind_AEXPR_NOT_DISTINCT:
		return c.distinct(left, right, e.GetKind() == pg.A_Expr_Kind_AEXPR_NOT_DISTINCT, loc)
	case pg.A_Expr_Kind_AEXPR_NULLIF:
		return c.nullIf(left, right, loc)
	default:
		return nil, unsupported(loc, "A_Expr "+e.GetKind().String())
	}
}

func operatorName(names []*pg.Node, loc int) (string, error) {
	if len(names) == 0 {
		return "", unsupported(loc, "an operator without a name")
	}
	if len(names) > 1 && (len(names) != 2 || names[0].GetString_().GetSval() != "pg_catalog") {
		return "", unsupported(loc, "OPERATOR() outside pg_catalog")
	}
	return names[len(names)-1].GetString_().GetSval(), nil
}

func (c *checker) operand(n *pg.Node) (*node, error) {
	if r := n.GetRowExpr(); r != nil {
		return c.row(r)
	}
	return c.expr(n)
}

// row checks ROW(…) or (…, …); it may only stand where two rows are compared.
func (c *checker) row(r *pg.RowExpr) (*node, error) {
	args, err := c.exprs(r.GetArgs())
	if err != nil {
		return nil, err
	}
	return &node{kind: nodeRow, typ: c.types.oid(oidRecord), loc: local(r.GetLocation()), args: args}, nil
}

func (c *checker) plainOperator(e *pg.A_Expr, name string, loc int) (*node, error) {
	right, err := c.operand(e.GetRexpr())
	if err != nil {
		return nil, err
	}
	if e.GetLexpr() == nil {
		return c.prefix(name, right, loc)
	}
	left, err := c.operand(e.GetLexpr())
	if err != nil {
		return nil, err
	}
	return c.binary(name, left, right, loc)
}

func (c *checker) prefix(name string, arg *node, loc int) (*node, error) {
	if c.types.cat.ops[name] == nil {
		return nil, errorAt(loc, "unknown unary operator %q", name)
	}
	p := c.types.prefixOperator(name, arg.typ)
	if p == nil || arg.kind == nodeRow {
		return nil, noOperator(loc, arg)
	}
	return c.call(nodeOp, candidate{p, p.args}, []*node{arg}, loc)
}

// binary checks "left name right".
func (c *checker) binary(name string, left, right *node, loc int) (*node, error) {
	if left.kind == nodeRow || right.kind == nodeRow {
		return c.rowComparison(name, left, right, loc)
	}
	if c.types.cat.ops[name] == nil {
		return nil, errorAt(loc, "unknown binary operator %q", name)
	}
	p := c.types.binaryOperator(name, left.typ, right.typ)
	if p == nil {
		return nil, noOperator(loc, left, right)
	}
	return c.call(nodeOp, candidate{p, p.args}, []*node{left, right}, loc)
}

// noOperator says that there is no operator for these operands, and why if one of them is of a type that is not
// evaluated.
func noOperator(loc int, operands ...*node) error {
	for _, n := range operands {
		if r := typeRefusal(n.typ); r != "" {
			return errorAt(loc, "Could not select an operator overload: type %s is not supported%s", n.typ, r)
		}
	}
	return errorAt(loc, "Could not select an operator overload")
}

// call fits the arguments to the function selected and checks that it can be evaluated exactly.
func (c *checker) call(kind nodeKind, cand candidate, args []*node, loc int) (*node, error) {
	p := cand.proc
	overload := "an operator overload"
	if kind == nodeFunc {
		overload = "a function overload for " + signature(p.name, args)
	}
	actual := make([]*typ, len(args))
	for i, a := range args {
		actual[i] = a.typ
	}
	poly, ok := c.types.resolvePolymorphic(actual, cand.args)
	if !ok {
		return nil, errorAt(loc, "Could not select %s", overload)
	}
	n := &node{kind: kind, loc: loc, fn: p, typ: poly.of(p.ret), args: make([]*node, len(args))}
	for i, a := range args {
		want := poly.of(cand.args[i])
		if want == nil || isPolymorphic(want) {
			return nil, errorAt(loc, "Could not select %s", overload)
		}
		if want.is(oidAny) {
			want = a.typ
			if a.isUnknown() {
				want = c.types.oid(oidText)
			}
		}
		var err error
		if n.args[i], err = c.coerce(a, want, contextImplicit, -1, a.loc); err != nil {
			return nil, err
		}
	}
	if n.typ == nil || isPolymorphic(n.typ) {
		return nil, errorAt(loc, "Could not select %s", overload)
	}
	for _, a := range n.args {
		if !a.typ.known() {
			return nil, c.cannot(kind, p, args, loc)
		}
	}
	b := builtins[p.key]
	if b == nil || !n.typ.known() {
		return nil, c.cannot(kind, p, args, loc)
	}
	in, err := c.inputCollation(n.args, loc)
	if err != nil {
		return nil, err
	}
	if err := c.checkCollation(b.needs, in, n.args, loc); err != nil {
		return nil, err
	}
	if b.needs == needOrder {
		if err := c.checkDefaultOrder(n.args[0].typ, loc); err != nil {
			return nil, err
		}
	}
	n.coll = in
	if n.typ.collatable && in.strength == collNone {
		n.coll = c.ofType(n.typ)
	}
	if b.check != nil {
		if err := b.check(n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// cannot says that p is not evaluated here for these types, or at all.
func (c *checker) cannot(kind nodeKind, p *proc, args []*node, loc int) error {
	reason := refusals[p.key]
	for _, a := range args {
		if r := typeRefusal(a.typ); reason == "" && r != "" {
			reason = r[len(": "):]
		}
	}
	known := reason != ""
	overloads := c.types.cat.funcs[p.name]
	if kind == nodeOp {
		overloads = c.types.cat.ops[p.name]
	}
	for _, o := range overloads {
		known = known || len(o.args) == len(p.args) && builtins[o.key] != nil
	}
	if reason != "" {
		reason = ": " + reason
	}
	switch {
	case known:
	case kind == nodeFunc:
		return errorAt(loc, "unknown or unsupported function %s/%d", p.name, len(args))
	case len(args) == 2:
		return errorAt(loc, "unknown binary operator %q", p.name)
	default:
		return errorAt(loc, "unknown unary operator %q", p.name)
	}
	if kind == nodeOp && len(args) == 2 {
		return errorAt(loc, "operator %s is not supported for %s and %s%s", p.name, args[0].typ, args[1].typ, reason)
	}
	if kind == nodeOp {
		return errorAt(loc, "unary operator %s is not supported for %s%s", p.name, args[0].typ, reason)
	}
	return errorAt(loc, "unknown or unsupported function %s%s", signature(p.name, args), reason)
}

func signature(name string, args []*node) string {
	var names []string
	for _, a := range args {
		names = append(names, a.typ.name)
	}
	return name + "(" + strings.Join(names, ", ") + ")"
}

func (c *checker) inputCollation(args []*node, loc int) (collation, error) {
	var in collation
	for _, a := range args {
		var ok bool
		coll := a.handsOn()
		if in, ok = in.merge(coll); !ok {
			return in, errorAt(loc, "collation mismatch between explicit collations %s and %s", in.name(), coll.name())
		}
	}
	return in, nil
}

// collNeed is what a builtin asks of the collation of its inputs.
type collNeed uint8

const (
	needNothing       collNeed = iota
	needDeterministic          // equal means equal bytes
	needOrder                  // greater means greater bytes
	needCasing                 // lower() and upper() are known
)

func (c *checker) checkCollation(need collNeed, in collation, args []*node, loc int) error {
	collatable := false
	for _, a := range args {
		collatable = collatable || a.typ.collatable
	}
	if need == needNothing || !collatable {
		return nil
	}
	const wayOut = `; add COLLATE "C" to one side`
	switch {
	case in.strength == collConflict:
		return errorAt(loc, "the collations of the two sides differ%s", wayOut)
	case in.Name != "" && !in.Deterministic:
		return errorAt(loc, "collation %s is not deterministic, which is not supported%s", in.name(), wayOut)
	case need == needOrder && !in.bytewise():
		return errorAt(loc, "the order of text under collation %s is not supported%s", in.name(), wayOut)
	case need == needCasing && in.casing() == casingUnknown:
		return errorAt(loc, "lower and upper case under collation %s are not supported; add COLLATE \"C\" to the argument", in.name())
	}
	return nil
}

// checkDefaultOrder refuses the order of values that hold texts without a collation of their own, as documents do:
// those follow the database's.
func (c *checker) checkDefaultOrder(t *typ, loc int) error {
	t = t.baseType()
	if t.kind == KindArray {
		t = t.elem.baseType()
	}
	if !t.is(oidJSONB) || c.scope.Default.bytewise() {
		return nil
	}
	coll := collation{Collation: c.scope.Default}
	return errorAt(loc, `the order of %s under collation %s is not supported; compare what ->> gives, with COLLATE "C"`, t, coll.name())
}
