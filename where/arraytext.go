package where

import (
	"cmp"
	"math"
	"strings"
)

// maxDims is the most dimensions an array can have (MAXDIM).
const maxDims = 6

// arrayCodec reads arrays whose elements elem reads.
func arrayCodec(elem *codec) *codec {
	c := &codec{
		input: func(s string) (value, bool) { return parseArray(trimSpace(s), elem.input) },
		read: func(b []byte) (value, bool) {
			return parseArray(unsafeString(b), func(s string) (value, bool) { return elem.read(unsafeBytes(s)) })
		},
		output: func(v value) string { return formatArray(v.a, elem.output) },
	}
	if elem.compare != nil {
		c.compare = func(a, b value) int { return compareArrays(a.a, b.a, elem.compare) }
	}
	return c
}

// parseArray reads an array's text: "{1,2}", "[0:1]={5,6}", "{{a,NULL},{"b c",""}}" (manual, "Array Input and Output
// Syntax").
func parseArray(s string, input func(string) (value, bool)) (value, bool) {
	p := arrayParser{cursor: cursor{s: s}, input: input}
	for p.peek() == '[' {
		d, ok := p.bounds()
		if !ok || len(p.given) == maxDims {
			return value{}, false
		}
		p.given = append(p.given, d)
	}
	if p.given != nil && !p.accept('=') {
		return value{}, false
	}
	a := &array{}
	p.out = a
	if !p.level(0) || !p.done() {
		return value{}, false
	}
	if len(a.elems) == 0 {
		// "{}", and also "{{},{}}" of old servers, is the empty array, which has no dimensions.
		if len(p.lengths) > 1 || p.given != nil {
			return value{}, false
		}
		return value{st: isSet, a: a}, true
	}
	for i, n := range p.lengths {
		d := dim{length: n, lower: 1}
		if p.given != nil {
			if len(p.given) != len(p.lengths) || p.given[i].length != n {
				return value{}, false
			}
			d = p.given[i]
		}
		a.dims = append(a.dims, d)
	}
	return value{st: isSet, a: a}, true
}

type arrayParser struct {
	cursor
	input   func(string) (value, bool)
	given   []dim
	lengths []int // by depth; set by the first list at that depth
	leaf    int   // depth at which elements stand, plus one; 0 while unknown
	out     *array
}

// bounds reads "[lower:upper]" or "[upper]".
func (p *arrayParser) bounds() (dim, bool) {
	p.accept('[')
	lower, ok := p.signed()
	if !ok {
		return dim{}, false
	}
	d := dim{length: lower, lower: 1}
	if p.accept(':') {
		upper, ok := p.signed()
		if !ok {
			return dim{}, false
		}
		d = dim{length: upper - lower + 1, lower: lower}
	}
	return d, p.accept(']') && d.length > 0 && d.lower+d.length <= math.MaxInt32
}

func (p *arrayParser) signed() (int, bool) {
	neg := p.accept('-')
	n, _, ok := p.number(1, 10)
	if neg {
		n = -n
	}
	return int(n), ok && n >= math.MinInt32 && n <= math.MaxInt32
}

// level reads one brace list at the given depth.
func (p *arrayParser) level(depth int) bool {
	p.blanks()
	if depth == maxDims || !p.accept('{') {
		return false
	}
	if len(p.lengths) == depth {
		p.lengths = append(p.lengths, -1)
	}
	n := 0
	p.blanks()
	if p.accept('}') {
		if p.lengths[depth] > 0 {
			return false
		}
		p.lengths[depth] = 0
		p.blanks()
		return true
	}
	for {
		p.blanks()
		if p.peek() == '{' {
			if p.leaf == depth+1 || !p.level(depth+1) {
				return false
			}
		} else {
			if p.leaf != 0 && p.leaf != depth+1 {
				return false
			}
			p.leaf = depth + 1
			v, ok := p.element()
			if !ok {
				return false
			}
			p.out.elems = append(p.out.elems, v)
		}
		n++
		p.blanks()
		if p.accept(',') {
			continue
		}
		if !p.accept('}') {
			return false
		}
		if p.lengths[depth] >= 0 && p.lengths[depth] != n {
			return false // not rectangular
		}
		p.lengths[depth] = n
		p.blanks()
		return true
	}
}

