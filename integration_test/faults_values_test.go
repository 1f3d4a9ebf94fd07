package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// Class 4: a value, a key and a name are one and the same text wherever they come from, and no two of them are confused.
func TestValueFaults(t *testing.T) { runFaults(t, valueFaults) }

var valueFaults = []fault{
	{entry: "B076", name: "two texts of a boolean", elsewhere: "integration_test.TestTypeFaults"},
	{entry: "B078", name: "char(n)", elsewhere: "integration_test.TestTypeFaults"},
	{entry: "B078", name: "char(n) in subsets", run: func(w *faultWorld) {
		w.sql("CREATE DOMAIN code6 AS char(6); CREATE TABLE cn2 (k char(8) PRIMARY KEY, c char(10), d code6); INSERT INTO cn2 VALUES ('ab', 'x', 'q'), ('cd', 'y', 'r')")
		for _, where := range []string{"k = 'ab'", "c = 'x'", "d = 'q  '", "k = 'ab      ' AND length(c) = 1"} {
			r := w.get("table", "cn2", "offset", "-1", "subset__where", where)
			require.Equal(w, http.StatusOK, r.status, r.body)
			var body struct{ Data []message }
			require.NoError(w, json.Unmarshal([]byte(r.body), &body))
			require.Len(w, body.Data, 1, where)
			require.Equal(w, `"public"."cn2"/"ab      "`, *body.Data[0].Key)
			require.Equal(w, "x         ", *body.Data[0].Value["c"])
			require.Equal(w, "q     ", *body.Data[0].Value["d"])
		}
	}},
	{entry: "B079", name: "keys that could be confused", run: func(w *faultWorld) {
		w.sql(`CREATE TABLE kc (p text, q text, PRIMARY KEY (p, q)); INSERT INTO kc VALUES ('a/b', 'c'), ('a', 'b/c'), ('a"/"b', 'c'), ('a', 'b"/"c'), ('', 'x'), ('x', ''), ('_', '_'),
				('aa', 'a'), ('a', 'aa'), ('a//b', 'c'), ('/', '/'), ('"', '"'), ('\', '\'), (E'n\nl', 't'), ('ü', '😀')`,
			`CREATE TABLE kn (q text, p text); INSERT INTO kn VALUES ('_', NULL), (NULL, '_'), (NULL, NULL), ('', ''), ('', NULL), ('_', ''), (NULL, '"_"'), (NULL, 'a')`)
		f, g := w.follow("table", "kc"), w.follow("table", "kn")
		require.Len(w, f.Rows, 15)
		require.Len(w, g.Rows, 8)
		for _, key := range []string{`"a//b"/"c"`, `"a"/"b//c"`, `"a////b"/"c"`, `"_"/"_"`} {
			require.NotNil(w, f.Rows[`"public"."kc"/`+key], "%s of %v", key, keysOf(f))
		}
		for _, key := range []string{"_/_", `_/"_"`, `"_"/_`, `""/""`, `""/_`} {
			require.NotNil(w, g.Rows[`"public"."kn"/`+key], "%s of %v", key, keysOf(g))
		}
		w.sql("UPDATE kc SET q = q || '!'", "UPDATE kn SET q = 'z' WHERE p IS NULL AND q IS NULL", "DELETE FROM kn WHERE p = '_'", "INSERT INTO kn VALUES (NULL, NULL)")
		w.goesOn(f, "SELECT * FROM kc")
		w.goesOn(g, "SELECT * FROM kn")
		require.ElementsMatch(w, keysOf(w.follow("table", "kc")), keysOf(f))
		require.ElementsMatch(w, keysOf(w.follow("table", "kn")), keysOf(g))
	}},
	{entry: "B081", name: "values that are stored apart", elsewhere: "integration_test.TestTypeFaults"},
	{entry: "B081", name: "what an update carries of them", run: func(w *faultWorld) {
		w.sql("CREATE TABLE tu (id int PRIMARY KEY, n int, x text, a int[]); ALTER TABLE tu ALTER x SET STORAGE EXTERNAL; INSERT INTO tu SELECT 1, 0, repeat('x', 20000), array_agg(i * 7919 % 100003) FROM generate_series(1, 5000) i")
		plain, full, moved := w.follow("table", "tu"), w.follow("table", "tu", "replica", "full"), w.follow("table", "tu", "where", "n > 0")
		w.sql("UPDATE tu SET n = 1", "UPDATE tu SET id = 2")
		m := w.later(plain, 3)
		require.ElementsMatch(w, []string{"id", "n"}, columnsOf(m[0].Value))
		require.Equal(w, []string{"update", "delete", "insert"}, operations(m))
		require.Len(w, *m[2].Value["x"], 20000)
		m = w.later(full, 3)
		require.ElementsMatch(w, []string{"id", "n", "x", "a"}, columnsOf(m[0].Value))
		require.Equal(w, []string{"n"}, columnsOf(m[0].OldValue))
		m = w.later(moved, 3)
		require.Equal(w, []string{"insert", "delete", "insert"}, operations(m))
		require.Len(w, *m[0].Value["x"], 20000)
		require.Greater(w, len(*m[2].Value["a"]), 5000)
	}},
	{entry: "B082", name: "intervals", elsewhere: "integration_test.TestTypeFaults"},
	{entry: "B084", name: "infinity, BC, far future", elsewhere: "integration_test.TestTypeFaults"},
	{entry: "B086", name: "types of one's own", elsewhere: "integration_test.TestTypeFaults"},
	{entry: "B086", name: "the names of types", run: func(w *faultWorld) {
		w.sql(`CREATE TYPE mood AS ENUM ('a'); CREATE DOMAIN plus AS int; CREATE TYPE pair AS (a int, b text); CREATE TYPE "Upper Kind" AS ENUM ('X');
			CREATE TABLE un (id int PRIMARY KEY, e mood, ea mood[], d plus, c pair, ca pair[], r int4range, m int[][], h "Upper Kind", b bit varying(8), v varchar(7), n numeric(6, 2))`)
		var schema map[string]map[string]any
		require.NoError(w, json.Unmarshal([]byte(w.get("table", "un", "offset", "-1").header.Get("electric-schema")), &schema))
		require.Len(w, schema, 12)
		for column, kind := range map[string]string{"id": "int4", "e": "mood", "ea": "mood", "d": "plus", "c": "pair", "ca": "pair", "r": "int4range", "m": "int4", "h": "Upper Kind", "b": "varbit", "v": "varchar", "n": "numeric"} {
			require.Equal(w, kind, schema[column]["type"], column)
		}
		for column, dims := range map[string]any{"id": nil, "ea": 1.0, "ca": 1.0, "m": 2.0} {
			require.Equal(w, dims, schema[column]["dims"], column)
		}
	}},
	{entry: "B087", name: "names with capitals, blanks and quotes", run: func(w *faultWorld) {
		const t = `"My Schema"."Big Table"`
		w.sql(`CREATE SCHEMA "My Schema"; CREATE TYPE "My Schema"."Kind Of" AS ENUM ('A b'); CREATE TABLE ` + t + ` ("Id" int PRIMARY KEY, "Kind" "My Schema"."Kind Of", "a b" text,
			"select" text, "1st" text, "ÄÖ" text, "q""q" text, "s'q" text, "per%cent" text, "$x" text); INSERT INTO ` + t + ` VALUES (1, 'A b', '1', '2', '3', '4', '5', '6', '7', '8')`)
		f, some := w.follow("table", t), w.follow("table", t, "columns", `"Id","a b","q""q"`)
		chosen := w.follow("table", t, "where", `"a b" = '1' AND "select" = '2' AND "ÄÖ" = '4' AND "$x" = '8' AND "per%cent" = '7'`)
		require.Len(w, chosen.Rows, 1)
		w.sql(`UPDATE `+t+` SET "Kind" = NULL, "q""q" = 'n', "s'q" = 'n'`, "INSERT INTO "+t+" VALUES (2, 'A b')")
		w.goesOn(f, "SELECT * FROM "+t)
		w.goesOn(some, `SELECT "Id", "a b", "q""q" FROM `+t)
		w.goesOn(chosen, "SELECT * FROM "+t+` WHERE "a b" = '1'`)
		for _, wrong := range []string{"My Schema.Big Table", `"My Schema".big`, `"My Schema".Big Table`} {
			require.Equal(w, http.StatusBadRequest, w.get("table", wrong, "offset", "-1").status, wrong)
		}
		w.plainSchema(t, "Id", "Kind", "a b", "select", "1st", "ÄÖ", `q"q`, "s'q", "per%cent", "$x")
	}},
	{entry: "B089", name: "names that JSON must escape", run: func(w *faultWorld) {
		names := []string{"id", `a\b`, `q"q`, "n\nl", "tab\tt", "sl/ash", "é", "a'b", "{}", "\x01", "\u2028"}
		var columns []string
		for i, name := range names {
			columns = append(columns, `"`+strings.ReplaceAll(name, `"`, `""`)+`" `+[]string{"int PRIMARY KEY", "text"}[min(i, 1)])
		}
		w.sql("CREATE TABLE jn (" + strings.Join(columns, ", ") + "); INSERT INTO jn VALUES (1, '1', '2', '3', '4', '5', '6', '7', '8', '9', '10')")
		f, full := w.follow("table", "jn"), w.follow("table", "jn", "replica", "full")
		w.sql(`UPDATE jn SET "a\b" = 'x', "sl/ash" = 'y'`)
		w.goesOn(f, "SELECT * FROM jn")
		w.goesOn(full, "SELECT * FROM jn")
		require.ElementsMatch(w, names, columnsOf(f.Rows[`"public"."jn"/"1"`]))
		w.plainSchema("jn", names...)
	}},
	{entry: "B090", name: "every character", elsewhere: "integration_test.TestEveryCharacterArrives"},
	{entry: "B090", name: "long values full of escapes", run: func(w *faultWorld) {
		w.sql(`CREATE TABLE jv (id serial PRIMARY KEY, s text, j jsonb)`, `INSERT INTO jv(s) SELECT unnest(ARRAY[chr(127), chr(8232), chr(65533), '"', '\', '\"', '/', '</script>', chr(128512), 'e' || chr(769),
			repeat('\"', 100000), repeat(chr(1), 50000), E'\r\n', '\u0041'])`, `INSERT INTO jv(j) VALUES ('{"s":"\ud83d\ude00 \" \\ \u0001"}')`)
		f := w.follow("table", "jv")
		w.goesOn(f, "SELECT * FROM jv")
		w.sql("UPDATE jv SET id = id + 1000", "UPDATE jv SET s = s || s")
		w.goesOn(f, "SELECT * FROM jv")
	}},
	{entry: "B092", name: "generated columns", run: func(w *faultWorld) {
		w.sql("CREATE TABLE gc (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED); INSERT INTO gc(id, a) VALUES (1, 1)",
			"CREATE TABLE gi (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text); INSERT INTO gi(v) VALUES ('x')")
		// Postgres 15 does not stream them, so a shape has them not at all, never with a value of the past.
		for _, tc := range []struct{ parameter, columns, where string }{{"columns", "", ""}, {"columns", "id,g", ""}, {"where", "id,a", "g = 2"}} {
			q := shape("table", "gc", "offset", "-1")
			if tc.columns != "" {
				q.Set("columns", tc.columns)
			}
			if tc.where != "" {
				q.Set("where", tc.where)
			}
			r := w.ask(http.MethodGet, q)
			require.Equal(w, http.StatusBadRequest, r.status, r.body)
			require.Contains(w, r.body, `"`+tc.parameter+`":`)
			require.Regexp(w, `\bg\b`, r.body)
		}
		f, i := w.follow("table", "gc", "columns", "id,a"), w.follow("table", "gi")
		w.sql("UPDATE gc SET a = 5", "INSERT INTO gc(id, a) VALUES (2, 2)", "INSERT INTO gi(v) VALUES ('y')", "UPDATE gi SET v = 'z' WHERE v = 'x'")
		w.goesOn(f, "SELECT id, a FROM gc")
		w.goesOn(i, "SELECT * FROM gi")
	}},
	{entry: "B093", name: "columns that were dropped", run: func(w *faultWorld) {
		w.sql("CREATE TABLE dc (a int, b int PRIMARY KEY, c text, d text); ALTER TABLE dc DROP COLUMN a; ALTER TABLE dc DROP COLUMN c; ALTER TABLE dc ADD COLUMN c int DEFAULT 7; INSERT INTO dc VALUES (1, 'd1', 5); INSERT INTO dc VALUES (2, 'd2')",
			"CREATE TABLE z0 (); CREATE TABLE z1 (x int); ALTER TABLE z1 DROP COLUMN x")
		f, g := w.follow("table", "dc"), w.follow("table", "dc", "columns", "b,c")
		w.sql("UPDATE dc SET c = 9 WHERE b = 1", "INSERT INTO dc VALUES (3, 'd3', 3)", "DELETE FROM dc WHERE b = 2")
		w.goesOn(f, "SELECT * FROM dc")
		w.goesOn(g, "SELECT b, c FROM dc")
		require.ElementsMatch(w, []string{"b", "c", "d"}, columnsOf(f.Rows[`"public"."dc"/"3"`]))
		w.plainSchema("dc", "b", "c", "d")
		for _, empty := range []string{"z0", "z1"} {
			require.Equal(w, http.StatusBadRequest, w.get("table", empty, "offset", "-1").status)
		}
		w.sql("UPDATE dc SET d = 'still'")
		w.goesOn(f, "SELECT * FROM dc")
	}},
	{entry: "B096", name: "partitions", run: func(w *faultWorld) {
		w.sql(`CREATE TABLE pt (id int, ts date, v text, big text, PRIMARY KEY (id, ts)) PARTITION BY RANGE (ts); CREATE TABLE pt_a PARTITION OF pt FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
			CREATE TABLE pt_b PARTITION OF pt FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') PARTITION BY LIST (id); CREATE TABLE pt_b1 PARTITION OF pt_b FOR VALUES IN (1, 2, 3); CREATE TABLE pt_d PARTITION OF pt DEFAULT;
			INSERT INTO pt VALUES (1, '2024-05-05', 'a', repeat('x', 9000)), (2, '2025-05-05', 'b', NULL), (9, '2030-01-01', 'c', NULL)`)
		root, leaf, middle, filtered := w.follow("table", "pt"), w.follow("table", "pt_a"), w.follow("table", "pt_b"), w.follow("table", "pt", "where", "v = 'moved'")
		all := func() {
			w.Helper()
			w.same(root, "SELECT * FROM pt")
			w.same(leaf, "SELECT * FROM pt_a")
			w.same(middle, "SELECT * FROM pt_b")
			w.same(filtered, "SELECT * FROM pt WHERE v = 'moved'")
		}
		w.sql("UPDATE pt SET v = 'u' WHERE id = 1", "UPDATE pt SET ts = '2025-06-06', v = 'moved' WHERE id = 1", "INSERT INTO pt_b1 VALUES (3, '2025-02-02', 'direct', NULL)", "DELETE FROM pt WHERE id = 9")
		all()
		w.sql("CREATE TABLE pt_c PARTITION OF pt FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')", "INSERT INTO pt VALUES (7, '2026-06-06', 'new part', NULL)", "UPDATE pt SET v = 'moved' WHERE id = 7")
		all()
		w.sql("TRUNCATE pt_b1")
		all()
		for key := range root.Rows {
			require.True(w, strings.HasPrefix(key, `"public"."pt"/`), key)
		}
	}},
	{entry: "B097", name: "inheritance", run: func(w *faultWorld) {
		w.sql("CREATE TABLE par (id int PRIMARY KEY, v text); CREATE TABLE chi (extra int) INHERITS (par); INSERT INTO par VALUES (1, 'p'); INSERT INTO chi VALUES (2, 'c', 9)")
		f := w.follow("table", "par")
		w.same(f, "SELECT * FROM ONLY par")
		w.sql("UPDATE chi SET v = 'c2'", "INSERT INTO chi VALUES (3, 'c3', 1)", "UPDATE par SET v = 'p2' WHERE id = 1", "UPDATE par SET v = v || '!'")
		w.goesOn(f, "SELECT * FROM ONLY par")
	}},
	{entry: "B098", name: "first rows of databases of other encodings", elsewhere: "snapshot.TestDatabaseEncodings"},
	{entry: "B098", name: "encodings", run: func(w *faultWorld) {
		for encoding, want := range map[string]string{"LATIN1": "é", "SQL_ASCII": "\ufffd"} {
			followEncoding(w, w.db, encoding, want)
		}
	}},
	{entry: "B099", name: "keys of unusual types", elsewhere: "integration_test.TestTypeFaults"},
	{entry: "B099", name: "the order of a key's columns, and a key whose text changes", run: func(w *faultWorld) {
		w.sql("CREATE TABLE ko (c int, b text, a timestamptz, PRIMARY KEY (b, a)); INSERT INTO ko VALUES (1, 'x', '2024-01-01 00:00:00+05')", "CREATE TABLE kt (n numeric PRIMARY KEY, v int); INSERT INTO kt VALUES (1.10, 0)")
		f, g := w.follow("table", "ko"), w.follow("table", "kt")
		require.Equal(w, []string{`"public"."ko"/"x"/"2023-12-31 19:00:00+00"`}, keysOf(f))
		require.Equal(w, []string{`"public"."kt"/"1.10"`}, keysOf(g))
		w.sql("UPDATE ko SET c = 2", "UPDATE kt SET n = 1.1")
		w.goesOn(f, "SELECT * FROM ko")
		require.Equal(w, []string{"delete", "insert"}, operations(w.later(g, 2)))
		w.goesOn(g, "SELECT * FROM kt")
		require.Equal(w, []string{`"public"."kt"/"1.1"`}, keysOf(g))
	}},
}

