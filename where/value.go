package where

import "math"

// state tells what a value holds. The zero state is NULL, so that a zero value is NULL.
type state uint8

const (
	isNull state = iota
	isSet
	// isFailed stands for what would be an error in Postgres, such as a division by zero. It passes through every
	// operator, and ends the shape whose clause gives it.
	isFailed
)

// value is one SQL value at run time; which fields count depends on the type, see codecs. It is passed by value, so
// that evaluation needs no memory, and has no more words than the calling convention passes in registers.
//
//	bool                  i: 0 or 1
//	int2 int4 int8 oid    i
//	float4 float8         i: the bits of a float64
//	numeric               b: canonical text
//	text varchar name     b; bpchar also, with its padding
//	bytea                 b: lower-case hexadecimal, without the \x
//	uuid                  b: canonical text
//	date                  i: days from 2000-01-01; dateNegInf, datePosInf
//	time                  i: µs from midnight
//	timetz                i: µs from midnight, local; j: zone, seconds west of UTC
//	timestamp timestamptz i: µs from 2000-01-01 (UTC); tsNegInf, tsPosInf
//	interval              i: µs; j: months and days, see packDays
//	enum                  b: label; i: its place, -1 for one that the catalogue did not list
//	json                  b: text as written; jsonb: b, canonical text
//	inet cidr             b: see inet
//	macaddr pg_lsn xid8   i: the bits of a number without sign; macaddr8 as well
//	xid "char"            i
//	bit varbit            b: text of 0 and 1
//	arrays                a
//	ranges multiranges    a: bounds or ranges; i: see rangeEmpty
type value struct {
	st state
	i  int64
	j  int64
	b  []byte
	a  *array
}

// array is the value of an array type. Elements stand in row-major order.
type array struct {
	elems []value
	dims  []dim // empty for the empty array
}

type dim struct{ length, lower int }

var (
	nullValue   = value{st: isNull}
	failedValue = value{st: isFailed}
)

func boolValue(b bool) value {
	if b {
		return value{st: isSet, i: 1}
	}
	return value{st: isSet}
}

func intValue(i int64) value { return value{st: isSet, i: i} }

func bytesValue(b []byte) value { return value{st: isSet, b: b} }

func floatValue(f float64) value { return value{st: isSet, i: int64(math.Float64bits(f))} }

func (v value) float() float64 { return math.Float64frombits(uint64(v.i)) }

// packDays puts an interval's months and days into one word; unpackDays takes them out.
func packDays(months, days int32) int64 { return int64(months)<<32 | int64(uint32(days)) }

func (v value) months() int32 { return int32(v.j >> 32) }
func (v value) days() int32   { return int32(v.j) } //nolint:gosec // the low word is what is wanted

// Tri is the outcome of evaluating a clause for a row.
type Tri uint8

// The outcomes. Only True matches.
const (
	Unknown Tri = iota // NULL
	True
	False
	Failed // evaluation fails; Postgres would raise an error
)

func triOf(b bool) Tri {
	if b {
		return True
	}
	return False
}

// tri turns a bool value into its Tri.
func (v value) tri() Tri {
	switch {
	case v.st == isNull:
		return Unknown
	case v.st == isFailed:
		return Failed
	case v.i != 0:
		return True
	default:
		return False
	}
}

func (t Tri) value() value {
	switch t {
	case True:
		return value{st: isSet, i: 1}
	case False:
		return value{st: isSet}
	case Failed:
		return failedValue
	default:
		return nullValue
	}
}
