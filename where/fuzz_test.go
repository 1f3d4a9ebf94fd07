package where_test

import (
	"errors"
	"testing"

	"github.com/shapeserver/shapeserver/where"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"n > 10", "n > $1", "t ILIKE 'h%' AND n BETWEEN 1 AND 9", "n IN (1,5) OR NOT c", "arr @> '{1}' AND arr && ARRAY[2,3]", "g = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
		"lower(t) = 'x' AND t || 'x' LIKE '%x' ESCAPE '!'", "CASE WHEN n > 1 THEN true ELSE c END", "coalesce(n, 0) + 1 > 3 AND n % 2 = 1", "(n, id) = (5, 1)",
		"ts > '2024-01-01' AND d + 1 < '2024-02-29'", "e > 1.50 AND h < 'NaN'", "t COLLATE \"C\" > 'A'", "n = ANY($1) AND m = 'ok'", "arr[1] = 1", "ts - interval '1 mon 2 days' > 'epoch'",
		"NULLIF(n, 1) IS NULL", "greatest(n, id) > least(1, 2)", "e::int4 = 5 AND n::text = '5'", "(t)::varchar(3) = 'abc'", `t ~ '^[a-c]+\d{2,3}$' AND t !~* '(x|y)*?'`, "t SIMILAR TO 'a_%(b|c)' ESCAPE '!'", "extract(year FROM ts) = 2024 AND date_trunc('month', ts) < 'epoch'", "E'\\x41' = t", "U&'\\0041' = t",
	} {
		f.Add(s, "10")
	}
	scope := testScope()
	row := testRow("20", "The quick brown fox", "t")
	f.Fuzz(func(t *testing.T, text, param string) {
		e, err := where.Parse(text, map[string]string{"1": param}, scope)
		if err != nil {
			var bad *where.Error
			if !errors.As(err, &bad) {
				t.Fatalf("undocumented error %T %v", err, err)
			}
			return
		}
		before := e.Eval(row)
		again, err := where.Restore(e.SQL(), scope)
		if err != nil {
			t.Fatalf("%q renders to %q, which is refused: %v", text, e.SQL(), err)
		}
		if again.SQL() != e.SQL() {
			t.Fatalf("%q renders to %q and that to %q", text, e.SQL(), again.SQL())
		}
		if after := again.Eval(row); after != before {
			t.Fatalf("%q is %v, its rendering %q is %v", text, before, e.SQL(), after)
		}
	})
}
