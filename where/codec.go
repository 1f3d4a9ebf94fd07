package where

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// codec turns the text of one type into values and back. Postgres's type input function is input, which takes what a
// client wrote; read takes only what Postgres's output function writes, and is made for speed.
type codec struct {
	input  func(s string) (value, bool)
	read   func(b []byte) (value, bool)
	output func(v value) string
	// compare is the type's btree order, nil for a type without one. Text is compared bytewise; whoever uses it for
	// an order must have seen to the collation.
	compare func(a, b value) int
}

// codecs holds the scalar types this package evaluates. Enums and arrays are built from them, see codecOf.
var codecs map[uint32]*codec

func init() {
	text := &codec{inputText, readText, outputText, compareBytes}
	codecs = map[uint32]*codec{
		oidBool:        {inputBool, readBool, outputBool, compareInt},
		oidInt2:        {inputInt(math.MinInt16, math.MaxInt16), readInt, outputInt, compareInt},
		oidInt4:        {inputInt(math.MinInt32, math.MaxInt32), readInt, outputInt, compareInt},
		oidInt8:        {inputInt(math.MinInt64, math.MaxInt64), readInt, outputInt, compareInt},
		oidOid:         {inputInt(0, math.MaxUint32), readInt, outputInt, compareInt},
		oidFloat4:      {inputFloat(32), readFloat(32), outputFloat(32), compareFloat},
		oidFloat8:      {inputFloat(64), readFloat(64), outputFloat(64), compareFloat},
		oidNumeric:     {inputNumeric, readText, outputText, compareNumeric},
		oidText:        text,
		oidVarchar:     text,
		oidBpchar:      {inputText, readText, outputText, compareBpchar},
		oidName:        {inputName, readText, outputText, compareBytes},
		oidBytea:       {inputBytea, readBytea, func(v value) string { return `\x` + string(v.b) }, compareBytes},
		oidUUID:        {inputUUID, readText, outputText, compareBytes},
		oidDate:        {inputDate, readDate, outputDate, compareInt},
		oidTime:        {inputTime, readTime, outputTime, compareInt},
		oidTimetz:      {inputTimetz, readTimetz, outputTimetz, compareTimetz},
		oidTimestamp:   {inputTimestamp, readTimestamp, outputTimestamp, compareInt},
		oidTimestamptz: {inputTimestamptz, readTimestamp, outputTimestamptz, compareInt},
		oidJSON:        {inputJSON, readText, outputText, nil},
		oidJSONB:       {inputJSONB, readJSONB, outputText, compareJSONBOrder},
		oidInet:        {inputInet, func(b []byte) (value, bool) { return inputInet(unsafeString(b)) }, outputInet, compareInet},
		oidCidr:        {inputCidr, func(b []byte) (value, bool) { return inputCidr(unsafeString(b)) }, outputCidr, compareInet},
		oidMacaddr:     macaddrCodec(6),
		oidMacaddr8:    macaddrCodec(8),
		oidLSN:         {inputLSN, func(b []byte) (value, bool) { return inputLSN(unsafeString(b)) }, outputLSN, compareUint},
		oidXid:         {inputUint(32), func(b []byte) (value, bool) { return inputUint(32)(unsafeString(b)) }, outputUint, nil},
		oidXid8:        {inputUint(64), func(b []byte) (value, bool) { return inputUint(64)(unsafeString(b)) }, outputUint, compareUint},
		oidChar:        {inputChar, readChar, outputChar, compareInt},
		oidBit:         {inputBits, readText, outputText, compareBytes},
		oidVarbit:      {inputBits, readText, outputText, compareBytes},
		oidInterval:    {inputInterval, readInterval, outputInterval, compareInterval},
	}
}

// codecOf returns how values of t, seen through domains, are read; nil when they cannot be.
func codecOf(t *typ) *codec {
	t = t.baseType()
	switch t.kind {
	case KindEnum:
		return enumCodec(t)
	case KindArray:
		if !t.known() {
			return nil
		}
		return arrayCodec(codecOf(t.elem))
	case KindRange:
		if !t.known() {
			return nil
		}
		return rangeCodec(t)
	case KindMultirng:
		if !t.known() {
			return nil
		}
		return multirangeCodec(t)
	default:
		return codecs[t.oid]
	}
}