// element reads one element: quoted, or bare up to a comma or brace with the white space around it left out.
func (p *arrayParser) element() (value, bool) {
	if p.accept('"') {
		start := p.pos
		var buf []byte
		for {
			if p.done() {
				return value{}, false
			}
			switch b := p.s[p.pos]; b {
			case '"':
				text := p.s[start:p.pos]
				if buf != nil {
					text = string(buf)
				}
				p.pos++
				p.blanks()
				if b := p.peek(); b != ',' && b != '}' {
					return value{}, false
				}
				return p.input(text)
			case '\\':
				if buf == nil {
					buf = append(make([]byte, 0, len(p.s)-start), p.s[start:p.pos]...)
				}
				p.pos++
				if p.done() {
					return value{}, false
				}
				buf = append(buf, p.s[p.pos])
				p.pos++
			default:
				if buf != nil {
					buf = append(buf, b)
				}
				p.pos++
			}
		}
	}
	start := p.pos
	for !p.done() && strings.IndexByte(`,{}"\`, p.s[p.pos]) < 0 {
		p.pos++
	}
	if b := p.peek(); b != ',' && b != '}' {
		return value{}, false // a quote or backslash inside a bare element: allowed, and used by nobody
	}
	text := trimSpace(p.s[start:p.pos])
	switch {
	case text == "":
		return value{}, false
	case strings.EqualFold(text, "null"):
		return nullValue, true
	default:
		return p.input(text)
	}
}

func formatArray(a *array, output func(value) string) string {
	if len(a.dims) == 0 {
		return "{}"
	}
	var b strings.Builder
	for _, d := range a.dims {
		if d.lower != 1 {
			b.Write(append(appendDims(nil, a.dims), '='))
			break
		}
	}
	elems := a.elems
	var level func(dims []dim)
	level = func(dims []dim) {
		b.WriteByte('{')
		for i := range dims[0].length {
			if i > 0 {
				b.WriteByte(',')
			}
			if len(dims) > 1 {
				level(dims[1:])
				continue
			}
			if elems[0].st == isNull {
				b.WriteString("NULL")
			} else {
				writeElement(&b, output(elems[0]))
			}
			elems = elems[1:]
		}
		b.WriteByte('}')
	}
	level(a.dims)
	return b.String()
}

// writeElement quotes what array_out quotes.
func writeElement(b *strings.Builder, s string) {
	if s != "" && !strings.EqualFold(s, "null") && !strings.ContainsAny(s, "{},\"\\ \t\n\v\f\r") {
		b.WriteString(s)
		return
	}
	b.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
}

// compareArrays is array_cmp: element by element, then by count, dimensions, lengths and lower bounds. A NULL element
// equals NULL and is greater than everything.
func compareArrays(a, b *array, elem func(a, b value) int) int {
	for i := range min(len(a.elems), len(b.elems)) {
		x, y := a.elems[i], b.elems[i]
		switch {
		case x.st == isNull && y.st == isNull:
			continue
		case x.st == isNull:
			return 1
		case y.st == isNull:
			return -1
		}
		if c := elem(x, y); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(len(a.elems), len(b.elems)); c != 0 {
		return c
	}
	if c := cmp.Compare(len(a.dims), len(b.dims)); c != 0 {
		return c
	}
	for i := range a.dims {
		if c := cmp.Compare(a.dims[i].length, b.dims[i].length); c != 0 {
			return c
		}
	}
	for i := range a.dims {
		if c := cmp.Compare(a.dims[i].lower, b.dims[i].lower); c != 0 {
			return c
		}
	}
	return 0
}
