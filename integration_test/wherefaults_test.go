package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// whereFault is a fault of class 3 of shared/cases/faults.md as a test of its whole kind: clauses on one table, each
// followed by a client through the changes.
type whereFault struct {
	entry, table, setup string
	clauses             []string
	changes             []string
	refused             []string // clauses that must be a 400, with their reason in docs/where.md
}

var whereFaults = []whereFault{
	{
		entry: "B052", table: "n1",
		setup:   "CREATE TABLE n1 (id int PRIMARY KEY, a text, b text); INSERT INTO n1 VALUES (1,'me',NULL),(2,NULL,'me'),(3,NULL,NULL),(4,'x','y')",
		clauses: []string{"a='me' OR b='me'", "id IN (1,NULL)", "NOT (a='x' AND b='zz')", "id NOT IN (2,NULL)", "(a='me') IS NOT TRUE", "a IS DISTINCT FROM b", "CASE WHEN a IS NULL THEN b='me' END"},
		changes: []string{
			"UPDATE n1 SET a=NULL, b='me' WHERE id=1", "UPDATE n1 SET b='me' WHERE id=3", "INSERT INTO n1 VALUES (5,'me',NULL)",
			"UPDATE n1 SET a=NULL WHERE id=4", "UPDATE n1 SET b='q' WHERE id=1", "INSERT INTO n1 VALUES (6,NULL,'p')",
		},
	},
	{
		entry: "B057", table: "en",
		setup:   "CREATE TYPE mood AS ENUM ('sad','ok','very happy'); CREATE TABLE en (id int PRIMARY KEY, m mood); INSERT INTO en VALUES (1,'sad'),(2,'ok'),(3,NULL)",
		clauses: []string{"m::text = 'ok'", "m = 'ok'", "m IN ('ok','sad')", "m::text LIKE '%happy'", "m > 'sad'", "m IS NULL", "m <> 'ok'", "m BETWEEN 'sad' AND 'ok'"},
		changes: []string{"UPDATE en SET m='ok' WHERE id=1", "UPDATE en SET m='very happy' WHERE id=2", "INSERT INTO en VALUES (5,'ok')"},
		refused: []string{"m = 'nosuch'", "m > 1"},
	},
	{
		entry: "B060", table: "ar",
		setup: "CREATE TABLE ar (id int PRIMARY KEY, t text[], i int[])",
		clauses: []string{
			"t @> ARRAY['a']", "t @> ARRAY['a','b']", "t <@ ARRAY['a','b','c']", "t && ARRAY['b','z']", "'a' = ANY(t)", "t = ARRAY['a']", "t <> ARRAY['a']", "t @> '{}'",
			"t @> ARRAY[NULL]::text[]", "i @> ARRAY[1] AND t && ARRAY['a']", "array_ndims(i) = 2", "1 = ANY(i)", "(t || 'z'::text) @> ARRAY['z']", "i[1] = 1", "t[1] IS NULL",
			"cardinality(i) > 1", "array_length(t, 1) = 2", "array_position(t, 'b') = 2", "1 <> ALL(i)",
		},
		changes: []string{
			`INSERT INTO ar VALUES (1,'{a}','{1}'),(2,'{a,b}','{{1,2},{3,4}}'),(3,NULL,NULL),(4,'{}','{}'),(5,'{NULL}','{NULL,1}'),(6,'{a,NULL}',NULL),(7,'{"a,b","c\"d"," a"}','[0:1]={5,6}'),(8,'{NULL,b}','{2}'),(9,'{"NULL"}','{1,1}')`,
			"UPDATE ar SET t=t||'{b}' WHERE id IN (1,3,4)", "UPDATE ar SET t=NULL WHERE id=2", "DELETE FROM ar WHERE id=9",
		},
	},
	{
		entry: "B062", table: "tw",
		setup:   "CREATE TABLE tw (id int PRIMARY KEY, doc text, n int); INSERT INTO tw SELECT g, (SELECT string_agg(md5((g*1000+i)::text),'') FROM generate_series(1,700) i) || 'END', 0 FROM generate_series(1,3) g",
		clauses: []string{"doc LIKE '%END'", "length(doc) > 10000 AND n >= 0", "doc IS NOT NULL", "right(doc, 3) = 'END' AND n < 2"},
		changes: []string{"UPDATE tw SET n=n+1", "UPDATE tw SET id=id+10 WHERE id=1", "UPDATE tw SET doc=left(doc,-3) WHERE id=2", "UPDATE tw SET n=n+1", "DELETE FROM tw WHERE id=3"},
	},
	{
		entry: "B063", table: "ix",
		setup: "CREATE TABLE ix (id int PRIMARY KEY, a int, b int, t text)",
		clauses: []string{
			"a=1", "a=1 AND b=2", "a=1 AND b>2", "a=1 OR b=2", "a IN (1,2,3)", "a=1 OR t LIKE 'x%'", "a+b=3", "NOT a=1", "a<>1", "1=a", "a=b", "a=1 AND (b=1 OR b=2)",
			"t='x' AND a IN (1,2)", "a=1 OR a=2 OR b=3", "a=1 AND a=2", "a IS NULL", "(a=1 OR a=2) AND (b=1 OR t='y')", "a = ANY('{1,2}') AND b <> 1", "a BETWEEN 1 AND 2", "a::text = '1'", "NOT (a <> 1 OR a IS NULL)",
		},
		changes: []string{
			"INSERT INTO ix SELECT g, NULLIF(g%5,4), g%4, (ARRAY['x','xy','y',NULL])[1+g%4] FROM generate_series(1,300) g",
			"UPDATE ix SET a=(coalesce(a,0)+1)%5, b=(b+1)%4, t=CASE WHEN t='x' THEN 'y' ELSE 'x' END WHERE id%8=1",
			"UPDATE ix SET a=(coalesce(a,0)+3)%5, b=(b+1)%4, t=CASE WHEN t='x' THEN 'y' ELSE 'x' END WHERE id%8=3",
			"UPDATE ix SET a=NULL, t=NULL WHERE id%7=2", "DELETE FROM ix WHERE id%11=0", "UPDATE ix SET id=id+1000, a=1 WHERE id%13=0",
		},
	},
	{
		entry: "B066", table: "ct",
		setup:   `CREATE TABLE ct (id int PRIMARY KEY, s text COLLATE "en-x-icu", c text COLLATE "C")`,
		clauses: []string{"c < 'b'", "s = 'a'", "lower(c) = 'i'", "s <> 'ß'", "s IN ('é','É')", "s LIKE 'a%'", `s COLLATE "C" < 'b'`, `lower(s COLLATE "C") = 'a'`, `upper(c) > 'SS'`},
		changes: []string{
			"INSERT INTO ct SELECT row_number() OVER (), v, v FROM unnest(ARRAY['a','A','b','B','z','Z','é','É','ä','_a','','ß','ss','1','I','İ','ı','a b','ab']) v",
			"UPDATE ct SET s = s || 'a', c = c || 'a' WHERE id % 2 = 0",
		},
		refused: []string{"s < 'b'", "s > 'Z'", "s BETWEEN 'a' AND 'c'", "lower(s) = 'é'", "upper(s) = 'SS'", "s ILIKE 'a%'", "greatest(s, 'a') = 'b'"},
	},
	{
		entry: "B067", table: "dt",
		setup: "CREATE TABLE dt (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, iv interval)",
		clauses: []string{
			"d + 1 > '2024-02-29'", "d - 1 < '2024-03-01'", "d + interval '1 month' = '2024-02-29'", "tz > '2024-06-01 00:00:00+02'", "ts > '2024-06-01'", "iv = interval '30 days'",
			"d > '2024-01-01'::date", "d = 'infinity'", "d < '0001-01-01'", "ts - interval '1 day' < '2024-06-01'", "ts = '-infinity' OR iv < interval '0 days'",
		},
		changes: []string{
			"INSERT INTO dt VALUES (1,'2024-01-29','2024-06-01','2024-05-31 22:00:01+00','1 month'),(2,'2024-01-31','2024-06-01 00:00:01','2024-05-31 22:00:00+00','30 days'),(3,'2024-02-29','infinity','infinity','720:00:00'),(4,'infinity','-infinity','-infinity',NULL),(5,NULL,NULL,NULL,'P0D'),(6,'0044-03-15 BC','0044-03-15 12:00 BC','0044-03-15 12:00+00 BC','-1 day')",
			"UPDATE dt SET d = d - 1, tz = '2024-06-02' WHERE id < 4",
		},
		refused: []string{"tz > now()", "tz > current_timestamp - interval '1 day'", "d = current_date", "random() < 0.5", "tz > 'now'", "d = 'today'", "pg_sleep(1) IS NULL", "tz > clock_timestamp()", "ts > localtimestamp"},
	},
	{
		entry: "B068, B070", table: "cp",
		setup: "CREATE TABLE cp (id int PRIMARY KEY, name text); CREATE TABLE cm (pid int, uid int, PRIMARY KEY (pid,uid))",
		refused: []string{
			"id IN (SELECT pid FROM cm WHERE uid = 7)", "id NOT IN (SELECT pid FROM cm)", "id IN (SELECT pid FROM cm) OR name = 'w'", "EXISTS (SELECT 1 FROM cm)", "id = (SELECT 1)",
			"id = ANY (SELECT pid FROM cm)", "id = ANY (ARRAY(SELECT pid FROM cm))", "(id, 7) IN (SELECT pid, uid FROM cm)",
		},
	},
	{
		entry: "B075", table: "fn",
		setup: "CREATE TABLE fn (id int PRIMARY KEY, a text, b text, x int, y int)",
		clauses: []string{
			"concat(a,b) = 'p'", "coalesce(a,b) = 'q'", "a || b = 'pq'", "greatest(x,y) = 3", "least(x,y) = 1", "coalesce(x,y,0) = 0", "concat(a,'-',x) = 'p-1'", "x # y = 2", "x & 1 = 1", "@ x = 3",
			"lower(concat(a,b)) = 'p'", "nullif(a, b) IS NULL", "concat_ws(',', a, b) = 'p,q'",
		},
		changes: []string{
			"INSERT INTO fn SELECT row_number() OVER (), a,b,x,y FROM unnest(ARRAY['p','q',NULL]) a, unnest(ARRAY['q',NULL]) b, unnest(ARRAY[1,-3,NULL]) x, unnest(ARRAY[3,NULL]) y",
			"UPDATE fn SET a = b, x = y WHERE id % 3 = 0",
		},
	},
	likeFault(),
}

