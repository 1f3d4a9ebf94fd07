package where_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/shapeserver/shapeserver/where"
)

// TestOperatorsAgreeWithPostgres tries every operator of the catalogue on every pair of columns, and on every column
// with literals of its own and of other types.
func TestOperatorsAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 1, 40)
	binary, prefix := where.Operators()
	for _, op := range binary {
		var exprs []string
		for _, a := range o.kinds {
			for _, b := range o.kinds {
				exprs = append(exprs, fmt.Sprintf("%s %s %s", a.column, op, b.column))
			}
			for _, v := range a.values {
				exprs = append(exprs, fmt.Sprintf("%s %s %s", a.column, op, quote(v)), fmt.Sprintf("%s %s %s", quote(v), op, a.column))
			}
			exprs = append(exprs,
				fmt.Sprintf("%s %s 1", a.column, op), fmt.Sprintf("%s %s 2.5", a.column, op), fmt.Sprintf("2 %s %s", op, a.column),
				fmt.Sprintf("%s %s 'a'", a.column, op), fmt.Sprintf("%s %s 'a'::text", a.column, op), fmt.Sprintf("%s %s NULL", a.column, op),
				fmt.Sprintf("%s %s 'a%%'", a.column, op), fmt.Sprintf("%s %s '_'", a.column, op), fmt.Sprintf("%s %s '{a,b}'::text[]", a.column, op),
				fmt.Sprintf("%s %s '1 day'::interval", a.column, op), fmt.Sprintf("%s %s 5000000000", a.column, op),
			)
		}
		o.checkSome(t, exprs, 8)
	}
	for _, op := range prefix {
		var exprs []string
		for _, a := range o.kinds {
			exprs = append(exprs, fmt.Sprintf("%s %s", op, a.column))
		}
		o.checkSome(t, exprs, 8)
	}
	o.report(t)
}

// TestCastsAgreeWithPostgres casts every column, and literals of every type's kind, to every type.
func TestCastsAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 2, 60)
	for _, to := range o.kinds {
		var exprs []string
		targets := []string{to.cast, to.cast + "[]"}
		if to.cast == "varchar" || to.cast == "bpchar" {
			targets = append(targets, to.cast+"(2)")
		}
		for _, target := range targets {
			for _, from := range o.kinds {
				exprs = append(exprs, fmt.Sprintf("%s::%s", from.column, target))
				for _, v := range from.values {
					exprs = append(exprs, fmt.Sprintf("%s::%s", quote(v), target))
				}
				exprs = append(exprs, fmt.Sprintf("%s::text::%s", from.column, target))
			}
		}
		o.checkSome(t, exprs, 8)
	}
	o.report(t)
}

// TestFunctionsAgreeWithPostgres calls every function of the catalogue on columns and literals.
func TestFunctionsAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 3, 20)
	var args []string
	for _, k := range kinds() {
		args = append(args, k.column)
	}
	args = append(args, "0", "1", "-2", "2.5", "'a'", "'b'", "''", "'é'", "'day'", "'month'", "'UTC'", "'hex'", "NULL")
	functions := where.Functions()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		counts := functions[name]
		var exprs []string
		for _, n := range counts {
			switch n {
			case 0:
				exprs = append(exprs, name+"()")
			case 1:
				for _, a := range args {
					exprs = append(exprs, fmt.Sprintf("pg_catalog.%q(%s)", name, a))
				}
			case 2:
				for _, a := range args {
					for _, b := range args {
						exprs = append(exprs, fmt.Sprintf("pg_catalog.%q(%s, %s)", name, a, b))
					}
				}
			default:
				for _, a := range args {
					for _, b := range []string{"'a'", "'b'", "1", "'.'", "c_text", "''", "'é'"} {
						for _, c := range []string{"'x'", "2", "-1", "''", "c_text", "c_int4"} {
							exprs = append(exprs, fmt.Sprintf("pg_catalog.%q(%s, %s, %s)", name, a, b, c))
						}
					}
				}
			}
		}
		o.checkSome(t, exprs, 24)
	}
	o.report(t)
}
