package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Class 5: a schema change ends exactly the shapes it concerns, whose clients begin anew by themselves; the others go on.
func TestSchemaFaults(t *testing.T) { runFaults(t, schemaFaults) }

var schemaFaults = []fault{
	{entry: "B100", name: "column added, dropped, renamed, retyped", run: func(w *faultWorld) {
		w.sql("CREATE TABLE ad (id int PRIMARY KEY, v text, n int); INSERT INTO ad VALUES (1, 'a', 1)")
		all, some, filtered := w.follow("table", "ad"), w.follow("table", "ad", "columns", "id,v"), w.follow("table", "ad", "columns", "id,v", "where", "n > 0")
		live := w.wait(all)
		w.sql("ALTER TABLE ad ADD COLUMN w int DEFAULT 5", "INSERT INTO ad VALUES (2, 'b', 2, 6)")
		w.refetch(live)
		w.changed(all, "SELECT * FROM ad")
		require.Contains(w, w.get("table", "ad", "offset", "-1").header.Get("electric-schema"), `"w":`)
		w.goesOn(some, "SELECT id, v FROM ad")
		w.goesOn(filtered, "SELECT id, v FROM ad WHERE n > 0")

		w.sql("ALTER TABLE ad ALTER COLUMN w TYPE text", "UPDATE ad SET w = 'x' WHERE id = 2")
		w.changed(all, "SELECT * FROM ad")
		w.goesOn(some, "SELECT id, v FROM ad")
		w.sql("ALTER TABLE ad DROP COLUMN w") // and nothing is written
		w.changed(all, "SELECT * FROM ad")
		w.goesOn(some, "SELECT id, v FROM ad")
		w.goesOn(filtered, "SELECT id, v FROM ad WHERE n > 0")

		// What a clause uses is selected by it.
		w.sql("ALTER TABLE ad ALTER COLUMN n TYPE bigint", "INSERT INTO ad VALUES (3, 'c', 3)")
		w.changed(filtered, "SELECT id, v FROM ad WHERE n > 0")
		w.goesOn(some, "SELECT id, v FROM ad")
		w.sql("ALTER TABLE ad RENAME COLUMN v TO vv", "INSERT INTO ad VALUES (4, 'd', 4)")
		w.changed(all, "SELECT * FROM ad")
		require.Eventually(w, func() bool {
			return w.get("table", "ad", "columns", "id,v", "offset", some.Offset, "handle", some.Handle).status == http.StatusBadRequest
		}, 20*time.Second, 50*time.Millisecond, "a column that is no more")
	}},
	{entry: "B103", name: "columns dropped and added again, key columns too", run: func(w *faultWorld) {
		w.sql(`CREATE TABLE dr (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), p jsonb, d text); INSERT INTO dr(p, d) VALUES ('{}', 'x');
			CREATE TABLE bystander (id int PRIMARY KEY); INSERT INTO bystander VALUES (1)`)
		other, f := w.follow("table", "bystander"), w.follow("table", "dr")
		w.sql("ALTER TABLE dr DROP COLUMN d", "ALTER TABLE dr ADD COLUMN d int DEFAULT 1", "INSERT INTO dr(p) VALUES ('{}')", "ALTER TABLE dr DROP COLUMN id",
			"INSERT INTO dr(p, d) VALUES ('{}', 2)", "ALTER TABLE dr ADD COLUMN id serial PRIMARY KEY", "UPDATE dr SET d = d + 1", "INSERT INTO bystander VALUES (2)")
		w.goesOn(other, "SELECT id FROM bystander")
		w.changed(f, "SELECT * FROM dr")
		for key := range f.Rows {
			require.Regexp(w, `^"public"\."dr"/"\d+"$`, key)
		}
	}},
	{entry: "B104", name: "table dropped and created again under its name", run: func(w *faultWorld) {
		w.sql("CREATE TABLE rc (id int PRIMARY KEY, v text); INSERT INTO rc VALUES (1, 'old')")
		f := w.follow("table", "rc")
		w.sql("DROP TABLE rc", "CREATE TABLE rc (id int PRIMARY KEY, v text)", "INSERT INTO rc VALUES (1, 'new')")
		w.changed(f, "SELECT * FROM rc")
		w.sql("INSERT INTO rc VALUES (2, 'after')")
		w.same(f, "SELECT * FROM rc")
		w.sql("DROP TABLE rc; CREATE TABLE rc (a text, b int); INSERT INTO rc VALUES ('x', 1)")
		w.changed(f, "SELECT * FROM rc")
		w.sql("UPDATE rc SET b = 2")
		w.same(f, "SELECT * FROM rc")
	}},
	{entry: "B105", name: "table dropped or renamed, or its schema", run: func(w *faultWorld) {
		w.sql("CREATE SCHEMA away; CREATE SCHEMA sc; CREATE TABLE keep (id int PRIMARY KEY)")
		keep := w.follow("table", "keep")
		for _, c := range []struct{ table, change, undo string }{
			{"dp", "DROP TABLE dp", "CREATE TABLE dp (id int PRIMARY KEY); INSERT INTO dp VALUES (7)"},
			{"dp", "ALTER TABLE dp RENAME TO dp2", "ALTER TABLE dp2 RENAME TO dp"},
			{"dp", "ALTER TABLE dp SET SCHEMA away", "ALTER TABLE away.dp SET SCHEMA public"},
			{"sc.dp", "ALTER SCHEMA sc RENAME TO sc2", "ALTER SCHEMA sc2 RENAME TO sc"},
			{"sc.dp", "DROP SCHEMA sc CASCADE", "CREATE SCHEMA sc; CREATE TABLE sc.dp (id int PRIMARY KEY); INSERT INTO sc.dp VALUES (8)"},
		} {
			w.sql("DROP TABLE IF EXISTS " + c.table + "; CREATE TABLE " + c.table + " (id int PRIMARY KEY); INSERT INTO " + c.table + " VALUES (1)")
			f := w.follow("table", c.table)
			live := w.wait(f)
			w.sql(c.change)
			a := <-live
			require.NoError(w, a.err, c.change)
			require.Contains(w, []int{http.StatusConflict, http.StatusOK}, a.status, c.change)
			require.EventuallyWithT(w, func(t *collect) {
				a = w.get("table", c.table, "offset", f.Offset, "handle", f.Handle)
				require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", c.change, a.body)
			}, 20*time.Second, 50*time.Millisecond)
			a = w.get("table", c.table, "offset", "-1")
			require.Equal(w, http.StatusBadRequest, a.status, c.change)
			require.Contains(w, a.body, "does not exist")
			w.sql(c.undo)
			f.Tolerate = func(code int, _ string) bool { return code == http.StatusBadRequest } // the catalogue's shapeReply may be a moment old
			w.changed(f, "SELECT * FROM "+c.table)
		}
		w.sql("INSERT INTO keep VALUES (1)")
		w.goesOn(keep, "SELECT * FROM keep")
	}},
	{entry: "B107", name: "replica identity changed while streaming", run: func(w *faultWorld) {
		w.sql("CREATE TABLE ri (id int PRIMARY KEY, s text, n int); INSERT INTO ri SELECT g, 'in', 0 FROM generate_series(1, 5) g")
		f := w.follow("table", "ri", "where", "s = 'in'")
		restored := func() { // by the shape that comes for the next request
			w.Helper()
			require.EventuallyWithT(w, func(c *collect) {
				require.NoError(c, f.CatchUp(w.Context()))
				require.Equal(c, "f", w.one("SELECT relreplident::text FROM pg_class WHERE relname = 'ri'"))
			}, 20*time.Second, 50*time.Millisecond)
		}
		w.sql("ALTER TABLE ri REPLICA IDENTITY DEFAULT; UPDATE ri SET s = 'out' WHERE id = 1", "UPDATE ri SET n = 1 WHERE id = 2", "DELETE FROM ri WHERE id = 3")
		w.changed(f, "SELECT * FROM ri WHERE s = 'in'")
		restored()
		w.sql("ALTER TABLE ri REPLICA IDENTITY NOTHING; INSERT INTO ri VALUES (9, 'in', 0)")
		restored()
		w.sql("UPDATE ri SET s = 'out' WHERE id = 9", "DELETE FROM ri WHERE id = 4")
		w.same(f, "SELECT * FROM ri WHERE s = 'in'")
		w.sql("CREATE UNIQUE INDEX ri_i ON ri (id); ALTER TABLE ri REPLICA IDENTITY USING INDEX ri_i; UPDATE ri SET s = 'out' WHERE id = 5; UPDATE ri SET s = 'in' WHERE id = 1")
		w.same(f, "SELECT * FROM ri WHERE s = 'in'")
		restored()
	}},
	{entry: "B108", name: "publication dropped or altered by hand", run: func(w *faultWorld) {
		w.sql("CREATE TABLE pb (id int PRIMARY KEY, v text); INSERT INTO pb VALUES (1, 'a')")
		f := w.follow("table", "pb")
		name := w.one("SELECT pubname FROM pg_publication_tables WHERE tablename = 'pb'")
		for i, harm := range []string{"ALTER PUBLICATION " + name + " DROP TABLE pb", "ALTER PUBLICATION " + name + " SET (publish = 'insert')", "DROP PUBLICATION " + name} {
			w.sql(harm, "INSERT INTO pb VALUES ("+strings.Repeat("1", i+2)+", 'lost?')", "UPDATE pb SET v = v || 'b' WHERE id = 1")
			w.changed(f, "SELECT * FROM pb")
			w.sql("UPDATE pb SET v = v || 'c' WHERE id = 1")
			w.same(f, "SELECT * FROM pb")
		}
	}},
	{entry: "B110", name: "announcements without a change", run: func(w *faultWorld) {
		w.sql("CREATE TABLE rm (id int PRIMARY KEY, v text); INSERT INTO rm VALUES (1, 'a')")
		f := w.follow("table", "rm")
		for _, sql := range []string{
			"ANALYZE rm", "VACUUM rm", "ALTER TABLE rm SET (fillfactor = 70)", "COMMENT ON COLUMN rm.v IS 'c'", "CREATE INDEX ix ON rm(v)", "REINDEX TABLE rm",
			"CLUSTER rm USING rm_pkey", "VACUUM FULL rm", "ALTER TABLE rm ADD CONSTRAINT ck CHECK (id > 0)", "GRANT SELECT ON rm TO PUBLIC", "ALTER TABLE rm ALTER COLUMN v SET DEFAULT 'd'",
		} {
			w.sql(sql, "INSERT INTO rm SELECT max(id) + 1, 'x' FROM rm")
			w.goesOn(f, "SELECT * FROM rm")
		}
		before := f.Offset
		w.sql("VACUUM FULL rm", "CLUSTER rm")
		w.goesOn(f, "SELECT * FROM rm")
		require.Equal(w, before, f.Offset, "rewriting a table changes no row")
	}},
	{entry: "B111", name: "primary key changed", run: func(w *faultWorld) {
		w.sql("CREATE TABLE pc (id int PRIMARY KEY, e text NOT NULL UNIQUE, v int); INSERT INTO pc VALUES (1, 'a', 0), (2, 'b', 0)")
		f := w.follow("table", "pc")
		w.sql("ALTER TABLE pc DROP CONSTRAINT pc_pkey, ADD PRIMARY KEY (e)", "UPDATE pc SET v = 1 WHERE id = 1", "DELETE FROM pc WHERE id = 2", "INSERT INTO pc VALUES (1, 'c', 3)")
		w.changed(f, "SELECT * FROM pc")
		require.Contains(w, f.Rows, `"public"."pc"/"c"`)
		w.sql("ALTER TABLE pc DROP CONSTRAINT pc_pkey", "UPDATE pc SET v = 9")
		w.changed(f, "SELECT * FROM pc")
		w.sql("ALTER TABLE pc ADD PRIMARY KEY (e, v)") // and nothing is written
		w.changed(f, "SELECT * FROM pc")
	}},
	{entry: "B113", name: "schema and rows changed in one transaction", run: func(w *faultWorld) {
		w.sql("CREATE TABLE dd (id int PRIMARY KEY, a int); INSERT INTO dd VALUES (1, 1), (2, 2)")
		f := w.follow("table", "dd")
		w.sql(`BEGIN; INSERT INTO dd VALUES (3, 3); ALTER TABLE dd ADD COLUMN b text; UPDATE dd SET b = 'n' || id; ALTER TABLE dd ALTER a TYPE text; INSERT INTO dd VALUES (4, '4', 'n4');
			ALTER TABLE dd DROP COLUMN a; INSERT INTO dd VALUES (5, 'n5'); COMMIT`)
		w.changed(f, "SELECT * FROM dd")
		w.sql("INSERT INTO dd VALUES (6, 'n6')")
		w.same(f, "SELECT * FROM dd")
	}},
	{entry: "B114", name: "enum, domain or composite type altered", run: func(w *faultWorld) {
		w.sql("CREATE TYPE st AS ENUM ('a', 'b'); CREATE DOMAIN dm AS text; CREATE TYPE co AS (x int); CREATE TABLE ty (id int PRIMARY KEY, s st, d dm, c co); INSERT INTO ty VALUES (1, 'a', 'd', ROW(1))")
		f, filtered := w.follow("table", "ty"), w.follow("table", "ty", "where", "s::text = 'b'", "columns", "id,s")
		w.sql("ALTER TYPE st ADD VALUE 'c'", "INSERT INTO ty VALUES (2, 'c', 'e', ROW(2))")
		w.same(f, "SELECT * FROM ty")
		// These change the text of rows without a word in the stream.
		w.sql("ALTER TYPE co ADD ATTRIBUTE y text CASCADE", "INSERT INTO ty VALUES (3, 'b', 'f', ROW(3, 'y'))")
		w.changed(f, "SELECT * FROM ty")
		w.same(filtered, "SELECT id, s FROM ty WHERE s::text = 'b'")
		w.sql("ALTER TYPE st RENAME VALUE 'a' TO 'alpha'")
		w.changed(f, "SELECT * FROM ty")
		w.sql("ALTER TYPE st RENAME VALUE 'b' TO 'beta'", "ALTER TYPE st RENAME TO st_new", "UPDATE ty SET d = 'g' WHERE id = 3")
		w.same(f, "SELECT * FROM ty")
		filtered.Tolerate = func(code int, _ string) bool { return code == http.StatusBadRequest }
		w.same(filtered, "SELECT id, s FROM ty WHERE s::text = 'b'")
	}},
	{entry: "B115", name: "partitions attached, detached, dropped, made again", run: func(w *faultWorld) {
		w.sql(`CREATE TABLE rt (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k); CREATE TABLE rt1 PARTITION OF rt FOR VALUES IN (1); CREATE TABLE rt2 PARTITION OF rt FOR VALUES IN (2);
			INSERT INTO rt VALUES (1, 1), (2, 2); CREATE TABLE lone (id int, k int, PRIMARY KEY (id, k)); INSERT INTO lone VALUES (30, 3)`)
		root, lone := w.follow("table", "rt"), w.follow("table", "lone")
		w.sql("ALTER TABLE rt DETACH PARTITION rt2", "INSERT INTO rt2 VALUES (22, 2)")
		w.changed(root, "SELECT * FROM rt")
		w.sql("ALTER TABLE rt ATTACH PARTITION lone FOR VALUES IN (3)", "INSERT INTO rt VALUES (31, 3)")
		w.changed(root, "SELECT * FROM rt")
		w.same(lone, "SELECT * FROM lone")
		w.sql("DROP TABLE rt1; CREATE TABLE rt1 (id int, k int, PRIMARY KEY (id, k)); INSERT INTO rt1 VALUES (11, 1)")
		w.changed(root, "SELECT * FROM rt")
		w.sql("CREATE TABLE rt4 PARTITION OF rt FOR VALUES IN (4); INSERT INTO rt VALUES (40, 4)", "UPDATE rt SET id = 41 WHERE id = 40", "UPDATE rt SET k = 3 WHERE id = 41")
		w.same(root, "SELECT * FROM rt")
		w.sql("TRUNCATE rt4") // of one partition
		w.changed(root, "SELECT * FROM rt")
		w.same(lone, "SELECT * FROM lone")
	}},
}
