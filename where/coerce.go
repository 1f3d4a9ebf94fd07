package where

// castContext is what a conversion is wanted for; the stronger include the weaker (pg_cast.castcontext).
type castContext uint8

const (
	contextImplicit castContext = iota
	contextAssignment
	contextExplicit
)

// pathway finds how values of one type become another's ("Type Conversion" in the manual; pg_cast). ok is false when
// Postgres has no such conversion in this context.
func (s *typeSet) pathway(from, to *typ, ctx castContext) (method castMethod, key string, ok bool) {
	from, to = from.baseType(), to.baseType()
	if from.oid == to.oid {
		return castRelabel, "", true
	}
	if c, found := s.cat.casts[castPair{from.oid, to.oid}]; found {
		allowed := c.context == 'i' || c.context == 'a' && ctx >= contextAssignment || ctx == contextExplicit
		switch {
		case !allowed:
			return 0, "", false
		case c.method == 'f':
			return castFunc, c.key, true
		case c.method == 'i':
			return castText, "", true
		default:
			return castRelabel, "", true
		}
	}
	if from.kind == KindArray && to.kind == KindArray && !to.is(oidOidvector) && !to.is(oidInt2vector) {
		m, k, ok := s.pathway(from.elem, to.elem, ctx)
		switch {
		case !ok:
		case m == castText:
			return castText, "", true
		default:
			return castArray, k, true
		}
	}
	if ctx >= contextAssignment && to.category == 'S' || ctx == contextExplicit && from.category == 'S' {
		return castText, "", true
	}
	return 0, "", false
}

// canCoerce reports whether every actual argument can become the declared one implicitly.
func (s *typeSet) canCoerce(from, to []*typ) bool {
	poly := false
	for i, f := range from {
		t := to[i]
		switch {
		case f.oid == t.oid, t.is(oidAny):
		case isPolymorphic(t):
			poly = true
		case f.is(oidUnknown):
		default:
			if _, _, ok := s.pathway(f, t, contextImplicit); !ok {
				return false
			}
		}
	}
	if !poly {
		return true
	}
	_, ok := s.resolvePolymorphic(from, to)
	return ok
}

func isPolymorphic(t *typ) bool {
	switch t.oid {
	case oidAnyElement, oidAnyArray, oidAnyNonArray, oidAnyEnum, oidAnyRange, oidAnyMultirange, oidAnyCompatible, oidAnyCompatibleArray, oidAnyCompatibleNonArray:
		return true
	}
	return t.kind == KindPseudo && len(t.name) > 3 && t.name[:3] == "any" && !t.is(oidAny)
}

// polymorphic is what the polymorphic types of one signature stand for; nil where nothing decides.
type polymorphic struct{ elem, array, rng, multi, compat, compatArray *typ }

func (p polymorphic) of(t *typ) *typ {
	switch t.oid {
	case oidAnyElement, oidAnyNonArray, oidAnyEnum:
		return p.elem
	case oidAnyArray:
		return p.array
	case oidAnyRange:
		return p.rng
	case oidAnyMultirange:
		return p.multi
	case oidAnyCompatible, oidAnyCompatibleNonArray:
		return p.compat
	case oidAnyCompatibleArray:
		return p.compatArray
	default:
		return t
	}
}

