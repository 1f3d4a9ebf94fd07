package where

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// renderer writes a typed tree as SQL that Postgres reads back as the same tree: everything in parentheses, names
// quoted where needed, values as typed literals. Nothing of it is copied from a client's text.
type renderer struct {
	strings.Builder
	scope Scope
}

func render(n *node, scope Scope) string {
	r := renderer{scope: scope}
	r.node(n)
	return r.String()
}

func (r *renderer) write(parts ...string) {
	for _, p := range parts {
		r.WriteString(p)
	}
}

func (r *renderer) list(args []*node, sep string) {
	for i, a := range args {
		if i > 0 {
			r.WriteString(sep)
		}
		r.node(a)
	}
}

func (r *renderer) node(n *node) {
	switch n.kind {
	case nodeConst:
		r.constant(n)
	case nodeColumn:
		r.WriteString(quoteIdent(r.scope.Columns[n.column].Name))
	case nodeOp:
		r.WriteByte('(')
		if len(n.args) == 1 {
			r.write(n.fn.name, " ")
			r.node(n.args[0])
		} else {
			r.list(n.args, " "+n.fn.name+" ")
		}
		r.WriteByte(')')
	case nodeFunc:
		r.write("pg_catalog.", quoteIdent(n.fn.name), "(")
		r.list(n.args, ", ")
		r.WriteByte(')')
	case nodeCast:
		if n.implicit {
			r.node(n.args[0])
			return
		}
		r.WriteByte('(')
		r.node(n.args[0])
		r.write(")::", typeSQL(n.typ, n.typmod))
	case nodeAnd, nodeOr:
		sep := " AND "
		if n.kind == nodeOr {
			sep = " OR "
		}
		r.WriteByte('(')
		r.list(n.args, sep)
		r.WriteByte(')')
	case nodeNot:
		r.WriteString("(NOT ")
		r.node(n.args[0])
		r.WriteByte(')')
	case nodeNullTest:
		r.postfix(n, "NULL")
	case nodeBoolTest:
		r.postfix(n, [...]string{testTrue: "TRUE", testFalse: "FALSE", testUnknown: "UNKNOWN"}[n.test])
	case nodeDistinct:
		r.WriteByte('(')
		r.node(n.args[0])
		r.write(" IS ", notWord(n.not), "DISTINCT FROM ")
		r.node(n.args[1])
		r.WriteByte(')')
	case nodeAnyAll:
		word := " ANY ("
		if n.all {
			word = " ALL ("
		}
		r.WriteByte('(')
		r.node(n.args[0])
		r.write(" ", n.fn.name, word)
		r.node(n.args[1])
		r.WriteString("))")
	default:
		r.construct(n)
	}
}

// construct writes what looks like a call or has a syntax of its own.
func (r *renderer) construct(n *node) {
	switch n.kind {
	case nodeArray:
		r.WriteString("(ARRAY[")
		r.list(n.args, ", ")
		r.write("])::", typeSQL(n.typ, -1))
	case nodeCase:
		r.WriteString("CASE")
		last := len(n.args) - 1
		for i := 0; i < last; i += 2 {
			r.WriteString(" WHEN ")
			r.node(n.args[i])
			r.WriteString(" THEN ")
			r.node(n.args[i+1])
		}
		r.WriteString(" ELSE ")
		r.node(n.args[last])
		r.WriteString(" END")
	case nodeCoalesce, nodeNullIf, nodeGreatest, nodeLeast:
		r.write(map[nodeKind]string{
			nodeCoalesce: "COALESCE(", nodeNullIf: "NULLIF(", nodeGreatest: "GREATEST(", nodeLeast: "LEAST(",
		}[n.kind])
		r.list(n.args, ", ")
		r.WriteByte(')')
	case nodeCollate:
		r.WriteByte('(')
		r.node(n.args[0])
		r.write(" COLLATE ", `"`+n.coll.Name+`"`, ")")
	case nodeIndex:
		r.WriteByte('(')
		r.node(n.args[0])
		r.WriteByte(')')
		for _, a := range n.args[1:] {
			r.WriteByte('[')
			r.node(a)
			r.WriteByte(']')
		}
	case nodeSlice:
		r.slice(n)
	case nodeRowCompare:
		r.rowCompare(n)
	default:
	}
}

func (r *renderer) slice(n *node) {
	r.WriteByte('(')
	r.node(n.args[0])
	r.WriteByte(')')
	rest := n.args[1:]
	for i, written := range n.bounded {
		r.WriteByte("[:"[i%2])
		if written {
			r.node(rest[0])
			rest = rest[1:]
		}
		if i%2 == 1 {
			r.WriteByte(']')
		}
	}
}

func (r *renderer) postfix(n *node, word string) {
	r.WriteByte('(')
	r.node(n.args[0])
	r.write(" IS ", notWord(n.not), word, ")")
}

func notWord(not bool) string {
	if not {
		return "NOT "
	}
	return ""
}

// constant writes a literal as the client wrote numbers and TRUE, everything else as 'text'::type.
func (r *renderer) constant(n *node) {
	switch {
	case n.val.st == isNull:
		r.write("NULL::", typeSQL(n.typ, -1))
	case n.literal != "":
		if n.literal[0] == '-' {
			r.write("(", n.literal, ")")
			return
		}
		r.WriteString(n.literal)
	default:
		r.write(quoteLiteral(codecOf(n.typ).output(n.val)), "::", typeSQL(n.typ, -1))
	}
}

// typeSQL is a type's name as it can be written after "::".
func typeSQL(t *typ, typmod int32) string {
	if t.kind == KindArray {
		return typeSQL(t.elem, typmod) + "[]"
	}
	name := t.name
	if t.schema != "pg_catalog" {
		return quoteIdent(t.schema) + "." + quoteIdent(name)
	}
	if t.is(oidChar) || t.is(oidBit) {
		return `"` + name + `"` // without quotes char is bpchar, and bit is bit(1)
	}
	return name + typmodSQL(t, typmod)
}

// quoteLiteral quotes a text so that it means the same whatever standard_conforming_strings is.
func quoteLiteral(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(q, `\`) {
		return "E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}

// quoteIdent quotes a name unless it is plainly one word that is no key word in any release.
func quoteIdent(s string) string {
	plain := s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] == '_')
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_'
	}
	if plain {
		if scan, err := pg.Scan(s); err == nil && len(scan.GetTokens()) == 1 && scan.GetTokens()[0].GetKeywordKind() == pg.KeywordKind_NO_KEYWORD {
			return s
		}
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}
