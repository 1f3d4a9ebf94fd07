package where

import (
	"bytes"
	"crypto/md5" //nolint:gosec // md5() is a function of the language, not a safeguard
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/shapeserver/shapeserver/changes"
)

// maxText bounds what functions may build, so that no clause can ask for a gigabyte per row. Postgres's own bound is
// 1 GB; between the two a result counts as failed.
const maxText = 16 << 20

func registerText() {
	for key, not := range map[string]bool{"like": false, "nlike": true} {
		for _, t := range []string{"text", "name", "bpchar"} {
			register(t+key, &builtin{needs: needDeterministic, buildTest: buildLike(not), check: checkLike})
		}
	}
	for key, not := range map[string]bool{"iclike": false, "icnlike": true} {
		for _, t := range []string{"text", "name", "bpchar"} {
			register(t+key, &builtin{needs: needCasing, buildTest: buildILike(not), check: checkLike})
		}
	}
	register("like_escape", &builtin{f2: likeEscape})
	register("lower", &builtin{needs: needCasing, build: buildCase(lowerText)})
	register("upper", &builtin{needs: needCasing, build: buildCase(upperText)})

	concat := func(a, b value) value {
		if len(a.b)+len(b.b) > maxText {
			return failedValue
		}
		return bytesValue(append(append(make([]byte, 0, len(a.b)+len(b.b)), a.b...), b.b...))
	}
	register("textcat", &builtin{f2: concat})
	register("byteacat", &builtin{f2: concat})
	register("textanycat(text, anynonarray)", &builtin{build: buildAnyConcat})
	register("anytextcat(anynonarray, text)", &builtin{build: buildAnyConcat})
	register("text_concat", &builtin{build: func(n *node) eval { return buildConcat(n, nil) }})
	register("text_concat_ws", &builtin{build: func(n *node) eval { return buildConcat(n, compile(n.args[0])) }})

	length := func(v value) value { return intValue(int64(utf8.RuneCount(v.b))) }
	register("textlen", &builtin{f1: length})
	register("bpcharlen", &builtin{f1: func(v value) value { return intValue(int64(utf8.RuneCountInString(trimBlanks(v.b)))) }})
	register("textoctetlen", &builtin{f1: func(v value) value { return intValue(int64(len(v.b))) }})
	register("bpcharoctetlen", &builtin{f1: func(v value) value { return intValue(int64(len(v.b))) }})
	register("byteaoctetlen", &builtin{f1: func(v value) value { return intValue(int64(len(v.b) / 2)) }})

	for _, f := range []struct {
		key         string
		left, right bool
	}{{"btrim", true, true}, {"ltrim", true, false}, {"rtrim", false, true}} {
		register(f.key, &builtin{f2: func(v, set value) value { return trimChars(v, string(set.b), f.left, f.right) }})
		if f.key != "rtrim" { // rtrim1 is also a cast and stands with those
			register(f.key+"1", &builtin{f1: func(v value) value { return trimChars(v, " ", f.left, f.right) }})
		}
	}
	register("text_substr", &builtin{fn: func(a []value) value { return substring(a[0], a[1].i, a[2].i) }})
	register("text_substr_no_len", &builtin{f2: func(v, start value) value { return bytesValue(v.b[charOffset(v.b, start.i-1):]) }})
	register("text_left", &builtin{f2: func(v, n value) value {
		count := n.i
		if count < 0 {
			count += int64(utf8.RuneCount(v.b))
		}
		return bytesValue(v.b[:charOffset(v.b, count)])
	}})
	register("text_right", &builtin{f2: func(v, n value) value {
		count := -n.i
		switch {
		case n.i >= 0:
			count += int64(utf8.RuneCount(v.b))
		case n.i == math.MinInt32:
			count = 0 // negating it overflows in Postgres, which then returns the whole
		}
		return bytesValue(v.b[charOffset(v.b, count):])
	}})
	register("textpos", &builtin{needs: needDeterministic, f2: func(v, sub value) value {
		i := bytes.Index(v.b, sub.b)
		if i < 0 {
			return intValue(0)
		}
		return intValue(int64(utf8.RuneCount(v.b[:i])) + 1)
	}})
	register("text_starts_with", &builtin{needs: needDeterministic, f2: func(v, p value) value { return boolValue(bytes.HasPrefix(v.b, p.b)) }})
	register("replace_text", &builtin{needs: needDeterministic, fn: func(a []value) value {
		if len(a[1].b) == 0 {
			return a[0]
		}
		if len(a[0].b)+bytes.Count(a[0].b, a[1].b)*(len(a[2].b)-len(a[1].b)) > maxText {
			return failedValue
		}
		return bytesValue(bytes.ReplaceAll(a[0].b, a[1].b, a[2].b))
	}})
	register("text_reverse", &builtin{f1: func(v value) value {
		out := make([]byte, len(v.b))
		at := len(out)
		for s := v.b; len(s) > 0; {
			n := runeLen(s)
			at -= n
			copy(out[at:], s[:n])
			s = s[n:]
		}
		return bytesValue(out)
	}})
	register("repeat", &builtin{f2: func(v, n value) value {
		count := max(n.i, 0)
		if int64(len(v.b))*count > maxText {
			return failedValue
		}
		return bytesValue(bytes.Repeat(v.b, int(count)))
	}})
	register("split_part", &builtin{needs: needDeterministic, fn: splitPart})
	register("translate", &builtin{fn: translate})
	register("md5_text", &builtin{f1: func(v value) value {
		sum := md5.Sum(v.b) //nolint:gosec // see the import
		return bytesValue([]byte(hex.EncodeToString(sum[:])))
	}})
	register("ascii", &builtin{f1: func(v value) value {
		if len(v.b) == 0 {
			return intValue(0)
		}
		r, _ := utf8.DecodeRune(v.b)
		return intValue(int64(r))
	}})
	register("bit_length(text)", &builtin{f1: func(v value) value { return intValue(int64(len(v.b)) * 8) }})
	register("chr", &builtin{f1: chr})
	register("to_hex32", &builtin{f1: func(v value) value { return bytesValue(strconv.AppendUint(nil, uint64(uint32(v.i)), 16)) }}) //nolint:gosec // the bits are what is wanted
	register("to_hex64", &builtin{f1: func(v value) value { return bytesValue(strconv.AppendUint(nil, uint64(v.i), 16)) }})         //nolint:gosec // as above
	register("quote_literal", &builtin{f1: func(v value) value { return bytesValue([]byte(quoted(string(v.b)))) }})
	registerPadding()
	registerBytea()
	register("varchar", nil2("varchar"))
	register("bpchar", nil2("bpchar"))
}

