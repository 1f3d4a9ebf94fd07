package shape

import (
	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/where"
)

// Table is a table as the catalogue describes it now. It is immutable; a changed table is a new Table.
type Table struct {
	OID     uint32
	Schema  string
	Name    string
	Kind    byte // pg_class.relkind: 'r' ordinary, 'p' partitioned
	Columns []Column
	Files   string // names the files that hold the rows, of all partitions
	// Key lists the positions in Columns of the primary key, in key order. It is empty for a table without one;
	// use KeyColumns for the columns that identify a row.
	Key []int
	// Partitions holds the OIDs of all partitions below a partitioned table, leaves and inner ones, as of now.
	Partitions []uint32
	// Collation is the database's, under which literals in a where clause stand.
	Collation where.Collation
}

// WhereScope returns what a where clause on the table may refer to.
func (t *Table) WhereScope() where.Scope {
	return where.Scope{Schema: t.Schema, Table: t.Name, Columns: t.WhereColumns(), Default: t.Collation}
}

// Column is one column of a Table.
type Column struct {
	where.Column
	Number    int16  // pg_attribute.attnum, which stays with the column when it is renamed
	Written   string // the transaction that last wrote its entry in the catalogue, if it wrote the table's files or indexes, too; else empty
	NotNull   bool
	Dims      int  // pg_attribute.attndims
	Generated bool // GENERATED ALWAYS AS … STORED; pgoutput does not send it before Postgres 18
}

// KeyColumns returns the positions in Columns of what identifies a row: the primary key in key order or, for a table
// without one, every column in attribute order.
func (t *Table) KeyColumns() []int {
	if len(t.Key) > 0 {
		return t.Key
	}
	all := make([]int, len(t.Columns))
	for i := range all {
		all[i] = i
	}
	return all
}

// keyNames returns the names of the primary key's columns, in key order.
func (t *Table) keyNames() []string {
	names := make([]string, len(t.Key))
	for i, p := range t.Key {
		names[i] = t.Columns[p].Name
	}
	return names
}

// layout is what Fits looks at.
func (t *Table) layout() changes.Layout {
	l := changes.Layout{Key: t.keyNames(), Columns: make(map[string]changes.ColumnLayout, len(t.Columns)), Files: t.Files}
	for _, c := range t.Columns {
		l.Columns[c.Name] = changes.ColumnLayout{Number: c.Number, Written: c.Written}
	}
	return l
}

// WhereColumns returns the columns as the type checker takes them.
func (t *Table) WhereColumns() []where.Column {
	cols := make([]where.Column, len(t.Columns))
	for i, c := range t.Columns {
		cols[i] = c.Column
	}
	return cols
}
