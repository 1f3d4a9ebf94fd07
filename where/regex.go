package where

import (
	"regexp"
	"strings"

	"github.com/shapeserver/shapeserver/changes"
)

// Bounds on a regular expression. Postgres bounds its compiled form as well, but otherwise.
const (
	maxPattern   = 4096   // bytes
	maxRegexSize = 10_000 // characters and classes once repetitions are written out
	maxBound     = 255    // Postgres's DUPMAX
	maxGroups    = 200    // depth of parentheses
)

// registerRegex adds the operators of regular expressions. Patterns are translated from Postgres's syntax to that of Go,
// whose matching takes time linear in the text whatever the pattern is. A match exists in the one exactly when it does
// in the other, because all that could differ, back references, look-around and what depends on a locale, is refused.
func registerRegex() {
	for _, t := range []string{"text", "name"} {
		for _, not := range []bool{false, true} {
			suffix := "eq"
			if not {
				suffix = "ne"
			}
			register(t+"regex"+suffix, &builtin{needs: needDeterministic, check: checkRegex(false), buildTest: buildRegex(not, false)})
			register(t+"icregex"+suffix, &builtin{needs: needCasing, check: checkRegex(true), buildTest: buildRegex(not, true)})
		}
	}
	register("regexp_like_no_flags", &builtin{needs: needDeterministic, check: checkRegex(false), buildTest: buildRegex(false, false)})
	register("similar_to_escape_1", &builtin{check: checkSimilar, f1: func(p value) value { return similarToRegex(p, bytesValue([]byte{'\\'})) }})
	register("similar_to_escape_2", &builtin{check: checkSimilar, f2: similarToRegex})
}

// checkRegex compiles the pattern to see whether it can be.
func checkRegex(fold bool) func(*node) error {
	return func(n *node) error {
		k, err := constantArg(n, 1, "pattern")
		if err != nil || k.val.st == isNull {
			return err
		}
		_, err = compileRegex(k.val.b, k.loc, fold, n.coll)
		return err
	}
}

// constantArg folds an argument, which must then be a constant.
func constantArg(n *node, i int, what string) (*node, error) {
	k, err := fold(n.args[i])
	if err != nil {
		return nil, err
	}
	n.args[i] = k
	if !k.isConst() {
		return nil, errorAt(max(n.loc, 0), "%s is supported with a constant %s only", n.fn.name, what)
	}
	return k, nil
}

func buildRegex(not, fold bool) func(*node) test {
	return func(n *node) test {
		text, k := compile(n.args[0]), n.args[1]
		if k.val.st == isNull {
			return func(row changes.Row) Tri {
				if text(row).st == isFailed {
					return Failed
				}
				return Unknown
			}
		}
		re, err := compileRegex(k.val.b, k.loc, fold, n.coll)
		if err != nil {
			return func(changes.Row) Tri { return Failed } // checkRegex has refused it
		}
		return func(row changes.Row) Tri {
			v := text(row)
			if v.st != isSet {
				return v.tri()
			}
			return triOf(re.Match(v.b) != not)
		}
	}
}

// regexReader translates a pattern in Postgres's advanced syntax (manual, "Regular Expression Details") to Go's.
type regexReader struct {
	in   []rune
	pos  int
	out  strings.Builder
	loc  int
	fold bool      // match without regard to case
	coll collation // decides what is a letter
	deep int
}

func compileRegex(pattern []byte, loc int, fold bool, coll collation) (*regexp.Regexp, error) {
	r := &regexReader{in: []rune(string(pattern)), loc: max(loc, 0), fold: fold, coll: coll}
	if len(pattern) > maxPattern {
		return nil, r.refuse("longer than 4096 bytes")
	}
	if strings.HasPrefix(string(pattern), "***") {
		return nil, r.refuse("with a *** prefix")
	}
	r.out.WriteString("(?s:")
	size, err := r.alternatives()
	if err != nil {
		return nil, err
	}
	if r.pos < len(r.in) {
		return nil, r.invalid("parentheses () not balanced")
	}
	if size > maxRegexSize {
		return nil, r.refuse("of this size")
	}
	r.out.WriteByte(')')
	re, err := regexp.Compile(r.out.String())
	if err != nil {
		return nil, r.refuse("of this form") // such as repetitions within repetitions, which Go bounds
	}
	return re, nil
}

