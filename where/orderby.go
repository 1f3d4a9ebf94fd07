package where

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
)

// orderWrapper makes a statement of an ORDER BY list.
const orderWrapper = "SELECT 1 ORDER BY "

const (
	// MaxOrderColumns is how many different columns an ORDER BY list may have.
	MaxOrderColumns = 100
	// orderDepth is how deep the parse tree of a list may be: a column in parentheses needs little.
	orderDepth = 50
)

// OrderBy is a checked ORDER BY list: columns, each with a direction, a place for NULLs and perhaps a collation. It is
// immutable.
type OrderBy struct{ keys []orderKey }

type orderKey struct {
	column    string // as the catalogue spells it
	collation string // of pg_catalog; "" for the column's own
	suffix    string // " DESC", " NULLS FIRST", …
}

// ParseOrderBy checks the text of an ORDER BY list against the columns of a table. Only columns can be ordered by:
// expressions, parameters, positions in the select list, USING and comments are refused, as is whatever follows the list.
// The error is an *Error about "order_by", whose locations are byte offsets in text.
func ParseOrderBy(text string, scope Scope) (*OrderBy, error) {
	list, err := parseOrderList(text)
	if err != nil {
		return nil, err
	}
	c := newChecker(scope, nil)
	o := &OrderBy{}
	for _, n := range list {
		k, err := c.orderKey(n.GetSortBy())
		if err != nil {
			return nil, err
		}
		// A column that comes again decides nothing any more.
		if slices.ContainsFunc(o.keys, func(had orderKey) bool { return had.column == k.column && had.collation == k.collation }) {
			continue
		}
		if len(o.keys) == MaxOrderColumns {
			return nil, orderError(-1, "ORDER BY has more than "+strconv.Itoa(MaxOrderColumns)+" columns")
		}
		o.keys = append(o.keys, k)
	}
	return o, nil
}

// SQL renders the list from the checked columns. Those of ties that it does not name follow at its end: with the columns
// of a unique key the order is total, so that LIMIT and OFFSET part the same rows every time.
func (o *OrderBy) SQL(ties ...string) string {
	var b strings.Builder
	for i, k := range o.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoteIdent(k.column))
		if k.collation != "" {
			b.WriteString(" COLLATE pg_catalog." + quoteIdent(k.collation))
		}
		b.WriteString(k.suffix)
	}
	for _, tie := range ties {
		// Under another collation than its own a unique column may have equals.
		if !slices.ContainsFunc(o.keys, func(k orderKey) bool { return k.column == tie && k.collation == "" }) {
			b.WriteString(", " + quoteIdent(tie))
		}
	}
	return b.String()
}

func orderError(loc int, message string) *Error {
	return &Error{Field: "order_by", Location: loc, Message: message}
}

// orderLocal turns a location in the wrapped statement into one in the client's text.
func orderLocal(loc int32) int { return max(int(loc)-len(orderWrapper), 0) }

// parseOrderList runs Postgres's parser and returns the list's SortBy nodes.
func parseOrderList(text string) ([]*pg.Node, error) {
	switch {
	case len(text) > MaxText:
		return nil, orderError(-1, "ORDER BY clause is bigger than maximum size of "+strconv.Itoa(MaxText)+" bytes")
	case !utf8.ValidString(text):
		return nil, orderError(-1, "ORDER BY clause is not valid UTF-8")
	case strings.IndexByte(text, 0) >= 0:
		return nil, orderError(-1, "ORDER BY clause contains a NUL byte")
	case strings.Count(text, "/*") > maxComments:
		return nil, orderError(-1, "comments are not allowed in ORDER BY clauses")
	}
	scan, err := pg.Scan(text)
	if err != nil {
		return nil, orderSyntaxError(err, 0)
	}
	for _, t := range scan.GetTokens() {
		switch t.GetToken() {
		case pg.Token_ASCII_59:
			return nil, orderError(-1, "Unexpected `;` in order by")
		case pg.Token_SQL_COMMENT, pg.Token_C_COMMENT:
			return nil, orderError(int(t.GetStart()), "comments are not allowed in ORDER BY clauses")
		default:
		}
	}
	var tooDeep *Error
	if errors.As(checkDepth(text, scan.GetTokens(), orderDepth), &tooDeep) {
		return nil, orderError(tooDeep.Location, "ORDER BY clause is nested too deeply")
	}
	result, err := pg.Parse(orderWrapper + text)
	if err != nil {
		return nil, orderSyntaxError(err, len(orderWrapper))
	}
	if len(result.GetStmts()) != 1 {
		return nil, orderError(-1, "Unexpected `;` in order by") // cannot be: the scanner saw none
	}
	s := result.GetStmts()[0].GetStmt().GetSelectStmt()
	if s == nil || len(s.GetSortClause()) == 0 || s.GetOp() != pg.SetOperation_SETOP_NONE || len(s.GetTargetList()) != 1 ||
		s.GetLimitCount() != nil || s.GetLimitOffset() != nil || len(s.GetLockingClause()) > 0 || s.GetWithClause() != nil ||
		len(s.GetFromClause()) > 0 || len(s.GetDistinctClause()) > 0 || s.GetIntoClause() != nil || len(s.GetValuesLists()) > 0 ||
		s.GetWhereClause() != nil || len(s.GetGroupClause()) > 0 || s.GetHavingClause() != nil || len(s.GetWindowClause()) > 0 {
		return nil, orderError(-1, "malformed query ending with SQL clauses")
	}
	return s.GetSortClause(), nil
}