// followEncoding follows a shape of a database of its own, in another encoding than UTF-8, whose rows have the byte E9.
func followEncoding(t testing.TB, at *pgtest.DB, encoding, want string) {
	db := &pgtest.DB{Name: "e_" + strings.ToLower(encoding[:3]) + at.Name[strings.LastIndexByte(at.Name, '_'):], Server: at.Server}
	u, err := url.Parse(at.URL)
	require.NoError(t, err)
	u.Path = "/" + db.Name
	db.URL = u.String()
	at.Exec(t, "CREATE DATABASE "+db.Name+" ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	t.Cleanup(func() {
		at.Exec(t, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '"+db.Name+"'")
		at.Exec(t, "DROP DATABASE "+db.Name+" WITH (FORCE)")
	})
	insert := func(id int) {
		db.Exec(t, fmt.Sprintf(`INSERT INTO e VALUES (%d, convert_from('\xe9', '%s'))`, id, encoding))
	}
	db.Exec(t, "CREATE TABLE e (id int PRIMARY KEY, t text)")
	insert(1)
	srv := startServer(t, db, "SHAPESERVER_REPLICATION_STREAM_ID="+strings.ToLower(encoding[:3])+db.Name[strings.LastIndexByte(db.Name, '_')+1:])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := NewFold(srv.url, shape("table", "e"))
	require.NoError(t, f.CatchUp(ctx))
	insert(2)
	db.Exec(t, "UPDATE e SET id = 3 WHERE id = 1")
	require.NoError(t, f.Follow(ctx, func() bool { return f.Rows[`"public"."e"/"2"`] != nil && f.Rows[`"public"."e"/"3"`] != nil }))
	require.NoError(t, f.Err())
	require.Len(t, f.Rows, 2)
	for key, row := range f.Rows {
		require.Equal(t, want, *row["t"], key)
	}
	if encoding == "LATIN1" { // a clause compares characters, not bytes
		chosen := NewFold(srv.url, shape("table", "e", "where", "t = 'é'"))
		require.NoError(t, chosen.CatchUp(ctx))
		insert(4)
		require.NoError(t, chosen.Follow(ctx, func() bool { return len(chosen.Rows) == 3 }))
	}
}

