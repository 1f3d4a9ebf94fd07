package where

import (
	"math"
	"math/big"
	"math/bits"
)

// registerArithmetic adds the mathematical functions whose results follow from IEEE 754 and from integer arithmetic
// alone. What goes through the C library's transcendental functions is refused, see refusals.
func registerArithmetic() {
	for name, hi := range map[string]uint64{"int4": math.MaxInt32, "int8": math.MaxInt64} {
		register(name+"gcd", &builtin{f2: func(a, b value) value { return unsignedWithin(gcd(magnitude(a.i), magnitude(b.i)), hi) }})
		register(name+"lcm", &builtin{f2: func(a, b value) value {
			x, y := magnitude(a.i), magnitude(b.i)
			if x == 0 || y == 0 {
				return intValue(0)
			}
			over, out := bits.Mul64(x/gcd(x, y), y)
			if over != 0 {
				return failedValue
			}
			return unsignedWithin(out, hi)
		}})
	}
	register("numeric_gcd", &builtin{f2: gcdNumeric})
	register("numeric_lcm", &builtin{f2: lcmNumeric})
	register("numeric_div_trunc", &builtin{f2: divTruncNumeric})
	register("numeric_sqrt", &builtin{f1: sqrtNumeric})
	register("numeric_fac", &builtin{f1: factorial})
	register("numeric_scale", &builtin{f1: func(v value) value {
		if isNaN(v) || isInf(v) {
			return nullValue
		}
		return intValue(int64(toDecimal(v).scale))
	}})
	register("numeric_min_scale", &builtin{f1: func(v value) value {
		if isNaN(v) || isInf(v) {
			return nullValue
		}
		return intValue(int64(toDecimal(v).trim().scale))
	}})
	register("numeric_trim_scale", &builtin{f1: onFinite(decimal.trim)})
	register("dpow", &builtin{check: checkPower, f2: power})
	register("dpi", &builtin{fn: func([]value) value { return floatValue(math.Pi) }})
	register("degrees", &builtin{f1: func(v value) value {
		r := v.float() / radiansPerDegree
		if math.IsInf(r, 0) && !math.IsInf(v.float(), 0) {
			return failedValue
		}
		return floatValue(r)
	}})
	register("radians", &builtin{f1: func(v value) value {
		r := v.float() * radiansPerDegree
		if r == 0 && v.float() != 0 {
			return failedValue
		}
		return floatValue(r)
	}})
}

// radiansPerDegree is RADIANS_PER_DEGREE of Postgres's float.h.
const radiansPerDegree = 0.0174532925199432957692

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i) //nolint:gosec // two's complement is what is wanted
	}
	return uint64(i)
}

func unsignedWithin(u, hi uint64) value {
	if u > hi {
		return failedValue
	}
	return intValue(int64(u)) //nolint:gosec // hi is at most MaxInt64
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// onBothFinite is NaN as soon as one side is not finite, as Postgres decided for gcd and lcm.
func onBothFinite(a, b value, f func(x, y *big.Int) *big.Int) value {
	if isNaN(a) || isNaN(b) || isInf(a) || isInf(b) {
		return numericNaN
	}
	x, y := toDecimal(a), toDecimal(b)
	scale := max(x.scale, y.scale)
	return decimal{f(new(big.Int).Abs(x.rescale(scale)), new(big.Int).Abs(y.rescale(scale))), scale}.value()
}

func gcdNumeric(a, b value) value {
	return onBothFinite(a, b, func(x, y *big.Int) *big.Int { return new(big.Int).GCD(nil, nil, x, y) })
}

func lcmNumeric(a, b value) value {
	return onBothFinite(a, b, func(x, y *big.Int) *big.Int {
		if x.Sign() == 0 || y.Sign() == 0 {
			return new(big.Int)
		}
		return x.Mul(x.Quo(x, new(big.Int).GCD(nil, nil, x, y)), y)
	})
}

// divTruncNumeric is div(): the whole part of the quotient.
func divTruncNumeric(a, b value) value {
	if isNaN(a) || isNaN(b) || isInf(a) || isInf(b) {
		return divNumeric(a, b)
	}
	x, y := toDecimal(a), toDecimal(b)
	if y.units.Sign() == 0 {
		return failedValue
	}
	scale := max(x.scale, y.scale)
	return decimal{new(big.Int).Quo(x.rescale(scale), y.rescale(scale)), 0}.value()
}

// sqrtNumeric gives at least minSignificant digits and the scale of the argument, rounded half away from zero
// (numeric_sqrt).
func sqrtNumeric(v value) value {
	switch {
	case isNaN(v):
		return v
	case numericSign(v) < 0:
		return failedValue
	case isInf(v):
		return v
	}
	d := toDecimal(v)
	place, _ := d.weight()
	scale := min(max(minSignificant-(int(place)*baseDigits/2+1), d.scale, 0), maxDisplayScale)
	// One digit more than wanted decides the rounding: an irrational root never lies on the half, and a rational one
	// that does has this digit exactly.
	root := decimal{d.rescale(max(d.scale, 2*(scale+1))), max(d.scale, 2*(scale+1))}
	if root.scale%2 != 0 {
		root = decimal{root.rescale(root.scale + 1), root.scale + 1}
	}
	return decimal{new(big.Int).Sqrt(root.units), root.scale / 2}.round(scale).value()
}

// factorial fails where the result exceeds numeric's range.
func factorial(v value) value {
	const most = 32177 // the last one that fits (numeric_fac)
	if v.i < 0 || v.i > most {
		return failedValue
	}
	return decimal{new(big.Int).MulRange(1, v.i), 0}.value()
}

// trim leaves trailing zeros of the fraction off.
func (d decimal) trim() decimal {
	units, rem := d.units, new(big.Int)
	for d.scale > 0 {
		q, r := new(big.Int).QuoRem(units, bigTen, rem)
		if r.Sign() != 0 {
			break
		}
		units = q
		d.scale--
	}
	return decimal{units, d.scale}
}
