package consumer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/where"
)

var (
	int4 = &where.Type{OID: 23, Schema: "pg_catalog", Name: "int4", Kind: where.KindBase}
	text = &where.Type{OID: 25, Schema: "pg_catalog", Name: "text", Kind: where.KindBase}
)

// items is a table (id int4 primary key, title text, n int4).
func items() *shape.Table {
	return &shape.Table{OID: 1, Schema: "public", Name: "items", Kind: 'r', Key: []int{0}, Columns: []shape.Column{
		{Column: where.Column{Name: "id", Type: int4, TypeMod: -1}, NotNull: true},
		{Column: where.Column{Name: "title", Type: text, TypeMod: -1}},
		{Column: where.Column{Name: "n", Type: int4, TypeMod: -1}},
	}}
}

func itemsRelation() *changes.Relation {
	return &changes.Relation{OID: 1, Schema: "public", Name: "items", Identity: changes.IdentityFull, Columns: []changes.Column{
		{Name: "id", TypeOID: 23, TypeMod: -1, Key: true}, {Name: "title", TypeOID: 25, TypeMod: -1}, {Name: "n", TypeOID: 23, TypeMod: -1},
	}}
}

// row makes a row of texts; "~" stands for NULL and "^" for an unchanged TOAST value.
func row(values ...string) changes.Row {
	r := make(changes.Row, len(values))
	for i, v := range values {
		switch v {
		case "~":
			r[i].Kind = changes.Null
		case "^":
			r[i].Kind = changes.Unchanged
		default:
			r[i] = changes.Value{Kind: changes.Text, Bytes: []byte(v)}
		}
	}
	return r
}

func define(mod func(*shape.Definition)) *shape.Definition {
	d := &shape.Definition{Table: items(), Columns: []int{0, 1, 2}, Replica: shape.ReplicaDefault, Log: shape.LogFull}
	if mod != nil {
		mod(d)
	}
	return d
}

// convert runs changes through a converter as one transaction and returns "offset json" lines.
func convert(t *testing.T, d *shape.Definition, list ...changes.Change) []string {
	t.Helper()
	c := newConverter(d, NewEncoder(d))
	txn := &changes.Txn{CommitLSN: 100, Xid: 7}
	for i := range list {
		require.NoError(t, c.add(txn, &list[i]))
	}
	var out []string
	for _, e := range c.take(true) {
		require.Equal(t, 1, e.Offset.Compare(shapelog.SnapshotEnd))
		out = append(out, e.Offset.String()+" "+string(e.JSON))
	}
	return out
}

const head = `"headers":{"operation":`

