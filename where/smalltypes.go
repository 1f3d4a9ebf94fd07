package where

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"
)

// inputUint reads a decimal number of up to so many bits. Postgres also takes other bases, by rules that changed
// between releases.
func inputUint(bits int) func(s string) (value, bool) {
	return func(s string) (value, bool) {
		s = trimSpace(s)
		if len(s) > 1 && s[0] == '0' || !allDigits(s) {
			return value{}, false
		}
		n, err := strconv.ParseUint(s, 10, bits)
		return intValue(int64(n)), err == nil //nolint:gosec // compared without sign
	}
}

func outputUint(v value) string { return strconv.FormatUint(uint64(v.i), 10) } //nolint:gosec // the bits are what is written

// inputLSN reads a position in the WAL: two hexadecimal numbers of 32 bits.
func inputLSN(s string) (value, bool) {
	high, low, ok := strings.Cut(s, "/")
	if !ok || len(high) > 8 || len(low) > 8 {
		return value{}, false
	}
	h, err := strconv.ParseUint(high, 16, 32)
	if err != nil {
		return value{}, false
	}
	l, err := strconv.ParseUint(low, 16, 32)
	return intValue(int64(h<<32 | l)), err == nil //nolint:gosec // compared without sign
}

func outputLSN(v value) string {
	n := uint64(v.i) //nolint:gosec // as above
	hex := func(n uint64) string { return strings.ToUpper(strconv.FormatUint(n, 16)) }
	return hex(n>>32) + "/" + hex(n&0xffffffff)
}

// inputChar reads a "char": one ASCII character or none. Releases differ over what else a byte can be written as.
func inputChar(s string) (value, bool) {
	if len(s) > 1 || s != "" && (s[0] >= 0x80 || s[0] == '\\') {
		return value{}, false
	}
	return readChar([]byte(s))
}

// readChar also reads the octal form in which later releases write a byte that is no ASCII character.
func readChar(b []byte) (value, bool) {
	switch {
	case len(b) == 0:
		return intValue(0), true
	case len(b) == 1:
		return intValue(int64(b[0])), true
	case len(b) == 4 && b[0] == '\\':
		n, err := strconv.ParseUint(string(b[1:]), 8, 8)
		return intValue(int64(n)), err == nil //nolint:gosec // one byte
	default:
		return value{}, false
	}
}

func outputChar(v value) string {
	switch {
	case v.i == 0:
		return ""
	case v.i < 0x80:
		return string(rune(v.i))
	default:
		return `\` + strconv.FormatInt(v.i, 8)
	}
}

// inputBits reads the digits of a bit or varbit, which are kept as they are: that orders them as Postgres does.
func inputBits(s string) (value, bool) {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "b"), "B")
	return bytesValue([]byte(s)), strings.Trim(s, "01") == ""
}

// compareXid compares an xid with another or with an int4, whose bits count.
func compareXid(a, b value) int { return cmp.Compare(uint32(a.i), uint32(b.i)) } //nolint:gosec // as said

func registerSmallTypes() {
	for _, o := range orders {
		for _, prefix := range []string{"pg_lsn_", "xid8"} {
			register(prefix+o.suffix, &builtin{order: o.order, compare: compareUint, buildTest: buildComparison})
		}
		register("char"+o.suffix, &builtin{order: o.order, compare: compareInt, buildTest: buildComparison})
		register("bit"+o.suffix, &builtin{order: o.order, compare: compareBytes, buildTest: buildComparison})
	}
	register("xideq", &builtin{order: orderEQ, compare: compareXid, buildTest: buildComparison})
	register("xidneq", &builtin{order: orderNE, compare: compareXid, buildTest: buildComparison})
	register("pg_lsn_mi", &builtin{f2: func(a, b value) value {
		d := new(big.Int).SetUint64(uint64(a.i))      //nolint:gosec // as above
		d.Sub(d, new(big.Int).SetUint64(uint64(b.i))) //nolint:gosec // as above
		return bytesValue([]byte(d.String()))
	}})
	register("bitcat", &builtin{f2: func(a, b value) value {
		if len(a.b)+len(b.b) > maxText {
			return failedValue
		}
		return bytesValue(append(append(make([]byte, 0, len(a.b)+len(b.b)), a.b...), b.b...))
	}})
	for key, f := range map[string]func(x, y byte) bool{
		"bit_and": func(x, y byte) bool { return x == '1' && y == '1' },
		"bit_or":  func(x, y byte) bool { return x == '1' || y == '1' },
		"bitxor":  func(x, y byte) bool { return x != y },
	} {
		register(key, &builtin{f2: func(a, b value) value {
			if len(a.b) != len(b.b) {
				return failedValue
			}
			return mapBits(len(a.b), func(i int) bool { return f(a.b[i], b.b[i]) })
		}})
	}
	register("bitnot", &builtin{f1: func(a value) value { return mapBits(len(a.b), func(i int) bool { return a.b[i] == '0' }) }})
	shift := func(a value, by int64) value {
		return mapBits(len(a.b), func(i int) bool {
			from := int64(i) + by
			return from >= 0 && from < int64(len(a.b)) && a.b[from] == '1'
		})
	}
	register("bitshiftleft", &builtin{f2: func(a, n value) value { return shift(a, n.i) }})
	register("bitshiftright", &builtin{f2: func(a, n value) value { return shift(a, -n.i) }})
}

func mapBits(n int, set func(i int) bool) value {
	out := make([]byte, n)
	for i := range out {
		out[i] = '0'
		if set(i) {
			out[i] = '1'
		}
	}
	return bytesValue(out)
}
