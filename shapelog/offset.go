package shapelog

import (
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"
)

// Offset is a position in a shape's log (protocol.md §6.1): after the entry with op Op of the transaction Tx.
// Offsets are ordered; the zero Offset is Before, which precedes everything.
type Offset struct {
	tx uint64
	op uint64 // the op plus one; 0 only in Before; math.MaxUint64 stands for "inf"
}

const opInf = math.MaxUint64

var (
	// Before is the offset of a client that has nothing, "-1" on the wire.
	Before = Offset{}
	// SnapshotEnd is the end of the snapshot, before any replicated change: "0_inf".
	SnapshotEnd = Offset{tx: 0, op: opInf}
)

// ErrBadOffset reports that a text is no offset. The caller answers 400 "has invalid format".
var ErrBadOffset = errors.New("offset: want -1, <int>_<int> or <int>_inf")

// At returns the offset tx_op. tx is the commit LSN of the transaction in bytes; op is twice the index of the
// change in it, plus one for the second half of a key change.
func At(tx, op uint64) Offset { return Offset{tx: tx, op: min(op, opInf-2) + 1} }

// SnapshotChunk returns the virtual offset at the end of snapshot chunk n, counted from 0: "0_n".
func SnapshotChunk(n int) Offset { return At(0, uint64(n)) } //nolint:gosec // chunk numbers are not negative

// Tx returns the transaction part: 0 for Before and for every offset in the snapshot.
func (o Offset) Tx() uint64 { return o.tx }

// Op returns the op part; it is meaningless for Before, and math.MaxUint64 for tx_inf.
func (o Offset) Op() uint64 {
	if o.op == 0 || o.op == opInf {
		return o.op
	}
	return o.op - 1
}

// IsInf reports whether o has the form tx_inf.
func (o Offset) IsInf() bool { return o.op == opInf }

// IsSnapshot reports whether o is 0_n: the end of some snapshot chunk. SnapshotEnd is not one.
func (o Offset) IsSnapshot() bool { return o.tx == 0 && o.op != 0 && o.op != opInf }

// Compare orders offsets: Before, 0_0, 0_1, …, 0_inf, then by transaction and op.
func (o Offset) Compare(p Offset) int {
	return cmp.Or(cmp.Compare(o.tx, p.tx), cmp.Compare(o.op, p.op))
}

// String returns the canonical wire form.
func (o Offset) String() string { return string(o.Append(nil)) }

// Append appends the canonical wire form to dst.
func (o Offset) Append(dst []byte) []byte {
	if o == Before {
		return append(dst, "-1"...)
	}
	dst = strconv.AppendUint(dst, o.tx, 10)
	if o.op == opInf {
		return append(dst, "_inf"...)
	}
	return strconv.AppendUint(append(dst, '_'), o.op-1, 10)
}

// Parse reads an offset off the wire; "-1_0" is accepted for "-1" and leading zeros are dropped. Any other text
// gives ErrBadOffset ("now" too: it is a request's word, not a position).
func Parse(s string) (Offset, error) {
	if s == "-1" || s == "-1_0" {
		return Before, nil
	}
	txText, opText, ok := strings.Cut(s, "_")
	if !ok {
		return Offset{}, ErrBadOffset
	}
	tx, ok := parseDigits(txText)
	if !ok {
		return Offset{}, ErrBadOffset
	}
	if opText == "inf" {
		return Offset{tx: tx, op: opInf}, nil
	}
	op, ok := parseDigits(opText)
	if !ok || op > opInf-2 {
		return Offset{}, ErrBadOffset
	}
	return Offset{tx: tx, op: op + 1}, nil
}

// parseDigits is ParseUint without its signs and underscores.
func parseDigits(s string) (uint64, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// Entry is one item of a shape's log: an offset and the item's JSON object, exactly as it goes on the wire.
type Entry struct {
	Offset Offset
	JSON   []byte
}