// invalid is Postgres's message about a pattern that it refuses, too.
func (r *regexReader) invalid(what string) error {
	return errorAt(r.loc, "invalid regular expression: %s", what)
}

func (r *regexReader) refuse(what string) error {
	return errorAt(r.loc, "a regular expression %s is not supported", what)
}

func (r *regexReader) peek() rune { return r.ahead(0) }

// ahead is -1 beyond the end.
func (r *regexReader) ahead(n int) rune {
	if r.pos+n < len(r.in) {
		return r.in[r.pos+n]
	}
	return -1
}

// alternatives reads branches up to a closing parenthesis or the end, and returns their size.
func (r *regexReader) alternatives() (int, error) {
	total := 0
	for {
		size, err := r.branch()
		if err != nil {
			return 0, err
		}
		total += size
		if r.peek() != '|' {
			return total, nil
		}
		r.pos++
		r.out.WriteByte('|')
	}
}

func (r *regexReader) branch() (int, error) {
	total := 0
	for {
		switch r.peek() {
		case -1, '|', ')':
			return total, nil
		}
		size, quantifiable, err := r.atom()
		if err != nil {
			return 0, err
		}
		if quantifiable {
			if size, err = r.quantifier(size); err != nil {
				return 0, err
			}
		}
		if total += size; total > maxRegexSize {
			return 0, r.refuse("of this size")
		}
	}
}

// atom reads one, or a constraint, which takes no quantifier.
func (r *regexReader) atom() (size int, quantifiable bool, err error) {
	c := r.peek()
	switch c {
	case '*', '+', '?':
		return 0, false, r.invalid("quantifier operand invalid")
	case '{':
		if d := r.ahead(1); d >= '0' && d <= '9' {
			return 0, false, r.invalid("quantifier operand invalid")
		}
	case '^', '$':
		r.pos++
		r.out.WriteString(map[rune]string{'^': `\A`, '$': `\z`}[c])
		return 1, false, nil
	case '.':
		r.pos++
		r.out.WriteByte('.')
		return 1, true, nil
	case '(':
		size, err := r.group()
		return size, true, err
	case '[':
		r.pos++
		return 1, true, r.bracket()
	case '\\':
		r.pos++
		return r.escape()
	}
	r.pos++
	r.char(c)
	return 1, true, nil
}

func (r *regexReader) group() (int, error) {
	r.pos++
	if r.peek() == '?' {
		if r.ahead(1) != ':' {
			return 0, r.refuse("with (?, that is, options or look-around,")
		}
		r.pos += 2
	}
	if r.deep++; r.deep > maxGroups {
		return 0, r.refuse("with so many parentheses")
	}
	r.out.WriteString("(?:")
	size, err := r.alternatives()
	if err != nil {
		return 0, err
	}
	if r.peek() != ')' {
		return 0, r.invalid("parentheses () not balanced")
	}
	r.pos++
	r.deep--
	r.out.WriteByte(')')
	return size + 1, nil
}

// quantifier reads what may follow an atom of the given size. That it is greedy or not does not decide whether there is
// a match.
func (r *regexReader) quantifier(size int) (int, error) {
	switch c := r.peek(); c {
	case '*', '+', '?':
		r.pos++
		r.out.WriteRune(c)
		size++
	case '{':
		if d := r.ahead(1); d < '0' || d > '9' {
			return size, nil // an ordinary character
		}
		r.pos++
		lo, ok := r.bound()
		hi, open := lo, false
		if ok && r.peek() == ',' {
			r.pos++
			if open = r.peek() == '}'; !open {
				hi, ok = r.bound()
			}
		}
		switch {
		case !ok && r.peek() == -1, ok && r.peek() == -1:
			return 0, r.invalid("braces {} not balanced")
		case !ok, r.peek() != '}', lo > maxBound, hi > maxBound, lo > hi:
			return 0, r.invalid("invalid repetition count(s)")
		}
		r.pos++
		r.repeat(lo, hi, open)
		size *= max(lo, hi, 1)
	default:
		return size, nil
	}
	if r.peek() == '?' {
		r.pos++
	}
	if r.peek() == '*' || r.peek() == '+' || r.peek() == '?' || r.peek() == '{' && r.ahead(1) >= '0' && r.ahead(1) <= '9' {
		return 0, r.invalid("quantifier operand invalid")
	}
	return size, nil
}

