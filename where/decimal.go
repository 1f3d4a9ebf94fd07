package where

import (
	"math/big"
	"strings"
)

// decimal is a finite numeric taken apart for arithmetic: units × 10^-scale.
type decimal struct {
	units *big.Int
	scale int
}

// The bounds of numeric results (numeric.h: NUMERIC_MIN_SIG_DIGITS, NUMERIC_MAX_DISPLAY_SCALE).
const (
	minSignificant  = 16
	maxDisplayScale = 1000
	baseDigits      = 4 // decimal digits in a digit of Postgres's numeric
)

var bigTen = big.NewInt(10)

func pow10(n int) *big.Int { return new(big.Int).Exp(bigTen, big.NewInt(int64(n)), nil) }

func toDecimal(v value) decimal {
	whole, frac := splitPoint(v.b)
	units, _ := new(big.Int).SetString(string(whole)+string(frac), 10)
	return decimal{units, len(frac)}
}

// value writes the decimal as Postgres does; what exceeds numeric's range fails.
func (d decimal) value() value {
	if d.scale > maxNumericScale {
		d = d.round(maxNumericScale)
	}
	digits := d.units.Text(10)
	neg := strings.HasPrefix(digits, "-")
	digits = strings.TrimPrefix(digits, "-")
	if short := d.scale - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	whole := strings.TrimLeft(digits[:len(digits)-d.scale], "0")
	if len(whole) > maxNumericWhole {
		return failedValue
	}
	return bytesValue(appendNumeric(nil, neg, whole, digits[len(digits)-d.scale:]))
}

// rescale gives the decimal a greater scale.
func (d decimal) rescale(scale int) *big.Int {
	if scale == d.scale {
		return d.units
	}
	return new(big.Int).Mul(d.units, pow10(scale-d.scale))
}

// round rounds half away from zero to a scale, which may be negative; the scale of the result is never below 0.
func (d decimal) round(scale int) decimal { return d.cut(scale, true) }

func (d decimal) cut(scale int, half bool) decimal {
	if scale >= d.scale {
		return decimal{d.rescale(scale), scale}
	}
	unit := pow10(d.scale - scale)
	q, r := new(big.Int).QuoRem(d.units, unit, new(big.Int))
	if half && r.Abs(r).Lsh(r, 1).Cmp(unit) >= 0 {
		q.Add(q, big.NewInt(int64(d.units.Sign())))
	}
	if scale < 0 {
		return decimal{q.Mul(q, pow10(-scale)), 0}
	}
	return decimal{q, scale}
}

// weight is the place of the first digit other than zero in Postgres's base 10000, and that digit.
func (d decimal) weight() (place, digit int64) {
	if d.units.Sign() == 0 {
		return 0, 0
	}
	s := new(big.Int).Abs(d.units).Text(10)
	top := len(s) - d.scale - 1 // the power of ten of the first digit
	place = floorDiv(int64(top), baseDigits)
	n := top - int(place)*baseDigits + 1 // how many decimal digits the first digit has
	for i := range n {
		digit *= 10
		if i < len(s) {
			digit += int64(s[i] - '0')
		}
	}
	return place, digit
}

func divDecimal(a, b decimal) value {
	if b.units.Sign() == 0 {
		return failedValue
	}
	wa, da := a.weight()
	wb, db := b.weight()
	q := wa - wb
	if da <= db {
		q--
	}
	scale := min(max(minSignificant-int(q)*baseDigits, a.scale, b.scale, 0), maxDisplayScale)
	// One digit more than wanted would round twice; so the remainder decides.
	num := new(big.Int).Mul(a.units, pow10(scale+b.scale))
	den := new(big.Int).Mul(b.units, pow10(a.scale))
	quo, rem := new(big.Int).QuoRem(num, den, new(big.Int))
	if rem.Abs(rem).Lsh(rem, 1).CmpAbs(den) >= 0 {
		quo.Add(quo, big.NewInt(int64(num.Sign()*den.Sign())))
	}
	return decimal{quo, scale}.value()
}

var (
	numericNaN    = bytesValue([]byte("NaN"))
	numericPosInf = bytesValue([]byte("Infinity"))
	numericNegInf = bytesValue([]byte("-Infinity"))
	numericZero   = bytesValue([]byte("0"))
)

// numericSign is -1, 0 or 1, of infinities as well.
func numericSign(v value) int {
	switch numericClass(v.b) {
	case -1:
		return -1
	case 2:
		return 1
	default:
		if v.b[0] == '-' {
			return -1
		}
		for _, c := range v.b {
			if c != '0' && c != '.' {
				return 1
			}
		}
		return 0
	}
}

