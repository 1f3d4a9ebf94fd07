package where

import (
	"github.com/shapeserver/shapeserver/changes"
)

// onRange builds a strict function of ranges, given what its first range or multirange is made of.
func onRange(f func(r *rangeType, args []value) value) func(*node) eval {
	return func(n *node) eval {
		r := rangeOfArgs(n)
		args := compileAll(n.args)
		return func(row changes.Row) value {
			vals := make([]value, len(args))
			null := false
			for i, a := range args {
				if vals[i] = a(row); vals[i].st == isFailed {
					return failedValue
				}
				null = null || vals[i].st == isNull
			}
			if null {
				return nullValue
			}
			return f(r, vals)
		}
	}
}

// rangeOfArgs describes the ranges a call is about: those of an argument, else those of the result.
func rangeOfArgs(n *node) *rangeType {
	for _, a := range n.args {
		if k := a.typ.baseType().kind; k == KindRange || k == KindMultirng {
			return rangeOf(a.typ)
		}
	}
	return rangeOf(n.typ)
}

func registerRanges() {
	for _, o := range orders {
		register("range_"+o.suffix, &builtin{order: o.order, buildTest: buildComparison})
		register("multirange_"+o.suffix, &builtin{order: o.order, buildTest: buildComparison})
	}
	for name, holds := range relations {
		// The functions for multiranges are named after the types of their arguments, those for ranges are not.
		for _, form := range []struct {
			key            string
			multi1, multi2 bool
		}{
			{"range_" + name, false, false},
			{"range_" + name + "_multirange", false, true},
			{"multirange_" + name + "_range", true, false},
			{"multirange_" + name + "_multirange", true, true},
		} {
			register(form.key, &builtin{build: onRange(func(r *rangeType, a []value) value {
				return boolValue(holds(r, a[0], a[1], form.multi1, form.multi2))
			})})
			if name != "contains" {
				continue
			}
			key := map[string]string{
				"range_contains":                 "range_contained_by",
				"range_contains_multirange":      "multirange_contained_by_range",
				"multirange_contains_range":      "range_contained_by_multirange",
				"multirange_contains_multirange": "multirange_contained_by_multirange",
			}[form.key]
			register(key, &builtin{build: onRange(func(r *rangeType, a []value) value {
				return boolValue(holds(r, a[1], a[0], form.multi1, form.multi2))
			})})
		}
	}
	containsElem := func(r *rangeType, v, elem value, multi bool) value {
		for _, p := range parts(v, multi) {
			if r.containsValue(p, elem) {
				return boolValue(true)
			}
		}
		return boolValue(false)
	}
	for kind, multi := range map[string]bool{"range": false, "multirange": true} {
		register(kind+"_contains_elem", &builtin{build: onRange(func(r *rangeType, a []value) value { return containsElem(r, a[0], a[1], multi) })})
		register("elem_contained_by_"+kind, &builtin{build: onRange(func(r *rangeType, a []value) value { return containsElem(r, a[1], a[0], multi) })})
		registerEnds(kind, multi)
	}
	for key, f := range map[string]func(r *rangeType, a, b value) value{
		"range_union": (*rangeType).union, "range_intersect": (*rangeType).intersect, "range_minus": (*rangeType).minus, "range_merge": (*rangeType).span,
		"multirange_union": func(r *rangeType, a, b value) value {
			return r.canonical(append(append([]value{}, a.a.elems...), b.a.elems...))
		},
		"multirange_intersect": func(r *rangeType, a, b value) value { return r.intersectAll(a.a.elems, b.a.elems) },
		"multirange_minus":     func(r *rangeType, a, b value) value { return r.minusAll(a.a.elems, b.a.elems) },
	} {
		register(key, &builtin{build: onRange(func(r *rangeType, a []value) value { return f(r, a[0], a[1]) })})
	}
	register("range_merge_from_multirange", &builtin{build: onRange(func(r *rangeType, a []value) value {
		lower, upper, ok := ends(a[0], true)
		if !ok {
			return emptyRange()
		}
		return r.build(lower, upper)
	})})
	for _, key := range []string{"range_contains_elem", "elem_contained_by_range"} {
		builtins[key].checkFolded = definiteRange
	}
	registerRangeConstructors()
}

