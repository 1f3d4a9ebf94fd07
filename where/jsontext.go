package where

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth is how deep JSON literals may nest; Postgres stops at a depth that its stack decides.
const maxJSONDepth = 1000

// jsonParser reads JSON text (RFC 8259) and writes it as jsonb_out does: keys in jsonb's order, the last of equal keys
// kept, numbers as numeric, strings with the shortest escapes, ", " and ": " between.
type jsonParser struct {
	cursor
	depth int
	plain bool // only check: type json keeps the text
}

// inputJSONB reads a jsonb literal.
func inputJSONB(s string) (value, bool) {
	p := jsonParser{cursor: cursor{s: s}}
	out, ok := p.document()
	return bytesValue(out), ok
}

// inputJSON reads a json literal, whose text is kept as it is.
func inputJSON(s string) (value, bool) {
	p := jsonParser{cursor: cursor{s: s}, plain: true}
	_, ok := p.document()
	return bytesValue([]byte(s)), ok
}

func (p *jsonParser) document() ([]byte, bool) {
	out, ok := p.value([]byte{})
	p.blanks()
	return out, ok && p.done()
}

func (p *jsonParser) blanks() {
	for !p.done() && (p.s[p.pos] == ' ' || p.s[p.pos] == '\t' || p.s[p.pos] == '\n' || p.s[p.pos] == '\r') {
		p.pos++
	}
}

func (p *jsonParser) value(out []byte) ([]byte, bool) {
	p.blanks()
	switch c := p.peek(); {
	case c == '{':
		return p.object(out)
	case c == '[':
		return p.array(out)
	case c == '"':
		return p.text(out)
	case c == '-' || c >= '0' && c <= '9':
		return p.number(out)
	}
	for _, w := range []string{"true", "false", "null"} {
		if len(p.s)-p.pos >= len(w) && p.s[p.pos:p.pos+len(w)] == w {
			p.pos += len(w)
			return append(out, w...), true
		}
	}
	return nil, false
}

func (p *jsonParser) array(out []byte) ([]byte, bool) {
	if p.depth++; p.depth > maxJSONDepth {
		return nil, false
	}
	defer func() { p.depth-- }()
	p.accept('[')
	out = append(out, '[')
	p.blanks()
	if p.accept(']') {
		return append(out, ']'), true
	}
	for {
		var ok bool
		if out, ok = p.value(out); !ok {
			return nil, false
		}
		p.blanks()
		if p.accept(']') {
			return append(out, ']'), true
		}
		if !p.accept(',') {
			return nil, false
		}
		out = append(out, ", "...)
	}
}

// jsonPair is a key as written in canonical text, its decoded form, which decides the order, and the value.
type jsonPair struct{ raw, key, val []byte }

func (p *jsonParser) object(out []byte) ([]byte, bool) {
	if p.depth++; p.depth > maxJSONDepth {
		return nil, false
	}
	defer func() { p.depth-- }()
	p.accept('{')
	p.blanks()
	var pairs []jsonPair
	for !p.accept('}') {
		if len(pairs) > 0 {
			if !p.accept(',') {
				return nil, false
			}
			p.blanks()
		}
		if p.peek() != '"' {
			return nil, false
		}
		raw, ok := p.text(nil)
		p.blanks()
		if !ok || !p.accept(':') {
			return nil, false
		}
		val, ok := p.value(nil)
		if !ok {
			return nil, false
		}
		p.blanks()
		pairs = append(pairs, jsonPair{raw, unescapeJSON(raw), val})
	}
	// Shorter keys come first, equal lengths in byte order; of equal keys the last stays.
	slices.SortStableFunc(pairs, func(a, b jsonPair) int {
		if len(a.key) != len(b.key) {
			return len(a.key) - len(b.key)
		}
		return bytes.Compare(a.key, b.key)
	})
	out = append(out, '{')
	first := true
	for i, kv := range pairs {
		if i+1 < len(pairs) && bytes.Equal(kv.key, pairs[i+1].key) {
			continue
		}
		if !first {
			out = append(out, ", "...)
		}
		first = false
		out = append(append(append(out, kv.raw...), ": "...), kv.val...)
	}
	return append(out, '}'), true
}

func (p *jsonParser) number(out []byte) ([]byte, bool) {
	start := p.pos
	p.accept('-')
	if !p.accept('0') {
		if !p.digits() {
			return nil, false
		}
	}
	if p.accept('.') && !p.digits() {
		return nil, false
	}
	if p.accept('e') || p.accept('E') {
		if !p.accept('-') {
			p.accept('+')
		}
		if !p.digits() {
			return nil, false
		}
	}
	if c := p.peek(); c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$' || c >= utf8.RuneSelf {
		return nil, false
	}
	if p.plain {
		return append(out, p.s[start:p.pos]...), true
	}
	v, ok := inputNumeric(p.s[start:p.pos])
	return append(out, v.b...), ok
}

func (p *jsonParser) digits() bool {
	start := p.pos
	for !p.done() && p.s[p.pos]-'0' <= 9 {
		p.pos++
	}
	return p.pos > start
}

// text reads a string and writes it with jsonb's escapes.
func (p *jsonParser) text(out []byte) ([]byte, bool) {
	p.accept('"')
	out = append(out, '"')
	for {
		if p.done() {
			return nil, false
		}
		c := p.s[p.pos]
		p.pos++
		switch {
		case c == '"':
			return append(out, '"'), true
		case c < 0x20:
			return nil, false
		case c != '\\':
			out = append(out, c)
			continue
		}
		r, ok := p.escape()
		if !ok {
			return nil, false
		}
		out = appendJSONRune(out, r)
	}
}

// escape reads what follows a backslash. NUL and halves of surrogate pairs are refused, as for jsonb.
func (p *jsonParser) escape() (rune, bool) {
	c := p.peek()
	p.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
	default:
		return 0, false
	}
	r, ok := p.hex4()
	if !ok || r == 0 {
		return 0, false
	}
	if utf16.IsSurrogate(r) {
		if !p.accept('\\') || !p.accept('u') {
			return 0, false
		}
		low, ok := p.hex4()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return 0, false
		}
	}
	return r, true
}

func (p *jsonParser) hex4() (rune, bool) {
	if len(p.s)-p.pos < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(p.s[p.pos:p.pos+4], 16, 16)
	p.pos += 4
	return rune(n), err == nil //nolint:gosec // 16 bits
}

// appendJSONRune escapes what escape_json escapes.
func appendJSONRune(out []byte, r rune) []byte {
	const hexDigits = "0123456789abcdef"
	switch r {
	case '"', '\\':
		return append(out, '\\', byte(r))
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	if r < 0x20 {
		return append(out, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(out, r)
}

// quoteJSON writes a text as a string of canonical jsonb.
func quoteJSON(s []byte) []byte {
	out := append(make([]byte, 0, len(s)+2), '"')
	for _, r := range string(s) {
		out = appendJSONRune(out, r)
	}
	return append(out, '"')
}

// unescapeJSON returns the text of a canonical string, a part of it where nothing is escaped.
func unescapeJSON(raw []byte) []byte {
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	p := jsonParser{cursor: cursor{s: unsafeString(raw)}}
	out := make([]byte, 0, len(raw))
	for !p.done() {
		if !p.accept('\\') {
			out = append(out, p.s[p.pos])
			p.pos++
			continue
		}
		r, _ := p.escape()
		out = utf8.AppendRune(out, r)
	}
	return out
}
