package where

import (
	"math"
	"strconv"
)

func registerMath() {
	registerIntegers()
	registerFloats()
	registerNumeric()
	registerArithmetic()
	registerTimes()
}

// within gives an integer the range of its type; what does not fit is an error in Postgres.
func within(i int64, lo, hi int64) value {
	if i < lo || i > hi {
		return failedValue
	}
	return intValue(i)
}

func addInt(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0) || b == 0
}

func subInt(a, b int64) (int64, bool) {
	c := a - b
	return c, (c < a) == (b > 0) || b == 0
}

func mulInt(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	c := a * b
	return c, c/b == a && (a != math.MinInt64 || b != -1) && (b != math.MinInt64 || a != -1)
}

func divInt(a, b int64) (int64, bool) {
	if b == 0 || a == math.MinInt64 && b == -1 {
		return 0, false
	}
	return a / b, true
}

func modInt(a, b int64) (int64, bool) {
	if b == 0 {
		return 0, false
	}
	if b == -1 {
		return 0, true
	}
	return a % b, true
}

func registerIntegers() {
	type span struct{ lo, hi int64 }
	ranges := map[string]span{
		"int2": {math.MinInt16, math.MaxInt16}, "int4": {math.MinInt32, math.MaxInt32}, "int8": {math.MinInt64, math.MaxInt64},
	}
	// Mixed operators give the wider type.
	mixed := map[string]string{"int24": "int4", "int42": "int4", "int28": "int8", "int82": "int8", "int48": "int8", "int84": "int8"}
	binary := map[string]func(a, b int64) (int64, bool){"pl": addInt, "mi": subInt, "mul": mulInt, "div": divInt}
	for op, f := range binary {
		for name, r := range ranges {
			register(name+op, &builtin{f2: checked(f, r.lo, r.hi)})
		}
		for name, wide := range mixed {
			register(name+op, &builtin{f2: checked(f, ranges[wide].lo, ranges[wide].hi)})
		}
	}
	for name, r := range ranges {
		width := 31
		if name == "int8" {
			width = 63
		}
		wrap := func(i int64) value { // keeps the bits of the type, as C does
			switch name {
			case "int2":
				return intValue(int64(int16(i))) //nolint:gosec // the low bits are what is wanted
			case "int4":
				return intValue(int64(int32(i))) //nolint:gosec // as above
			default:
				return intValue(i)
			}
		}
		register(name+"mod", &builtin{f2: checked(modInt, r.lo, r.hi)})
		register(name+"and", &builtin{f2: func(a, b value) value { return intValue(a.i & b.i) }})
		register(name+"or", &builtin{f2: func(a, b value) value { return intValue(a.i | b.i) }})
		register(name+"xor", &builtin{f2: func(a, b value) value { return intValue(a.i ^ b.i) }})
		register(name+"not", &builtin{f1: func(v value) value { return intValue(^v.i) }})
		// The processor takes a shift count modulo the width, and Postgres leaves it to the processor.
		register(name+"shl", &builtin{f2: func(a, b value) value {
			if width == 31 {
				return wrap(int64(int32(a.i) << (b.i & 31))) //nolint:gosec // C shifts an int
			}
			return intValue(a.i << (b.i & 63))
		}})
		register(name+"shr", &builtin{f2: func(a, b value) value { return intValue(a.i >> (b.i & int64(width))) }})
		register(name+"up", &builtin{f1: func(v value) value { return v }})
		register(name+"um", &builtin{f1: func(v value) value {
			if v.i == r.lo {
				return failedValue
			}
			return intValue(-v.i)
		}})
		register(name+"abs", &builtin{f1: func(v value) value {
			if v.i == r.lo {
				return failedValue
			}
			return intValue(max(v.i, -v.i))
		}})
	}
}

func checked(f func(a, b int64) (int64, bool), lo, hi int64) func(a, b value) value {
	return func(a, b value) value {
		i, ok := f(a.i, b.i)
		if !ok {
			return failedValue
		}
		return within(i, lo, hi)
	}
}

func registerFloats() {
	type op struct {
		f64 func(a, b float64) float64
		f32 func(a, b float32) float32
		// fails tells when an infinite or zero result is an error (float.h of Postgres: overflow, underflow, division
		// by zero).
		fails func(a, b, r float64) bool
	}
	overflow := func(a, b, r float64) bool { return math.IsInf(r, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) }
	ops := map[string]op{
		"pl": {func(a, b float64) float64 { return a + b }, func(a, b float32) float32 { return a + b }, overflow},
		"mi": {func(a, b float64) float64 { return a - b }, func(a, b float32) float32 { return a - b }, overflow},
		"mul": {
			func(a, b float64) float64 { return a * b }, func(a, b float32) float32 { return a * b },
			func(a, b, r float64) bool { return overflow(a, b, r) || r == 0 && a != 0 && b != 0 },
		},
		"div": {
			func(a, b float64) float64 { return a / b }, func(a, b float32) float32 { return a / b },
			func(a, b, r float64) bool {
				return b == 0 && !math.IsNaN(a) || math.IsInf(r, 0) && !math.IsInf(a, 0) || r == 0 && a != 0 && !math.IsInf(b, 0)
			},
		},
	}
	for name, o := range ops {
		double := func(a, b value) value {
			x, y := a.float(), b.float()
			r := o.f64(x, y)
			if o.fails(x, y, r) {
				return failedValue
			}
			return floatValue(r)
		}
		register("float8"+name, &builtin{f2: double})
		register("float48"+name, &builtin{f2: double})
		register("float84"+name, &builtin{f2: double})
		register("float4"+name, &builtin{f2: func(a, b value) value {
			x, y := a.float(), b.float()
			r := float64(o.f32(float32(x), float32(y)))
			if o.fails(x, y, r) {
				return failedValue
			}
			return floatValue(r)
		}})
	}
	for key, f := range map[string]func(float64) float64{
		"float4abs": math.Abs, "float8abs": math.Abs,
		"float4um": func(f float64) float64 { return -f }, "float8um": func(f float64) float64 { return -f },
		"float4up": func(f float64) float64 { return f }, "float8up": func(f float64) float64 { return f },
		"dceil": math.Ceil, "dfloor": math.Floor, "dtrunc": math.Trunc, "dround": math.RoundToEven,
		"dsign": func(f float64) float64 {
			switch {
			case f > 0:
				return 1
			case f < 0:
				return -1
			default:
				return 0 // for NaN as well
			}
		},
	} {
		register(key, &builtin{f1: func(v value) value { return floatValue(f(v.float())) }})
	}
	register("dsqrt", &builtin{f1: func(v value) value {
		if f := v.float(); !(f < 0) {
			return floatValue(math.Sqrt(f))
		}
		return failedValue
	}})
}

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
			step := int64(1)
			if v.b[0] == '-' {
				step = -1
			}
			if out.i, ok = addInt(out.i, step); !ok {
				return failedValue
			}
		}
		return within(out.i, lo, hi)
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

var (
	floatPosInf = floatValue(math.Inf(1))
	floatNegInf = floatValue(math.Inf(-1))
)