// later returns the operations that come after where a client is, once there are so many; the client stays.
func (w *faultWorld) later(f *Fold, n int) []message {
	w.Helper()
	var operations []message
	q := url.Values{"offset": {f.Offset}, "handle": {f.Handle}}
	for name, v := range f.params {
		q[name] = v
	}
	require.Eventually(w, func() bool {
		r := w.ask(http.MethodGet, q)
		var all []message
		if r.err != nil || r.status != http.StatusOK || json.Unmarshal([]byte(r.body), &all) != nil {
			return false
		}
		operations = slices.DeleteFunc(all, func(m message) bool { return m.Headers.Operation == "" })
		return len(operations) >= n
	}, 20*time.Second, 20*time.Millisecond)
	require.Len(w, operations, n)
	return operations
}

// plainSchema requires that the header electric-schema of a table's shape is JSON in ASCII and has these columns.
func (w *faultWorld) plainSchema(table string, columns ...string) {
	w.Helper()
	header := w.get("table", table, "offset", "-1").header.Get("electric-schema")
	require.Equal(w, -1, strings.IndexFunc(header, func(r rune) bool { return r < ' ' || r > '~' }), header)
	var schema map[string]any
	require.NoError(w, json.Unmarshal([]byte(header), &schema), header)
	var names []string
	for name := range schema {
		names = append(names, name)
	}
	require.ElementsMatch(w, columns, names)
}

func keysOf(f *Fold) (keys []string) {
	for key := range f.Rows {
		keys = append(keys, key)
	}
	return keys
}

func columnsOf(r Row) (columns []string) {
	for name := range r {
		columns = append(columns, name)
	}
	return columns
}

func operations(messages []message) (ops []string) {
	for _, m := range messages {
		ops = append(ops, m.Headers.Operation)
	}
	return ops
}