// definiteRange refuses to look for a value in a constant range that has none or all: since Postgres 17 the planner
// takes that for false or true even where the value is NULL, before it is NULL then.
func definiteRange(n *node) error {
	for _, a := range n.args {
		if a.isConst() && a.typ.baseType().kind == KindRange && a.val.st == isSet && (isEmptyRange(a.val) || a.val.i == lowerInf|upperInf) {
			return errorAt(max(n.loc, 0), "%s with a range that is empty or has no bounds is not supported: releases of Postgres differ over NULL; write IS NOT NULL", n.fn.name)
		}
	}
	return nil
}

// registerEnds adds what asks for an end of a range or multirange.
func registerEnds(kind string, multi bool) {
	side := func(v value, upper bool) (bound, bool) {
		l, u, ok := ends(v, multi)
		if upper {
			return u, ok
		}
		return l, ok
	}
	register(kind+"_empty", &builtin{f1: func(v value) value {
		_, _, ok := ends(v, multi)
		return boolValue(!ok)
	}})
	for word, upper := range map[string]bool{"lower": false, "upper": true} {
		register(kind+"_"+word, &builtin{f1: func(v value) value {
			if b, ok := side(v, upper); ok && !b.inf {
				return b.val
			}
			return nullValue
		}})
		register(kind+"_"+word+"_inc", &builtin{f1: func(v value) value {
			b, ok := side(v, upper)
			return boolValue(ok && b.inc)
		}})
		register(kind+"_"+word+"_inf", &builtin{f1: func(v value) value {
			b, ok := side(v, upper)
			return boolValue(ok && b.inf)
		}})
	}
}

func registerRangeConstructors() {
	for _, key := range []string{"range_constructor2", "range_constructor3"} {
		register(key, &builtin{build: buildRange})
	}
	// A range becomes a multirange of it without knowing its type; this is a cast as well.
	register("multirange_constructor1", &builtin{f1: func(v value) value { return value{st: isSet, a: &array{elems: parts(v, false)}} }})
	for _, key := range []string{"multirange_constructor0", "multirange_constructor2"} {
		register(key, &builtin{check: rangesOnly, build: buildMultirange})
	}
}

// buildMultirange is int4multirange(range, …) and its like, which fail where one of the ranges is NULL.
func buildMultirange(n *node) eval {
	r := rangeOf(n.typ)
	args := compileAll(n.args)
	return func(row changes.Row) value {
		ranges := make([]value, len(args))
		for i, a := range args {
			if ranges[i] = a(row); ranges[i].st != isSet {
				return failedValue
			}
		}
		return r.canonical(ranges)
	}
}

// rangesOnly refuses an array in the place of the ranges that a multirange is made of.
func rangesOnly(n *node) error {
	for _, a := range n.args {
		if a.typ.baseType().kind != KindRange {
			return errorAt(n.loc, "unknown or unsupported function %s", signature(n.fn.name, n.args))
		}
	}
	return nil
}

// buildRange is int4range(lower, upper [, bounds]) and its like: NULL is no bound, and without bounds they are "[)".
func buildRange(n *node) eval {
	r := rangeOf(n.typ)
	args := compileAll(n.args)
	return func(row changes.Row) value {
		var vals [3]value
		vals[2] = bytesValue([]byte("[)"))
		if !evalAll(args, row, vals[:]) {
			return failedValue
		}
		form := vals[2]
		if form.st == isNull || len(form.b) != 2 || form.b[0] != '[' && form.b[0] != '(' || form.b[1] != ']' && form.b[1] != ')' {
			return failedValue
		}
		return r.build(
			bound{val: vals[0], inf: vals[0].st == isNull, inc: form.b[0] == '[', lower: true},
			bound{val: vals[1], inf: vals[1].st == isNull, inc: form.b[1] == ']'},
		)
	}
}
