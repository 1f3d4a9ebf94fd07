package inspector

import (
	"fmt"
	"strings"

	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/where"
)

// ownSchema is where migrations keeps the status tables.
const ownSchema = "shapeserver"

// check tells whether a relation may be the table of a shape.
func check(r *relationRow) error {
	switch {
	// Names that begin with pg_ are reserved for the system (manual, "System Catalogs" and "Schemas").
	case strings.HasPrefix(r.Schema, "pg_"), r.Schema == "information_schema", r.Schema == ownSchema:
		return errNoTable(r.Schema, r.Name)
	case r.Kind != "r" && r.Kind != "p", r.Persistence == "t", len(r.Columns) == 0:
		return errNoTable(r.Schema, r.Name)
	case r.Persistence == "u":
		return errNotReplicated(r.Schema, r.Name, "it is unlogged, so its changes are not in the write-ahead log; "+
			"ALTER TABLE … SET LOGGED changes that")
	case r.Unreplicated != "":
		return errNotReplicated(r.Schema, r.Name, fmt.Sprintf("the changes of its partition %s, which is a foreign or "+
			"an unlogged table, are not in the write-ahead log", sqltext.Ident(r.Unreplicated)))
	}
	return nil
}

// build makes the Table of a relation that passed check.
func build(r *relationRow, rows map[uint32]typeRow) (*shape.Table, error) {
	t := &shape.Table{
		OID:        r.OID,
		Schema:     r.Schema,
		Name:       r.Name,
		Kind:       r.Kind[0],
		Columns:    make([]shape.Column, len(r.Columns)),
		Partitions: r.Partitions,
		Files:      r.Files,
		Collation:  collation(&r.Default),
	}
	types := typeBuilder{rows: rows, done: make(map[uint32]*where.Type)}
	position := make(map[int16]int, len(r.Columns))
	for i, c := range r.Columns {
		typ, err := types.get(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s of %s.%s: %w", c.Name, r.Schema, r.Name, err)
		}
		position[c.Num] = i
		t.Columns[i] = shape.Column{
			Column:    where.Column{Name: c.Name, Type: typ, TypeMod: c.TypeMod, Collation: collation(&c)},
			NotNull:   c.NotNull,
			Number:    c.Num,
			Written:   c.Written,
			Dims:      c.Dims,
			Generated: c.Generated,
		}
	}
	for _, num := range r.Key {
		t.Key = append(t.Key, position[num])
	}
	return t, nil
}

func collation(c *columnRow) where.Collation {
	if !c.Collated || c.Provider == "" {
		return where.Collation{}
	}
	out := where.Collation{Name: c.Collation, Provider: c.Provider[0], Deterministic: c.Deterministic}
	if c.Ctype != c.Collation {
		out.Ctype = c.Ctype
	}
	return out
}

// typeBuilder links the rows of pg_type to trees.
type typeBuilder struct {
	rows map[uint32]typeRow
	done map[uint32]*where.Type
}

func (b *typeBuilder) get(oid uint32) (*where.Type, error) {
	if t, ok := b.done[oid]; ok {
		return t, nil
	}
	row, ok := b.rows[oid]
	if !ok {
		// The query saw one snapshot of the catalogue, so this is a catalogue that contradicts itself.
		return nil, fmt.Errorf("type %d is not in pg_type", oid)
	}
	t := &where.Type{OID: row.OID, Schema: row.Schema, Name: row.Name, Kind: where.TypeKind(row.Typtype[0]), Labels: row.Labels, Attributes: row.Attributes}
	b.done[oid] = t
	var err error
	switch {
	case t.Kind == where.KindComposite:
		t.Parts = make([]*where.Type, len(row.Parts))
		for i, part := range row.Parts {
			if t.Parts[i], err = b.get(part); err != nil {
				break
			}
		}
	case t.Kind == where.KindDomain:
		t.Base, err = b.get(row.Base)
	case t.Kind == where.KindRange:
		t.Elem, err = b.get(row.Subtype)
	case t.Kind == where.KindBase && row.Category == "A" && row.Elem != 0:
		t.Kind = where.KindArray
		t.Elem, err = b.get(row.Elem)
	}
	return t, err
}