// likeFault is B058: every pattern with LIKE, ILIKE and their negations.
func likeFault() whereFault {
	f := whereFault{
		entry: "B058", table: "lk2", setup: "CREATE TABLE lk2 (id serial PRIMARY KEY, s text)",
		changes: []string{
			`INSERT INTO lk2(s) VALUES ('abc'),('a.b'),('axb'),('a%b'),('a_b'),('a\b'),(''),('('),('(x'),('[ab]z'),('a+b'),('aab'),('a|b'),('^a'),('a$'),('École'),('école'),(E'li\nne'),('straße'),('STRASSE'),('A.B'),(NULL),('aé'),('日'),('😀')`,
			"UPDATE lk2 SET s = upper(s) WHERE id % 2 = 0",
		},
		refused: []string{`s LIKE 'a\'`, `s NOT ILIKE '\'`},
	}
	for _, p := range []string{"a%", "%.b", "a_c", `a\%b`, `a\_b`, `a\\b`, "%", "", "_", "(%", "[ab]%", "a+b", "a|b", "^a", "a$", "É%", "%\n%", "%ß%"} {
		for _, op := range []string{"LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"} {
			f.clauses = append(f.clauses, "s "+op+" '"+p+"'")
		}
	}
	return f
}

// Snapshot and stream of every clause give the rows that Postgres gives, and no shape ends on the way; what is not
// evaluated is refused with a place, and nothing else.
func TestWhereFaults(t *testing.T) {
	db := pgtest.New(t)
	srv := startServer(t, db)
	for _, f := range whereFaults {
		t.Run(f.entry, func(t *testing.T) {
			db.Exec(t, f.setup)
			folds := make([]*Fold, len(f.clauses))
			for i, where := range f.clauses {
				folds[i] = NewFold(srv.url, shape("table", f.table, "where", where))
				require.NoError(t, folds[i].CatchUp(t.Context()), where)
			}
			for _, where := range f.refused {
				requireRefused(t, srv, shape("table", f.table, "where", where))
			}
			for _, sql := range f.changes {
				db.Exec(t, sql)
			}
			for i, where := range f.clauses {
				sql := "SELECT * FROM " + f.table + " WHERE " + where
				requireSame(t, folds[i], db, sql)
				require.Zero(t, folds[i].Refetched, where)
			}
		})
	}
}

