package shape

import (
	"fmt"
	"slices"

	"github.com/shapeserver/shapeserver/changes"
)

// Fits says whether rows of the relation can still be rows of the shape. It returns "" when they can, else what has
// changed since the shape was defined. The relation may be that of the shape's table or of one of its partitions.
//
// A shape that named its columns goes on when others come, go or change; one that did not ends when the set of columns
// changes, since "all columns" then means something else.
func (d *Definition) Fits(r *changes.Relation) string {
	if r.OID == d.Table.OID && (r.Schema != d.Table.Schema || r.Name != d.Table.Name) {
		return fmt.Sprintf("table %s.%s is now %s.%s", d.Table.Schema, d.Table.Name, r.Schema, r.Name)
	}
	layout, asked := r.Layouts[d.Table.OID]
	if asked && !slices.Equal(layout.Key, d.Table.keyNames()) {
		return "the primary key has changed"
	}
	sent := make(map[string]*changes.Column, len(r.Columns))
	for i := range r.Columns {
		sent[r.Columns[i].Name] = &r.Columns[i]
	}
	for _, p := range d.used() {
		c := &d.Table.Columns[p]
		now, ok := sent[c.Name]
		if !ok {
			if c.Generated && d.Explicit {
				continue
			}
			return fmt.Sprintf("column %q is gone", c.Name)
		}
		if now.TypeOID != c.Type.OID {
			return fmt.Sprintf("column %q has another type", c.Name)
		}
		if now.TypeMod != c.TypeMod {
			return fmt.Sprintf("column %q has another type modifier", c.Name)
		}
		inCatalogue, ok := layout.Columns[c.Name]
		if ok && inCatalogue.Number != c.Number {
			return fmt.Sprintf("column %q is another one", c.Name)
		}
		// ALTER TABLE … TYPE may keep the type and compute new values: then one transaction wrote the column's entry in the
		// catalogue, and the files.
		if ok && rewritten(c.Written, inCatalogue.Written) && layout.Files != d.Table.Files {
			return fmt.Sprintf("column %q was written anew", c.Name)
		}
	}
	if !d.Explicit {
		known := make(map[string]bool, len(d.Table.Columns))
		for _, c := range d.Table.Columns {
			known[c.Name] = true
		}
		for name := range sent {
			if !known[name] {
				return fmt.Sprintf("column %q is new", name)
			}
		}
	}
	return ""
}

// rewritten reports whether another transaction than before wrote a column's entry together with the files.
func rewritten(was, now string) bool { return now != "" && now != was }

// used returns the positions in Table.Columns of every column whose value the shape depends on.
func (d *Definition) used() []int {
	is := make([]bool, len(d.Table.Columns))
	for _, c := range d.Columns {
		is[c] = true
	}
	for _, c := range d.Table.Key {
		is[c] = true
	}
	if d.Where != nil {
		for _, c := range d.Where.Columns() {
			is[c] = true
		}
	}
	var cols []int
	for i, u := range is {
		if u {
			cols = append(cols, i)
		}
	}
	return cols
}