func TestConvert(t *testing.T) {
	r := itemsRelation()
	full := func(d *shape.Definition) { d.Replica = shape.ReplicaFull }
	some := func(d *shape.Definition) { d.Columns, d.Explicit = []int{0, 1}, true }
	big := func(d *shape.Definition) {
		expr, err := where.Parse("n > 10", nil, where.Scope{Schema: "public", Table: "items", Columns: d.Table.WhereColumns()})
		require.NoError(t, err)
		d.Where = expr
	}
	tail := func(op string, lsnOp string, last bool) string {
		s := head + `"` + op + `","relation":["public","items"],"lsn":"100","op_position":` + lsnOp + `,"txids":[7]`
		if last {
			s += `,"last":true`
		}
		return s + `}}`
	}
	key := func(id string) string { return `{"key":"\"public\".\"items\"/\"` + id + `\"",` }
	for _, tc := range []struct {
		name string
		def  func(*shape.Definition)
		in   []changes.Change
		want []string
	}{
		{
			"insert carries every selected column", nil,
			[]changes.Change{{Op: changes.Insert, Relation: r, Index: 3, New: row("1", "a\"", "~")}},
			[]string{`100_6 ` + key("1") + `"value":{"id":"1","title":"a\"","n":null},` + tail("insert", "6", true)},
		},
		{
			"update carries key and changed columns", nil,
			[]changes.Change{{Op: changes.Update, Relation: r, Old: row("1", "a", "2"), New: row("1", "b", "2")}},
			[]string{`100_0 ` + key("1") + `"value":{"id":"1","title":"b"},` + tail("update", "0", true)},
		},
		{
			"full update carries the row and the old values of changed columns", full,
			[]changes.Change{{Op: changes.Update, Relation: r, Old: row("1", "a", "2"), New: row("1", "b", "2")}},
			[]string{`100_0 ` + key("1") + `"value":{"id":"1","title":"b","n":"2"},"old_value":{"title":"a"},` + tail("update", "0", true)},
		},
		{
			"update of nothing selected is not sent", some,
			[]changes.Change{{Op: changes.Update, Relation: r, Old: row("1", "a", "2"), New: row("1", "a", "3")}},
			nil,
		},
		{
			"delete carries the key", nil,
			[]changes.Change{{Op: changes.Delete, Relation: r, Old: row("1", "a", "2")}},
			[]string{`100_0 ` + key("1") + `"value":{"id":"1"},` + tail("delete", "0", true)},
		},
		{
			"full delete carries the old row", full,
			[]changes.Change{{Op: changes.Delete, Relation: r, Old: row("1", "a", "2")}},
			[]string{`100_0 ` + key("1") + `"value":{"id":"1","title":"a","n":"2"},` + tail("delete", "0", true)},
		},
		{
			"key change splits in two, last on the second", nil,
			[]changes.Change{{Op: changes.Update, Relation: r, Index: 1, Old: row("1", "a", "2"), New: row("9", "a", "2")}},
			[]string{
				`100_2 ` + key("1") + `"value":{"id":"1"},` + head + `"delete","relation":["public","items"],"key_change_to":"\"public\".\"items\"/\"9\"","lsn":"100","op_position":2,"txids":[7]}}`,
				`100_3 ` + key("9") + `"value":{"id":"9","title":"a","n":"2"},` + head + `"insert","relation":["public","items"],"key_change_from":"\"public\".\"items\"/\"1\"","lsn":"100","op_position":3,"txids":[7],"last":true}}`,
			},
		},
		{
			"moving in is an insert of the whole row", big,
			[]changes.Change{{Op: changes.Update, Relation: r, Old: row("1", "a", "2"), New: row("1", "a", "20")}},
			[]string{`100_0 ` + key("1") + `"value":{"id":"1","title":"a","n":"20"},` + tail("insert", "0", true)},
		},
		{
			"moving out is a delete of the old key", big,
			[]changes.Change{{Op: changes.Update, Relation: r, Old: row("1", "a", "20"), New: row("5", "a", "~")}},
			[]string{`100_0 ` + key("1") + `"value":{"id":"1"},` + tail("delete", "0", true)},
		},
		{
			"outside before and after is nothing", big,
			[]changes.Change{
				{Op: changes.Insert, Relation: r, New: row("1", "a", "2")},
				{Op: changes.Update, Relation: r, Old: row("1", "a", "2"), New: row("1", "b", "2")},
				{Op: changes.Delete, Relation: r, Old: row("1", "b", "2")},
			},
			nil,
		},
		{
			"last stands on the last matching change only", big,
			[]changes.Change{
				{Op: changes.Insert, Relation: r, Index: 0, New: row("1", "a", "11")},
				{Op: changes.Insert, Relation: r, Index: 1, New: row("2", "a", "12")},
				{Op: changes.Insert, Relation: r, Index: 2, New: row("3", "a", "1")},
			},
			[]string{
				`100_0 ` + key("1") + `"value":{"id":"1","title":"a","n":"11"},` + tail("insert", "0", false),
				`100_2 ` + key("2") + `"value":{"id":"2","title":"a","n":"12"},` + tail("insert", "2", true),
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, convert(t, define(tc.def), tc.in...))
		})
	}
}