// requireRefused requires a 400 with a message under where.
func requireRefused(t testing.TB, srv *process, params url.Values) {
	t.Helper()
	f := NewFold(srv.url, params)
	f.Retry = true // an answer that was begun is cut when a row comes for which the clause fails
	requireEndsRefused(t, f)
}

// requireEndsRefused follows a shape until it is refused with a 400 with a message under where.
func requireEndsRefused(t testing.TB, f *Fold) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := f.Follow(ctx, func() bool { return false })
	var status *statusError
	require.ErrorAs(t, err, &status, f.params)
	require.Equal(t, http.StatusBadRequest, status.code, "%v: %s", f.params, status.body)
	require.Contains(t, status.body, `"errors":{"where":["`, f.params)
	require.NotContains(t, status.body, "secret") // a value of a row that the client may not see
}

// B054: what is not a boolean expression is refused; what is, filters.
func TestNonBooleanClauses(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE nb (id int PRIMARY KEY, name text, ok bool); INSERT INTO nb VALUES (1,'x',true),(2,'y',false)")
	srv := startServer(t, db)
	for _, where := range []string{
		"1", "name", "'abc'", "id + 1", "NULL::int", "ARRAY[true]", "lower(name)", "count(*) > 0", "id = 1; DELETE FROM nb", "id =", "SELECT 1", "id = 1; --", "(SELECT true)", "ok FROM nb",
		"true) OR (true", "true UNION SELECT 1", "ok LIMIT 1", "ok FOR UPDATE", "ok INTO x", "max(id) > 0", "row_number() OVER () = 1", "generate_series(1,2) = 1",
	} {
		requireRefused(t, srv, shape("table", "nb", "where", where))
	}
	for where, rows := range map[string]int{"ok": 1, "true": 2, "NULL": 0, "": 2, "   ": 2, "id = 1 --": 1, "id = 1 /* x */ AND ok": 1, "ok IS NOT NULL": 2, "'false'::bool": 0} {
		f := NewFold(srv.url, shape("table", "nb", "where", where))
		require.NoError(t, f.CatchUp(t.Context()), where)
		assert.Len(t, f.Rows, rows, where)
	}
	assert.Equal(t, 2, query(t, db, "SELECT * FROM nb").rows)
}

