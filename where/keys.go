package where

import (
	"slices"
	"strings"
)

// Key is a condition that every matching row fulfils: the column's text, in the form Postgres's output function
// writes, is one of Values. Routing finds the clauses that may match a row by it.
type Key struct {
	Column int      // position in Scope.Columns
	Values []string // sorted, without duplicates; empty when no row can match
}

// Keys returns the conditions of this kind that follow from the clause; none when nothing follows. They come from
// "=", IN and = ANY under AND, and from OR where every side has a Key for the same column.
func (e *Expr) Keys() []Key { return e.keys }

func keysOf(n *node) []Key {
	switch n.kind {
	case nodeAnd:
		var out []Key
		for _, a := range n.args {
			for _, k := range keysOf(a) {
				i := slices.IndexFunc(out, func(o Key) bool { return o.Column == k.Column })
				if i < 0 {
					out = append(out, k)
					continue
				}
				out[i].Values = slices.DeleteFunc(out[i].Values, func(v string) bool {
					_, both := slices.BinarySearch(k.Values, v)
					return !both
				})
			}
		}
		slices.SortFunc(out, func(a, b Key) int { return a.Column - b.Column })
		return out
	case nodeOr:
		out := keysOf(n.args[0])
		for _, a := range n.args[1:] {
			next := keysOf(a)
			out = slices.DeleteFunc(out, func(k Key) bool {
				return !slices.ContainsFunc(next, func(o Key) bool { return o.Column == k.Column })
			})
			for i := range out {
				for _, k := range next {
					if k.Column == out[i].Column {
						out[i].Values = append(out[i].Values, k.Values...)
					}
				}
			}
		}
		for i := range out {
			out[i].Values = sortedSet(out[i].Values)
		}
		return out
	case nodeOp:
		if len(n.args) == 2 && builtins[n.fn.key].order == orderEQ {
			return append(keyOf(n.args[0], n.args[1]), keyOf(n.args[1], n.args[0])...)
		}
	case nodeAnyAll:
		if builtins[n.fn.key].order == orderEQ && !n.all {
			return keyOf(n.args[0], n.args[1])
		}
	case nodeColumn:
		if n.typ.baseType().is(oidBool) {
			return []Key{{n.column, []string{"t"}}}
		}
	case nodeNot:
		if a := n.args[0]; a.kind == nodeColumn {
			return []Key{{a.column, []string{"f"}}}
		}
	default:
	}
	return nil
}

// keyOf is the key of "column = constant", or "column = ANY (constant array)".
func keyOf(col, k *node) []Key {
	for col.kind == nodeCast && col.method == castRelabel && col.typmod < 0 || col.kind == nodeCollate {
		col = col.args[0]
	}
	if col.kind != nodeColumn || !k.isConst() || k.val.st != isSet || !keyable(col.typ.baseType()) {
		return nil
	}
	kt := k.typ.baseType()
	values := []value{k.val}
	if kt.kind == KindArray {
		kt, values = kt.elem, k.val.a.elems
	}
	if !sameText(col.typ.baseType(), kt) {
		return nil
	}
	output := codecOf(kt).output
	key := Key{Column: col.column, Values: []string{}}
	for _, v := range values {
		if v.st == isSet {
			key.Values = append(key.Values, strings.Clone(output(v)))
		}
	}
	key.Values = sortedSet(key.Values)
	return []Key{key}
}

// keyable reports whether values of t are equal exactly when their texts are.
func keyable(t *typ) bool {
	if t.kind == KindEnum {
		return true
	}
	switch t.oid {
	case oidBool, oidInt2, oidInt4, oidInt8, oidOid, oidUUID, oidDate, oidText, oidVarchar, oidName:
		return true
	default:
		return false
	}
}

// sameText reports whether equal values of two keyable types have equal texts.
func sameText(a, b *typ) bool {
	return keyable(b) && (a.oid == b.oid || a.category == 'N' && b.category == 'N' || a.category == 'S' && b.category == 'S')
}

func sortedSet(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}
