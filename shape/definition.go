package shape

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/shapeserver/shapeserver/where"
)

// Replica says how much of a row an update or delete carries (protocol.md §5.2).
type Replica string

// The replica modes.
const (
	ReplicaDefault Replica = "default" // key and changed columns
	ReplicaFull    Replica = "full"    // the whole row, and the old values of what changed
)

// LogMode says whether a shape begins with the rows there are (protocol.md §6.8).
type LogMode string

// The log modes.
const (
	LogFull        LogMode = "full"
	LogChangesOnly LogMode = "changes_only"
)

// Definition is a checked shape definition. It is immutable.
type Definition struct {
	Table *Table
	// Columns lists the positions in Table.Columns of the selected columns, ascending. It is never empty and
	// holds every key column.
	Columns []int
	// Explicit tells that the request named its columns. A shape that did not ends when a column is added.
	Explicit bool
	Where    *where.Expr // nil selects every row
	Replica  Replica
	Log      LogMode
}

// ColumnNames returns the names of the selected columns in Columns' order.
func (d *Definition) ColumnNames() []string {
	names := make([]string, len(d.Columns))
	for i, c := range d.Columns {
		names[i] = d.Table.Columns[c].Name
	}
	return names
}

// KeyPositions returns the positions within Columns of the columns that identify a row, in key order.
func (d *Definition) KeyPositions() []int {
	key := d.Table.KeyColumns()
	pos := make([]int, 0, len(key))
	for _, k := range key {
		if i, ok := slices.BinarySearch(d.Columns, k); ok {
			pos = append(pos, i)
		}
	}
	return pos
}

// Identity returns the text that is the same for two definitions exactly when they are one shape (protocol.md §12).
// It is built from checked parts, never from the request's own text.
func (d *Definition) Identity() string {
	var b strings.Builder
	b.WriteString(strconv.FormatUint(uint64(d.Table.OID), 10))
	for _, part := range []string{d.Table.Schema, d.Table.Name} {
		b.WriteByte('|')
		b.WriteString(strconv.Quote(part))
	}
	b.WriteString("|key")
	for _, k := range d.Table.Key {
		b.WriteByte(' ')
		b.WriteString(strconv.Quote(d.Table.Columns[k].Name))
	}
	b.WriteString("|columns")
	if d.Explicit {
		b.WriteString(" explicit")
	}
	for _, n := range d.ColumnNames() {
		b.WriteByte(' ')
		b.WriteString(strconv.Quote(n))
	}
	b.WriteString("|" + string(d.Replica) + "|" + string(d.Log) + "|")
	if d.Where != nil {
		b.WriteString(d.Where.SQL())
	}
	return b.String()
}

// Hash is a hash of the Identity, the first half of a handle. It is not an identity: compare Identity for that.
func (d *Definition) Hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(d.Identity()))
	s := h.Sum64()
	return s ^ s>>32
}
