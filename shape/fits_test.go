package shape_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/where"
)

// fitsTable is a table (id int4 primary key, m enum, c composite, ms array of the enum).
func fitsTable(labels, attributes []string, key ...int) *shape.Table {
	enum := &where.Type{OID: 20000, Schema: "public", Name: "mood", Kind: where.KindEnum, Labels: labels}
	return &shape.Table{OID: 1, Schema: "public", Name: "t", Kind: 'r', Key: key, Columns: []shape.Column{
		{Column: where.Column{Name: "id", Type: &where.Type{OID: 23, Name: "int4", Kind: where.KindBase}, TypeMod: -1}},
		{Column: where.Column{Name: "m", Type: enum, TypeMod: -1}},
		{Column: where.Column{Name: "c", Type: &where.Type{OID: 20002, Name: "co", Kind: where.KindComposite, Attributes: attributes}, TypeMod: -1}},
		{Column: where.Column{Name: "ms", Type: &where.Type{OID: 20001, Name: "_mood", Kind: where.KindArray, Elem: enum}, TypeMod: -1}},
	}}
}

// B114: a type that keeps its OID and gives other texts ends the shapes that select it, and no others.
func TestFitsTableLooksIntoTypes(t *testing.T) {
	was := fitsTable([]string{"sad", "ok"}, []string{"x integer"}, 0)
	all := &shape.Definition{Table: was, Columns: []int{0, 1, 2, 3}, Replica: shape.ReplicaDefault, Log: shape.LogFull}
	ids := &shape.Definition{Table: was, Columns: []int{0}, Explicit: true, Replica: shape.ReplicaDefault, Log: shape.LogFull}
	array := &shape.Definition{Table: was, Columns: []int{0, 3}, Explicit: true, Replica: shape.ReplicaDefault, Log: shape.LogFull}
	for _, c := range []struct {
		name               string
		now                *shape.Table
		all, ids, ofArrays string
	}{
		{"the same, read again", fitsTable([]string{"sad", "ok"}, []string{"x integer"}, 0), "", "", ""},
		{"labels added", fitsTable([]string{"awful", "sad", "so-so", "ok", "fine"}, []string{"x integer"}, 0), "", "", ""},
		{"a label renamed", fitsTable([]string{"sad", "okay"}, []string{"x integer"}, 0), `the type of column "m" has changed`, "", `the type of column "ms" has changed`},
		{"an attribute added", fitsTable([]string{"sad", "ok"}, []string{"x integer", "y text"}, 0), `the type of column "c" has changed`, "", ""},
		{"no key any more", fitsTable([]string{"sad", "ok"}, []string{"x integer"}), "the primary key has changed", "the primary key has changed", "the primary key has changed"},
		{"another key", fitsTable([]string{"sad", "ok"}, []string{"x integer"}, 1), "the primary key has changed", "the primary key has changed", "the primary key has changed"},
	} {
		require.Equal(t, c.all, all.FitsTable(c.now), c.name)
		require.Equal(t, c.ids, ids.FitsTable(c.now), c.name)
		require.Equal(t, c.ofArrays, array.FitsTable(c.now), c.name)
	}
}

// B111: a relation of which the catalogue says another key does not fit, one that nobody asked about does.
func TestFitsLooksAtTheKey(t *testing.T) {
	d := &shape.Definition{Table: fitsTable(nil, nil, 0), Columns: []int{0}, Explicit: true, Replica: shape.ReplicaDefault, Log: shape.LogFull}
	r := changes.Relation{OID: 7, Schema: "public", Name: "partition", Columns: []changes.Column{{Name: "id", TypeOID: 23, TypeMod: -1}}}
	require.Empty(t, d.Fits(&r))
	r.Layouts = map[uint32]changes.Layout{7: {Key: []string{"other"}}, 1: {Key: []string{"id"}}}
	require.Empty(t, d.Fits(&r), "only the key of the shape's own table counts")
	r.Layouts = map[uint32]changes.Layout{1: {Key: []string{"id", "m"}}}
	require.Equal(t, "the primary key has changed", d.Fits(&r))
	r.Layouts = map[uint32]changes.Layout{1: {}}
	require.Equal(t, "the primary key has changed", d.Fits(&r))
}
