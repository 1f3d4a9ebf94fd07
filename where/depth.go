package where

import pg "github.com/pganalyze/pg_query_go/v6"

// maxDepth is how deep the tree of a clause may be. The parser's C code and everything after it recurse over the
// tree; at this depth they need a small part of a thread's stack.
const maxDepth = 300

// restoreDepth is the same for rendered clauses, in which parentheses and casts are written out.
const restoreDepth = 5 * maxDepth

// checkDepth bounds the depth of the parse tree from its tokens, before the parser builds it. Every token that can
// put a node on top of another counts one for the level of parentheses it stands in; AND, OR and commas begin a new
// operand, since the grammar makes flat lists of those. It also finds semicolons, which only split statements.
func checkDepth(text string, tokens []*pg.ScanToken, limit int) error {
	levels := []int{0}
	depth := 0
	at := func(t *pg.ScanToken) int { return min(int(t.GetStart()), len(text)) }
	for _, t := range tokens {
		top := len(levels) - 1
		switch t.GetToken() {
		case pg.Token_ASCII_59:
			return &Error{Field: "where", Location: -1, Message: `unescaped ";" causing statement split`}
		case pg.Token_ASCII_40, pg.Token_ASCII_91, pg.Token_CASE: // ( [ CASE
			levels = append(levels, 0)
			depth++
		case pg.Token_ASCII_41, pg.Token_ASCII_93, pg.Token_END_P: // ) ] END
			if top > 0 {
				depth -= levels[top]
				levels = levels[:top]
				// What follows a closed level can stand on top of it, so that it counts like an operator.
				levels[top-1]++
			}
		case pg.Token_ASCII_44, pg.Token_AND, pg.Token_OR, pg.Token_WHEN, pg.Token_THEN, pg.Token_ELSE:
			depth -= levels[top]
			levels[top] = 0
		case pg.Token_IDENT, pg.Token_SCONST, pg.Token_ICONST, pg.Token_FCONST, pg.Token_PARAM, pg.Token_SQL_COMMENT, pg.Token_C_COMMENT:
		default:
			levels[top]++
			depth++
		}
		if depth > limit {
			return errorAt(at(t), "WHERE clause is nested too deeply, %d levels are allowed", limit)
		}
	}
	return nil
}