func (r *regexReader) bound() (int, bool) {
	n, digits := 0, 0
	for ; r.peek() >= '0' && r.peek() <= '9' && digits < 6; r.pos++ {
		n = n*10 + int(r.peek()-'0')
		digits++
	}
	return n, digits > 0
}

// escape reads what follows a backslash outside of brackets.
func (r *regexReader) escape() (size int, quantifiable bool, err error) {
	c := r.peek()
	switch c {
	case 'A', 'Z':
		r.pos++
		r.out.WriteString(map[rune]string{'A': `\A`, 'Z': `\z`}[c])
		return 1, false, nil
	case 'y', 'Y':
		r.pos++
		if r.coll.casing() != casingASCII {
			return 0, false, r.localeDependent(`\` + string(c))
		}
		r.out.WriteString(map[rune]string{'y': `\b`, 'Y': `\B`}[c])
		return 1, false, nil
	case 'm', 'M':
		return 0, false, r.refuse(`with \` + string(c))
	case 'd', 'D', 's', 'S', 'w', 'W':
		r.pos++
		set, err := r.class(shorthands[c|0x20])
		if err != nil {
			return 0, false, err
		}
		r.set(set, c < 'a')
		return 1, true, nil
	}
	ch, err := r.charEscape()
	if err != nil {
		return 0, false, err
	}
	r.char(ch)
	return 1, true, nil
}

// shorthands are the classes behind \d, \s and \w.
var shorthands = map[rune]string{'d': "digit", 's': "space", 'w': "word"}

// charEscape reads an escape that stands for one character.
func (r *regexReader) charEscape() (rune, error) {
	c := r.peek()
	if c == -1 {
		return 0, r.invalid(`invalid escape \ sequence`)
	}
	r.pos++
	if ch, ok := controlEscapes[c]; ok {
		return ch, nil
	}
	switch {
	case c == 'u', c == 'U':
		return r.codePoint(map[rune]int{'u': 4, 'U': 8}[c])
	case c == 'x', c == 'c', c >= '0' && c <= '9':
		return 0, r.refuse(`with \` + string(c))
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return 0, r.invalid(`invalid escape \ sequence`)
	case c >= 0x80:
		return 0, r.refuse(`with \` + string(c)) // whether it is a letter depends on the locale
	default:
		return c, nil
	}
}

// controlEscapes are those that Postgres defines; \b is a backspace, and \B another backslash.
var controlEscapes = map[rune]rune{'a': '\a', 'b': '\b', 'B': '\\', 'e': 0x1b, 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

func (r *regexReader) codePoint(digits int) (rune, error) {
	var n rune
	for range digits {
		i := strings.IndexRune("0123456789abcdef", r.peek()|0x20)
		if d := r.peek(); d >= '0' && d <= '9' {
			i = int(d - '0')
		}
		if i < 0 || r.peek() == -1 {
			return 0, r.invalid(`invalid escape \ sequence`)
		}
		n = n<<4 | rune(i)
		r.pos++
	}
	if n <= 0 || n > 0x10ffff || n >= 0xd800 && n < 0xe000 {
		return 0, r.refuse("with an escape of no character")
	}
	return n, nil
}

func (r *regexReader) localeDependent(what string) error {
	return errorAt(r.loc, `%s in a regular expression is supported under collation "C" only, where it is about ASCII; add COLLATE "C" to the text`, what)
}
