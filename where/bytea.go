package where

import (
	"bytes"
	"crypto/md5" //nolint:gosec // md5() is a function of the language, not a safeguard
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"math/bits"
)

// registerBytea adds the functions of bytea, whose values are kept as lower-case hexadecimal.
func registerBytea() {
	raw := func(v value) []byte {
		out, _ := hex.DecodeString(unsafeString(v.b)) // values are valid by construction
		return out
	}
	ofRaw := func(b []byte) value { return bytesValue([]byte(hex.EncodeToString(b))) }
	for key, f := range map[string]func(b []byte) []byte{
		"sha224_bytea": func(b []byte) []byte { s := sha256.Sum224(b); return s[:] },
		"sha256_bytea": func(b []byte) []byte { s := sha256.Sum256(b); return s[:] },
		"sha384_bytea": func(b []byte) []byte { s := sha512.Sum384(b); return s[:] },
		"sha512_bytea": func(b []byte) []byte { s := sha512.Sum512(b); return s[:] },
	} {
		register(key, &builtin{f1: func(v value) value { return ofRaw(f(raw(v))) }})
	}
	register("md5_bytea", &builtin{f1: func(v value) value {
		sum := md5.Sum(raw(v)) //nolint:gosec // see the import
		return bytesValue([]byte(hex.EncodeToString(sum[:])))
	}})
	register("bit_length(bytea)", &builtin{f1: func(v value) value { return intValue(int64(len(v.b) / 2 * 8)) }})
	register("bytea_bit_count", &builtin{f1: func(v value) value {
		n := 0
		for _, b := range raw(v) {
			n += bits.OnesCount8(b)
		}
		return intValue(int64(n))
	}})
	register("byteaGetByte", &builtin{f2: func(v, n value) value {
		if n.i < 0 || n.i >= int64(len(v.b)/2) {
			return failedValue
		}
		return intValue(int64(raw(v)[n.i]))
	}})
	register("byteaGetBit", &builtin{f2: func(v, n value) value {
		if n.i < 0 || n.i >= int64(len(v.b)/2)*8 {
			return failedValue
		}
		return intValue(int64(raw(v)[n.i/8] >> (n.i % 8) & 1))
	}})
	register("bytea_substr", &builtin{fn: func(a []value) value {
		if a[2].i < 0 {
			return failedValue
		}
		return substringBytes(a[0], a[1].i, a[1].i+a[2].i)
	}})
	register("bytea_substr_no_len", &builtin{f2: func(v, start value) value { return substringBytes(v, start.i, int64(len(v.b))+1) }})
	register("byteapos", &builtin{f2: func(v, part value) value { return intValue(int64(bytes.Index(raw(v), raw(part)) + 1)) }})
	for _, f := range []struct {
		key         string
		left, right bool
	}{{"byteatrim", true, true}, {"bytealtrim", true, false}, {"byteartrim", false, true}} {
		register(f.key, &builtin{f2: func(v, set value) value {
			b, in := raw(v), raw(set)
			for f.left && len(b) > 0 && bytes.IndexByte(in, b[0]) >= 0 {
				b = b[1:]
			}
			for f.right && len(b) > 0 && bytes.IndexByte(in, b[len(b)-1]) >= 0 {
				b = b[:len(b)-1]
			}
			return ofRaw(b)
		}})
	}
	register("binary_encode", &builtin{check: checkEncoding, f2: func(v, format value) value {
		b := raw(v)
		switch constantFormat(format) {
		case "hex":
			return bytesValue(v.b)
		case "base64":
			return bytesValue(encodeBase64(b))
		default:
			return bytesValue(encodeEscape(b))
		}
	}})
	register("binary_decode", &builtin{check: checkHex, f2: func(v, _ value) value {
		b, err := hex.DecodeString(string(v.b))
		if err != nil {
			return failedValue
		}
		return ofRaw(b)
	}})
}

func constantFormat(v value) string { return string(bytes.ToLower(v.b)) }

func checkEncoding(n *node) error {
	k, err := constantArg(n, 1, "format")
	if err != nil {
		return err
	}
	switch constantFormat(k.val) {
	case "hex", "base64", "escape":
		return nil
	default:
		return errorAt(max(k.loc, 0), "format %q is not supported for %s", excerpt(string(k.val.b)), n.fn.name)
	}
}

// checkHex takes hexadecimal only; the other formats skip white space and padding in ways of their own.
func checkHex(n *node) error {
	k, err := constantArg(n, 1, "format")
	if err != nil {
		return err
	}
	if constantFormat(k.val) != "hex" {
		return errorAt(max(k.loc, 0), "format %q is not supported for %s; 'hex' is", excerpt(string(k.val.b)), n.fn.name)
	}
	if !n.args[0].isConst() {
		return errorAt(max(n.args[0].loc, 0), "%s is supported for constants only", n.fn.name)
	}
	return nil
}

// encodeBase64 breaks lines after 76 characters, as RFC 2045 asks for.
func encodeBase64(b []byte) []byte {
	const line = 76
	all := base64.StdEncoding.AppendEncode(nil, b)
	out := make([]byte, 0, len(all)+len(all)/line)
	for len(all) > line {
		out = append(append(out, all[:line]...), '\n')
		all = all[line:]
	}
	return append(out, all...)
}

// encodeEscape writes zero and bytes beyond ASCII in octal, and doubles backslashes.
func encodeEscape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		switch {
		case c == 0 || c >= 0x80:
			out = append(out, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
		case c == '\\':
			out = append(out, '\\', '\\')
		default:
			out = append(out, c)
		}
	}
	return out
}

// substringBytes returns the bytes from start up to before end, both counted from 1.
func substringBytes(v value, start, end int64) value {
	at := func(n int64) int { return int(min(max(n-1, 0)*2, int64(len(v.b)))) }
	from, to := at(start), at(end)
	if to <= from {
		return bytesValue([]byte{})
	}
	return bytesValue(v.b[from:to])
}
