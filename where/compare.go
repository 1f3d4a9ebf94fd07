package where

import (
	"bytes"

	"github.com/shapeserver/shapeserver/changes"
)

// compareColumn compiles the commonest comparison, a column with a constant, without a value in between: integers by
// their digits, and what is equal exactly when its text is by its bytes. It returns nil for everything else.
func compareColumn(col *node, k value, o order) test {
	if col.typ.baseType().is(oidBpchar) {
		return nil // trailing blanks do not count, even where the column beneath is a varchar
	}
	for col.kind == nodeCast && col.method == castRelabel && col.typmod < 0 && col.sub == nil && !col.typ.is(oidOid) {
		col = col.args[0]
	}
	if col.kind != nodeColumn {
		return nil
	}
	i := col.column
	// The outcomes for less, equal and greater.
	lt, eq, gt := triOf(o.holds(-1)), triOf(o.holds(0)), triOf(o.holds(1))
	t := col.typ.baseType()
	switch {
	case t.is(oidInt2), t.is(oidInt4), t.is(oidInt8):
		if k.b != nil {
			return nil
		}
		want := k.i
		return func(row changes.Row) Tri {
			b, out := columnText(row, i)
			if out != True {
				return out
			}
			n, ok := parseInt(b)
			switch {
			case !ok:
				return Failed
			case n < want:
				return lt
			case n > want:
				return gt
			default:
				return eq
			}
		}
	case o != orderEQ && o != orderNE:
		return nil
	case t.kind == KindEnum, t.is(oidText), t.is(oidVarchar), t.is(oidUUID):
		want := k.b
		return func(row changes.Row) Tri {
			b, out := columnText(row, i)
			if out != True {
				return out
			}
			if bytes.Equal(b, want) {
				return eq
			}
			return lt
		}
	default:
		return nil
	}
}

// columnText returns the text of a column and True, or the outcome of a comparison without one.
func columnText(row changes.Row, i int) ([]byte, Tri) {
	if i >= len(row) {
		return nil, Failed
	}
	switch v := &row[i]; v.Kind {
	case changes.Text:
		return v.Bytes, True
	case changes.Null:
		return nil, Unknown
	default: // an unchanged TOAST value that nobody filled in
		return nil, Failed
	}
}

// parseInt is readInt without a value; inlined loops are what makes it fast.
func parseInt(b []byte) (int64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	d := b
	if neg {
		d = b[1:]
	}
	if len(d) == 0 || len(d) > 18 {
		v, ok := readInt(b)
		return v.i, ok
	}
	var n int64
	for _, c := range d {
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if neg {
		n = -n
	}
	return n, true
}