func numericInf(sign int) value {
	if sign < 0 {
		return numericNegInf
	}
	return numericPosInf
}

func isInf(v value) bool { c := numericClass(v.b); return c == 2 || c == -1 }
func isNaN(v value) bool { return numericClass(v.b) == 3 }

func addNumeric(a, b value) value {
	switch {
	case isNaN(a) || isNaN(b):
		return numericNaN
	case isInf(a) && isInf(b) && numericSign(a) != numericSign(b):
		return numericNaN
	case isInf(a):
		return a
	case isInf(b):
		return b
	}
	x, y := toDecimal(a), toDecimal(b)
	scale := max(x.scale, y.scale)
	return decimal{new(big.Int).Add(x.rescale(scale), y.rescale(scale)), scale}.value()
}

func negNumeric(v value) value {
	switch {
	case isNaN(v):
		return v
	case isInf(v):
		return numericInf(-numericSign(v))
	}
	d := toDecimal(v)
	return decimal{new(big.Int).Neg(d.units), d.scale}.value()
}

func mulNumeric(a, b value) value {
	switch {
	case isNaN(a) || isNaN(b):
		return numericNaN
	case isInf(a) || isInf(b):
		s := numericSign(a) * numericSign(b)
		if s == 0 {
			return numericNaN
		}
		return numericInf(s)
	}
	x, y := toDecimal(a), toDecimal(b)
	return decimal{new(big.Int).Mul(x.units, y.units), x.scale + y.scale}.value()
}

func divNumeric(a, b value) value {
	switch {
	case isNaN(a) || isNaN(b):
		return numericNaN
	case isInf(a) && isInf(b):
		return numericNaN
	case isInf(a):
		s := numericSign(b)
		if s == 0 {
			return failedValue
		}
		return numericInf(s * numericSign(a))
	case isInf(b):
		return numericZero
	}
	return divDecimal(toDecimal(a), toDecimal(b))
}

func modNumeric(a, b value) value {
	switch {
	case isNaN(a) || isNaN(b):
		return numericNaN
	case isInf(a):
		if numericSign(b) == 0 {
			return failedValue
		}
		return numericNaN
	case isInf(b):
		return a
	case numericSign(b) == 0:
		return failedValue
	}
	x, y := toDecimal(a), toDecimal(b)
	scale := max(x.scale, y.scale)
	return decimal{new(big.Int).Rem(x.rescale(scale), y.rescale(scale)), scale}.value()
}

// onFinite applies f to finite values; infinities and NaN are returned as they are.
func onFinite(f func(d decimal) decimal) func(value) value {
	return func(v value) value {
		if isNaN(v) || isInf(v) {
			return v
		}
		return f(toDecimal(v)).value()
	}
}

func registerNumeric() {
	register("numeric_add", &builtin{f2: addNumeric})
	register("numeric_sub", &builtin{f2: func(a, b value) value { return addNumeric(a, negNumeric(b)) }})
	register("numeric_mul", &builtin{f2: mulNumeric})
	register("numeric_div", &builtin{f2: divNumeric})
	register("numeric_mod", &builtin{f2: modNumeric})
	register("numeric_uminus", &builtin{f1: negNumeric})
	register("numeric_uplus", &builtin{f1: func(v value) value { return v }})
	register("numeric_abs", &builtin{f1: func(v value) value {
		if numericSign(v) < 0 {
			return negNumeric(v)
		}
		return v
	}})
	register("numeric_sign", &builtin{f1: func(v value) value {
		if isNaN(v) {
			return v
		}
		return decimal{big.NewInt(int64(numericSign(v))), 0}.value()
	}})
	step := func(d decimal, towards int) decimal {
		out := d.cut(0, false)
		if d.units.Sign() == towards && out.rescale(d.scale).Cmp(d.units) != 0 {
			out.units = new(big.Int).Add(out.units, big.NewInt(int64(towards)))
		}
		return out
	}
	register("numeric_ceil", &builtin{f1: onFinite(func(d decimal) decimal { return step(d, 1) })})
	register("numeric_floor", &builtin{f1: onFinite(func(d decimal) decimal { return step(d, -1) })})
	for key, half := range map[string]bool{"round": true, "trunc": false} {
		register(key+"(numeric)", &builtin{f1: onFinite(func(d decimal) decimal { return d.cut(0, half) })})
		register("numeric_"+key, &builtin{f2: func(v, n value) value {
			scale := int(min(max(n.i, -maxNumericWhole-1), maxNumericScale))
			return onFinite(func(d decimal) decimal { return d.cut(scale, half) })(v)
		}})
	}
}
