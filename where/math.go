package where

import (
	"math"
	"strconv"
)

func registerMath() {}

// numericToInt rounds half away from zero, as numeric's casts to integers do.
func numericToInt(lo, hi int64) func(value) value {
	return func(v value) value {
		if c := numericClass(v.b); c != 0 && c != 1 {
			return failedValue
		}
		whole, frac := splitPoint(v.b)
		out, ok := readInt(whole)
		if !ok {
			return failedValue
		}
		if len(frac) > 0 && frac[0] >= '5' {
			if v.b[0] == '-' {
				if out.i == math.MinInt64 {
					return failedValue
				}
				out.i--
			} else {
				if out.i == math.MaxInt64 {
					return failedValue
				}
				out.i++
			}
		}
		if out.i < lo || out.i > hi {
			return failedValue
		}
		return out
	}
}

// floatToNumeric goes through the text with the given significant digits, as float4_numeric and float8_numeric do.
func floatToNumeric(digits int) func(value) value {
	return func(v value) value {
		f := v.float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return bytesValue([]byte(formatFloat(f, 64)))
		}
		out, ok := inputNumeric(strconv.FormatFloat(f, 'g', digits, 64))
		if !ok {
			return failedValue
		}
		return out
	}
}