// unsafeString views bytes that nobody changes as a string, for the strconv functions.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unsafeBytes views a string as bytes that nobody changes.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// trimSpace removes what C's isspace takes for white space in the C locale, as Postgres's input functions do.
func trimSpace(s string) string { return strings.Trim(s, " \t\n\v\f\r") }

func inputText(s string) (value, bool) { return bytesValue([]byte(s)), true }

func readText(b []byte) (value, bool) { return bytesValue(b), true }

func outputText(v value) string { return string(v.b) }

func compareBytes(a, b value) int { return bytes.Compare(a.b, b.b) }

// readJSONB takes canonical text, which is never empty.
func readJSONB(b []byte) (value, bool) { return bytesValue(b), len(b) > 0 }

// compareBpchar leaves trailing blanks out, as all comparisons of character(n) do.
func compareBpchar(a, b value) int {
	return bytes.Compare(bytes.TrimRight(a.b, " "), bytes.TrimRight(b.b, " "))
}

func compareInt(a, b value) int { return cmp.Compare(a.i, b.i) }

// nameBytes is NAMEDATALEN - 1, the most that a value of type name holds.
const nameBytes = 63

// inputName cuts at nameBytes without splitting a character, as namein does.
func inputName(s string) (value, bool) {
	if len(s) > nameBytes {
		n := nameBytes
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return inputText(s)
}

func inputBool(s string) (value, bool) {
	s = strings.ToLower(trimSpace(s))
	if s == "" {
		return value{}, false
	}
	switch {
	case strings.HasPrefix("true", s), strings.HasPrefix("yes", s), s == "on", s == "1": //nolint:gocritic // any prefix of the word will do
		return boolValue(true), true
	case strings.HasPrefix("false", s), strings.HasPrefix("no", s), s == "off", s == "of", s == "0": //nolint:gocritic // as above
		return boolValue(false), true
	default:
		return value{}, false
	}
}

func readBool(b []byte) (value, bool) {
	if len(b) == 0 {
		return value{}, false
	}
	return boolValue(b[0] == 't'), true
}

func outputBool(v value) string {
	if v.i != 0 {
		return "t"
	}
	return "f"
}

func inputInt(lo, hi int64) func(string) (value, bool) {
	return func(s string) (value, bool) {
		s = trimSpace(s)
		v, ok := readInt([]byte(strings.TrimPrefix(s, "+")))
		if !ok || strings.HasPrefix(s, "+-") || v.i < lo || v.i > hi {
			return value{}, false
		}
		return v, true
	}
}

// readInt reads a decimal integer that fits 64 bits.
func readInt(b []byte) (value, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 {
		return value{}, false
	}
	var n uint64
	if len(b) < 19 { // cannot overflow
		for _, c := range b {
			d := uint64(c - '0')
			if d > 9 {
				return value{}, false
			}
			n = n*10 + d
		}
		if neg {
			return intValue(-int64(n)), true //nolint:gosec // below 10^18
		}
		return intValue(int64(n)), true //nolint:gosec // below 10^18
	}
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return value{}, false
		}
		n = n*10 + d
	}
	switch {
	case neg && n <= 1<<63:
		return intValue(-int64(n)), true //nolint:gosec // 1<<63 negates to itself, which is right
	case !neg && n < 1<<63:
		return intValue(int64(n)), true
	default:
		return value{}, false
	}
}

func outputInt(v value) string { return strconv.FormatInt(v.i, 10) }

// inputFloat takes what C's strtod takes: decimal and hexadecimal numbers, infinities, and NaN with any sign.
func inputFloat(bits int) func(string) (value, bool) {
	return func(s string) (value, bool) {
		s = trimSpace(s)
		body := strings.ToLower(s)
		neg := strings.HasPrefix(body, "-")
		if neg || strings.HasPrefix(body, "+") {
			body = body[1:]
		}
		switch {
		case body == "nan" || strings.HasPrefix(body, "nan(") && strings.HasSuffix(body, ")") && allWord(body[4:len(body)-1]):
			return floatValue(math.NaN()), true
		case body == "inf" || body == "infinity":
			if neg {
				return floatValue(math.Inf(-1)), true
			}
			return floatValue(math.Inf(1)), true
		case body == "" || body[0] != '.' && (body[0] < '0' || body[0] > '9') || strings.Contains(body, "_"):
			return value{}, false
		}
		digits, exponent := "123456789", "e"
		if strings.HasPrefix(body, "0x") {
			digits, exponent = "123456789abcdef", "p"
			if !strings.Contains(s, "p") && !strings.Contains(s, "P") {
				s += "p0" // strconv demands what strtod does not
			}
		}
		f, err := strconv.ParseFloat(s, bits)
		if err != nil {
			return value{}, false
		}
		// What is too small for the type is an error in Postgres, not zero.
		mantissa, _, _ := strings.Cut(strings.TrimPrefix(body, "0x"), exponent)
		return floatValue(f), f != 0 || !strings.ContainsAny(mantissa, digits)
	}
}

