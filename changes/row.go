package changes

import (
	"maps"
	"slices"
)

// ReplicaIdentity says what a table puts into the old row of updates and deletes
// (pg_class.relreplident; ALTER TABLE … REPLICA IDENTITY).
type ReplicaIdentity byte

// The values of pg_class.relreplident.
const (
	IdentityDefault ReplicaIdentity = 'd' // the primary key
	IdentityNothing ReplicaIdentity = 'n'
	IdentityFull    ReplicaIdentity = 'f' // every column; what shapes need
	IdentityIndex   ReplicaIdentity = 'i'
)

// Relation describes a table as the stream last announced it (message Relation of the manual's section "Logical
// Replication Message Formats"). It is immutable; a changed table comes as a new Relation with the same OID.
type Relation struct {
	OID      uint32
	Schema   string
	Name     string
	Identity ReplicaIdentity
	Columns  []Column // in attribute order, dropped and unpublished columns left out
	// Layouts are those of the table and of the partitioned ones above it by OID, as far as somebody asked for them after
	// the announcement. Collector fills it in before it hands the relation on.
	Layouts map[uint32]Layout
}

// Layout is what the catalogue says of a table's columns and the stream does not: under REPLICA IDENTITY FULL it does not tell
// the primary key, and never which column a name belongs to.
type Layout struct {
	Key     []string // names of the primary key's columns, in key order; empty for a table without one
	Columns map[string]ColumnLayout
	Files   string // names the files that hold the rows
}

// ColumnLayout is what the catalogue says of one column.
type ColumnLayout struct {
	Number int16 `json:"number"` // pg_attribute.attnum
	// Written is the transaction that last wrote its entry (pg_attribute.xmin), if it wrote the table's files or indexes
	// too; else empty.
	Written string `json:"written"`
}

// Equal reports whether two layouts are the same.
func (l Layout) Equal(o Layout) bool {
	return l.Files == o.Files && slices.Equal(l.Key, o.Key) && maps.Equal(l.Columns, o.Columns)
}

// Column is one column of a Relation.
type Column struct {
	Name    string
	TypeOID uint32
	TypeMod int32 // -1 when the type has no modifier
	Key     bool  // part of the replica identity
}

// SameAs reports whether r and o have the same name, identity, columns and keys, so that whatever was derived from one
// holds for the other. Postgres repeats Relation messages without any change, on reconnects for example.
func (r *Relation) SameAs(o *Relation) bool {
	if r == o {
		return true
	}
	if r.OID != o.OID || r.Schema != o.Schema || r.Name != o.Name || r.Identity != o.Identity || len(r.Columns) != len(o.Columns) {
		return false
	}
	for i := range r.Columns {
		if r.Columns[i] != o.Columns[i] {
			return false
		}
	}
	return maps.EqualFunc(r.Layouts, o.Layouts, Layout.Equal)
}

// Kind tells what a Value holds.
type Kind byte

// The kinds of a Value, in the letters of the stream's TupleData.
const (
	Null      Kind = 'n'
	Unchanged Kind = 'u' // a TOASTed value that the update did not touch; the old row has it
	Text      Kind = 't'
)

// Value is one column of a row, in Postgres's text form under the session settings of protocol.md §7.1.
// The bytes belong to whoever made the row; readers must not change them.
type Value struct {
	Kind  Kind
	Bytes []byte // nil unless Kind is Text; may be empty but non-nil for an empty text
}

// IsNull reports whether the value is SQL NULL.
func (v Value) IsNull() bool { return v.Kind == Null }

// Row is the columns of one row, in the order of its Relation, or of whatever list its maker names.
// A nil Row means that there is none.
type Row []Value
