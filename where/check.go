package where

import (
	"reflect"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// checker turns Postgres's parse tree into typed nodes, resolving names, operators and functions as Postgres does.
type checker struct {
	types  *typeSet
	scope  Scope
	cols   []*typ
	params map[string]string
	// paramTypes remembers what the first use of $n made of it; Postgres gives a parameter one type.
	paramTypes map[int32]*typ
	visits     int
}

// Bounds on the work of a clause: BETWEEN and CASE check an operand more than once, and IN and rows use one in
// several places, so that nesting them would otherwise grow without measure.
const (
	maxVisits = 100_000
	maxNodes  = 100_000
	maxRow    = 100
)

func newChecker(scope Scope, params map[string]string) *checker {
	c := &checker{types: newTypeSet(), scope: scope, params: params, paramTypes: map[int32]*typ{}}
	c.cols = make([]*typ, len(scope.Columns))
	for i, col := range scope.Columns {
		c.cols[i] = c.types.of(col.Type)
	}
	return c
}

// local turns a location in the wrapped statement into one in the client's text.
func local(loc int32) int { return int(loc) - len(wrapper) }

// expr checks one expression.
func (c *checker) expr(n *pg.Node) (*node, error) {
	if c.visits++; c.visits > maxVisits {
		return nil, errorAt(nodeLocation(n), "WHERE clause is too complex")
	}
	out, err := c.dispatch(n)
	if err != nil {
		return nil, err
	}
	if out.measure() > maxNodes {
		return nil, errorAt(nodeLocation(n), "WHERE clause is too complex")
	}
	return out, nil
}

func (c *checker) dispatch(n *pg.Node) (*node, error) {
	switch x := n.GetNode().(type) {
	case *pg.Node_AConst:
		return c.constant(x.AConst)
	case *pg.Node_ColumnRef:
		return c.columnRef(x.ColumnRef)
	case *pg.Node_ParamRef:
		return c.paramRef(x.ParamRef)
	case *pg.Node_TypeCast:
		return c.typeCast(x.TypeCast)
	case *pg.Node_AExpr:
		return c.operatorExpr(x.AExpr)
	case *pg.Node_BoolExpr:
		return c.boolExpr(x.BoolExpr)
	case *pg.Node_NullTest:
		return c.nullTest(x.NullTest)
	case *pg.Node_BooleanTest:
		return c.booleanTest(x.BooleanTest)
	case *pg.Node_AArrayExpr:
		return c.arrayExpr(x.AArrayExpr, nil)
	case *pg.Node_CaseExpr:
		return c.caseExpr(x.CaseExpr)
	case *pg.Node_CoalesceExpr:
		return c.coalesce(x.CoalesceExpr)
	case *pg.Node_MinMaxExpr:
		return c.minMax(x.MinMaxExpr)
	case *pg.Node_FuncCall:
		return c.funcCall(x.FuncCall)
	case *pg.Node_CollateClause:
		return c.collate(x.CollateClause)
	case *pg.Node_AIndirection:
		return c.indirection(x.AIndirection)
	case *pg.Node_SubLink:
		return nil, errorAt(local(x.SubLink.GetLocation()), "subqueries are not supported in where clauses").because(ErrSubquery)
	case *pg.Node_SetToDefault:
		return nil, unsupported(local(x.SetToDefault.GetLocation()), "DEFAULT")
	default:
		return nil, unsupported(nodeLocation(n), nodeName(n))
	}
}

// exprs checks a list.
func (c *checker) exprs(list []*pg.Node) ([]*node, error) {
	out := make([]*node, len(list))
	for i, n := range list {
		var err error
		if out[i], err = c.expr(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// nodeName is the parser's name of a node, such as "CaseExpr".
func nodeName(n *pg.Node) string {
	if n.GetNode() == nil {
		return "an empty expression"
	}
	name := strings.TrimPrefix(reflect.TypeOf(n.GetNode()).Elem().Name(), "Node_")
	// The generated Go names spell what Postgres writes in capitals otherwise.
	return strings.NewReplacer("Sqlvalue", "SQLValue", "Aexpr", "A_Expr", "Xml", "XML").Replace(name)
}

// nodeLocation is where a node stands in the client's text, as far as the parser tells.
func nodeLocation(n *pg.Node) int {
	if n.GetNode() == nil {
		return 0
	}
	inner := reflect.ValueOf(n.GetNode()).Elem().Field(0).Interface()
	if l, ok := inner.(interface{ GetLocation() int32 }); ok {
		return max(local(l.GetLocation()), 0)
	}
	return 0
}

// constant gives a literal the type Postgres gives it: the smallest of int4, int8 and numeric that holds it, unknown
// for quoted ones.
func (c *checker) constant(k *pg.A_Const) (*node, error) {
	loc := local(k.GetLocation())
	n := &node{kind: nodeConst, loc: loc}
	if k.GetIsnull() {
		n.typ = c.types.oid(oidUnknown)
		return n, nil
	}
	switch v := k.GetVal().(type) {
	case *pg.A_Const_Ival:
		n.typ, n.val = c.types.oid(oidInt4), intValue(int64(v.Ival.GetIval()))
		n.literal = strconv.FormatInt(n.val.i, 10)
	case *pg.A_Const_Fval:
		return c.bigNumber(n, v.Fval.GetFval())
	case *pg.A_Const_Boolval:
		n.typ, n.val = c.types.oid(oidBool), boolValue(v.Boolval.GetBoolval())
		n.literal = strconv.FormatBool(v.Boolval.GetBoolval())
	case *pg.A_Const_Sval:
		n.typ, n.val, n.text = c.types.oid(oidUnknown), value{st: isSet}, v.Sval.GetSval()
	case *pg.A_Const_Bsval:
		return nil, errorAt(loc, "BitString values are not supported")
	default: // an integer of 0 comes as an empty Ival
		n.typ, n.val, n.literal = c.types.oid(oidInt4), intValue(0), "0"
	}
	return n, nil
}

// bigNumber types what the lexer does not take for an int4.
func (c *checker) bigNumber(n *node, text string) (*node, error) {
	if strings.ContainsAny(text, "xXoObB_") && !strings.ContainsAny(text, ".") {
		i, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return nil, errorAt(n.loc, "number %s is not supported", text)
		}
		text = strconv.FormatInt(i, 10)
	}
	text = strings.ReplaceAll(text, "_", "")
	if v, ok := inputInt(minInt64, maxInt64)(text); ok {
		n.val, n.typ = v, c.types.oid(oidInt8)
		if v.i == int64(int32(v.i)) {
			n.typ = c.types.oid(oidInt4)
		}
		n.literal = strconv.FormatInt(v.i, 10)
		return n, nil
	}
	v, ok := inputNumeric(text)
	if !ok {
		return nil, errorAt(n.loc, "invalid syntax for type numeric: %s", text)
	}
	n.val, n.typ, n.literal = v, c.types.oid(oidNumeric), string(v.b)
	if !strings.ContainsAny(n.literal, ".") && len(n.literal) < 20 {
		n.literal = "" // 1e3 is a numeric, but 1000 would be an integer
	}
	return n, nil
}

func (c *checker) columnRef(r *pg.ColumnRef) (*node, error) {
	loc := local(r.GetLocation())
	names := make([]string, 0, 3)
	for _, f := range r.GetFields() {
		s := f.GetString_()
		if s == nil {
			return nil, unsupported(loc, "*")
		}
		names = append(names, s.GetSval())
	}
	unknown := errorAt(loc, "unknown reference %s", strings.Join(names, "."))
	switch len(names) {
	case 1:
	case 2:
		if names[0] != c.scope.Table {
			return nil, unknown
		}
	case 3:
		if names[0] != c.scope.Schema || names[1] != c.scope.Table {
			return nil, unknown
		}
	default:
		return nil, unknown
	}
	for i, col := range c.scope.Columns {
		if col.Name == names[len(names)-1] {
			n := &node{kind: nodeColumn, typ: c.cols[i], loc: loc, column: i}
			if n.typ.collatable || col.Collation != (Collation{}) {
				n.coll = collation{collImplicit, col.Collation}
				if col.Collation == c.scope.Default {
					n.coll.strength = collDefault
				}
			}
			return n, nil
		}
	}
	return nil, unknown
}

// paramRef takes a parameter for a quoted literal with the parameter's value.
func (c *checker) paramRef(p *pg.ParamRef) (*node, error) {
	loc := local(p.GetLocation())
	text, ok := c.params[strconv.Itoa(int(p.GetNumber()))]
	if !ok {
		return nil, errorAt(loc, "parameter $%d was not provided", p.GetNumber())
	}
	return &node{kind: nodeConst, typ: c.types.oid(oidUnknown), loc: loc, val: value{st: isSet}, text: text, param: p.GetNumber()}, nil
}

func (c *checker) boolExpr(b *pg.BoolExpr) (*node, error) {
	n := &node{typ: c.types.oid(oidBool), loc: local(b.GetLocation())}
	word := "AND"
	switch b.GetBoolop() {
	case pg.BoolExprType_AND_EXPR:
		n.kind = nodeAnd
	case pg.BoolExprType_OR_EXPR:
		n.kind, word = nodeOr, "OR"
	default:
		n.kind, word = nodeNot, "NOT"
	}
	for _, a := range b.GetArgs() {
		arg, err := c.expr(a)
		if err != nil {
			return nil, err
		}
		if arg, err = c.toBool(arg, word); err != nil {
			return nil, err
		}
		// a AND (b AND c) is a AND b AND c.
		if arg.kind == n.kind && n.kind != nodeNot {
			n.args = append(n.args, arg.args...)
		} else {
			n.args = append(n.args, arg)
		}
	}
	return n, nil
}

// toBool coerces an operand that must be boolean.
func (c *checker) toBool(n *node, construct string) (*node, error) {
	if n.isUnknown() || n.typ.baseType().is(oidBool) {
		return c.coerce(n, c.types.oid(oidBool), contextImplicit, -1, n.loc)
	}
	return nil, errorAt(n.loc, "argument of %s must be bool, not %s", construct, n.typ)
}

func (c *checker) nullTest(t *pg.NullTest) (*node, error) {
	arg, err := c.expr(t.GetArg())
	if err != nil {
		return nil, err
	}
	if arg.kind == nodeRow || arg.typ.baseType().kind == KindComposite && arg.kind != nodeColumn {
		return nil, errorAt(local(t.GetLocation()), "IS NULL of a composite value is supported for columns only")
	}
	if arg.isUnknown() {
		if arg, err = c.coerce(arg, c.types.oid(oidText), contextImplicit, -1, arg.loc); err != nil {
			return nil, err
		}
	}
	return &node{
		kind: nodeNullTest, typ: c.types.oid(oidBool), loc: local(t.GetLocation()), args: []*node{arg},
		not: t.GetNulltesttype() == pg.NullTestType_IS_NOT_NULL,
	}, nil
}

func (c *checker) booleanTest(t *pg.BooleanTest) (*node, error) {
	arg, err := c.expr(t.GetArg())
	if err != nil {
		return nil, err
	}
	n := &node{kind: nodeBoolTest, typ: c.types.oid(oidBool), loc: local(t.GetLocation())}
	word := ""
	switch t.GetBooltesttype() {
	case pg.BoolTestType_IS_TRUE, pg.BoolTestType_IS_NOT_TRUE:
		n.test, word = testTrue, "TRUE"
	case pg.BoolTestType_IS_FALSE, pg.BoolTestType_IS_NOT_FALSE:
		n.test, word = testFalse, "FALSE"
	default:
		n.test, word = testUnknown, "UNKNOWN"
	}
	switch t.GetBooltesttype() {
	case pg.BoolTestType_IS_NOT_TRUE, pg.BoolTestType_IS_NOT_FALSE, pg.BoolTestType_IS_NOT_UNKNOWN:
		n.not = true
		word = "NOT " + word
	default:
	}
	if arg, err = c.toBool(arg, "IS "+word); err != nil {
		return nil, err
	}
	n.args = []*node{arg}
	return n, nil
}

// collate applies COLLATE, for the collations whose order is known.
func (c *checker) collate(k *pg.CollateClause) (*node, error) {
	loc := local(k.GetLocation())
	arg, err := c.expr(k.GetArg())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range k.GetCollname() {
		names = append(names, s.GetString_().GetSval())
	}
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	coll, ok := collationNamed(strings.Join(names, "."))
	if !ok {
		return nil, errorAt(loc, `collation %q is not supported; COLLATE "C" is`, strings.Join(names, "."))
	}
	if arg.isUnknown() {
		if arg, err = c.coerce(arg, c.types.oid(oidText), contextImplicit, -1, arg.loc); err != nil {
			return nil, err
		}
	}
	if !arg.typ.collatable {
		return nil, errorAt(loc, "collations are not supported by type %s", arg.typ)
	}
	return &node{kind: nodeCollate, typ: arg.typ, loc: loc, args: []*node{arg}, coll: collation{collExplicit, coll}}, nil
}
