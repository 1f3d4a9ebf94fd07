package where

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// The limits of numeric's text input (manual, "Arbitrary Precision Numbers").
const (
	maxNumericWhole = 131072
	maxNumericScale = 16383
)

// inputNumeric reads a numeric and writes it as Postgres's output function does: no leading zeros, no exponent, the
// scale that was written, no sign on zero.
func inputNumeric(s string) (value, bool) {
	s = trimSpace(s)
	neg := false
	body := s
	if body != "" && (body[0] == '-' || body[0] == '+') {
		neg = body[0] == '-'
		body = body[1:]
	}
	switch strings.ToLower(body) {
	case "nan":
		return bytesValue([]byte("NaN")), len(body) == len(s)
	case "inf", "infinity":
		if neg {
			return bytesValue([]byte("-Infinity")), true
		}
		return bytesValue([]byte("Infinity")), true
	}
	exp := 0
	if i := strings.IndexAny(body, "eE"); i >= 0 {
		e, err := strconv.Atoi(body[i+1:])
		if err != nil || e > maxNumericWhole || e < -maxNumericScale {
			return value{}, false
		}
		exp, body = e, body[:i]
	}
	whole, frac, _ := strings.Cut(body, ".")
	if whole == "" && frac == "" || !allDigits(whole) || !allDigits(frac) {
		return value{}, false
	}
	scale := max(len(frac)-exp, 0)
	digits := whole + frac
	point := len(whole) + exp // the decimal point stands before digits[point]
	switch {
	case point < 0:
		digits, point = strings.Repeat("0", -point)+digits, 0
	case point > len(digits):
		digits += strings.Repeat("0", point-len(digits))
	}
	whole, frac = strings.TrimLeft(digits[:point], "0"), digits[point:]
	if len(whole) > maxNumericWhole || scale > maxNumericScale {
		return value{}, false
	}
	return bytesValue(appendNumeric(nil, neg, whole, frac)), true
}

// appendNumeric writes canonical text; whole has no leading zeros, frac has exactly the digits of the scale.
func appendNumeric(dst []byte, neg bool, whole, frac string) []byte {
	if neg && (whole != "" || strings.Trim(frac, "0") != "") {
		dst = append(dst, '-')
	}
	if whole == "" {
		whole = "0"
	}
	dst = append(dst, whole...)
	if frac != "" {
		dst = append(dst, '.')
		dst = append(dst, frac...)
	}
	return dst
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// numericClass orders the kinds of numerics: -Infinity < negative < zero or positive < Infinity < NaN.
func numericClass(b []byte) int {
	switch {
	case len(b) == 0:
		return 0
	case b[0] == 'N':
		return 3
	case b[0] == 'I':
		return 2
	case b[0] != '-':
		return 1
	case len(b) > 1 && b[1] == 'I':
		return -1
	default:
		return 0
	}
}

// compareNumeric compares canonical texts digit by digit, exactly and without memory.
func compareNumeric(a, b value) int {
	x, y := a.b, b.b
	ca, cb := numericClass(x), numericClass(y)
	if ca != cb {
		return cmp.Compare(ca, cb)
	}
	switch ca {
	case 0:
		return compareDigits(y[1:], x[1:])
	case 1:
		return compareDigits(x, y)
	default:
		return 0
	}
}

func compareDigits(x, y []byte) int {
	xw, xf := splitPoint(x)
	yw, yf := splitPoint(y)
	if len(xw) != len(yw) {
		return cmp.Compare(len(xw), len(yw))
	}
	if c := bytes.Compare(xw, yw); c != 0 {
		return c
	}
	n := min(len(xf), len(yf))
	if c := bytes.Compare(xf[:n], yf[:n]); c != 0 {
		return c
	}
	// What one has beyond the other counts unless it is all zeros.
	for _, d := range xf[n:] {
		if d != '0' {
			return 1
		}
	}
	for _, d := range yf[n:] {
		if d != '0' {
			return -1
		}
	}
	return 0
}

func splitPoint(b []byte) (whole, frac []byte) {
	if i := bytes.IndexByte(b, '.'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}