// orderSyntaxError passes the parser's message on. Its position counts characters from 1; before is how many of them are
// not the client's.
func orderSyntaxError(err error, before int) error {
	var perr *parser.Error
	if !errors.As(err, &perr) {
		return orderError(-1, err.Error())
	}
	if perr.Cursorpos <= 0 {
		return orderError(-1, perr.Message)
	}
	return orderError(max(perr.Cursorpos-1-before, 0), perr.Message)
}

// orderKey checks one item of the list.
func (c *checker) orderKey(s *pg.SortBy) (orderKey, error) {
	var k orderKey
	switch s.GetSortbyDir() {
	case pg.SortByDir_SORTBY_DEFAULT, pg.SortByDir_SORTBY_ASC:
	case pg.SortByDir_SORTBY_DESC:
		k.suffix = " DESC"
	default:
		return k, orderError(nodeOrderLocation(s.GetNode()), "USING is not allowed in ORDER BY clauses")
	}
	switch s.GetSortbyNulls() {
	case pg.SortByNulls_SORTBY_NULLS_FIRST:
		k.suffix += " NULLS FIRST"
	case pg.SortByNulls_SORTBY_NULLS_LAST:
		k.suffix += " NULLS LAST"
	default:
	}
	var collate *pg.CollateClause
	item := s.GetNode()
	if x, ok := item.GetNode().(*pg.Node_CollateClause); ok {
		collate, item = x.CollateClause, x.CollateClause.GetArg()
	}
	column, err := c.orderColumn(item)
	if err != nil {
		return k, err
	}
	k.column = c.scope.Columns[column.column].Name
	if collate != nil {
		k.collation, err = orderCollation(collate, column)
	}
	return k, err
}

// orderColumn accepts a column of the scope and nothing else.
func (c *checker) orderColumn(n *pg.Node) (*node, error) {
	switch x := n.GetNode().(type) {
	case *pg.Node_ColumnRef:
		column, err := c.columnRef(x.ColumnRef)
		var bad *Error
		if errors.As(err, &bad) {
			return nil, orderError(orderLocal(x.ColumnRef.GetLocation()), bad.Message)
		}
		return column, err
	case *pg.Node_ParamRef:
		return nil, orderError(orderLocal(x.ParamRef.GetLocation()),
			"parameter $"+strconv.Itoa(int(x.ParamRef.GetNumber()))+" is not supported in ORDER BY clauses")
	default:
		return nil, orderError(nodeOrderLocation(n), nodeName(n)+" expressions are not allowed in ORDER BY clauses")
	}
}

// nodeOrderLocation is nodeLocation for the text of an ORDER BY list.
func nodeOrderLocation(n *pg.Node) int {
	return max(nodeLocation(n)+len(wrapper)-len(orderWrapper), 0)
}

// orderCollation returns the name of the collation that an item asks for. Postgres itself says whether it has it: here
// nothing is compared, so that any will do.
func orderCollation(k *pg.CollateClause, column *node) (string, error) {
	loc := orderLocal(k.GetLocation())
	var names []string
	for _, s := range k.GetCollname() {
		names = append(names, s.GetString_().GetSval())
	}
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	if len(names) != 1 || names[0] == "" {
		return "", orderError(loc, `collation "`+strings.Join(names, ".")+`" is not supported, only those of pg_catalog are`)
	}
	if !column.typ.collatable && column.coll.strength == collNone {
		return "", orderError(loc, "collations are not supported by type "+column.typ.String())
	}
	return names[0], nil
}
