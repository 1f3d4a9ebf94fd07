package where

import (
	"math"
	"math/big"
)

// checkPower takes constants whose power is a float8 without rounding, such as 2 ^ 10: what pow() of the C library
// gives otherwise differs in its last digit between libraries.
func checkPower(n *node) error {
	var x [2]float64
	for i, a := range n.args {
		f, err := fold(a)
		if err != nil {
			return err
		}
		if !f.isConst() {
			return errorAt(a.loc, "%s is supported only for constants with an exact result, since the last digit of others depends on the C library of the database server; write a product, such as n * n", n.fn.name)
		}
		if f.val.st == isNull {
			return nil
		}
		x[i] = f.val.float()
	}
	if _, ok := exactPower(x[0], x[1]); !ok {
		return errorAt(n.loc, "the result of %s is not exact, so that its last digit depends on the C library of the database server; write it as a number", n.fn.name)
	}
	return nil
}

func power(a, b value) value {
	p, ok := exactPower(a.float(), b.float())
	if !ok {
		return failedValue
	}
	return floatValue(p)
}

// exactPower returns x to the power of a whole number y when that is a normal float64 without rounding.
func exactPower(x, y float64) (p float64, ok bool) {
	const (
		precision = 53
		most      = 1100 // the powers of 2 that a float64 holds, and more
	)
	if math.IsNaN(x) || math.IsInf(x, 0) || y != math.Trunc(y) || math.Abs(y) > most || x == 0 && (y < 0 || math.Signbit(x)) {
		return 0, false
	}
	switch {
	case y == 0:
		return 1, true
	case x == 0:
		return 0, true
	}
	fraction, exponent := math.Frexp(x) // x = odd * 2^exponent, once the zeros are gone
	odd := int64(math.Ldexp(fraction, precision))
	exponent -= precision
	for odd%2 == 0 {
		odd /= 2
		exponent++
	}
	whole := new(big.Int).Exp(big.NewInt(odd), big.NewInt(min(int64(math.Abs(y)), precision)), nil)
	switch {
	case odd == 1:
	case odd == -1:
		if int64(y)%2 == 0 {
			whole.SetInt64(1)
		} else {
			whole.SetInt64(-1)
		}
	case y < 0 || y > precision || whole.BitLen() > precision:
		return 0, false
	}
	exponent *= int(y)
	const smallest = -1022 // the exponent of the least normal number
	p = math.Ldexp(float64(whole.Int64()), exponent)
	return p, !math.IsInf(p, 0) && whole.BitLen()-1+exponent >= smallest
}
