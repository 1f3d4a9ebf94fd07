package where

import (
	"bytes"
	"math/big"
	"strconv"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// varHeader is what Postgres adds to the modifier of varchar, char and numeric (VARHDRSZ).
const varHeader = 4

// The bounds of modifiers (manual, "Numeric Types", "Character Types", "Date/Time Types").
const (
	maxLength         = 10_485_760
	maxNumericDigits  = 1000
	maxTimePrecision  = 6
	numericScaleMask  = 0x7ff // eleven bits, in two's complement: numeric(p, s) allows a negative s since Postgres 15
	numericScaleShift = 16
)

// typmod reads a type's modifier in Postgres's encoding, -1 for none.
func (c *checker) typmod(t *pg.TypeName, to *typ) (int32, error) {
	mods := t.GetTypmods()
	if len(mods) == 0 {
		return -1, nil
	}
	loc := local(t.GetLocation())
	var n []int32
	for _, m := range mods {
		k := m.GetAConst()
		if k == nil || k.GetSval() != nil || k.GetFval() != nil || len(n) == 2 {
			return -1, errorAt(loc, "type modifiers of %s are not supported", to)
		}
		n = append(n, k.GetIval().GetIval())
	}
	switch {
	case (to.oid == oidVarchar || to.oid == oidBpchar) && len(n) == 1:
		if n[0] < 1 || n[0] > maxLength {
			return -1, errorAt(loc, "length for type %s must be between 1 and %d", to, maxLength)
		}
		return n[0] + varHeader, nil
	case to.oid == oidNumeric:
		scale := int32(0)
		if len(n) == 2 {
			scale = n[1]
		}
		if n[0] < 1 || n[0] > maxNumericDigits || scale < -maxNumericDigits || scale > maxNumericDigits {
			return -1, errorAt(loc, "precision of numeric must be between 1 and %d, and its scale between -%d and %d", maxNumericDigits, maxNumericDigits, maxNumericDigits)
		}
		return n[0]<<numericScaleShift | scale&numericScaleMask + varHeader, nil
	case isTime(to) && len(n) == 1:
		if n[0] < 0 {
			return -1, errorAt(loc, "precision of %s must not be negative", to)
		}
		return min(n[0], maxTimePrecision), nil
	}
	return -1, errorAt(loc, "type modifiers of %s are not supported", to)
}

func isTime(t *typ) bool {
	switch t.oid {
	case oidTime, oidTimetz, oidTimestamp, oidTimestamptz:
		return true
	default:
		return false
	}
}

func numericModifier(typmod int32) (precision, scale int) {
	m := typmod - varHeader
	return int(m >> numericScaleShift), int(m&numericScaleMask^0x400) - 0x400
}

// typmodSQL writes a modifier as it stands behind the type's name.
func typmodSQL(t *typ, typmod int32) string {
	switch {
	case typmod < 0:
		return ""
	case t.oid == oidNumeric:
		precision, scale := numericModifier(typmod)
		return "(" + strconv.Itoa(precision) + "," + strconv.Itoa(scale) + ")"
	case isTime(t):
		return "(" + strconv.Itoa(int(typmod)) + ")"
	default:
		return "(" + strconv.Itoa(int(typmod-varHeader)) + ")"
	}
}

// applyTypmod fits a value to a type's modifier. An explicit cast cuts what is too long; otherwise only blanks may go.
func applyTypmod(v value, t *typ, typmod int32, explicit bool) value {
	switch t = t.baseType(); {
	case t.oid == oidVarchar, t.oid == oidBpchar:
		return fitLength(v, int64(typmod-varHeader), t.is(oidBpchar), explicit)
	case t.oid == oidNumeric:
		return fitNumeric(v, typmod)
	case isTime(t):
		return roundTime(v, typmod, t.is(oidTime) || t.is(oidTimetz))
	case t.kind == KindArray:
		return mapArray(v, func(e value) value { return applyTypmod(e, t.elem, typmod, explicit) })
	default:
		return failedValue
	}
}

func fitLength(v value, n int64, fill, explicit bool) value {
	end := charOffset(v.b, n)
	if len(bytes.TrimRight(v.b[end:], " ")) > 0 && !explicit {
		return failedValue
	}
	v.b = v.b[:end]
	if fill {
		if short := n - int64(utf8.RuneCount(v.b)); short > 0 {
			v.b = append(bytes.Clone(v.b), bytes.Repeat([]byte{' '}, int(short))...)
		}
	}
	return v
}

// fitNumeric rounds to the scale; what has too many digits before the point then fails, and infinities do.
func fitNumeric(v value, typmod int32) value {
	switch {
	case isNaN(v):
		return v
	case isInf(v):
		return failedValue
	}
	precision, scale := numericModifier(typmod)
	d := toDecimal(v).round(scale)
	if d.units.Sign() != 0 {
		limit := new(big.Int)
		if digits := precision - scale + d.scale; digits > 0 {
			limit = pow10(digits)
		} else {
			limit.SetInt64(1)
		}
		if d.units.CmpAbs(limit) >= 0 {
			return failedValue
		}
	}
	return d.value()
}

// roundTime rounds half away from zero to a number of decimals of a second.
func roundTime(v value, decimals int32, clock bool) value {
	unit := int64(1)
	for range maxTimePrecision - decimals {
		unit *= 10
	}
	switch {
	case clock:
		v.i = (v.i + unit/2) / unit * unit
		return v
	case infinite(v):
		return v
	case v.i >= 0:
		v.i = (v.i + unit/2) / unit * unit
	default:
		v.i = -((-v.i + unit/2) / unit * unit)
	}
	if !validTimestamp(v.i) {
		return failedValue
	}
	return v
}
