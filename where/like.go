package where

import (
	"bytes"
	"unicode/utf8"

	"github.com/shapeserver/shapeserver/changes"
)

// likePattern is a LIKE pattern cut at its percent signs. Matching takes the leftmost place for each piece in turn and
// never goes back over a piece, so it is linear in the text for pieces without "_", and at worst the product of the
// lengths of text and piece for those with.
type likePattern struct {
	pieces []likePiece
	// anchored tells that the first, or last, piece must stand at the beginning, or end: no % before, or after, it.
	anchoredStart, anchoredEnd bool
}

// likePiece is what stands between two percent signs.
type likePiece struct {
	lit []byte // of a piece without underscores: what to find
	// chars are the characters of a piece with underscores, nil for each of those.
	chars [][]byte
}

// compileLike reads a pattern (manual, "LIKE"). ok is false for one that ends with an escape.
func compileLike(pattern []byte) (*likePattern, bool) {
	p := &likePattern{anchoredStart: true, anchoredEnd: true}
	var cur likePiece
	started, under := false, false
	flush := func() {
		if !started {
			return
		}
		if under {
			cur.lit = nil
		} else {
			cur.chars = nil
		}
		p.pieces = append(p.pieces, cur)
		cur, started, under = likePiece{}, false, false
	}
	for i := 0; i < len(pattern); {
		switch pattern[i] {
		case '%':
			flush()
			if len(p.pieces) == 0 {
				p.anchoredStart = false
			}
			p.anchoredEnd = false
			i++
			continue
		case '_':
			cur.chars = append(cur.chars, nil)
			started, under = true, true
			p.anchoredEnd = true
			i++
			continue
		case '\\':
			if i++; i == len(pattern) {
				return nil, false
			}
		}
		_, n := utf8.DecodeRune(pattern[i:])
		cur.lit = append(cur.lit, pattern[i:i+n]...)
		cur.chars = append(cur.chars, pattern[i:i+n])
		started = true
		p.anchoredEnd = true
		i += n
	}
	flush()
	return p, true
}

// match reports whether the text matches.
func (p *likePattern) match(s []byte) bool {
	if len(p.pieces) == 0 {
		// Only percent signs, or nothing at all.
		return !p.anchoredEnd || len(s) == 0
	}
	pieces := p.pieces
	last := len(pieces) - 1
	if p.anchoredStart {
		n, ok := pieces[0].prefix(s)
		if !ok {
			return false
		}
		s = s[n:]
		if last == 0 {
			return !p.anchoredEnd || len(s) == 0
		}
		pieces = pieces[1:]
		last--
	}
	for i := range pieces {
		if i == last && p.anchoredEnd {
			return pieces[i].suffix(s)
		}
		end := pieces[i].find(s)
		if end < 0 {
			return false
		}
		s = s[end:]
	}
	return true
}

// prefix reports whether the piece stands at the beginning, and how many bytes of s it takes there.
func (p *likePiece) prefix(s []byte) (int, bool) {
	if p.chars == nil {
		return len(p.lit), bytes.HasPrefix(s, p.lit)
	}
	n := 0
	for _, c := range p.chars {
		if n == len(s) {
			return 0, false
		}
		if c == nil {
			n += runeLen(s[n:])
			continue
		}
		if !bytes.HasPrefix(s[n:], c) {
			return 0, false
		}
		n += len(c)
	}
	return n, true
}

// suffix reports whether the piece stands at the end.
func (p *likePiece) suffix(s []byte) bool {
	if p.chars == nil {
		return bytes.HasSuffix(s, p.lit)
	}
	for i := len(p.chars) - 1; i >= 0; i-- {
		if len(s) == 0 {
			return false
		}
		c := p.chars[i]
		if c == nil {
			_, n := utf8.DecodeLastRune(s)
			s = s[:len(s)-n]
			continue
		}
		if !bytes.HasSuffix(s, c) {
			return false
		}
		s = s[:len(s)-len(c)]
	}
	return true
}

