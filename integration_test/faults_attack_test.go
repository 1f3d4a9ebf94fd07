package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Class 9: nobody gets what is not meant for them, and nobody stops the server for the others.
func TestAttackFaults(t *testing.T) { runFaults(t, attackFaults) }

var attackFaults = []fault{
	{entry: "B184", name: "forms of a path and the secret", elsewhere: "api.TestEveryFormOfThePathIsAuthenticated"},
	{entry: "B186", name: "order_by", elsewhere: "integration_test.TestSubsetFailuresEndToEnd"},
	{entry: "B186", name: "parsed", elsewhere: "where.FuzzOrderBy"},
	{entry: "B187", name: "clauses", elsewhere: "integration_test.TestClausesInjectNothing"},
	{entry: "B187", name: "every other parameter", run: func(w *faultWorld) {
		w.sql(`CREATE TABLE inj9 (id int PRIMARY KEY, "x"" , (SELECT s FROM hid9) --" text, v text); CREATE TABLE hid9 (s text); INSERT INTO hid9 VALUES ('topsecret'); INSERT INTO inj9 VALUES (1, 'n', 'v')`)
		for _, table := range []string{
			"inj9 WHERE 1=1; DROP TABLE inj9; --", `inj9" WHERE true --`, `"inj9"; SELECT 1`, "(SELECT * FROM hid9)", "inj9, hid9", "pg_temp.inj9", `inj9" , "hid9`, "inj9 AS x", "ONLY inj9", "inj9 TABLESAMPLE SYSTEM (1)",
			"public.inj9; COMMIT", "inj9/**/", "$1", "'inj9'", `"inj9`, "inj9.", ".inj9", "a.b.inj9", "1", strings.Repeat("a", 100_000),
		} {
			w.refused(shape("table", table, "offset", "-1"), "table")
		}
		for _, columns := range []string{"id,(SELECT s FROM hid9)", `id,v" FROM hid9 --`, "id,v::int", "id,*", "*", "id;DROP TABLE inj9", "id,v AS s", "id,ctid", "id,xmin", "id,inj9.v", "id,lower(v)", "id,,v", `id,"v`, "id,nosuch", "v"} {
			w.refused(shape("table", "inj9", "columns", columns, "offset", "-1"), "columns")
		}
		for name, value := range map[string]string{"replica": "full; DROP TABLE inj9", "log": "full'--", "offset": "-1; SELECT 1", "live": "true'", "live_sse": "' OR 1=1", "params": "x"} {
			q := shape("table", "inj9", "offset", "-1")
			q.Set(name, value)
			w.refused(q, name)
		}
		for name, value := range map[string]string{"subset__limit": "1; DROP TABLE inj9", "subset__offset": "(SELECT 1)", "subset__where": "id = 1) UNION SELECT (1", "subset__params": "'"} {
			q := shape("table", "inj9", "offset", "-1")
			q.Set(name, value)
			w.refused(q, "subset")
		}
		for _, handle := range []string{"../../etc/passwd", "%2e%2e%2f", "'; DROP TABLE inj9; --", "/", "..", "-1", strings.Repeat("9", 5000), "1-1/../1-1", "*", `\`} {
			r := w.get("table", "inj9", "offset", "0_0", "handle", handle)
			require.Equal(w, http.StatusConflict, r.status, "%.80s: %s", handle, r.body)
			require.NotContains(w, r.body, "topsecret")
			a := w.ask(http.MethodDelete, shape("handle", handle))
			require.Equal(w, http.StatusNotFound, a.status, a.body)
		}
		odd := w.follow("table", "inj9", "columns", `id,"x"" , (SELECT s FROM hid9) --"`)
		w.sql("UPDATE inj9 SET v = 'w'", `UPDATE inj9 SET "x"" , (SELECT s FROM hid9) --" = 'm'`)
		w.goesOn(odd, `SELECT id, "x"" , (SELECT s FROM hid9) --" FROM inj9`)
		w.goesOn(w.follow("table", "inj9"), "SELECT * FROM inj9")
	}},
	{entry: "B188", name: "bodies of failures", elsewhere: "integration_test.TestStrictFaults"},
	{entry: "B190", name: "huge and deep clauses", elsewhere: "integration_test.TestHugeClauses"},
	{entry: "B190", name: "huge and deep orders and columns", run: func(w *faultWorld) {
		w.sql("CREATE TABLE hn9 (id int PRIMARY KEY, v text); INSERT INTO hn9 VALUES (1, 'a')")
		rep := strings.Repeat
		for name, values := range map[string][]string{
			"table":            {rep(`"`, 50_001), rep("a.", 50_000), `"` + rep(`""`, 50_000) + `"`},
			"columns":          {rep("id,", 100_000) + "v", rep(`"`, 50_001), rep(" ", 500_000)},
			"params":           {rep("[", 100_000), `{"1":` + rep(`{"1":`, 50_000)},
			"subset__order_by": {rep("id,", 50_000) + "v", rep("(", 50_000) + "id" + rep(")", 50_000)},
			"subset__params":   {rep("[", 100_000)}, "offset": {rep("9", 500_000), rep("0", 100_000) + "_0"}, "handle": {rep("x", 500_000)}, "cursor": {rep("9", 500_000)}, "subset__limit": {rep("9", 100_000)},
		} {
			for _, value := range values {
				q := shape("table", "hn9", "offset", "-1")
				q.Set(name, value)
				r := w.ask(http.MethodGet, q)
				require.NoError(w, r.err)
				require.Contains(w, []int{200, 400, 409, 414, 431}, r.status, "%s=%.50s: %.200s", name, value, r.body)
				require.Less(w, r.took, 20*time.Second, "%s=%.50s", name, value)
				require.Less(w, len(r.body), 2*len(value)+10_000, "an answer is not much longer than the request")
			}
		}
		for _, body := range []string{rep("[", 1_000_000), rep(`{"where":`, 100_000), `{"params":` + rep(`{"1":`, 100_000), `{"order_by":"` + rep("(", 500_000) + `"}`} {
			r := w.post("table=hn9&offset=-1", body)
			require.Contains(w, []int{400, 413}, r.status, "%.50s: %.200s", body, r.body)
			require.Less(w, r.took, 20*time.Second, "%.50s", body)
		}
		w.sql("INSERT INTO hn9 VALUES (2, 'b')")
		w.goesOn(w.follow("table", "hn9"), "SELECT * FROM hn9")
	}},
	{entry: "B191", name: "text that is none", elsewhere: "api.TestUnreadableText"},
	{entry: "B191", name: "with the database below", run: func(w *faultWorld) {
		w.sql("CREATE TABLE nu9 (id int PRIMARY KEY, v text); INSERT INTO nu9 VALUES (1, 'a')")
		for _, name := range []string{"table", "where", "columns", "handle", "offset", "cursor", "replica", "log", "subset__where", "subset__order_by", "params%5B1%5D"} {
			for _, value := range []string{"a%00b", "%00", "%ff", "%c3%28", "%ed%a0%80", "%f5%80%80%80"} {
				r := w.raw(http.MethodGet, "table=nu9&offset=-1&where=v%3D%241&params%5B1%5D=z&"+name+"="+value, "")
				require.Equal(w, http.StatusBadRequest, r.status, "%s=%s: %s", name, value, r.body)
			}
		}
		for _, value := range []string{`a\u0000b`, `\ud800`, `\u0000`} {
			r := w.post("table=nu9&offset=-1", `{"where":"v = $1","params":{"1":"`+value+`"}}`)
			require.Equal(w, http.StatusBadRequest, r.status, r.body)
		}
	}},
	{entry: "B193", name: "what is no table of the application", elsewhere: "inspector.TestUndefinedTables"},
	{entry: "B193", name: "catalogues, views and other relations", run: func(w *faultWorld) {
		w.sql("CREATE TABLE ok9 (id int PRIMARY KEY); CREATE VIEW vw AS SELECT 1 AS id; CREATE MATERIALIZED VIEW mvw AS SELECT 1 AS id; CREATE UNLOGGED TABLE ul (id int PRIMARY KEY); CREATE SEQUENCE sq; CREATE TYPE ct9 AS (a int); CREATE INDEX ix9 ON ok9(id)")
		f, log := w.follow("table", "ok9"), w.srv.log.String()
		for _, table := range []string{
			"pg_catalog.pg_authid", "pg_authid", "pg_catalog.pg_shadow", "information_schema.tables", "pg_toast.pg_toast_1255", "pg_catalog.pg_stat_activity", "pg_replication_slots", "vw", "mvw", "ul", "sq",
			"ct9", "ix9", "pg_temp.x", `"pg_catalog"."pg_authid"`, "shapeserver.shapes", "pg_catalog.pg_class", "public.pg_class",
		} {
			for _, log := range []string{"full", "changes_only"} {
				w.refused(shape("table", table, "offset", "-1", "log", log), "table")
			}
			r := w.post("table="+table+"&offset=-1", `{"limit":1,"order_by":"id"}`)
			require.Equal(w, http.StatusBadRequest, r.status, r.body)
		}
		require.Equal(w, "0", w.one("SELECT count(*) FROM pg_publication_tables WHERE schemaname LIKE 'pg_%' OR schemaname IN ('information_schema', 'shapeserver') OR tablename IN ('vw', 'mvw', 'ul')"))
		require.Equal(w, 1, query(w, w.db, "SELECT 1 FROM shapeserver.shapes WHERE table_name IN ('ok9', 'pg_authid', 'vw', 'mvw', 'ul', 'sq')").rows, "no shape was made")
		require.Empty(w, errorLines(strings.TrimPrefix(w.srv.log.String(), log)))
		w.sql("INSERT INTO ok9 VALUES (1)")
		w.goesOn(f, "SELECT * FROM ok9")
	}},
	{entry: "B195", name: "deleting is off by default", elsewhere: "api.TestDeleteIsOffByDefault"},
	{entry: "B195", name: "handles and other definitions", elsewhere: "integration_test.TestStrictFaults"},
	{entry: "B196", name: "slow patterns", elsewhere: "integration_test.TestSlowPatternsHoldNobodyUp"},
	{entry: "B198", name: "connections to others", elsewhere: "integration_test.TestServerCallsNobody"},
	{entry: "B199", name: "slow and idle clients", elsewhere: "integration_test.TestStrictFaults"},
}

// refused requires that a request is refused at once for one parameter, with nothing of the database in the answer.
func (w *faultWorld) refused(q map[string][]string, parameter string) {
	w.Helper()
	r := w.ask(http.MethodGet, q)
	require.NoError(w, r.err)
	require.Equal(w, http.StatusBadRequest, r.status, "%.200v: %s", q, r.body)
	require.Contains(w, r.body, `"errors":{"`+parameter+`":`, "%.200v", q)
	require.NotContains(w, r.body, "topsecret")
	require.Less(w, r.took, 10*time.Second)
}
