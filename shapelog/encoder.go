package shapelog

import (
	"bytes"
	"strconv"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/sqltext"
)

// Encoder turns the rows of one shape into log items (protocol.md §5.1 to §5.3). It is immutable and may be used
// from any goroutine. Rows given to it hold the shape's selected columns, in the order the Encoder was made with.
type Encoder struct {
	relation []byte   // ,"relation":["public","items"]
	keyHead  string   // "public"."items"
	columns  [][]byte // "title":
	key      []int    // positions of the key columns in a row, in key order
	isKey    []bool
}

// NewEncoder makes the Encoder of a shape on schema.table which selects columns; key lists the positions in columns
// of the primary key, in key order, or of all columns when the table has none.
func NewEncoder(schema, table string, columns []string, key []int) *Encoder {
	e := &Encoder{key: key, isKey: make([]bool, len(columns))}
	e.relation = append(e.relation, `,"relation":[`...)
	e.relation = AppendJSONString(e.relation, schema)
	e.relation = append(e.relation, ',')
	e.relation = AppendJSONString(e.relation, table)
	e.relation = append(e.relation, ']')
	e.keyHead = sqltext.Ident(schema) + "." + sqltext.Ident(table)
	for _, c := range columns {
		e.columns = append(e.columns, append(AppendJSONString(nil, c), ':'))
	}
	for _, k := range key {
		e.isKey[k] = true
	}
	return e
}

// Position says where in the stream a change stands. The zero Position is a row that did not come from the stream:
// a row of a snapshot, without lsn, op_position and txids.
type Position struct {
	LSN  changes.LSN
	Op   uint64
	Xid  changes.Xid
	Last bool // the last change for this shape in its transaction
}

// AppendKey appends the row's key, raw, not as a JSON string: "public"."items"/"7".
func (e *Encoder) AppendKey(dst []byte, row changes.Row) []byte {
	dst = append(dst, e.keyHead...)
	for _, k := range e.key {
		v := row[k]
		if v.Kind != changes.Text {
			dst = append(dst, "/_"...)
			continue
		}
		dst = append(dst, '/', '"')
		for rest := v.Bytes; ; {
			i := bytes.IndexByte(rest, '/')
			if i < 0 {
				dst = append(dst, rest...)
				break
			}
			dst = append(append(dst, rest[:i]...), "//"...)
			rest = rest[i+1:]
		}
		dst = append(dst, '"')
	}
	return dst
}

// SameKey reports whether two rows have the same key.
func (e *Encoder) SameKey(a, b changes.Row) bool {
	for _, k := range e.key {
		if !sameValue(a[k], b[k]) {
			return false
		}
	}
	return true
}

// Changed reports whether the two rows differ in any selected column. The comparison is on the text forms.
func (e *Encoder) Changed(a, b changes.Row) bool {
	for i := range e.columns {
		if !sameValue(a[i], b[i]) {
			return true
		}
	}
	return false
}

func sameValue(a, b changes.Value) bool {
	return a.Kind == b.Kind && bytes.Equal(a.Bytes, b.Bytes)
}

// KeyChange names the other half of a key change in an item's headers; the zero KeyChange is none.
type KeyChange struct {
	To   changes.Row // on the delete half: the new row
	From changes.Row // on the insert half: the old row
}

// AppendInsert appends an insert with the whole row.
func (e *Encoder) AppendInsert(dst []byte, p Position, row changes.Row, kc KeyChange) []byte {
	dst = e.appendHead(dst, row)
	dst = e.appendValue(dst, `,"value":{`, row, nil, all)
	return e.appendHeaders(dst, "insert", p, kc)
}

// AppendUpdate appends an update from old to row, which have the same key. In full mode it carries the whole row and,
// as old_value, the old values of the changed columns; otherwise the key and the changed columns.
func (e *Encoder) AppendUpdate(dst []byte, p Position, old, row changes.Row, full bool) []byte {
	dst = e.appendHead(dst, row)
	if full {
		dst = e.appendValue(dst, `,"value":{`, row, nil, all)
		dst = e.appendValue(dst, `,"old_value":{`, old, row, changed)
	} else {
		dst = e.appendValue(dst, `,"value":{`, row, old, keyAndChanged)
	}
	return e.appendHeaders(dst, "update", p, KeyChange{})
}

