package consumer

import (
	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
)

// layout maps rows of a relation, as the stream sends them, to the columns of a definition. The two differ where a
// partition has its columns in another order than its root, and where generated columns are not sent.
type layout struct {
	table     []int // for each column of the table its position in the relation, -1 where it is not sent
	selected  []int // the same for each selected column
	identical bool  // table is 0, 1, 2, …: rows can be used as they are
}

func newLayout(def *shape.Definition, r *changes.Relation) layout {
	at := make(map[string]int, len(r.Columns))
	for i, c := range r.Columns {
		at[c.Name] = i
	}
	l := layout{table: make([]int, len(def.Table.Columns)), selected: make([]int, len(def.Columns))}
	l.identical = len(r.Columns) == len(def.Table.Columns)
	for i, c := range def.Table.Columns {
		p, ok := at[c.Name]
		if !ok {
			p = -1
		}
		l.table[i] = p
		l.identical = l.identical && p == i
	}
	for i, c := range def.Columns {
		l.selected[i] = l.table[c]
	}
	return l
}

// project fills table with the row in the order of the table's columns, unless the layouts are identical, and
// selected with its selected columns. It returns both, grown when needed.
func (l layout) project(row, table, selected changes.Row) (tableRow, selectedRow changes.Row) {
	if !l.identical {
		table = fill(table, row, l.table)
	}
	return table, fill(selected, row, l.selected)
}

func fill(dst, row changes.Row, from []int) changes.Row {
	dst = dst[:0]
	for _, p := range from {
		if p < 0 || p >= len(row) {
			dst = append(dst, changes.Value{Kind: changes.Null})
			continue
		}
		dst = append(dst, row[p])
	}
	return dst
}
