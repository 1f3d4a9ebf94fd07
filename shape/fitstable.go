package shape

import (
	"fmt"

	"github.com/shapeserver/shapeserver/changes"
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
	case len(now.Key) != len(was.Key):
		return "the primary key has changed"
	}
	for i := range now.Key {
		if now.Columns[now.Key[i]].Name != was.Columns[was.Key[i]].Name {
			return "the primary key has changed"
		}
	}
	if now.Kind != was.Kind {
		return fmt.Sprintf("the table's kind was %q and is %q", was.Kind, now.Kind)
	}
	r := changes.Relation{OID: now.OID, Schema: now.Schema, Name: now.Name, Columns: make([]changes.Column, len(now.Columns))}
	for i, c := range now.Columns {
		r.Columns[i] = changes.Column{Name: c.Name, TypeOID: c.Type.OID, TypeMod: c.TypeMod}
	}
	return d.Fits(&r)
}
