package where

import (
	"encoding/binary"
	"math/big"
	"math/bits"
)

// registerInet adds the operators and functions of inet and cidr (manual, "Network Address Functions and Operators").
func registerInet() {
	for _, o := range orders {
		register("network_"+o.suffix, &builtin{order: o.order, compare: compareInet, buildTest: buildComparison})
	}
	for key, holds := range map[string]func(a, b inet) bool{
		"network_sub":      func(a, b inet) bool { return a.bits > b.bits && a.within(b) },
		"network_subeq":    func(a, b inet) bool { return a.within(b) },
		"network_sup":      func(a, b inet) bool { return b.bits > a.bits && b.within(a) },
		"network_supeq":    func(a, b inet) bool { return b.within(a) },
		"network_overlap":  func(a, b inet) bool { return a.within(b) || b.within(a) },
		"inet_same_family": func(a, b inet) bool { return len(a.addr) == len(b.addr) },
	} {
		register(key, &builtin{f2: func(a, b value) value { return boolValue(holds(a.inet(), b.inet())) }})
	}
	for key, f := range map[string]func(n inet) inet{
		"network_netmask": func(n inet) inet {
			return onAddress(inet{n.max(), n.addr}, func(i int, _ byte) byte { return maskByte(n.bits, i) })
		},
		"network_hostmask": func(n inet) inet {
			return onAddress(inet{n.max(), n.addr}, func(i int, _ byte) byte { return ^maskByte(n.bits, i) })
		},
		"network_broadcast": func(n inet) inet {
			return onAddress(n, func(i int, b byte) byte { return b | ^maskByte(n.bits, i) })
		},
		"inetnot":         func(n inet) inet { return onAddress(n, func(_ int, b byte) byte { return ^b }) },
		"network_network": inet.masked,
		"inet_to_cidr":    inet.masked,
	} {
		register(key, &builtin{f1: func(v value) value { return f(v.inet()).value() }})
	}
	register("network_family", &builtin{f1: func(v value) value {
		if len(v.inet().addr) == 4 {
			return intValue(4)
		}
		return intValue(6)
	}})
	register("network_masklen", &builtin{f1: func(v value) value { return intValue(int64(v.inet().bits)) }})
	register("network_host", &builtin{f1: func(v value) value { return bytesValue([]byte(v.inet().host())) }})
	register("network_show", &builtin{f1: func(v value) value { return bytesValue([]byte(outputCidr(v))) }})
	register("inet_abbrev", &builtin{f1: func(v value) value { return bytesValue([]byte(outputInet(v))) }})
	setMask := func(v, length value) (inet, bool) {
		n := v.inet()
		n.bits = int(length.i)
		if n.bits == -1 {
			n.bits = n.max()
		}
		return n, n.bits >= 0 && n.bits <= n.max()
	}
	register("inet_set_masklen", &builtin{f2: func(v, length value) value {
		n, ok := setMask(v, length)
		if !ok {
			return failedValue
		}
		return n.value()
	}})
	register("cidr_set_masklen", &builtin{f2: func(v, length value) value {
		n, ok := setMask(v, length)
		if !ok {
			return failedValue
		}
		return n.masked().value()
	}})
	register("inet_merge", &builtin{f2: func(a, b value) value {
		x, y := a.inet(), b.inet()
		if len(x.addr) != len(y.addr) {
			return failedValue
		}
		x.bits = x.samePrefix(y, min(x.bits, y.bits))
		return x.masked().value()
	}})
	for key, f := range map[string]func(a, b byte) byte{
		"inetand": func(a, b byte) byte { return a & b }, "inetor": func(a, b byte) byte { return a | b },
	} {
		register(key, &builtin{f2: func(a, b value) value {
			x, y := a.inet(), b.inet()
			if len(x.addr) != len(y.addr) {
				return failedValue
			}
			x.bits = max(x.bits, y.bits)
			return onAddress(x, func(i int, b byte) byte { return f(b, y.addr[i]) }).value()
		}})
	}
	register("inetpl", &builtin{f2: func(a, n value) value { return addInet(a.inet(), n.i) }})
	register("int8pl_inet(bigint, inet)", &builtin{f2: func(n, a value) value { return addInet(a.inet(), n.i) }})
	register("inetmi_int8", &builtin{f2: func(a, n value) value { return addInet(a.inet(), -n.i) }})
	register("inetmi", &builtin{f2: func(a, b value) value { return subInet(a.inet(), b.inet()) }})
}

func onAddress(n inet, f func(i int, b byte) byte) inet {
	out := inet{n.bits, make([]byte, len(n.addr))}
	for i, b := range n.addr {
		out.addr[i] = f(i, b)
	}
	return out
}

// addInet adds a number to an address; the network's bits stay.
func addInet(n inet, by int64) value {
	sum := new(big.Int).SetBytes(n.addr)
	sum.Add(sum, big.NewInt(by))
	if sum.Sign() < 0 || sum.BitLen() > n.max() {
		return failedValue
	}
	return inet{n.bits, sum.FillBytes(make([]byte, len(n.addr)))}.value()
}

// subInet is the difference of two addresses. It wraps around at 128 bits before it is seen whether an int8 holds it,
// as Postgres's does.
func subInet(a, b inet) value {
	if len(a.addr) != len(b.addr) {
		return failedValue
	}
	if len(a.addr) == 4 {
		return intValue(int64(binary.BigEndian.Uint32(a.addr)) - int64(binary.BigEndian.Uint32(b.addr)))
	}
	low, borrow := bits.Sub64(binary.BigEndian.Uint64(a.addr[8:]), binary.BigEndian.Uint64(b.addr[8:]), 0)
	high, _ := bits.Sub64(binary.BigEndian.Uint64(a.addr), binary.BigEndian.Uint64(b.addr), borrow)
	out := int64(low)            //nolint:gosec // the bits are what is wanted
	if high != uint64(out>>63) { //nolint:gosec // as above
		return failedValue
	}
	return intValue(out)
}
