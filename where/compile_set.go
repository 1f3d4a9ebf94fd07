package where

import (
	"slices"
	"sort"

	"github.com/shapeserver/shapeserver/changes"
)

// compileAnyAll compiles "x op ANY (array)": with a constant array and = or <> as a look-up in a sorted list.
func compileAnyAll(n *node) test {
	x, k := compile(n.args[0]), n.args[1]
	apply := compileApply2(n)
	all := n.all
	if k.isConst() && k.val.st == isSet {
		if b := builtins[n.fn.key]; b.order == orderEQ && !all || b.order == orderNE && all {
			if m := compileMember(n, x, b); m != nil {
				return m
			}
		}
	}
	arr := compile(k)
	return func(row changes.Row) Tri {
		v, a := x(row), arr(row)
		if v.st == isFailed {
			return Failed
		}
		if a.st != isSet {
			return a.tri()
		}
		out := triOf(all)
		for _, e := range a.a.elems {
			switch t := strict2(apply, v, e).tri(); t {
			case Failed:
				return Failed
			case Unknown:
				out = Unknown
			case True:
				if !all {
					return True
				}
			case False:
				if all {
					return False
				}
			}
		}
		return out
	}
}

// smallList is up to how many members a list is searched from the left.
const smallList = 8

func compileMember(n *node, x eval, b *builtin) test {
	compare := b.comparator(n)
	elems := slices.Clone(n.args[1].val.a.elems)
	total := len(elems)
	elems = slices.DeleteFunc(elems, func(v value) bool { return v.st == isNull })
	hasNull := len(elems) < total
	for _, e := range elems {
		if e.b != nil && e.i == -1 {
			return nil
		}
	}
	slices.SortFunc(elems, compare)
	found, missing := True, False
	if n.all {
		found, missing = False, True
	}
	if total == 0 {
		return func(row changes.Row) Tri {
			if x(row).st == isFailed {
				return Failed
			}
			return missing
		}
	}
	if hasNull {
		missing = Unknown
	}
	return func(row changes.Row) Tri {
		v := x(row)
		if v.st != isSet {
			return v.tri()
		}
		if v.b != nil && v.i == -1 {
			return missing // an enum label newer than the clause is not in its list
		}
		if len(elems) <= smallList {
			for i := range elems {
				if compare(elems[i], v) == 0 {
					return found
				}
			}
			return missing
		}
		i := sort.Search(len(elems), func(i int) bool { return compare(elems[i], v) >= 0 })
		if i < len(elems) && compare(elems[i], v) == 0 {
			return found
		}
		return missing
	}
}
