package shape

import (
	"fmt"
	"slices"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/where"
)

// FitsTable says whether the definition still holds for the table as the catalogue has it now. It returns "" when it
// does, else what has changed. A nil table is one that is gone.
func (d *Definition) FitsTable(now *Table) string {
	was := d.Table
	switch {
	case now == nil:
		return "the table is gone"
	case now == was:
		return ""
	case now.OID != was.OID:
		return "the table was made anew"
	}
	if now.Kind != was.Kind {
		return fmt.Sprintf("the table's kind was %q and is %q", was.Kind, now.Kind)
	}
	r := changes.Relation{OID: now.OID, Schema: now.Schema, Name: now.Name, Keys: map[uint32][]string{now.OID: now.keyNames()}, Columns: make([]changes.Column, len(now.Columns))}
	for i, c := range now.Columns {
		r.Columns[i] = changes.Column{Name: c.Name, TypeOID: c.Type.OID, TypeMod: c.TypeMod}
	}
	if problem := d.Fits(&r); problem != "" {
		return problem
	}
	return d.fitsTypes(now)
}

// fitsTypes says which used column's type gives other texts for the same rows now, though it is the same type: the labels of
// an enum or the attributes of a composite type have changed. Labels that came hurt nobody.
func (d *Definition) fitsTypes(now *Table) string {
	types := make(map[string]*where.Type, len(now.Columns))
	for _, c := range now.Columns {
		types[c.Name] = c.Type
	}
	for _, p := range d.used() {
		c := &d.Table.Columns[p]
		if t, ok := types[c.Name]; ok && !sameTexts(c.Type, t) {
			return fmt.Sprintf("the type of column %q has changed", c.Name)
		}
	}
	return ""
}

func sameTexts(was, now *where.Type) bool {
	if was == now || was == nil || now == nil {
		return was == now
	}
	next := 0
	for _, label := range now.Labels {
		if next < len(was.Labels) && was.Labels[next] == label {
			next++
		}
	}
	return next == len(was.Labels) && slices.Equal(was.Attributes, now.Attributes) &&
		sameTexts(was.Elem, now.Elem) && sameTexts(was.Base, now.Base)
}
