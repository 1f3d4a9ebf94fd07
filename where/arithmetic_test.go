package where_test

import (
	"fmt"
	"math"
	"testing"
)

// The functions of numbers, over many values and scales.
func TestArithmeticAgreesWithPostgres(t *testing.T) {
	o := newOracle(t, 6, 30)
	ints := []string{"c_int2", "c_int4", "c_int8", "0", "-6", "15", "(-2147483648)", "2147483647", "(-9223372036854775808)", "'9223372036854775807'::int8"}
	nums := []string{"c_num", "c_num2", "0.00", "2.50", "(-7.125)", "1e-20", "0.0000000000000000000000000004", "12345678901234567890.123", "99990000.0001", "2::numeric", "15241578750190521", "'NaN'::numeric", "'-Infinity'::numeric", "1e40"}
	var exprs []string
	for _, set := range [][]string{ints, nums} {
		for _, a := range set {
			for _, b := range set {
				for _, f := range []string{"gcd", "lcm", "div", "mod"} {
					exprs = append(exprs, fmt.Sprintf("%s(%s, %s)", f, a, b))
				}
			}
		}
	}
	for _, a := range nums {
		for _, f := range []string{"scale", "min_scale", "trim_scale", "sqrt", "sign", "abs"} {
			exprs = append(exprs, fmt.Sprintf("%s(%s)", f, a))
		}
		for n := -22; n < 22; n += 3 {
			exprs = append(exprs, fmt.Sprintf("round(%s, %d)", a, n), fmt.Sprintf("trunc(%s, %d)", a, n))
		}
	}
	powers := []string{"0", "1", "(-1)", "2", "(-2)", "3", "10", "0.5::float8", "1.5::float8", "0.1::float8", "(-7.25::float8)", "22", "23", "53", "1023", "1024", "(-1022)", "(-1023)", "'1e308'::float8", "'-0'::float8", "'NaN'::float8", "'Infinity'::float8", "9007199254740993", "NULL"}
	for _, a := range powers {
		for _, b := range powers {
			exprs = append(exprs, fmt.Sprintf("%s ^ %s", a, b), fmt.Sprintf("power(%s, %s)", a, b))
		}
	}
	for e := -40; e <= 40; e++ {
		for _, m := range []string{"1", "2.25", "0.3", "99.99999"} {
			exprs = append(exprs, fmt.Sprintf("sqrt(%se%d)", m, e), fmt.Sprintf("sqrt(%se%d::float8)", m, e), fmt.Sprintf("|/ %se%d::float8", m, e))
		}
	}
	// The shortest text of a float that has a decimal of the same length half-way to its neighbour.
	for e := 50; e < 140; e++ {
		for _, m := range []int64{1, 3, 5, 11, 1<<20 + 1, 1<<22 + 3, 1<<23 - 1} {
			exprs = append(exprs, fmt.Sprintf("'%v'::float8::text", math.Ldexp(float64(m), e-20)), fmt.Sprintf("'%v'::float4::text", math.Ldexp(float64(m), e-60)),
				fmt.Sprintf("'%v'::float8::text", math.Ldexp(1e15+float64(m), e-60)))
		}
	}
	for n := range 40 {
		exprs = append(exprs, fmt.Sprintf("factorial(%d)", n))
	}
	for _, a := range []string{"c_float8", "c_float4", "c_int8", "c_num", "1e300::float8", "90"} {
		exprs = append(exprs, fmt.Sprintf("degrees(%s)", a), fmt.Sprintf("radians(%s)", a), fmt.Sprintf("pi() * %s", a))
	}
	exprs = append(exprs, "pi()", "factorial(-1)", "factorial(2000)", "factorial(32178)", "factorial(c_int4 % 50)")
	o.checkSome(t, exprs, 8)
	o.report(t)
}