// find returns the end of the leftmost place of the piece, -1 if there is none.
func (p *likePiece) find(s []byte) int {
	if p.chars == nil {
		i := bytes.Index(s, p.lit)
		if i < 0 {
			return -1
		}
		return i + len(p.lit)
	}
	for at := 0; at < len(s); at += runeLen(s[at:]) {
		if n, ok := p.prefix(s[at:]); ok {
			return at + n
		}
	}
	return -1
}

func runeLen(s []byte) int {
	if s[0] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRune(s)
	return n
}

// likeBuffer is how long a text can be folded without memory.
const likeBuffer = 256

// buildLike compiles LIKE and NOT LIKE.
func buildLike(not bool) func(*node) test {
	return func(n *node) test {
		text := compile(n.args[0])
		if k := n.args[1]; k.isConst() && k.val.st == isSet {
			p, ok := compileLike(k.val.b)
			if !ok {
				return func(changes.Row) Tri { return Failed }
			}
			return func(row changes.Row) Tri {
				v := text(row)
				if v.st != isSet {
					return v.tri()
				}
				return triOf(p.match(v.b) != not)
			}
		}
		pattern := compile(n.args[1])
		return func(row changes.Row) Tri {
			return strict2(func(a, b value) value { return likeValue(a.b, b.b, not) }, text(row), pattern(row)).tri()
		}
	}
}

// likeValue matches a pattern that is known only now.
func likeValue(text, pattern []byte, not bool) value {
	p, ok := compileLike(pattern)
	if !ok {
		return failedValue
	}
	return boolValue(p.match(text) != not)
}

// buildILike compiles ILIKE and NOT ILIKE, which match the lower-case text against the lower-case pattern. The folding
// is called directly, not through a variable, so that its buffer can stay on the stack.
func buildILike(not bool) func(*node) test {
	return func(n *node) test {
		text := compile(n.args[0])
		simple := n.coll.casing() == casingSimple
		if k := n.args[1]; k.isConst() && k.val.st == isSet {
			p, ok := compileLike(lowerText(nil, k.val.b, simple))
			if !ok {
				return func(changes.Row) Tri { return Failed }
			}
			return func(row changes.Row) Tri {
				v := text(row)
				if v.st != isSet {
					return v.tri()
				}
				var buf [likeBuffer]byte
				return triOf(p.match(lowerText(buf[:0], v.b, simple)) != not)
			}
		}
		pattern := compile(n.args[1])
		return func(row changes.Row) Tri {
			return strict2(func(a, b value) value {
				return likeValue(lowerText(nil, a.b, simple), lowerText(nil, b.b, simple), not)
			}, text(row), pattern(row)).tri()
		}
	}
}

// checkLike refuses a constant pattern that ends with an escape, which Postgres finds out row by row.
func checkLike(n *node) error {
	if k := n.args[1]; k.isConst() && k.val.st == isSet {
		if _, ok := compileLike(k.val.b); !ok {
			return errorAt(k.loc, "LIKE pattern must not end with escape character")
		}
	}
	return nil
}

// likeEscape rewrites a pattern with another escape character, or none, to one with the backslash, as like_escape.
func likeEscape(pattern, escape value) value {
	if utf8.RuneCount(escape.b) > 1 {
		return failedValue
	}
	out := make([]byte, 0, len(pattern.b)+8)
	if len(escape.b) == 0 {
		for _, b := range pattern.b {
			if b == '\\' {
				out = append(out, '\\')
			}
			out = append(out, b)
		}
		return bytesValue(out)
	}
	if string(escape.b) == `\` {
		return pattern
	}
	after := false
	for s := pattern.b; len(s) > 0; {
		n := runeLen(s)
		switch c := s[:n]; {
		case bytes.Equal(c, escape.b) && !after:
			out = append(out, '\\')
			after = true
		case c[0] == '\\':
			if !after {
				out = append(out, '\\')
			}
			out = append(out, '\\')
			after = false
		default:
			out = append(out, c...)
			after = false
		}
		s = s[n:]
	}
	return bytesValue(out)
}
