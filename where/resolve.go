package where

import "slices"

// candidate is a function under consideration: args are its declared types as seen by this call, variadic ones
// spread out and defaults left off.
type candidate struct {
	proc *proc
	args []*typ
}

// binaryOperator resolves "left name right" (manual, "Operator Type Resolution"). A nil proc means that there is no
// such operator for these types, or no best one.
func (s *typeSet) binaryOperator(name string, left, right *typ) *proc {
	l, r := left, right
	// An unknown operand is first taken to be what the other one is.
	wasUnknown := false
	if l.is(oidUnknown) && !r.is(oidUnknown) {
		l, wasUnknown = r, true
	} else if r.is(oidUnknown) && !l.is(oidUnknown) {
		r, wasUnknown = l, true
	}
	ops := s.cat.ops[name]
	if p := exact(ops, l, r); p != nil {
		return p
	}
	if wasUnknown && l.base != nil {
		if p := exact(ops, l.base, l.base); p != nil {
			return p
		}
	}
	return s.bestOperator(ops, []*typ{left, right})
}

// prefixOperator resolves "name operand".
func (s *typeSet) prefixOperator(name string, operand *typ) *proc {
	ops := s.cat.ops[name]
	if p := exact(ops, operand); p != nil {
		return p
	}
	return s.bestOperator(ops, []*typ{operand})
}

func exact(procs []*proc, args ...*typ) *proc {
	for _, p := range procs {
		if slices.EqualFunc(p.args, args, func(a, b *typ) bool { return a.oid == b.oid }) {
			return p
		}
	}
	return nil
}

func (s *typeSet) bestOperator(ops []*proc, args []*typ) *proc {
	var cands []candidate
	for _, p := range ops {
		if len(p.args) == len(args) {
			cands = append(cands, candidate{p, p.args})
		}
	}
	if c, ok := s.best(cands, args); ok {
		return c.proc
	}
	return nil
}

// function resolves a call by name (manual, "Function Type Resolution"). It returns the declared types the call uses.
func (s *typeSet) function(name string, args []*typ) (candidate, bool) {
	var cands []candidate
	for _, p := range s.cat.funcs[name] {
		if c, ok := p.forCall(len(args)); ok {
			cands = append(cands, c)
		}
	}
	same := func(a, b *typ) bool { return a.oid == b.oid }
	// A function that spreads its last argument gives way to one that has the same arguments without that.
	all := slices.Clone(cands)
	cands = slices.DeleteFunc(cands, func(c candidate) bool {
		return c.proc.variadic != nil && slices.ContainsFunc(all, func(o candidate) bool {
			return o.proc.variadic == nil && slices.EqualFunc(o.args, c.args, same)
		})
	})
	for _, c := range cands {
		if slices.EqualFunc(c.args, args, same) {
			return c, true
		}
	}
	return s.best(cands, args)
}

// forCall fits a function to a number of arguments.
func (p *proc) forCall(n int) (candidate, bool) {
	switch {
	case p.variadic == nil:
		return candidate{p, p.args[:min(n, len(p.args))]}, n <= len(p.args) && n >= len(p.args)-p.defaults
	case n < len(p.args):
		return candidate{}, false
	}
	args := slices.Clone(p.args[:len(p.args)-1])
	for len(args) < n {
		args = append(args, p.variadic)
	}
	return candidate{p, args}, true
}

// best keeps the candidates the arguments can be converted to and selects one of them.
func (s *typeSet) best(cands []candidate, args []*typ) (candidate, bool) {
	cands = slices.DeleteFunc(cands, func(c candidate) bool { return !s.canCoerce(args, c.args) })
	switch len(cands) {
	case 0:
		return candidate{}, false
	case 1:
		return cands[0], true
	default:
		return s.selectCandidate(cands, args)
	}
}

// selectCandidate is func_select_candidate: steps 4.a to 4.f of the manual's two "Type Resolution" sections.
func (s *typeSet) selectCandidate(cands []candidate, actual []*typ) (candidate, bool) {
	in := make([]*typ, len(actual))
	unknowns := 0
	for i, t := range actual {
		in[i] = t.baseType()
		if t.is(oidUnknown) {
			unknowns++
		}
	}
	cands = mostMatches(cands, func(c candidate) (n int) {
		for i, t := range in {
			if !t.is(oidUnknown) && c.args[i].oid == t.oid {
				n++
			}
		}
		return n
	})
	if len(cands) == 1 {
		return cands[0], true
	}
	cands = mostMatches(cands, func(c candidate) (n int) {
		for i, t := range in {
			if !t.is(oidUnknown) && (c.args[i].oid == t.oid || c.args[i].preferred && c.args[i].category == t.category) {
				n++
			}
		}
		return n
	})
	if len(cands) == 1 {
		return cands[0], true
	}
	if unknowns == 0 {
		return candidate{}, false
	}
	if left := byCategory(cands, in); len(left) == 1 {
		return left[0], true
	} else if len(left) > 0 {
		cands = left
	}
	// If all known arguments have one type, try it for the unknown ones.
	if unknowns < len(in) {
		var known *typ
		for _, t := range in {
			switch {
			case t.is(oidUnknown):
			case known == nil:
				known = t
			case known.oid != t.oid:
				return candidate{}, false
			}
		}
		same := slices.Repeat([]*typ{known}, len(in))
		fits := slices.DeleteFunc(slices.Clone(cands), func(c candidate) bool { return !s.canCoerce(same, c.args) })
		if len(fits) == 1 {
			return fits[0], true
		}
	}
	return candidate{}, false
}

func mostMatches(cands []candidate, count func(candidate) int) []candidate {
	best := 0
	var keep []candidate
	for _, c := range cands {
		switch n := count(c); {
		case n > best || keep == nil:
			best, keep = n, []candidate{c}
		case n == best:
			keep = append(keep, c)
		}
	}
	return keep
}

// byCategory decides which category each unknown argument has, string winning over everything else, and keeps the
// candidates that take it there; preferred types of the category win. It returns nil when that cannot be decided.
func byCategory(cands []candidate, in []*typ) []candidate {
	category := make([]byte, len(in))
	preferred := make([]bool, len(in))
	for i, t := range in {
		if !t.is(oidUnknown) {
			continue
		}
		conflict := false
		for _, c := range cands {
			a := c.args[i]
			switch {
			case category[i] == 0:
				category[i], preferred[i] = a.category, a.preferred
			case a.category == category[i]:
				preferred[i] = preferred[i] || a.preferred
			case a.category == 'S':
				category[i], preferred[i] = 'S', a.preferred
			default:
				conflict = true
			}
		}
		if conflict && category[i] != 'S' {
			return nil
		}
	}
	var keep []candidate
	for _, c := range cands {
		ok := true
		for i, t := range in {
			if t.is(oidUnknown) && (c.args[i].category != category[i] || preferred[i] && !c.args[i].preferred) {
				ok = false
			}
		}
		if ok {
			keep = append(keep, c)
		}
	}
	return keep
}