// resolvePolymorphic decides what the polymorphic types of a signature are for these arguments (manual,
// "Polymorphic Types"). Of the range families the compatible ones are not resolved: no function that is evaluated has
// them.
func (s *typeSet) resolvePolymorphic(actual, declared []*typ) (polymorphic, bool) {
	var p polymorphic
	var compat []*typ
	nonArray, enum, wantCompatArray := false, false, false
	for i, d := range declared {
		a := actual[i]
		switch d.oid {
		case oidAnyElement, oidAnyNonArray, oidAnyEnum:
			nonArray = nonArray || d.is(oidAnyNonArray)
			enum = enum || d.is(oidAnyEnum)
			if a.is(oidUnknown) {
				continue
			}
			if p.elem != nil && p.elem.oid != a.oid {
				return p, false
			}
			p.elem = a
		case oidAnyArray:
			if a.is(oidUnknown) {
				continue
			}
			a = a.baseType()
			if a.kind != KindArray || p.array != nil && p.array.oid != a.oid {
				return p, false
			}
			p.array = a
		case oidAnyRange:
			if a.is(oidUnknown) {
				continue
			}
			a = a.baseType()
			if a.kind != KindRange || p.rng != nil && p.rng.oid != a.oid {
				return p, false
			}
			p.rng = a
		case oidAnyMultirange:
			if a.is(oidUnknown) {
				continue
			}
			a = a.baseType()
			if a.kind != KindMultirng || p.multi != nil && p.multi.oid != a.oid {
				return p, false
			}
			p.multi = a
		case oidAnyCompatible, oidAnyCompatibleNonArray:
			if !a.is(oidUnknown) { // a domain stays one beside a literal
				compat = append(compat, a)
			}
		case oidAnyCompatibleArray:
			wantCompatArray = true
			if a.is(oidUnknown) {
				continue
			}
			if a = a.baseType(); a.kind != KindArray {
				return p, false
			}
			compat = append(compat, a.elem)
		default:
			if isPolymorphic(d) && !a.is(oidUnknown) && d.kind == KindPseudo {
				return p, false // a range or multirange
			}
		}
	}
	if !p.resolveRanges() {
		return p, false
	}
	if p.array != nil {
		if p.elem != nil && p.elem.oid != p.array.elem.oid {
			return p, false
		}
		p.elem = p.array.elem
	} else if p.elem != nil {
		p.array = s.arrayOf(p.elem)
	}
	if nonArray && p.elem != nil && p.elem.isArray() || enum && p.elem != nil && p.elem.baseType().kind != KindEnum {
		return p, false
	}
	if len(compat) > 0 {
		var ok bool
		if p.compat, ok = s.commonOf(compat); !ok {
			return p, false
		}
	}
	if p.compat != nil {
		p.compatArray = s.arrayOf(p.compat)
		if wantCompatArray && p.compatArray == nil {
			return p, false
		}
	}
	return p, true
}

// resolveRanges makes a range, its multirange and its element fit each other.
func (p *polymorphic) resolveRanges() bool {
	switch {
	case p.multi != nil && p.multi.rng == nil: // made by a user, and not evaluated
		return p.rng == nil && p.elem == nil
	case p.multi != nil:
		if p.rng != nil && p.rng.oid != p.multi.rng.oid {
			return false
		}
		p.rng = p.multi.rng
	case p.rng != nil:
		p.multi = p.rng.multi
	default:
		return true
	}
	if p.elem != nil && (p.rng.sub == nil || p.elem.oid != p.rng.sub.oid) {
		return false
	}
	p.elem = p.rng.sub
	return true
}

// commonOf is select_common_type: the type that values of all these types take in a CASE, an array or a list
// (manual, "UNION, CASE, and Related Constructs"). All unknown gives unknown; ok is false when two do not fit.
func (s *typeSet) commonOf(types []*typ) (*typ, bool) {
	allSame := true
	for _, t := range types {
		if t.oid != types[0].oid {
			allSame = false
		}
	}
	if allSame {
		return types[0], true
	}
	var p *typ
	for _, t := range types {
		t = t.baseType()
		switch {
		case t.is(oidUnknown), p != nil && t.oid == p.oid:
			continue
		case p == nil:
			p = t
			continue
		case t.category != p.category:
			return nil, false
		}
		if p.preferred {
			continue
		}
		_, _, forth := s.pathway(p, t, contextImplicit)
		_, _, back := s.pathway(t, p, contextImplicit)
		if forth && !back {
			p = t
		}
	}
	for _, t := range types {
		if t.is(oidUnknown) {
			continue
		}
		if _, _, ok := s.pathway(t, p, contextImplicit); !ok {
			return nil, false
		}
	}
	return p, true
}
