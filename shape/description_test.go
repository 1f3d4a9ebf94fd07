package shape_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/where"
)

// A description fits a table whose used columns read as they did, and no other.
func TestDescriptions(t *testing.T) {
	table := func(change func(*shape.Table)) *shape.Table {
		t := fitsTable([]string{"sad", "ok"}, []string{"x integer"}, 0)
		for i := range t.Columns {
			t.Columns[i].Number = int16(i + 1)
		}
		t.Columns[2].Type.Parts = []*where.Type{{OID: 20003, Kind: where.KindEnum, Labels: []string{"p"}}}
		change(t)
		return t
	}
	all := func(t *shape.Table) *shape.Definition {
		d := &shape.Definition{Table: t, Replica: shape.ReplicaDefault, Log: shape.LogFull}
		for i := range t.Columns {
			d.Columns = append(d.Columns, i)
		}
		return d
	}
	ids := func(t *shape.Table) *shape.Definition {
		return &shape.Definition{Table: t, Columns: []int{0}, Explicit: true, Replica: shape.ReplicaDefault, Log: shape.LogFull}
	}
	was := table(func(*shape.Table) {})
	require.NotContains(t, ids(was).Description(), "labels", "no enum is used")
	for name, c := range map[string]struct {
		change   func(*shape.Table)
		all, ids bool
	}{
		"nothing":                     {func(*shape.Table) {}, true, true},
		"label added":                 {func(t *shape.Table) { t.Columns[1].Type.Labels = []string{"sad", "so-so", "ok"} }, true, true},
		"label renamed":               {func(t *shape.Table) { t.Columns[1].Type.Labels = []string{"sad", "okay"} }, false, true},
		"labels swapped":              {func(t *shape.Table) { t.Columns[1].Type.Labels = []string{"ok", "sad"} }, false, true},
		"label inside":                {func(t *shape.Table) { t.Columns[2].Type.Parts[0].Labels = []string{"q"} }, false, true},
		"attribute":                   {func(t *shape.Table) { t.Columns[2].Type.Attributes = []string{"y integer"} }, false, true},
		"modifier":                    {func(t *shape.Table) { t.Columns[3].TypeMod = 7 }, false, true},
		"type":                        {func(t *shape.Table) { t.Columns[0].Type = &where.Type{OID: 20, Name: "int8", Kind: where.KindBase} }, false, false},
		"another column":              {func(t *shape.Table) { t.Columns[0].Number = 9 }, false, false},
		"files":                       {func(t *shape.Table) { t.Files = "b" }, true, true},
		"default":                     {func(t *shape.Table) { t.Columns[3].Written = "9" }, true, true},
		"a default after VACUUM FULL": {func(t *shape.Table) { t.Columns[3].Written, t.Files = "", "b" }, true, true},
		"other values":                {func(t *shape.Table) { t.Columns[3].Written, t.Files = "9", "b" }, false, true},
		"collation":                   {func(t *shape.Table) { t.Columns[0].Collation.Name = "C" }, false, false},
		"column added": {func(t *shape.Table) {
			t.Columns = append(t.Columns, shape.Column{Column: where.Column{Name: "new", Type: t.Columns[0].Type}})
		}, false, true},
	} {
		now := table(c.change)
		require.Equal(t, c.all, all(now).FitsDescription(all(was).Description()), name)
		require.Equal(t, c.ids, ids(now).FitsDescription(ids(was).Description()), name)
	}
	require.True(t, all(was).FitsDescription(""), "a shape of before there were descriptions")
	require.False(t, all(was).FitsDescription("garbage"))
	require.False(t, all(was).FitsDescription(all(was).Description()[:40]), "cut short")
}
