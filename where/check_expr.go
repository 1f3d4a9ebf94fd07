package where

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// typeCast checks CAST and "::".
func (c *checker) typeCast(t *pg.TypeCast) (*node, error) {
	loc := local(t.GetLocation())
	to, typmod, err := c.typeName(t.GetTypeName())
	if err != nil {
		return nil, err
	}
	if a := t.GetArg().GetAArrayExpr(); a != nil && to.isArray() && typmod < 0 {
		// The elements take the type at once: ARRAY['1']::int4[] never is a text[].
		return c.arrayExpr(a, to.baseType())
	}
	arg, err := c.expr(t.GetArg())
	if err != nil {
		return nil, err
	}
	if loc < 0 {
		loc = arg.loc
	}
	if arg.isConst() && !arg.isUnknown() && arg.literal != "" && arg.typ.oid == to.oid {
		return arg, nil
	}
	return c.coerce(arg, to, contextExplicit, typmod, loc)
}

// typeName resolves the name of a type: Postgres's own, or an enum or domain that a column of the table has.
func (c *checker) typeName(t *pg.TypeName) (*typ, int32, error) {
	loc := local(t.GetLocation())
	var names []string
	for _, n := range t.GetNames() {
		names = append(names, n.GetString_().GetSval())
	}
	name := strings.Join(names, ".")
	if len(names) == 0 || len(names) > 2 || t.GetSetof() || t.GetPctType() {
		return nil, -1, errorAt(loc, "unsupported type %s", name)
	}
	schema, last := "", names[len(names)-1]
	if len(names) == 2 {
		schema = names[0]
	}
	var to *typ
	if schema == "" || schema == "pg_catalog" {
		to = c.types.cat.byName[last]
	}
	if to == nil {
		to = c.types.named(schema, last)
	}
	if to == nil || to.kind == KindPseudo {
		return nil, -1, errorAt(loc, "unsupported type %s", name)
	}
	typmod, err := c.typmod(t, to)
	if err != nil {
		return nil, -1, err
	}
	if len(t.GetArrayBounds()) > 0 {
		if to = c.types.arrayOf(to); to == nil {
			return nil, -1, errorAt(loc, "unsupported type %s[]", name)
		}
	}
	if to.base != nil {
		return nil, -1, errorAt(loc, "casts to domain %s are not supported", name)
	}
	if !to.known() {
		return nil, -1, errorAt(loc, "unsupported type %s%s", name, typeRefusal(to))
	}
	return to, typmod, nil
}

// common is the common type of the branches of a construct.
func (c *checker) common(nodes []*node, construct string, loc int) (*typ, error) {
	types := make([]*typ, len(nodes))
	for i, n := range nodes {
		if n.kind == nodeRow {
			return nil, unsupported(n.loc, "RowExpr")
		}
		types[i] = n.typ
	}
	t, ok := c.types.commonOf(types)
	if !ok {
		for i := range types {
			if _, ok := c.types.commonOf(types[:i+1]); !ok {
				return nil, errorAt(loc, "%s types %s and %s cannot be matched", construct, types[0], types[i])
			}
		}
		return nil, errorAt(loc, "%s types cannot be matched", construct)
	}
	if t.is(oidUnknown) {
		t = c.types.oid(oidText)
	}
	return t, nil
}

// branches checks a construct whose result is one of its arguments.
func (c *checker) branches(kind nodeKind, list []*pg.Node, construct string, loc int) (*node, error) {
	args, err := c.exprs(list)
	if err != nil {
		return nil, err
	}
	t, err := c.common(args, construct, loc)
	if err != nil {
		return nil, err
	}
	n := &node{kind: kind, typ: t, loc: loc, args: args}
	for i, a := range args {
		if args[i], err = c.coerce(a, t, contextImplicit, -1, a.loc); err != nil {
			return nil, err
		}
	}
	n.coll, err = c.inputCollation(args, loc)
	return n, err
}

func (c *checker) coalesce(e *pg.CoalesceExpr) (*node, error) {
	loc := local(e.GetLocation())
	n, err := c.branches(nodeCoalesce, e.GetArgs(), "COALESCE", loc)
	if err != nil {
		return nil, err
	}
	if !n.typ.known() {
		return nil, errorAt(loc, "COALESCE is not supported for type %s", n.typ)
	}
	return n, nil
}

func (c *checker) minMax(e *pg.MinMaxExpr) (*node, error) {
	kind, word := nodeGreatest, "GREATEST"
	if e.GetOp() == pg.MinMaxOp_IS_LEAST {
		kind, word = nodeLeast, "LEAST"
	}
	loc := local(e.GetLocation())
	n, err := c.branches(kind, e.GetArgs(), word, loc)
	if err != nil {
		return nil, err
	}
	if !n.typ.known() || codecOf(n.typ).compare == nil {
		return nil, errorAt(loc, "%s is not supported for type %s", word, n.typ)
	}
	if err := c.checkDefaultOrder(n.typ, loc); err != nil {
		return nil, err
	}
	return n, c.checkCollation(needOrder, n.coll, n.args, loc)
}