// chr is the character of a code point; 0, which no text holds, surrogates and what is beyond Unicode fail.
func chr(v value) value {
	if v.i <= 0 || v.i > unicode.MaxRune || !utf8.ValidRune(rune(v.i)) {
		return failedValue
	}
	return bytesValue(utf8.AppendRune(nil, rune(v.i)))
}

// quoted is quote_literal(): with an E in front when there is a backslash.
func quoted(s string) string {
	q := "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(s) + "'"
	if strings.Contains(s, `\`) {
		return "E" + q
	}
	return q
}

// nil2 stands for the length coercions of pg_cast, which no resolution leads to: typmods are applied by applyTypmod.
func nil2(name string) *builtin {
	return &builtin{fn: func([]value) value { return failedValue }, check: func(n *node) error {
		return errorAt(n.loc, "calling %s() with a modifier is not supported", name)
	}}
}

func trimBlanks(b []byte) string { return unsafeString(bytes.TrimRight(b, " ")) }

// lowerText appends the lower-case form of s to dst; simple is false where only ASCII letters have one. It returns s
// itself when there is nothing to change.
func lowerText(dst, s []byte, simple bool) []byte {
	for i, c := range s {
		if c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf && simple {
			return lowerFrom(append(dst, s[:i]...), s[i:], simple)
		}
	}
	return s
}

// lowerFrom is lowerText once there is something to change. ASCII, the common case, is written without append.
func lowerFrom(dst, s []byte, simple bool) []byte {
	if at := len(dst); cap(dst)-at >= len(s) {
		out := dst[at : at+len(s)]
		for i, c := range s {
			if c >= utf8.RuneSelf {
				return lowerRunes(dst[:at+i], s[i:], simple)
			}
			out[i] = asciiLower[c]
		}
		return dst[:at+len(s)]
	}
	return lowerRunes(dst, s, simple)
}

var asciiLower = func() (t [utf8.RuneSelf]byte) {
	for i := range t {
		t[i] = byte(i)
		if i >= 'A' && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

func lowerRunes(dst, s []byte, simple bool) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'Z':
			dst = append(dst, c+'a'-'A')
		case c >= utf8.RuneSelf && simple:
			r, n := utf8.DecodeRune(s[i:])
			if l := simpleLower(r); l != r {
				dst = utf8.AppendRune(dst, l)
			} else {
				dst = append(dst, s[i:i+n]...)
			}
			i += n - 1
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func upperText(dst, s []byte, simple bool) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z':
			dst = append(dst, c-('a'-'A'))
		case c >= utf8.RuneSelf && simple:
			r, n := utf8.DecodeRune(s[i:])
			if u := simpleUpper(r); u != r {
				dst = utf8.AppendRune(dst, u)
			} else {
				dst = append(dst, s[i:i+n]...)
			}
			i += n - 1
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// simpleLower and simpleUpper are towlower and towupper of the C library's UTF-8 locales: one character for one.
func simpleLower(r rune) rune { return unicode.ToLower(r) }
func simpleUpper(r rune) rune { return unicode.ToUpper(r) }

func buildCase(f func(dst, s []byte, simple bool) []byte) func(*node) eval {
	return func(n *node) eval {
		arg := compile(n.args[0])
		simple := n.coll.casing() == casingSimple
		return func(row changes.Row) value {
			v := arg(row)
			if v.st == isSet {
				v.b = f(nil, v.b, simple)
			}
			return v
		}
	}
}

// charOffset is the byte offset behind the first n characters; 0 for n below that, the length for n beyond.
func charOffset(b []byte, n int64) int {
	at := 0
	for ; n > 0 && at < len(b); n-- {
		at += runeLen(b[at:])
	}
	return at
}

// substring is SQL's: positions from 1, a start before that uses up length, a negative length fails.
func substring(v value, start, length int64) value {
	if length < 0 {
		return failedValue
	}
	end := start + length
	start = max(start, 1)
	if end <= start {
		return bytesValue([]byte{})
	}
	from := charOffset(v.b, start-1)
	return bytesValue(v.b[from : from+charOffset(v.b[from:], end-start)])
}

func trimChars(v value, set string, left, right bool) value {
	in := func(r rune) bool { return strings.ContainsRune(set, r) }
	if left {
		v.b = bytes.TrimLeftFunc(v.b, in)
	}
	if right {
		v.b = bytes.TrimRightFunc(v.b, in)
	}
	return v
}

func splitPart(a []value) value {
	n := a[2].i
	if n == 0 {
		return failedValue
	}
	empty := bytesValue([]byte{})
	switch {
	case len(a[0].b) == 0:
		return empty
	case len(a[1].b) == 0:
		if n == 1 || n == -1 {
			return a[0]
		}
		return empty
	}
	parts := bytes.Split(a[0].b, a[1].b)
	if n < 0 {
		n += int64(len(parts)) + 1
	}
	if n < 1 || n > int64(len(parts)) {
		return empty
	}
	return bytesValue(parts[n-1])
}

func translate(a []value) value {
	from, to := []rune(string(a[1].b)), []rune(string(a[2].b))
	return bytesValue(bytes.Map(func(r rune) rune {
		for i, f := range from {
			switch {
			case f != r:
			case i < len(to):
				return to[i]
			default:
				return -1
			}
		}
		return r
	}, a[0].b))
}