func TestConvertAcrossFragments(t *testing.T) {
	d := define(nil)
	c := newConverter(d, NewEncoder(d))
	txn := &changes.Txn{CommitLSN: 100, Xid: 7}
	r := itemsRelation()
	var got []string
	take := func(commit bool) {
		for _, e := range c.take(commit) {
			got = append(got, e.Offset.String()+" "+string(e.JSON[len(e.JSON)-14:]))
		}
	}
	add := func(index uint64, id string) {
		require.NoError(t, c.add(txn, &changes.Change{Op: changes.Insert, Relation: r, Index: index, New: row(id, "a", "1")}))
	}
	add(0, "1")
	add(1, "2")
	take(false)
	require.Len(t, got, 1, "the newest entry is held back until it is known whether it is the last")
	take(false) // a fragment without a match
	add(5, "3")
	take(false)
	take(true) // the commit comes in a fragment without a match (B029)
	require.Equal(t, []string{`100_0 ,"txids":[7]}}`, `100_2 ,"txids":[7]}}`, `100_10 ,"last":true}}`}, got)
	require.Empty(t, c.take(true), "nothing is left over for the next transaction")
}

func TestConvertEndsShape(t *testing.T) {
	other := itemsRelation()
	other.Columns = append(other.Columns, changes.Column{Name: "extra", TypeOID: 25, TypeMod: -1})
	retyped := itemsRelation()
	retyped.Columns[2].TypeOID = 20
	named := func(d *shape.Definition) { d.Columns, d.Explicit = []int{0, 1}, true }
	divides := func(d *shape.Definition) {
		var err error
		d.Where, err = where.Parse("10 / n > 1", nil, where.Scope{Schema: "public", Table: "items", Columns: d.Table.WhereColumns()})
		require.NoError(t, err)
	}
	for _, tc := range []struct {
		name   string
		def    func(*shape.Definition)
		change changes.Change
		want   shape.Reason
	}{
		{"truncate", nil, changes.Change{Op: changes.Truncate, Relation: itemsRelation()}, shape.ReasonTruncated},
		{"column added", nil, changes.Change{Op: changes.Insert, Relation: other, New: row("1", "a", "2", "x")}, shape.ReasonSchemaChanged},
		{"column added beside named ones", named, changes.Change{Op: changes.Insert, Relation: other, New: row("1", "a", "2", "x")}, ""},
		{"column retyped", nil, changes.Change{Op: changes.Insert, Relation: retyped, New: row("1", "a", "2")}, shape.ReasonSchemaChanged},
		{"column retyped beside named ones", named, changes.Change{Op: changes.Insert, Relation: retyped, New: row("1", "a", "2")}, ""},
		{"no old row", nil, changes.Change{Op: changes.Update, Relation: itemsRelation(), New: row("1", "a", "2")}, shape.ReasonIdentityLost},
		{"value in neither row", nil, changes.Change{Op: changes.Update, Relation: itemsRelation(), Old: row("1", "a", "2"), New: row("1", "^", "2")}, shape.ReasonIdentityLost},
		{"clause fails for the new row", divides, changes.Change{Op: changes.Insert, Relation: itemsRelation(), New: row("1", "a", "0")}, shape.ReasonWhereFailed},
		{"clause fails for the old row", divides, changes.Change{Op: changes.Delete, Relation: itemsRelation(), Old: row("1", "a", "0")}, shape.ReasonWhereFailed},
		{"clause is NULL", divides, changes.Change{Op: changes.Insert, Relation: itemsRelation(), New: row("1", "a", "~")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := define(tc.def)
			c := newConverter(d, NewEncoder(d))
			err := c.add(&changes.Txn{CommitLSN: 1}, &tc.change)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			var ended *EndedError
			require.ErrorAs(t, err, &ended)
			require.Equal(t, tc.want, ended.Reason)
		})
	}
}

