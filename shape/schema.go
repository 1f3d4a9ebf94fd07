package shape

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shapeserver/shapeserver/where"
)

// SchemaHeader renders the value of the electric-schema header: a JSON object with one member for each selected column
// in table order (protocol.md §4.5). It is pure ASCII, since header values are not read as UTF-8 by browsers.
func SchemaHeader(d *Definition) []byte {
	t := d.Table
	dst := make([]byte, 0, 48*len(d.Columns)+2)
	dst = append(dst, '{')
	for i, pos := range d.Columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		c := &t.Columns[pos]
		dst = appendASCIIString(dst, c.Name)
		dst = append(dst, `:{"type":`...)
		typ := c.Type
		if c.Dims > 0 && typ.Elem != nil {
			typ = typ.Elem
		}
		dst = appendASCIIString(dst, typ.Name)
		if c.Dims > 0 {
			dst = appendMember(dst, "dims", c.Dims)
		}
		dst = appendTypeMod(dst, typ, c.TypeMod)
		for k, key := range t.Key {
			if key == pos {
				dst = appendMember(dst, "pk_index", k)
			}
		}
		if c.NotNull {
			dst = append(dst, `,"not_null":true`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendTypeMod appends what pg_attribute.atttypmod says about a column, type by type. The encodings are those of
// Postgres's typmodin functions: a length plus 4 for the character types, (precision << 16 | scale) + 4 for numeric
// with a scale of 11 bits and a sign, a plain precision for times, (fields << 16 | precision) for interval.
func appendTypeMod(dst []byte, typ *where.Type, mod int32) []byte {
	n := int(mod)
	switch typ.Name {
	case "bit":
		if n >= 0 {
			return appendMember(dst, "length", n)
		}
	case "varbit":
		return appendMember(dst, "length", n) // -1 when it is not bounded
	case "varchar":
		if n >= 0 {
			return appendMember(dst, "max_length", n-4)
		}
	case "bpchar":
		if n >= 0 {
			return appendMember(dst, "length", n-4)
		}
	case "numeric":
		if n >= 0 {
			dst = appendMember(dst, "precision", (n-4)>>16&0xffff)
			return appendMember(dst, "scale", ((n-4)&0x7ff^1024)-1024)
		}
	case "time", "timetz", "timestamp", "timestamptz":
		if n > 0 {
			return appendMember(dst, "precision", n)
		}
		if n == 0 {
			return appendMember(dst, "type_mod", 0) // the protocol's word for a precision of 0
		}
	case "interval":
		if n >= 0 {
			return appendIntervalMod(dst, n)
		}
	default:
		if n >= 0 {
			return appendMember(dst, "type_mod", n)
		}
	}
	return dst
}

// intervalFields names the bits of an interval's field mask from the largest unit to the smallest.
var intervalFields = []struct {
	bit  int
	name string
}{{2, "YEAR"}, {1, "MONTH"}, {3, "DAY"}, {10, "HOUR"}, {11, "MINUTE"}, {12, "SECOND"}}

const (
	intervalFullRange     = 0x7fff
	intervalFullPrecision = 0xffff
)

func appendIntervalMod(dst []byte, mod int) []byte {
	mask, precision := mod>>16&intervalFullRange, mod&0xffff
	if mask != intervalFullRange {
		var names []string
		for _, f := range intervalFields {
			if mask&(1<<f.bit) != 0 {
				names = append(names, f.name)
			}
		}
		if len(names) > 1 {
			names = []string{names[0], names[len(names)-1]}
		}
		if len(names) > 0 {
			dst = append(dst, `,"fields":`...)
			dst = appendASCIIString(dst, strings.Join(names, " TO "))
		}
	}
	if precision != intervalFullPrecision {
		dst = appendMember(dst, "precision", precision)
	}
	return dst
}

func appendMember(dst []byte, name string, n int) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return strconv.AppendInt(dst, int64(n), 10)
}

// appendASCIIString appends s as a JSON string in which everything that is not printable ASCII is escaped.
func appendASCIIString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case 0x20 <= r && r < 0x7f:
			dst = append(dst, byte(r))
		case r > 0xffff:
			r -= 0x10000
			dst = appendEscape(dst, 0xd800+r>>10)
			dst = appendEscape(dst, 0xdc00+r&0x3ff)
		default:
			dst = appendEscape(dst, min(r, utf8.MaxRune))
		}
	}
	return append(dst, '"')
}

func appendEscape(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