// AppendDelete appends a delete of the old row: its key columns, or in full mode the whole row.
func (e *Encoder) AppendDelete(dst []byte, p Position, old changes.Row, full bool, kc KeyChange) []byte {
	dst = e.appendHead(dst, old)
	which := keyOnly
	if full {
		which = all
	}
	dst = e.appendValue(dst, `,"value":{`, old, nil, which)
	return e.appendHeaders(dst, "delete", p, kc)
}

type selection int

const (
	all selection = iota
	keyOnly
	changed
	keyAndChanged
)

func (e *Encoder) appendHead(dst []byte, row changes.Row) []byte {
	dst = append(dst, `{"key":`...)
	return e.appendKeyString(dst, row)
}

// appendKeyString appends the key as a JSON string. The raw key is built at the end of dst, then escaped behind
// itself and moved to its place, so that no buffer is needed.
func (e *Encoder) appendKeyString(dst []byte, row changes.Row) []byte {
	start := len(dst)
	dst = e.AppendKey(dst, row)
	end := len(dst)
	dst = append(dst, '"')
	dst = appendEscaped(dst, dst[start:end])
	dst = append(dst, '"')
	n := copy(dst[start:], dst[end:])
	return dst[:start+n]
}

func (e *Encoder) appendValue(dst []byte, head string, row, other changes.Row, which selection) []byte {
	dst = append(dst, head...)
	first := true
	for i, name := range e.columns {
		switch which {
		case all:
		case keyOnly:
			if !e.isKey[i] {
				continue
			}
		case changed:
			if sameValue(row[i], other[i]) {
				continue
			}
		case keyAndChanged:
			if !e.isKey[i] && sameValue(row[i], other[i]) {
				continue
			}
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, name...)
		if row[i].Kind == changes.Text {
			dst = AppendJSONString(dst, row[i].Bytes)
		} else {
			dst = append(dst, "null"...)
		}
	}
	return append(dst, '}')
}

func (e *Encoder) appendHeaders(dst []byte, op string, p Position, kc KeyChange) []byte {
	dst = append(dst, `,"headers":{"operation":"`...)
	dst = append(dst, op...)
	dst = append(dst, '"')
	dst = append(dst, e.relation...)
	if kc.To != nil {
		dst = append(dst, `,"key_change_to":`...)
		dst = e.appendKeyString(dst, kc.To)
	}
	if kc.From != nil {
		dst = append(dst, `,"key_change_from":`...)
		dst = e.appendKeyString(dst, kc.From)
	}
	if p.LSN != 0 {
		dst = append(dst, `,"lsn":"`...)
		dst = strconv.AppendUint(dst, uint64(p.LSN), 10)
		dst = append(dst, `","op_position":`...)
		dst = strconv.AppendUint(dst, p.Op, 10)
		dst = append(dst, `,"txids":[`...)
		dst = strconv.AppendUint(dst, uint64(p.Xid), 10)
		dst = append(dst, ']')
		if p.Last {
			dst = append(dst, `,"last":true`...)
		}
	}
	return append(dst, `}}`...)
}

// MarkSubset adds to an item made by an Encoder the header that says which subset it is a row of (protocol.md §10). It
// appends in place where the slice has room.
func MarkSubset(json []byte, mark int32) []byte {
	json = append(json[:len(json)-len(`}}`)], `,"snapshot_mark":`...)
	json = strconv.AppendInt(json, int64(mark), 10)
	return append(json, `}}`...)
}

// MarkLast adds to an item made by an Encoder the header that says it is the last of its transaction for this shape.
// It appends in place where the slice has room.
func MarkLast(json []byte) []byte {
	return append(json[:len(json)-len(`}}`)], `,"last":true}}`...)
}
