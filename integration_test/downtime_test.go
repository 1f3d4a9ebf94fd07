package integration

import (
	"cmp"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// downtimeChanges are schema changes without a word in the stream. Each is made of its table, named t, while no server runs.
var downtimeChanges = []struct {
	name, create, change string
	columns              string // of the shape; all when empty
	value                string // of column v; '1' when empty
	refetched            int
}{
	{name: "nothing", create: "CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2))"},
	{name: "type modifier", create: "CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2))", change: "ALTER TABLE t ALTER v TYPE numeric(10,4)", refetched: 1},
	{name: "type", create: "CREATE TABLE t (id int PRIMARY KEY, v int)", change: "ALTER TABLE t ALTER v TYPE text USING 'n' || v", refetched: 1},
	{name: "values of the same type", create: "CREATE TABLE t (id int PRIMARY KEY, v text, w int)", value: "'A'", change: "ALTER TABLE t ALTER v TYPE text USING lower(v)", refetched: 1},
	{name: "values of a column not selected", create: "CREATE TABLE t (id int PRIMARY KEY, v text, w int)", columns: "id,v", change: "ALTER TABLE t ALTER w TYPE int USING w * 100"},
	{name: "a default, files as they were", create: "CREATE TABLE t (id int PRIMARY KEY, v int)", change: "ALTER TABLE t ALTER v SET DEFAULT 7"},
	{name: "values, and then privileges", create: "CREATE TABLE t (id int PRIMARY KEY, v text)", value: "'A'", change: "ALTER TABLE t ALTER v TYPE text USING lower(v); GRANT SELECT ON t TO PUBLIC", refetched: 1},
	{name: "files anew", create: "CREATE TABLE t (id int PRIMARY KEY, v int)", change: "VACUUM FULL t"},
	{name: "partition's values", create: "CREATE TABLE t (id int, v int, PRIMARY KEY (id)) PARTITION BY LIST (id); CREATE TABLE t_p PARTITION OF t DEFAULT", change: "ALTER TABLE t ALTER v TYPE int USING v * 100", refetched: 1},
	{name: "type of another column", create: "CREATE TABLE t (id int PRIMARY KEY, v int, w int)", columns: "id,v", change: "ALTER TABLE t ALTER w TYPE text"},
	{name: "column added", create: "CREATE TABLE t (id int PRIMARY KEY, v int)", change: "ALTER TABLE t ADD w int DEFAULT 3", refetched: 1},
	{name: "column added, not selected", create: "CREATE TABLE t (id int PRIMARY KEY, v int)", columns: "id,v", change: "ALTER TABLE t ADD w int DEFAULT 3"},
	{name: "column dropped", create: "CREATE TABLE t (id int PRIMARY KEY, v int, w int)", change: "ALTER TABLE t DROP w", refetched: 1},
	{name: "columns exchange names", create: "CREATE TABLE t (id int PRIMARY KEY, v int, w text DEFAULT 'w')", columns: "id,v", change: "ALTER TABLE t RENAME v TO x; ALTER TABLE t RENAME w TO v", refetched: 1},
	{name: "same name and type, other column", create: "CREATE TABLE t (id int PRIMARY KEY, v int, w int DEFAULT 8)", columns: "id,v", change: "ALTER TABLE t RENAME v TO x; ALTER TABLE t RENAME w TO v", refetched: 1},
	{name: "key", create: "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)", change: "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (v)", refetched: 1},
	{name: "key dropped", create: "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)", change: "ALTER TABLE t DROP CONSTRAINT t_pkey", refetched: 1},
	{name: "label renamed", create: "CREATE TYPE t_e AS ENUM ('1', '2', 'b'); CREATE TABLE t (id int PRIMARY KEY, v t_e)", change: "ALTER TYPE t_e RENAME VALUE '1' TO 'one'", refetched: 1},
	{name: "label added", create: "CREATE TYPE t_e AS ENUM ('1', '2', 'b'); CREATE TABLE t (id int PRIMARY KEY, v t_e)", change: "ALTER TYPE t_e ADD VALUE 'c' BEFORE 'b'"},
	{name: "label of a domain's array's enum renamed", create: "CREATE TYPE t_e AS ENUM ('1', '2'); CREATE DOMAIN t_d AS t_e[]; CREATE TABLE t (id int PRIMARY KEY, v t_d)", value: "'{1,2}'", change: "ALTER TYPE t_e RENAME VALUE '2' TO 'two'", refetched: 1},
	{name: "attribute", create: "CREATE TYPE t_c AS (x int); CREATE TABLE t (id int PRIMARY KEY, v t_c)", value: "'(1)'", change: "ALTER TYPE t_c ADD ATTRIBUTE y int CASCADE", refetched: 1},
	{name: "attribute of an attribute", create: "CREATE TYPE t_c AS (x int); CREATE TYPE t_o AS (c t_c[]); CREATE TABLE t (id int PRIMARY KEY, v t_o)", value: "ROW(ARRAY[ROW(1)]::t_c[])", change: "ALTER TYPE t_c ADD ATTRIBUTE y int CASCADE", refetched: 1},
	{name: "label of an attribute", create: "CREATE TYPE t_e AS ENUM ('1'); CREATE TYPE t_o AS (e t_e); CREATE TABLE t (id int PRIMARY KEY, v t_o)", value: "ROW('1')", change: "ALTER TYPE t_e RENAME VALUE '1' TO 'one'", refetched: 1},
	{name: "table renamed and back", create: "CREATE TABLE t (id int PRIMARY KEY, v int)", change: "ALTER TABLE t RENAME TO t_other; ALTER TABLE t_other RENAME TO t"},
	{name: "table made anew", create: "CREATE TABLE t (id int PRIMARY KEY, v int)", change: "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int)", refetched: 1},
	{name: "types exchange names", create: "CREATE TYPE t_a AS ENUM ('1'); CREATE TABLE t (id int PRIMARY KEY, v t_a)", change: "ALTER TYPE t_a RENAME TO t_b"},
}

// followDowntimeTables makes the tables, with a row and a client each.
func followDowntimeTables(t *testing.T, db *pgtest.DB, srv *process) []*Fold {
	t.Helper()
	folds := make([]*Fold, len(downtimeChanges))
	for i, c := range downtimeChanges {
		db.Exec(t, inTable(i, c.create))
		db.Exec(t, inTable(i, "INSERT INTO t (id, v) VALUES (1, "+cmp.Or(c.value, "'1'")+")"))
		params := []string{"table", inTable(i, "t")}
		if c.columns != "" {
			params = append(params, "columns", c.columns)
		}
		folds[i] = NewFold(srv.url, shape(params...))
		folds[i].Retry = true
	}
	compareDowntimeTables(t, db, folds)
	return folds
}

func compareDowntimeTables(t *testing.T, db *pgtest.DB, folds []*Fold) {
	t.Helper()
	for i, c := range downtimeChanges {
		requireSame(t, folds[i], db, inTable(i, "SELECT "+cmp.Or(c.columns, "*")+" FROM t"))
		require.NoError(t, folds[i].Err(), c.name)
	}
}

// What changes the texts of rows while no server runs is noticed by the next one, though nothing is written to the table: exactly
// the shapes end whose rows read otherwise now.
func TestTablesChangedWhileDown(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%t", crash), func(t *testing.T) {
			db := pgtest.New(t)
			srv := startServer(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=1s")
			folds := followDowntimeTables(t, db, srv)
			awaitConfirmed(t, db)
			if crash {
				srv.kill(t)
			} else {
				srv.stop(t)
			}
			for i, c := range downtimeChanges {
				db.Exec(t, inTable(i, c.change))
			}
			srv.start(t)
			compareDowntimeTables(t, db, folds)
			for i, c := range downtimeChanges {
				require.Equal(t, c.refetched, folds[i].Refetched, c.name)
			}
		})
	}
}

// The same changes while the server runs are noticed when the table is announced again, or by the periodic check.
func TestTablesChangedWhileUp(t *testing.T) {
	for _, write := range []bool{false, true} {
		t.Run(fmt.Sprintf("write=%t", write), func(t *testing.T) {
			db := pgtest.New(t)
			srv := startServer(t, db, "SHAPESERVER_LONG_POLL_TIMEOUT=1s", "SHAPESERVER_SCHEMA_RECONCILER_PERIOD=1s", "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=1s")
			folds := followDowntimeTables(t, db, srv)
			for i, c := range downtimeChanges {
				db.Exec(t, inTable(i, c.change))
				if write {
					db.Exec(t, inTable(i, "UPDATE t SET id = id + 1"))
				}
			}
			compareDowntimeTables(t, db, folds)
		})
	}
}

// inTable puts the name of a case's table, and of its types, in the place of t.
func inTable(i int, sql string) string {
	return tableName.ReplaceAllString(sql, fmt.Sprintf("d%d$1", i))
}

var tableName = regexp.MustCompile(`\bt(_\w+)?\b`)
