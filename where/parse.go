package where

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
)

// MaxText is how long the text of a clause may be, in bytes (protocol.md §8.1). Parameters have no such limit.
const MaxText = 65536

// wrapper makes a statement of the text. Locations of syntax errors count from its beginning, all others from the
// text's (protocol.md §8.4).
const wrapper = "SELECT 1 WHERE "

// Parse checks a clause against the columns of a table. params holds the values of $1, $2, … under "1", "2", …; nil
// when there are none. The error is an *Error.
func Parse(text string, params map[string]string, scope Scope) (*Expr, error) {
	if err := checkParams(params); err != nil {
		return nil, err
	}
	return parse(text, params, scope, limits{text: MaxText, depth: maxDepth, comments: maxComments})
}

// Restore reads back what SQL returned, on a table that may have changed since; it has no parameters and, for texts
// that parameters made long, no limit of length.
func Restore(sql string, scope Scope) (*Expr, error) {
	return parse(sql, nil, scope, limits{text: math.MaxInt, depth: restoreDepth, comments: math.MaxInt})
}

// limits bounds the text of a clause in bytes, and the depth of its tree.
type limits struct{ text, depth, comments int }

// maxComments bounds how often "/*" may occur, since Postgres's lexer looks at all the operator characters behind
// each one: a text made of nothing else would keep it busy for seconds.
const maxComments = 500

func parse(text string, params map[string]string, scope Scope, lim limits) (*Expr, error) {
	tree, err := parseTree(text, lim)
	if err != nil {
		return nil, err
	}
	c := newChecker(scope, params)
	n, err := c.expr(tree)
	if err != nil {
		return nil, err
	}
	switch {
	case n.isUnknown() && (n.val.st == isNull || n.param != 0):
		n, err = c.coerce(n, c.types.oid(oidBool), contextImplicit, -1, n.loc)
	case !n.typ.baseType().is(oidBool):
		err = &Error{Field: "where", Location: -1, Message: "WHERE clause must return a boolean"}
	}
	if err != nil {
		return nil, err
	}
	if n, err = fold(n); err != nil {
		return nil, err
	}
	columns := map[int]bool{}
	n.walk(func(n *node) {
		if n.kind == nodeColumn {
			columns[n.column] = true
		}
	})
	return &Expr{
		sql: render(n, scope), columns: slices.Sorted(maps.Keys(columns)), keys: keysOf(n), test: compileTest(n),
	}, nil
}

// checkParams checks the keys and texts of parameters (protocol.md §2.2).
func checkParams(params map[string]string) error {
	bad := func(message string) error { return &Error{Field: "params", Location: -1, Message: message} }
	for k := range params {
		if k == "" || !allDigits(k) {
			return bad("Parameters can only use numbers as keys")
		}
	}
	for i := range len(params) {
		k := strconv.Itoa(i + 1)
		v, ok := params[k]
		switch {
		case !ok:
			return bad("Parameters must be numbered sequentially, starting from 1")
		case !utf8.ValidString(v):
			return bad("parameter $" + k + " is not valid UTF-8")
		case strings.IndexByte(v, 0) >= 0:
			return bad("parameter $" + k + " contains a NUL byte")
		}
	}
	return nil
}

// parseTree runs Postgres's parser and returns the expression after WHERE.
func parseTree(text string, lim limits) (*pg.Node, error) {
	whole := func(message string) error { return &Error{Field: "where", Location: -1, Message: message} }
	switch {
	case len(text) > lim.text:
		return nil, whole("WHERE clause is bigger than maximum size of " + strconv.Itoa(lim.text) + " bytes")
	case !utf8.ValidString(text):
		return nil, whole("WHERE clause is not valid UTF-8")
	case strings.IndexByte(text, 0) >= 0:
		return nil, whole("WHERE clause contains a NUL byte")
	}
	if strings.Count(text, "/*") > lim.comments {
		return nil, whole("WHERE clause has more than " + strconv.Itoa(lim.comments) + " comments")
	}
	scan, err := pg.Scan(text)
	if err != nil {
		return nil, syntaxError(text, err, len(wrapper))
	}
	if err := checkDepth(text, scan.GetTokens(), lim.depth); err != nil {
		return nil, err
	}
	result, err := pg.Parse(wrapper + text)
	if err != nil {
		return nil, syntaxError(wrapper+text, err, 0)
	}
	if len(result.GetStmts()) != 1 {
		return nil, whole(`unescaped ";" causing statement split`)
	}
	s := result.GetStmts()[0].GetStmt().GetSelectStmt()
	if s == nil || s.GetOp() != pg.SetOperation_SETOP_NONE || s.GetWhereClause() == nil || len(s.GetTargetList()) != 1 ||
		len(s.GetGroupClause()) > 0 || s.GetHavingClause() != nil || len(s.GetWindowClause()) > 0 || len(s.GetSortClause()) > 0 ||
		s.GetLimitCount() != nil || s.GetLimitOffset() != nil || len(s.GetLockingClause()) > 0 || s.GetWithClause() != nil ||
		len(s.GetFromClause()) > 0 || len(s.GetDistinctClause()) > 0 || s.GetIntoClause() != nil || len(s.GetValuesLists()) > 0 {
		return nil, whole("malformed query ending with SQL clauses")
	}
	return s.GetWhereClause(), nil
}

// syntaxError passes the parser's message on. Its position counts characters from 1; add is what the statement has
// before the text that was scanned.
func syntaxError(sql string, err error, add int) error {
	var perr *parser.Error
	if !errors.As(err, &perr) {
		return &Error{Field: "where", Location: -1, Message: err.Error()}
	}
	if perr.Cursorpos <= 0 {
		return &Error{Field: "where", Location: -1, Message: perr.Message}
	}
	return &Error{Field: "where", Location: min(perr.Cursorpos-1, len(sql)) + add, Message: perr.Message}
}