// B056 and B064: parameters in every position and with every cast give the row and its delete, and so do all spellings
// of a uuid.
func TestParametersInClauses(t *testing.T) {
	const u = "11111111-1111-1111-1111-11111111111a"
	db := pgtest.New(t)
	srv := startServer(t, db)
	type tc struct{ where, param string }
	cases := []tc{
		{"s = $1::text", "a"},
		{"id = $1::int", "1"},
		{"u = $1::uuid", u},
		{"u = $1", u},
		{"o @> ARRAY[$1]::uuid[]", u},
		{"o @> ARRAY[$1::uuid]", u},
		{"id = ANY($1::int[])", "{1,2}"},
		{"s = ANY($1)", `{a,"b,c"}`},
		{"CAST($1 AS int) = id", "1"},
		{"$1 = s", "a"},
		{"u::text = $1", u},
		{"id IN ($1, 7)", "1"},
		{"id BETWEEN $1 AND 3", "1"},
		{"s LIKE $1", "a%"},
		{"coalesce(s, $1) = 'a'", "z"},
		{"id + $1 = 3", "2"},
		{"lower($1) = s", "A"},
		{"s = $1 OR s = $1", "a"},
	}
	for _, v := range []string{u, strings.ToUpper(u), "{" + u + "}", strings.ReplaceAll(u, "-", ""), "1111-1111-1111-1111-1111-1111-1111-111a"} {
		cases = append(cases, tc{"u = '" + v + "'", ""}, tc{"u = $1", v}, tc{"u IN ($1)", v})
	}
	db.Exec(t, "CREATE TABLE pc (id int PRIMARY KEY, o uuid[], u uuid, s text); INSERT INTO pc VALUES (1,ARRAY['"+u+"']::uuid[],'"+u+"','a')")
	folds := make([]*Fold, len(cases))
	for i, c := range cases {
		params := shape("table", "pc", "where", c.where)
		if c.param != "" {
			params.Set("params[1]", c.param)
		}
		folds[i] = NewFold(srv.url, params)
		require.NoError(t, folds[i].CatchUp(t.Context()), c)
		require.Len(t, folds[i].Rows, 1, c)
	}
	requireRefused(t, srv, shape("table", "pc", "where", "u = 'nonsense'"))
	requireRefused(t, srv, shape("table", "pc", "where", "u = $1", "params[1]", "nonsense"))
	requireRefused(t, srv, shape("table", "pc", "where", "id = $1"))
	db.Exec(t, "UPDATE pc SET s='b', u=gen_random_uuid(), o=NULL, id=9")
	for i, c := range cases {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err := folds[i].Follow(ctx, func() bool { return len(folds[i].Rows) == 0 })
		cancel()
		require.NoError(t, errors.Join(err, folds[i].Err()), c)
		require.Zero(t, folds[i].Refetched, c)
	}
}

