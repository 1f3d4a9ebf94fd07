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
	r := changes.Relation{OID: now.OID, Schema: now.Schema, Name: now.Name, Layouts: map[uint32]changes.Layout{now.OID: now.layout()}, Columns: make([]changes.Column, len(now.Columns))}
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
	types := make(map[string]*Column, len(now.Columns))
	for i := range now.Columns {
		types[now.Columns[i].Name] = &now.Columns[i]
	}
	for _, p := range d.used() {
		c := &d.Table.Columns[p]
		switch t := types[c.Name]; {
		case t == nil:
		case !sameTexts(c.Type, t.Type):
			return fmt.Sprintf("the type of column %q has changed", c.Name)
		case c.Collation != t.Collation:
			return fmt.Sprintf("the collation of column %q has changed", c.Name)
		}
	}
	return ""
}

func sameTexts(was, now *where.Type) bool {
	if was == now || was == nil || now == nil {
		return was == now
	}
	return contained(was.Labels, now.Labels) && slices.Equal(was.Attributes, now.Attributes) &&
		slices.EqualFunc(was.Parts, now.Parts, sameTexts) && sameTexts(was.Elem, now.Elem) && sameTexts(was.Base, now.Base)
}