// caseExpr checks both forms of CASE. In "CASE x WHEN v" each v is compared with x.
func (c *checker) caseExpr(e *pg.CaseExpr) (*node, error) {
	loc := local(e.GetLocation())
	n := &node{kind: nodeCase, loc: loc}
	var results []*node
	for _, w := range e.GetArgs() {
		when := w.GetCaseWhen()
		cond, err := c.expr(when.GetExpr())
		if err != nil {
			return nil, err
		}
		if e.GetArg() != nil {
			subject, err := c.expr(e.GetArg())
			if err != nil {
				return nil, err
			}
			if subject.isUnknown() {
				if subject, err = c.coerce(subject, c.types.oid(oidText), contextImplicit, -1, subject.loc); err != nil {
					return nil, err
				}
			}
			if cond, err = c.binary("=", subject, cond, cond.loc); err != nil {
				return nil, err
			}
		} else if cond, err = c.toBool(cond, "CASE/WHEN"); err != nil {
			return nil, err
		}
		result, err := c.expr(when.GetResult())
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, cond, result)
		results = append(results, result)
	}
	otherwise := &node{kind: nodeConst, typ: c.types.oid(oidUnknown), loc: loc}
	if e.GetDefresult() != nil {
		var err error
		if otherwise, err = c.expr(e.GetDefresult()); err != nil {
			return nil, err
		}
	}
	n.args = append(n.args, otherwise)
	t, err := c.common(append([]*node{otherwise}, results...), "CASE", loc)
	if err != nil {
		return nil, err
	}
	if !t.known() {
		return nil, errorAt(loc, "CASE is not supported for type %s", t)
	}
	n.typ = t
	results = results[:0]
	for i := range n.args {
		if i%2 == 1 || i == len(n.args)-1 {
			if n.args[i], err = c.coerce(n.args[i], t, contextImplicit, -1, n.args[i].loc); err != nil {
				return nil, err
			}
			results = append(results, n.args[i])
		}
	}
	n.coll, err = c.inputCollation(results, loc)
	return n, err
}

// funcCall checks a call, or a conversion written as one, such as int4('1').
func (c *checker) funcCall(f *pg.FuncCall) (*node, error) {
	loc := local(f.GetLocation())
	var names []string
	for _, n := range f.GetFuncname() {
		names = append(names, n.GetString_().GetSval())
	}
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	name := strings.Join(names, ".")
	if c.types.cat.funcs[name] == nil {
		return nil, errorAt(loc, "unknown or unsupported function %s/%d", name, len(f.GetArgs()))
	}
	if f.GetAggStar() || f.GetAggDistinct() || f.GetAggFilter() != nil || f.GetOver() != nil || len(f.GetAggOrder()) > 0 || f.GetAggWithinGroup() {
		return nil, errorAt(loc, "aggregation is not supported in this context")
	}
	if f.GetFuncVariadic() {
		return nil, errorAt(loc, "explicit VARIADIC function calls are not currently supported")
	}
	args, err := c.exprs(f.GetArgs())
	if err != nil {
		return nil, err
	}
	types := make([]*typ, len(args))
	for i, a := range args {
		if a.kind == nodeRow {
			return nil, unsupported(a.loc, "RowExpr")
		}
		types[i] = a.typ
	}
	arity := false
	for _, p := range c.types.cat.funcs[name] {
		_, ok := p.forCall(len(args))
		arity = arity || ok
	}
	if to := c.types.cat.byName[name]; len(args) == 1 && to != nil && to.kind == KindBase && exact(c.types.cat.funcs[name], types[0]) == nil {
		// A type's name used as a function converts what needs no function to convert.
		if method, _, ok := c.types.pathway(types[0], to, contextExplicit); args[0].isUnknown() || ok && method == castRelabel {
			return c.coerce(args[0], to, contextExplicit, -1, loc)
		}
	}
	if !arity {
		return nil, errorAt(loc, "unknown or unsupported function %s/%d", name, len(args))
	}
	cand, ok := c.types.function(name, types)
	if !ok {
		return nil, errorAt(loc, "Could not select a function overload for %s", signature(name, args))
	}
	if cand.proc.retset || cand.proc.kind != 'f' || cand.proc.volatile == 'v' {
		return nil, errorAt(loc, "unknown or unsupported function %s/%d", name, len(args))
	}
	return c.call(nodeFunc, cand, args, loc)
}
