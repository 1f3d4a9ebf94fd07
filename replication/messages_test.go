package replication

import (
	"encoding/binary"

	"github.com/shapeserver/shapeserver/changes"
)

// message builds pgoutput messages byte by byte, as section 55.9 of the manual draws them.
type message []byte

func (m message) u8(v byte) message    { return append(m, v) }
func (m message) u16(v uint16) message { return binary.BigEndian.AppendUint16(m, v) }
func (m message) u32(v uint32) message { return binary.BigEndian.AppendUint32(m, v) }
func (m message) u64(v uint64) message { return binary.BigEndian.AppendUint64(m, v) }
func (m message) text(s string) message {
	return append(append(m, s...), 0)
}

// tuple appends TupleData. A string is a text value, nil NULL, unchanged an unchanged TOAST value.
func (m message) tuple(values ...any) message {
	m = m.u16(uint16(len(values)))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			m = m.u8('n')
		case string:
			m = append(m.u8('t').u32(uint32(len(v))), v...)
		case toasted:
			m = m.u8('u')
		default:
			panic("unknown value")
		}
	}
	return m
}

type toasted struct{}

var unchanged toasted

func beginMessage(commitLSN changes.LSN, xid uint32) message {
	return message{'B'}.u64(uint64(commitLSN)).u64(1_000_000).u32(xid)
}

func commitMessage(commitLSN, endLSN changes.LSN) message {
	return message{'C'}.u8(0).u64(uint64(commitLSN)).u64(uint64(endLSN)).u64(1_000_000)
}

// relationMessage announces a table whose columns are all text; a name that begins with * is a key column.
func relationMessage(oid uint32, schema, name string, identity byte, columns ...string) message {
	m := message{'R'}.u32(oid).text(schema).text(name).u8(identity).u16(uint16(len(columns)))
	for _, c := range columns {
		var flags byte
		if c[0] == '*' {
			flags, c = 1, c[1:]
		}
		m = m.u8(flags).text(c).u32(25).u32(0xffffffff)
	}
	return m
}

func insertMessage(oid uint32, values ...any) message {
	return message{'I'}.u32(oid).u8('N').tuple(values...)
}

// updateMessage is of relation 11; kind is 'O', 'K', or 0 for no old row.
func updateMessage(kind byte, old, row []any) message {
	m := message{'U'}.u32(11)
	if kind != 0 {
		m = m.u8(kind).tuple(old...)
	}
	return m.u8('N').tuple(row...)
}

func deleteMessage(oid uint32, kind byte, old ...any) message {
	return message{'D'}.u32(oid).u8(kind).tuple(old...)
}

func truncateMessage(oids ...uint32) message {
	m := message{'T'}.u32(uint32(len(oids))).u8(0)
	for _, oid := range oids {
		m = m.u32(oid)
	}
	return m
}
