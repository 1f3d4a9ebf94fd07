package where

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

// inet is the value of an inet or cidr, unpacked: its bytes are how many bits the network has, then the address.
type inet struct {
	bits int
	addr []byte // 4 or 16, the family
}

func (v value) inet() inet { return inet{int(v.b[0]), v.b[1:]} }

func (n inet) value() value {
	return bytesValue(append([]byte{byte(n.bits)}, n.addr...))
}

func (n inet) max() int { return len(n.addr) * 8 }

// masked is the network with the host's bits cleared.
func (n inet) masked() inet {
	out := inet{n.bits, bytes.Clone(n.addr)}
	for i := range out.addr {
		out.addr[i] &= maskByte(n.bits, i)
	}
	return out
}

// maskByte is byte i of the mask of a network with so many bits.
func maskByte(bits, i int) byte {
	switch rest := bits - 8*i; {
	case rest >= 8:
		return 0xff
	case rest <= 0:
		return 0
	default:
		return ^byte(0xff >> rest)
	}
}

// samePrefix counts in how many of the first limit bits two addresses of one family agree.
func (n inet) samePrefix(o inet, limit int) int {
	for i := range n.addr {
		if d := n.addr[i] ^ o.addr[i]; d != 0 {
			return min(8*i+bits.LeadingZeros8(d), limit)
		}
	}
	return limit
}

// within reports whether n's network lies in o's or is it.
func (n inet) within(o inet) bool {
	return len(n.addr) == len(o.addr) && n.bits >= o.bits && n.samePrefix(o, o.bits) == o.bits
}

// compareInet is network_cmp: IPv4 before IPv6, then the bits both networks have, then the longer network, then the
// whole address.
func compareInet(a, b value) int {
	x, y := a.inet(), b.inet()
	if c := cmp.Compare(len(x.addr), len(y.addr)); c != 0 {
		return c
	}
	common := min(x.bits, y.bits)
	if x.samePrefix(y, common) < common {
		return bytes.Compare(x.addr, y.addr)
	}
	if c := cmp.Compare(x.bits, y.bits); c != 0 {
		return c
	}
	return bytes.Compare(x.addr, y.addr)
}

// inputInet reads "address[/bits]". An IPv4 address may leave bytes out where there are bits that say how many count.
func inputInet(s string) (value, bool) {
	n, ok := parseInet(s)
	if !ok {
		return value{}, false
	}
	return n.value(), true
}

// inputCidr refuses a network with bits set to the right of its mask. Without bits a whole address is a network of its
// own; a part of an IPv4 address would get its network from the classes of old, which is not supported.
func inputCidr(s string) (value, bool) {
	n, ok := parseInet(s)
	if !ok || !bytes.Equal(n.masked().addr, n.addr) {
		return value{}, false
	}
	return n.value(), true
}

func parseInet(s string) (n inet, ok bool) {
	text, prefix, written := strings.Cut(s, "/")
	if !strings.Contains(text, ":") && written {
		text += strings.Repeat(".0", max(3-strings.Count(text, "."), 0))
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return inet{}, false
	}
	n.addr = addr.AsSlice()
	n.bits = n.max()
	if written {
		if prefix == "" || len(prefix) > 3 || !allDigits(prefix) {
			return inet{}, false
		}
		n.bits, _ = strconv.Atoi(prefix)
		given := strings.Count(strings.SplitN(s, "/", 2)[0], ".") + 1
		if n.bits > n.max() || len(n.addr) == 4 && n.bits/8 > given {
			return inet{}, false
		}
	}
	return n, true
}

// host is the address alone, as Postgres writes it: of IPv6 addresses the longest run of zero words is left out, and
// those that hold an IPv4 address end with it.
func (n inet) host() string {
	if len(n.addr) == 4 {
		return netip.AddrFrom4([4]byte(n.addr)).String()
	}
	var words [8]uint16
	for i := range words {
		words[i] = binary.BigEndian.Uint16(n.addr[2*i:])
	}
	start, length := 0, 0
	for i := 0; i < len(words); i++ {
		run := 0
		for i+run < len(words) && words[i+run] == 0 {
			run++
		}
		if run > length && run > 1 {
			start, length = i, run
		}
		i += max(run-1, 0)
	}
	dotted := length > 0 && start == 0 && (length == 6 || length == 5 && words[5] == 0xffff)
	var b strings.Builder
	for i := 0; i < len(words); i++ {
		if length > 0 && i == start {
			b.WriteString("::")
			i += length - 1
			continue
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), ":") {
			b.WriteByte(':')
		}
		if dotted && i == 6 {
			b.WriteString(netip.AddrFrom4([4]byte(n.addr[12:])).String())
			break
		}
		b.WriteString(strconv.FormatUint(uint64(words[i]), 16))
	}
	return b.String()
}

// outputInet writes the bits of the network only where it is more than the address.
func outputInet(v value) string {
	if n := v.inet(); n.bits == n.max() {
		return n.host()
	}
	return outputCidr(v)
}

// outputCidr always writes the bits, as the cast of inet to text does as well.
func outputCidr(v value) string {
	n := v.inet()
	return n.host() + "/" + strconv.Itoa(n.bits)
}
