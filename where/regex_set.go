package where

import (
	"fmt"
	"slices"
	"strconv"
)

// runeRange is an inclusive range of code points.
type runeRange struct{ lo, hi rune }

// maxFoldedRange is how long a range may be of which every character's cases are looked up.
const maxFoldedRange = 10_000

// classes are those that Postgres itself defines, the same in every locale.
var classes = map[string][]runeRange{
	"blank":  {{' ', ' '}, {'\t', '\t'}},
	"cntrl":  {{1, 0x1f}, {0x7f, 0x9f}},
	"xdigit": {{'0', '9'}, {'a', 'f'}, {'A', 'F'}},
}

// asciiClasses are those that the locale defines, as collation "C" does.
var asciiClasses = map[string][]runeRange{
	"alnum": {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}},
	"alpha": {{'A', 'Z'}, {'a', 'z'}},
	"digit": {{'0', '9'}},
	"graph": {{'!', '~'}},
	"lower": {{'a', 'z'}},
	"print": {{' ', '~'}},
	"punct": {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}},
	"space": {{'\t', '\r'}, {' ', ' '}},
	"upper": {{'A', 'Z'}},
	"word":  {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
}

// class returns a class's members. Digits are ASCII in every locale of a C library and of the builtin provider.
func (r *regexReader) class(name string) ([]runeRange, error) {
	if set := classes[name]; set != nil {
		return set, nil
	}
	set := asciiClasses[name]
	switch {
	case set == nil:
		return nil, r.invalid("invalid character class")
	case name == "digit" && (r.coll.Provider == 'c' || r.coll.Provider == 'b'):
	case r.coll.casing() != casingASCII:
		return nil, r.localeDependent("class " + name)
	case r.fold && (name == "lower" || name == "upper"):
		return asciiClasses["alpha"], nil
	}
	return set, nil
}

// bracket reads a bracket expression from behind its "[".
func (r *regexReader) bracket() error {
	not := r.peek() == '^'
	if not {
		r.pos++
	}
	var set []runeRange
	for first := true; ; first = false {
		c := r.peek()
		switch {
		case c == -1:
			return r.invalid("brackets [] not balanced")
		case c == ']' && !first:
			r.pos++
			r.set(set, not)
			return nil
		case c == '-' && !first && r.ahead(1) != ']':
			if r.ahead(1) == -1 {
				return r.invalid("brackets [] not balanced")
			}
			return r.refuse("with - between ranges")
		}
		part, single, err := r.bracketPart()
		if err != nil {
			return err
		}
		if single && r.peek() == '-' && r.ahead(1) != ']' {
			r.pos++
			if part, err = r.rangeFrom(part[0].lo); err != nil {
				return err
			}
		} else if single && r.fold {
			part = r.cases(part[0].lo)
		}
		set = append(set, part...)
	}
}

// bracketPart reads a character, or a class, with which no range can begin.
func (r *regexReader) bracketPart() (set []runeRange, single bool, err error) {
	c := r.peek()
	r.pos++
	switch c {
	case '[':
		switch r.peek() {
		case ':':
			set, err = r.namedClass()
			return set, false, err
		case '.', '=':
			return nil, false, r.refuse("with a collating element or equivalence class")
		case -1:
			return nil, false, r.invalid("brackets [] not balanced")
		}
	case '\\':
		switch e := r.peek(); e {
		case 'd', 's', 'w':
			r.pos++
			set, err = r.class(shorthands[e])
			return set, false, err
		case 'D', 'S', 'W':
			return nil, false, r.refuse(`with \` + string(e) + " in brackets")
		case 'A', 'Z', 'm', 'M', 'y', 'Y':
			return nil, false, r.invalid(`invalid escape \ sequence`)
		}
		if c, err = r.charEscape(); err != nil {
			return nil, false, err
		}
	}
	return []runeRange{{c, c}}, true, nil
}

func (r *regexReader) rangeFrom(lo rune) ([]runeRange, error) {
	if c := r.peek(); c == '-' || c == '[' {
		return nil, r.refuse("with a range that ends in - or [")
	} else if c == -1 {
		return nil, r.invalid("brackets [] not balanced")
	}
	end, single, err := r.bracketPart()
	switch {
	case err != nil:
		return nil, err
	case !single || end[0].lo < lo:
		return nil, r.invalid("invalid character range")
	case r.peek() == '-' && r.ahead(1) != ']':
		return nil, r.refuse("with - between ranges")
	}
	set := []runeRange{{lo, end[0].lo}}
	if !r.fold {
		return set, nil
	}
	if end[0].lo-lo > maxFoldedRange {
		return nil, r.refuse("without regard to case and with so long a range")
	}
	for c := lo; c <= end[0].lo; c++ {
		set = append(set, r.cases(c)...)
	}
	return set, nil
}

func (r *regexReader) namedClass() ([]runeRange, error) {
	start := r.pos + 1
	for end := start; end+1 < len(r.in); end++ {
		if r.in[end] != ':' {
			continue
		}
		name := string(r.in[start:end])
		switch {
		case r.in[end+1] != ']':
			return nil, r.refuse("with such a class")
		case name == "<", name == ">":
			return nil, r.refuse("with [[:" + name + ":]]")
		}
		r.pos = end + 2
		return r.class(name)
	}
	return nil, r.invalid("brackets [] not balanced")
}

// cases are the characters that a character of the pattern stands for without regard to case: its lower and its upper
// case, which for a titlecase letter do not include itself.
func (r *regexReader) cases(c rune) []runeRange {
	lower, upper := c, c
	switch {
	case r.coll.casing() == casingSimple:
		lower, upper = simpleLower(c), simpleUpper(c)
	case c >= 'A' && c <= 'Z':
		lower = c + 'a' - 'A'
	case c >= 'a' && c <= 'z':
		upper = c - ('a' - 'A')
	}
	if lower == upper {
		return []runeRange{{lower, lower}}
	}
	return []runeRange{{lower, lower}, {upper, upper}}
}

// char writes one character.
func (r *regexReader) char(c rune) {
	set := []runeRange{{c, c}}
	if r.fold {
		set = r.cases(c)
	}
	r.set(set, false)
}

// set writes a class in Go's syntax.
func (r *regexReader) set(set []runeRange, not bool) {
	if len(set) == 1 && set[0].lo == set[0].hi && !not {
		fmt.Fprintf(&r.out, `\x{%x}`, set[0].lo)
		return
	}
	set = slices.SortedFunc(slices.Values(set), func(a, b runeRange) int { return int(a.lo - b.lo) })
	r.out.WriteByte('[')
	if not {
		r.out.WriteByte('^')
	}
	for _, s := range set {
		fmt.Fprintf(&r.out, `\x{%x}-\x{%x}`, s.lo, s.hi)
	}
	r.out.WriteByte(']')
}

// repeat writes a bound in Go's syntax.
func (r *regexReader) repeat(lo, hi int, open bool) {
	r.out.WriteByte('{')
	r.out.WriteString(strconv.Itoa(lo))
	if open {
		r.out.WriteByte(',')
	} else if hi != lo {
		r.out.WriteByte(',')
		r.out.WriteString(strconv.Itoa(hi))
	}
	r.out.WriteByte('}')
}
