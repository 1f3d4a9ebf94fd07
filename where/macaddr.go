package where

import (
	"cmp"
	"encoding/hex"
	"strings"
)

// A macaddr is the number of its 6 bytes, a macaddr8 that of its 8 bytes, whose order has no sign.

func compareUint(a, b value) int { return cmp.Compare(uint64(a.i), uint64(b.i)) } //nolint:gosec // the bits are what is compared

// inputMacaddr reads size bytes in the forms 08:00:2b:01:02:03, 08-00-2b-01-02-03, 0800.2b01.0203 and 08002b010203;
// where wide is set 6 bytes also stand for 8 (RFC 4291's EUI-64 from EUI-48). Postgres knows more forms.
func inputMacaddr(size int) func(s string) (value, bool) {
	return func(s string) (value, bool) {
		s = trimSpace(s)
		digits := s
		for sep, group := range map[string]int{":": 2, "-": 2, ".": 4} {
			if !strings.Contains(s, sep) {
				continue
			}
			parts := strings.Split(s, sep)
			for _, p := range parts {
				if len(p) != group {
					return value{}, false
				}
			}
			digits = strings.Join(parts, "")
		}
		raw, err := hex.DecodeString(digits)
		if err != nil || len(raw) != size && (size != 8 || len(raw) != 6) {
			return value{}, false
		}
		var n int64
		for _, b := range raw {
			n = n<<8 | int64(b)
		}
		if len(raw) < size {
			return intValue(widenMacaddr(n)), true
		}
		return intValue(n), true
	}
}

func widenMacaddr(n int64) int64 { return n>>24<<40 | 0xfffe<<24 | n&0xffffff }

func outputMacaddr(size int) func(value) string {
	return func(v value) string {
		out := make([]byte, 0, 3*size)
		for i := size - 1; i >= 0; i-- {
			out = hex.AppendEncode(out, []byte{byte(v.i >> (8 * i))}) //nolint:gosec // one byte is what is wanted
			if i > 0 {
				out = append(out, ':')
			}
		}
		return string(out)
	}
}

func macaddrCodec(size int) *codec {
	input := inputMacaddr(size)
	return &codec{input, func(b []byte) (value, bool) { return input(unsafeString(b)) }, outputMacaddr(size), compareUint}
}

func registerMacaddr() {
	for prefix, mask := range map[string]int64{"macaddr_": 1<<48 - 1, "macaddr8_": -1} {
		for _, o := range orders {
			register(prefix+o.suffix, &builtin{order: o.order, compare: compareUint, buildTest: buildComparison})
		}
		register(prefix+"and", &builtin{f2: func(a, b value) value { return intValue(a.i & b.i) }})
		register(prefix+"or", &builtin{f2: func(a, b value) value { return intValue(a.i | b.i) }})
		register(prefix+"not", &builtin{f1: func(v value) value { return intValue(^v.i & mask) }})
	}
	// The manufacturer's 3 bytes stay.
	register("macaddr_trunc", &builtin{f1: func(v value) value { return intValue(v.i >> 24 << 24) }})
	register("macaddr8_trunc", &builtin{f1: func(v value) value { return intValue(v.i >> 40 << 40) }})
	register("macaddr8_set7bit", &builtin{f1: func(v value) value { return intValue(v.i | 1<<57) }})
	register("macaddrtomacaddr8", &builtin{f1: func(v value) value { return intValue(widenMacaddr(v.i)) }})
	register("macaddr8tomacaddr", &builtin{f1: func(v value) value {
		if v.i>>24&0xffff != 0xfffe {
			return failedValue
		}
		return intValue(v.i>>40<<24&(1<<48-1) | v.i&0xffffff)
	}})
}
