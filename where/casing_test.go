package where_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/where"
)

// lower and upper of every character, and ILIKE by it, are the database's (under C.UTF-8 of the C library, and C).
func TestCasingOfEveryCharacter(t *testing.T) {
	o := newOracle(t, 4, 1)
	for _, column := range []string{"c_text", "c_textc"} {
		lower, err := where.ParseValue("lower("+column+")", o.scope)
		require.NoError(t, err)
		upper, err := where.ParseValue("upper("+column+")", o.scope)
		require.NoError(t, err)
		coll := ""
		if column == "c_textc" {
			coll = ` COLLATE "C"`
		}
		differ := 0
		for _, r := range o.query(t, "SELECT c, lower(c"+coll+"), upper(c"+coll+") FROM (SELECT chr(i) AS c FROM generate_series(1, 1114111) i WHERE i NOT BETWEEN 55296 AND 57343) x") {
			row := make(changes.Row, len(o.scope.Columns))
			for i, c := range o.scope.Columns {
				row[i] = changes.Value{Kind: changes.Null}
				if c.Name == column {
					row[i] = changes.Value{Kind: changes.Text, Bytes: r[0]}
				}
			}
			if l, u := lower.Text(row), upper.Text(row); l != pgText(r[1]) || u != pgText(r[2]) {
				if differ++; differ < 200 {
					t.Errorf("%s %q %U: here %q %q, in Postgres %q %q", column, r[0], []rune(string(r[0])), l, u, r[1], r[2])
				}
			}
		}
	}
}