func allWord(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func readFloat(bits int) func(b []byte) (value, bool) {
	return func(b []byte) (value, bool) {
		f, err := strconv.ParseFloat(unsafeString(b), bits)
		return floatValue(f), err == nil
	}
}

// compareFloat is Postgres's total order: NaN equals itself and is greater than everything, -0 equals 0.
func compareFloat(a, b value) int {
	x, y := a.float(), b.float()
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	case x == y:
		return 0
	case x == x: // y is NaN
		return -1
	case y == y:
		return 1
	default:
		return 0
	}
}

// inputBytea takes the hex form and the escape form (manual, "Binary Data Types").
func inputBytea(s string) (value, bool) {
	if h, ok := strings.CutPrefix(s, `\x`); ok {
		h = strings.ToLower(strings.Map(func(r rune) rune {
			if strings.ContainsRune(" \n\t\r", r) {
				return -1
			}
			return r
		}, h))
		_, err := hex.DecodeString(h)
		return bytesValue([]byte(h)), err == nil && !strings.ContainsAny(s[2:], " \n\t\r") // white space only between digits pairs: refused
	}
	raw := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			raw = append(raw, s[i])
		case i+1 < len(s) && s[i+1] == '\\':
			raw = append(raw, '\\')
			i++
		case i+3 < len(s) && s[i+1] >= '0' && s[i+1] <= '3' && s[i+2] >= '0' && s[i+2] <= '7' && s[i+3] >= '0' && s[i+3] <= '7':
			raw = append(raw, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
		default:
			return value{}, false
		}
	}
	return bytesValue([]byte(hex.EncodeToString(raw))), true
}

func readBytea(b []byte) (value, bool) {
	if len(b) < 2 || b[0] != '\\' || b[1] != 'x' {
		return value{}, false
	}
	return bytesValue(b[2:]), true
}

// inputUUID takes 32 digits with an optional hyphen after any group of four, perhaps in braces (manual, "UUID Type").
func inputUUID(s string) (value, bool) {
	braces := strings.HasPrefix(s, "{")
	if braces {
		if !strings.HasSuffix(s, "}") {
			return value{}, false
		}
		s = s[1 : len(s)-1]
	}
	out := make([]byte, 0, 36)
	digits := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '-' {
			if digits == 0 || digits%4 != 0 || digits == 32 || s[i-1] == '-' {
				return value{}, false
			}
			continue
		}
		if c >= 'A' && c <= 'F' {
			c += 'a' - 'A'
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') || digits == 32 {
			return value{}, false
		}
		if digits == 8 || digits == 12 || digits == 16 || digits == 20 {
			out = append(out, '-')
		}
		out = append(out, c)
		digits++
	}
	return bytesValue(out), digits == 32
}

// enumCodec orders labels by their place in the type. A label that was added after the clause was checked has place
// -1: it is equal to itself by its text, and comparing its order fails.
func enumCodec(t *typ) *codec {
	return &codec{
		input: func(s string) (value, bool) {
			i, ok := t.labels[s]
			return value{st: isSet, i: i, b: []byte(s)}, ok
		},
		read: func(b []byte) (value, bool) {
			i, ok := t.labels[unsafeString(b)]
			if !ok {
				i = -1
			}
			return value{st: isSet, i: i, b: b}, true
		},
		output: outputText,
		compare: func(a, b value) int {
			if a.i == -1 && b.i == -1 {
				return compareBytes(a, b)
			}
			return compareInt(a, b)
		},
	}
}
