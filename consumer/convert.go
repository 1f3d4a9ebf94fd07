package consumer

import (
	"bytes"
	"fmt"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/where"
)

// converter turns changes of the table into entries of one shape: which of them the shape sees, and as what
// (protocol.md §5.2, §8.6). It holds back the newest entry until the next one or the end of the transaction shows
// whether it is the last.
type converter struct {
	def  *shape.Definition
	enc  *shapelog.Encoder
	full bool

	// How rows of the stream's relation are laid out for this definition; remade when the relation changes.
	relation *changes.Relation
	layout   layout

	// Scratch rows, reused for every change.
	oldTable, newTable changes.Row // in the order of Table.Columns, for the where clause
	oldRow, newRow     changes.Row // selected columns, for the encoder

	buf      []byte
	items    []item
	held     shapelog.Entry // the newest entry of the open transaction, when holding is set
	holding  bool
	appended bool // entries of the open transaction are in the log
	entries  []shapelog.Entry
}

// item is an entry whose JSON is buf[from:to].
type item struct {
	offset   shapelog.Offset
	from, to int
}

func newConverter(def *shape.Definition, enc *shapelog.Encoder) converter {
	return converter{def: def, enc: enc, full: def.Replica == shape.ReplicaFull}
}

// add converts one change. It returns an *EndedError when the change ends the shape.
func (c *converter) add(t *changes.Txn, ch *changes.Change) error {
	if ch.Op == changes.Truncate {
		return &EndedError{Reason: shape.ReasonTruncated, Detail: fmt.Sprintf("TRUNCATE of %s.%s", ch.Relation.Schema, ch.Relation.Name)}
	}
	if err := c.prepare(ch.Relation); err != nil {
		return err
	}
	if ch.Op != changes.Insert && !ch.OldKnown() && !c.enough(ch) {
		return &EndedError{Reason: shape.ReasonIdentityLost, Detail: fmt.Sprintf(
			"%s of %s.%s came without the old row; the table needs REPLICA IDENTITY FULL", ch.Op, ch.Relation.Schema, ch.Relation.Name)}
	}
	var oldMatches, newMatches bool
	if ch.Old != nil && ch.Op != changes.Insert {
		c.oldTable, c.oldRow = c.layout.project(ch.Old, c.oldTable, c.oldRow)
		var err error
		if oldMatches, err = c.matches(ch.Old, c.oldTable); err != nil {
			return err
		}
	}
	if ch.New != nil && ch.Op != changes.Delete {
		c.newTable, c.newRow = c.layout.project(ch.New, c.newTable, c.newRow)
		for _, v := range c.newRow {
			if v.Kind == changes.Unchanged {
				return &EndedError{Reason: shape.ReasonIdentityLost, Detail: "a TOASTed value is in neither row"}
			}
		}
		var err error
		if newMatches, err = c.matches(ch.New, c.newTable); err != nil {
			return err
		}
	}
	p := shapelog.Position{LSN: t.CommitLSN, Op: 2 * ch.Index, Xid: t.Xid}
	switch {
	case oldMatches && newMatches && !c.enc.SameKey(c.oldRow, c.newRow):
		c.begin()
		c.buf = c.enc.AppendDelete(c.buf, p, c.oldRow, c.full, shapelog.KeyChange{To: c.newRow})
		c.end(p)
		p.Op++
		c.begin()
		c.buf = c.enc.AppendInsert(c.buf, p, c.newRow, shapelog.KeyChange{From: c.oldRow})
		c.end(p)
	case oldMatches && newMatches:
		if !c.enc.Changed(c.oldRow, c.newRow) {
			return nil
		}
		c.begin()
		c.buf = c.enc.AppendUpdate(c.buf, p, c.oldRow, c.newRow, c.full)
		c.end(p)
	case newMatches:
		c.begin()
		c.buf = c.enc.AppendInsert(c.buf, p, c.newRow, shapelog.KeyChange{})
		c.end(p)
	case oldMatches:
		c.begin()
		c.buf = c.enc.AppendDelete(c.buf, p, c.oldRow, c.full, shapelog.KeyChange{})
		c.end(p)
	}
	return nil
}

// enough reports whether an old row of which only the replica identity is known tells all that the shape needs: it does when
// every row is the shape's, no entry has old values, and the identity has the key. So a partition may be new, and not have
// its full identity yet. An update that leaves the key alone is not enough: which columns it changed is not known.
func (c *converter) enough(ch *changes.Change) bool {
	if ch.Old == nil || c.def.Where != nil || c.full || len(c.def.Table.Key) == 0 {
		return false
	}
	moved := ch.Op == changes.Delete
	for _, k := range c.def.Table.Key {
		p := c.layout.table[k]
		if p < 0 || ch.Old[p].Kind != changes.Text {
			return false
		}
		moved = moved || !bytes.Equal(ch.Old[p].Bytes, ch.New[p].Bytes)
	}
	return moved
}

// matches evaluates the where clause on a row of the relation, or on its projection where the layouts differ. A clause
// that fails for the row ends the shape: the query of which the log is the answer (I1) has no answer either, as the next
// snapshot will tell the client.
func (c *converter) matches(row, projected changes.Row) (bool, error) {
	if c.def.Where == nil {
		return true, nil
	}
	if !c.layout.identical {
		row = projected
	}
	switch c.def.Where.Eval(row) {
	case where.True:
		return true, nil
	case where.Failed:
		return false, &EndedError{Reason: shape.ReasonWhereFailed, Detail: fmt.Sprintf(
			"the where clause cannot be evaluated for a row of %s.%s", c.def.Table.Schema, c.def.Table.Name)}
	default:
		return false, nil
	}
}

// prepare makes the layout of a relation that comes for the first time, or has changed.
func (c *converter) prepare(r *changes.Relation) error {
	if c.relation == r {
		return nil
	}
	if problem := c.def.Fits(r); problem != "" {
		return &EndedError{Reason: shape.ReasonSchemaChanged, Detail: problem}
	}
	c.relation = r
	c.layout = newLayout(c.def, r)
	return nil
}

// begin and end enclose the encoding of one entry in buf.
func (c *converter) begin() {
	c.items = append(c.items, item{from: len(c.buf)})
}

func (c *converter) end(p shapelog.Position) {
	it := &c.items[len(c.items)-1]
	it.offset = shapelog.At(uint64(p.LSN), p.Op)
	it.to = len(c.buf)
}

// take returns the entries that are ready: all when the transaction ends, with its last one marked, else all but the
// newest. They are valid until the next call of add.
func (c *converter) take(commit bool) []shapelog.Entry {
	c.entries = c.entries[:0]
	if len(c.items) > 0 && c.holding {
		c.entries = append(c.entries, c.held)
		c.holding = false
	}
	for _, it := range c.items {
		c.entries = append(c.entries, shapelog.Entry{Offset: it.offset, JSON: c.buf[it.from:it.to:it.to]})
	}
	c.items = c.items[:0]
	c.buf = c.buf[:0]
	if commit {
		if len(c.entries) == 0 && c.holding {
			c.entries = append(c.entries, c.held)
		}
		c.holding = false
		c.held = shapelog.Entry{}
		if n := len(c.entries); n > 0 {
			c.entries[n-1].JSON = shapelog.MarkLast(c.entries[n-1].JSON)
		}
		return c.entries
	}
	if n := len(c.entries); n > 0 {
		last := c.entries[n-1]
		c.held = shapelog.Entry{Offset: last.Offset, JSON: append([]byte(nil), last.JSON...)}
		c.holding = true
		c.entries = c.entries[:n-1]
	}
	return c.entries
}