func TestConvertFromPartitionWithOtherColumnOrder(t *testing.T) {
	leaf := &changes.Relation{OID: 2, Schema: "public", Name: "items_1", Identity: changes.IdentityFull, Columns: []changes.Column{
		{Name: "n", TypeOID: 23, TypeMod: -1}, {Name: "title", TypeOID: 25, TypeMod: -1}, {Name: "id", TypeOID: 23, TypeMod: -1, Key: true},
	}}
	got := convert(t, define(nil), changes.Change{Op: changes.Insert, Relation: leaf, New: row("5", "t", "1")})
	require.Equal(t, []string{`100_0 {"key":"\"public\".\"items\"/\"1\"","value":{"id":"1","title":"t","n":"5"},` +
		head + `"insert","relation":["public","items"],"lsn":"100","op_position":0,"txids":[7],"last":true}}`}, got)
}

func TestSeam(t *testing.T) {
	s := seam{snapshot: changes.Snapshot{Xmin: 1<<32 + 100, Xmax: 1<<32 + 103, Xip: []uint64{1<<32 + 101}}, lsn: 500}
	for _, tc := range []struct {
		name string
		xid  changes.Xid
		lsn  changes.LSN
		saw  bool
	}{
		{"finished before", 99, 400, true},
		{"finished among running ones", 102, 450, true},
		{"still running", 101, 600, false},
		{"committed in the WAL, not yet announced", 101, 450, false},
		{"begun after", 103, 600, false},
		{"an id of the epoch before", 4294967290, 300, true},
		{"an id that wrapped long after", 50, 900, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.saw, s.saw(&changes.Txn{Xid: tc.xid, CommitLSN: tc.lsn}))
		})
	}
}

// Under another replica identity than FULL the old row is not known, or only its key is, with NULL in the place of the rest:
// no clause may be asked of that. A shape ends unless the key is all that it needs.
func TestKeyOnlyOldRows(t *testing.T) {
	r := itemsRelation()
	r.Identity = changes.IdentityDefault
	matching := func(clause string) func(*shape.Definition) {
		return func(d *shape.Definition) {
			var err error
			d.Where, err = where.Parse(clause, nil, where.Scope{Schema: "public", Table: "items", Columns: d.Table.WhereColumns()})
			require.NoError(t, err)
		}
	}
	removed := changes.Change{Op: changes.Delete, Relation: r, Old: row("1", "~", "~"), OldKeyOnly: true}
	renamed := changes.Change{Op: changes.Update, Relation: r, Old: row("1", "~", "~"), New: row("2", "b", "~"), OldKeyOnly: true}
	updated := changes.Change{Op: changes.Update, Relation: r, Old: row("1", "~", "~"), New: row("1", "b", "~"), OldKeyOnly: true}
	without := changes.Change{Op: changes.Update, Relation: r, New: row("1", "b", "~")}
	otherIndex := changes.Change{Op: changes.Delete, Relation: r, Old: row("~", "a", "~"), OldKeyOnly: true}
	for name, tt := range map[string]struct {
		mod    func(*shape.Definition)
		change changes.Change
		ends   bool
	}{
		"delete, every row":              {nil, removed, false},
		"key changed, every row":         {nil, renamed, false},
		"key as it was":                  {nil, updated, true},
		"no old row":                     {nil, without, true},
		"identity is another index":      {nil, otherIndex, true},
		"old values wanted":              {func(d *shape.Definition) { d.Replica = shape.ReplicaFull }, removed, true},
		"no key":                         {func(d *shape.Definition) { d.Table.Key = nil }, removed, true},
		"clause is true for NULL":        {matching("n IS NULL"), removed, true},
		"clause is not":                  {matching("n = 5"), removed, true},
		"clause is not, key has changed": {matching("n = 5"), renamed, true},
	} {
		c := newConverter(define(tt.mod), NewEncoder(define(tt.mod)))
		err := c.add(&changes.Txn{CommitLSN: 100, Xid: 7}, &tt.change)
		if tt.ends {
			var ended *EndedError
			require.ErrorAs(t, err, &ended, name)
			require.Equal(t, shape.ReasonIdentityLost, ended.Reason, name)
			continue
		}
		require.NoError(t, err, name)
		require.NotEmpty(t, c.take(true), name)
	}
}
