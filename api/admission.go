package api

import "sync/atomic"

// admission bounds how many requests are served at once: those that may cost a snapshot, and those that read what is
// there (protocol.md §3.1). It looks at nothing but the handle, so that turning a request away costs next to nothing.
type admission struct {
	initial, existing *gate
}

// gate is one of the two limits.
type gate struct {
	kind  string
	limit int64
	held  atomic.Int64
	m     *metrics
}

func newAdmission(initial, existing int, m *metrics) admission {
	return admission{
		initial:  &gate{kind: "initial", limit: int64(initial), m: m},
		existing: &gate{kind: "existing", limit: int64(existing), m: m},
	}
}

func (g *gate) enter() bool {
	if g.held.Add(1) > g.limit {
		g.held.Add(-1)
		return false
	}
	g.m.permits.WithLabelValues(g.kind).Inc()
	return true
}

func (g *gate) leave() {
	g.held.Add(-1)
	g.m.permits.WithLabelValues(g.kind).Dec()
}

// permit is held by a request until its response is sent; release must be called once.
type permit struct{ gate *gate }

// acquire returns a permit, or the failure to answer with.
func (a *admission) acquire(existing bool) (*permit, *failure) {
	g := a.initial
	if existing {
		g = a.existing
	}
	if !g.enter() {
		g.m.rejected.WithLabelValues(g.kind).Inc()
		return nil, overloaded(g.kind, int(g.limit))
	}
	return &permit{g}, nil
}

// started turns the permit of a request whose snapshot has started into one of the other kind, which it keeps for as
// long as it reads. When there is none left it keeps the one it has.
func (a *admission) started(p *permit) {
	if p.gate == a.initial && a.existing.enter() {
		a.initial.leave()
		p.gate = a.existing
	}
}

func (p *permit) release() { p.gate.leave() }