// A clause that fails for a row, as Postgres's own query does, is refused while there is such a row, and ends the shape
// when one comes: the client is told to fetch again, and then why it cannot. Other shapes of the table go on.
func TestClausesThatFail(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE bad (id int PRIMARY KEY, n int, s text); INSERT INTO bad VALUES (1, 5, '7')")
	srv := startServer(t, db)
	other := NewFold(srv.url, shape("table", "bad"))
	require.NoError(t, other.CatchUp(t.Context()))
	for i, tc := range []struct{ where, poison string }{
		{"10 / n > 1", "n = 0"},
		{"id/0 = 1 OR n = 7", ""}, // fails for every row
		{"s::int > 5", "s = 'secret'"},
		{"n * 1000000 > 5", "n = 2147483647"},
		{"s LIKE s", `s = '\'`},
	} {
		t.Run(tc.where, func(t *testing.T) {
			params := shape("table", "bad", "where", tc.where)
			id := 10 + i
			if tc.poison != "" {
				f := NewFold(srv.url, params)
				f.Retry = true
				require.NoError(t, f.CatchUp(t.Context()))
				db.Exec(t, fmt.Sprintf("INSERT INTO bad VALUES (%d, 5, '7')", id))
				requireSame(t, f, db, "SELECT * FROM bad WHERE "+tc.where)
				db.Exec(t, fmt.Sprintf("UPDATE bad SET %s WHERE id = %d", tc.poison, id))
				requireEndsRefused(t, f)
				require.Positive(t, f.Refetched)
			}
			requireRefused(t, srv, params)
			db.Exec(t, "DELETE FROM bad WHERE id > 1; UPDATE bad SET n = 5, s = '7'")
			if i == 0 {
				// What was remembered of the failure is soon forgotten.
				require.EventuallyWithT(t, func(c *assert.CollectT) {
					assert.NoError(c, NewFold(srv.url, params).CatchUp(t.Context()))
				}, 20*time.Second, 200*time.Millisecond)
			}
		})
	}
	requireSame(t, other, db, "SELECT * FROM bad")
	require.Zero(t, other.Refetched)
}

// B057: a label that is added to an enum reaches every shape; one whose clause needs the order of the labels is fetched
// again, once.
func TestEnumGrows(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TYPE mood AS ENUM ('sad','ok'); CREATE TABLE eg (id int PRIMARY KEY, m mood); INSERT INTO eg VALUES (1,'sad'),(2,'ok'),(3,NULL)")
	srv := startServer(t, db)
	clauses := map[string]int{"m::text = 'ok'": 0, "m = 'ok'": 0, "m <> 'ok'": 0, "m IS NOT NULL": 0, "m::text LIKE 'm%'": 0, "m > 'sad'": 1, "m BETWEEN 'sad' AND 'ok'": 1}
	folds := map[string]*Fold{}
	for where := range clauses {
		folds[where] = NewFold(srv.url, shape("table", "eg", "where", where))
		require.NoError(t, folds[where].CatchUp(t.Context()))
	}
	db.Exec(t, "ALTER TYPE mood ADD VALUE 'mad' BEFORE 'ok'")
	db.Exec(t, "INSERT INTO eg VALUES (4,'mad'),(5,'ok'); UPDATE eg SET m = 'mad' WHERE id = 2")
	for where, f := range folds {
		requireSame(t, f, db, "SELECT * FROM eg WHERE "+where)
	}
	db.Exec(t, "INSERT INTO eg VALUES (6,'mad'); DELETE FROM eg WHERE id = 4")
	for where, f := range folds {
		requireSame(t, f, db, "SELECT * FROM eg WHERE "+where)
		assert.LessOrEqual(t, f.Refetched, clauses[where], where)
	}
	late := NewFold(srv.url, shape("table", "eg", "where", "m = 'mad'"))
	requireSame(t, late, db, "SELECT * FROM eg WHERE m = 'mad'")
}
