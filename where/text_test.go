package where_test

import (
	"fmt"
	"testing"
)

// The functions of text and bytea, and casts to types with a modifier.
func TestTextsAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 9, 60)
	var exprs []string
	texts := []string{"c_text", "c_varchar", "c_name", "c_bpchar", "'日本語x'", "''"}
	for _, s := range texts {
		for n := -2; n < 9; n++ {
			for _, f := range []string{"lpad", "rpad"} {
				exprs = append(exprs, fmt.Sprintf("%s(%s, %d)", f, s, n), fmt.Sprintf("%s(%s, %d, 'é-')", f, s, n), fmt.Sprintf("%s(%s, %d, '')", f, s, n), fmt.Sprintf("%s(%s, %d, c_text)", f, s, n))
			}
			exprs = append(exprs, fmt.Sprintf("overlay(%s PLACING 'É!' FROM %d)", s, n))
			for l := -2; l < 4; l++ {
				exprs = append(exprs, fmt.Sprintf("overlay(%s PLACING 'É!' FROM %d FOR %d)", s, n, l))
			}
		}
		exprs = append(exprs, fmt.Sprintf("bit_length(%s)", s), fmt.Sprintf("quote_literal(%s)", s), fmt.Sprintf("chr(ascii(%s))", s), fmt.Sprintf("lpad(%s, c_int2)", s), fmt.Sprintf("overlay(%s PLACING 'x' FROM 2 FOR c_int4)", s))
	}
	bytea := []string{"c_bytea", `'\x00ff10'::bytea`, `'\x'::bytea`, `'abcabc'::bytea`}
	for _, s := range bytea {
		for _, f := range []string{"sha224", "sha256", "sha384", "sha512", "md5", "bit_length", "bit_count", "octet_length", "length"} {
			exprs = append(exprs, fmt.Sprintf("%s(%s)", f, s))
		}
		for n := -2; n < 6; n++ {
			exprs = append(exprs, fmt.Sprintf("get_byte(%s, %d)", s, n), fmt.Sprintf("get_bit(%s, %d)", s, 5*n), fmt.Sprintf("substring(%s FROM %d)", s, n), fmt.Sprintf("overlay(%s PLACING '\\xab' FROM %d)", s, n))
			for l := -1; l < 4; l++ {
				exprs = append(exprs, fmt.Sprintf("substring(%s FROM %d FOR %d)", s, n, l), fmt.Sprintf("overlay(%s PLACING '\\xab' FROM %d FOR %d)", s, n, l))
			}
		}
		for _, b := range bytea {
			exprs = append(exprs, fmt.Sprintf("position(%s IN %s)", b, s), fmt.Sprintf("btrim(%s, %s)", s, b), fmt.Sprintf("ltrim(%s, %s)", s, b), fmt.Sprintf("rtrim(%s, %s)", s, b))
		}
		for _, f := range []string{"hex", "HEX", "base64", "escape", "rot13"} {
			exprs = append(exprs, fmt.Sprintf("encode(%s, '%s')", s, f), fmt.Sprintf("encode(decode(repeat('0a%%', 0) || repeat('00ff5c', 40), 'hex') || %s, '%s')", s, f))
		}
	}
	for _, n := range []string{"c_int4", "c_int8", "c_int2", "255", "-1", "0", "5000000000"} {
		exprs = append(exprs, fmt.Sprintf("to_hex(%s)", n), fmt.Sprintf("chr(%s)", n))
	}
	for _, n := range []string{"65", "233", "55296", "1114111", "1114112", "0", "128512"} {
		exprs = append(exprs, fmt.Sprintf("chr(%s)", n))
	}
	exprs = append(exprs, "decode('00FF', 'hex')", "decode('0', 'hex')", "decode('zz', 'hex')", "decode(c_text, 'hex')")
	for _, to := range []string{
		"numeric(8,2)", "numeric(3)", "numeric(5,-2)", "numeric(3,5)", "numeric(1000,1000)", "numeric(20,0)", "timestamp(0)", "timestamp(3)", "timestamptz(2)", "timestamptz(6)", "timestamptz(9)", "time(0)", "time(1)", "timetz(4)",
		"varchar(1)", "char(3)", "varchar(0)", "numeric(0)", "numeric(5,2)[]", "timestamp(0)[]", "varchar(2)[]", "interval(2)", "time(-1)",
	} {
		for _, k := range o.kinds {
			exprs = append(exprs, fmt.Sprintf("%s::%s", k.column, to))
		}
		for _, v := range []string{"1.005", "-1.005", "99.995", "999.5", "0.00004999", "-0.000005", "12345678.9", "1999-12-31 23:59:59.9995", "23:59:59.999999", "0044-03-15 12:00:00.5 BC", "1969-12-31 23:59:59.4995", "{1.005,2,NULL}", "{2024-01-01 00:00:00.5}", "abcdef", "NaN", "Infinity", "123456.5"} {
			exprs = append(exprs, fmt.Sprintf("'%s'::%s", v, to))
		}
	}
	exprs = append(exprs, "c_num2::numeric(4,1) = 1.5", "c_ints::numeric(4,1)[]", "c_tss::timestamp(0)[]", "CAST(c_float8 AS numeric(6,3))", "CAST(c_text AS varchar(2)) = 'a'")
	// Of type name, constants have the collation C, and what was text before keeps the text's.
	for _, name := range []string{"'é'::name", "('é'::text)::name", "c_text::name", "c_name", "('É' || c_text)::name", "'É'::name::text"} {
		exprs = append(exprs, fmt.Sprintf("upper(%s)", name), fmt.Sprintf("lower(%s || c_text)", name), fmt.Sprintf("%s ~* 'É'", name), fmt.Sprintf("%s ILIKE 'É%%'", name), fmt.Sprintf("upper(coalesce(%s, 'é'))", name))
	}
	o.checkSome(t, exprs, 8)
	o.report(t)
}
