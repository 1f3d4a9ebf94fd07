package collector

import (
	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/where"
)

// index finds the routes that a change may concern. A change costs a look-up for each indexed column of its table and
// nothing for the shapes whose key it does not have.
type index struct {
	tables      map[uint32]*tableRoutes // by OID of the shape's table
	partitioned int                     // how many of them are partitioned
}

// tableRoutes holds the routes of one table.
type tableRoutes struct {
	oid         uint32
	partitioned bool
	all         []*route                       // without a key: every change is theirs
	byKey       map[string]map[string][]*route // column name → text of its value → routes
	count       int

	relation *changes.Relation // whose layout is in columns
	columns  map[string]int    // column name → position in relation's rows
}

func newIndex() index {
	return index{tables: make(map[uint32]*tableRoutes)}
}

// add files a route under the key its where clause requires, or among those that see every change.
func (x *index) add(r *route) {
	t := x.tables[r.def.Table.OID]
	if t == nil {
		t = &tableRoutes{oid: r.def.Table.OID, byKey: make(map[string]map[string][]*route)}
		x.tables[t.oid] = t
	}
	t.count++
	if r.def.Table.Kind == 'p' && !t.partitioned {
		t.partitioned = true
		x.partitioned++
	}
	if key, ok := routingKey(r.def); ok {
		r.keyCol, r.keys = r.def.Table.Columns[key.Column].Name, key.Values
		byValue := t.byKey[r.keyCol]
		if byValue == nil {
			byValue = make(map[string][]*route)
			t.byKey[r.keyCol] = byValue
		}
		for _, v := range key.Values {
			byValue[v] = append(byValue[v], r)
		}
		return
	}
	r.position = len(t.all)
	t.all = append(t.all, r)
}

// routingKey picks the key with the fewest values among those that the clause requires.
func routingKey(d *shape.Definition) (where.Key, bool) {
	if d.Where == nil {
		return where.Key{}, false
	}
	var best where.Key
	found := false
	for _, k := range d.Where.Keys() {
		if d.Table.Columns[k.Column].Generated {
			continue // may be missing in the stream
		}
		if !found || len(k.Values) < len(best.Values) {
			best, found = k, true
		}
	}
	return best, found
}

func (x *index) remove(r *route) {
	t := x.tables[r.def.Table.OID]
	if t == nil {
		return
	}
	if r.keys != nil {
		byValue := t.byKey[r.keyCol]
		for _, v := range r.keys {
			routes := byValue[v]
			for i := range routes {
				if routes[i] == r {
					routes[i] = routes[len(routes)-1]
					routes[len(routes)-1] = nil
					routes = routes[:len(routes)-1]
					break
				}
			}
			if len(routes) == 0 {
				delete(byValue, v)
			} else {
				byValue[v] = routes
			}
		}
		if len(byValue) == 0 {
			delete(t.byKey, r.keyCol)
		}
	} else {
		last := len(t.all) - 1
		t.all[r.position] = t.all[last]
		t.all[r.position].position = r.position
		t.all[last] = nil
		t.all = t.all[:last]
	}
	t.count--
	if t.count > 0 {
		return
	}
	delete(x.tables, t.oid)
	if t.partitioned {
		x.partitioned--
	}
}

// each calls f for every route of the table that the change may concern; f may be called twice for one.
func (t *tableRoutes) each(ch *changes.Change, f func(*route)) {
	if ch.Op == changes.Truncate {
		t.every(f)
		return
	}
	for _, r := range t.all {
		f(r)
	}
	if len(t.byKey) == 0 {
		return
	}
	t.layout(ch.Relation)
	for col, byValue := range t.byKey {
		p, ok := t.columns[col]
		if !ok {
			continue // the column is gone: the routes have been told by the relation's change
		}
		if ch.Op != changes.Insert {
			if !ch.OldKnown() {
				for _, routes := range byValue { // the old row is unknown: it may be anybody's
					for _, r := range routes {
						f(r)
					}
				}
				continue
			}
			lookUp(byValue, ch.Old, p, f)
		}
		if ch.Op != changes.Delete {
			lookUp(byValue, ch.New, p, f)
		}
	}
}

func lookUp(byValue map[string][]*route, row changes.Row, p int, f func(*route)) {
	if p >= len(row) || row[p].Kind != changes.Text {
		return
	}
	for _, r := range byValue[string(row[p].Bytes)] {
		f(r)
	}
}

// every calls f for all routes of the table; a route with several keys comes several times.
func (t *tableRoutes) every(f func(*route)) {
	for _, r := range t.all {
		f(r)
	}
	for _, byValue := range t.byKey {
		for _, routes := range byValue {
			for _, r := range routes {
				f(r)
			}
		}
	}
}

// layout finds the columns of the relation's rows by name: a partition may have them in another order than its root.
func (t *tableRoutes) layout(r *changes.Relation) {
	if t.relation == r {
		return
	}
	t.relation = r
	t.columns = make(map[string]int, len(r.Columns))
	for i, c := range r.Columns {
		t.columns[c.Name] = i
	}
}
