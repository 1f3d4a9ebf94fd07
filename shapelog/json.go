package shapelog

import (
	"unicode/utf8"
)

const hex = "0123456789abcdef"

// AppendJSONString appends s as a JSON string. Non-ASCII text stays as it is (protocol.md §7.5); bytes that are not
// UTF-8, which a database with encoding SQL_ASCII may hold, become U+FFFD so that the body is always valid JSON.
func AppendJSONString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// appendEscaped appends s with JSON's escapes and without the quotes around it.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	start := 0
	for i := plain(s); i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
			}
			i++
			start = i
			continue
		}
		r, size := decodeRune(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			i++
			start = i
			continue
		}
		i += size
	}
	return append(dst, s[start:]...)
}

// plain returns a number of bytes at the beginning of s that are ASCII and stand for themselves in a JSON string: at most
// seven fewer than there are, since it looks at eight at a time.
func plain[T string | []byte](s T) int {
	const (
		ones = 0x0101010101010101
		high = 0x8080808080808080
	)
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		b := s[n : n+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		// A subtraction sets the high bit of a byte that was smaller, or of one behind such a byte: never too few.
		quote, backslash := x^(ones*'"'), x^(ones*'\\')
		if (x|(x-ones*0x20)|(quote-ones)|(backslash-ones))&high != 0 {
			break
		}
	}
	return n
}

func decodeRune[T string | []byte](s T) (rune, int) {
	var b [utf8.UTFMax]byte
	n := copy(b[:], s)
	return utf8.DecodeRune(b[:n])
}
