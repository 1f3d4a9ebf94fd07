package where

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// outputFloat writes the shortest text that reads back the same, in Postgres's layout (extra_float_digits = 1).
func outputFloat(bits int) func(value) string {
	return func(v value) string { return formatFloat(v.float(), bits) }
}

func formatFloat(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	s := strconv.FormatFloat(f, 'e', -1, bits)
	mantissa, exponent, _ := strings.Cut(s, "e")
	e, _ := strconv.Atoi(exponent)
	fixed := 15
	if bits == 32 {
		fixed = 6
	}
	if e >= -4 && e < fixed {
		return strconv.FormatFloat(f, 'f', -1, bits)
	}
	for digits := len(mantissa); betweenFloats(s, f, bits) && digits < 20; digits++ { // the first round adds none or one
		s = strconv.FormatFloat(f, 'e', max(digits-2, 0), bits)
	}
	return s
}

// betweenFloats reports whether the decimal s, which reads back as f, lies half-way between f and a neighbour. Go takes
// it for the shortest text of f then, Postgres does not rely on the rounding of ties and writes more digits.
func betweenFloats(s string, f float64, bits int) bool {
	// A decimal of 17 digits, or 9 for float4, with 54, or 25, significant bits is an integer or nearly so, and has a
	// power of 10 below 24 as a factor.
	if a := math.Abs(f); a < 1<<17 || a > 1e45 || bits == 64 && a < 1<<48 {
		return false
	}
	const exact = 256 // bits, more than any such value has
	decimal, _, err := big.ParseFloat(s, 10, exact, big.ToNearestEven)
	if err != nil {
		return false
	}
	for _, towards := range []float64{math.Inf(-1), math.Inf(1)} {
		next := math.Nextafter(f, towards)
		if bits == 32 {
			next = float64(math.Nextafter32(float32(f), float32(towards)))
		}
		middle := new(big.Float).SetPrec(exact).SetFloat64(f)
		middle.Add(middle, new(big.Float).SetFloat64(next)).Quo(middle, big.NewFloat(2))
		if middle.Cmp(decimal) == 0 {
			return true
		}
	}
	return false
}
