package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// soakTable is a table of the soak: how it is made, what is written to it and what is asked of it.
type soakTable struct {
	// name is written as in SQL and as in the parameter table.
	name string
	// create makes the table and fill puts rows into it; both are used again after a DROP or a TRUNCATE.
	create, fill string
	// keys are the columns of the key, which every list of columns must have. None: the table has no key, and every shape
	// of it selects all columns.
	keys, columns []string
	// terms are conditions with at most one %d, a random number from 0 to 9.
	terms []string
	// statements are what writers do; %d are random numbers from 0 to 59.
	statements []string
	// ddl changes the table in a way that leaves terms and statements true, %d as in terms. Statements between semicolons
	// are one transaction, unless the text begins with "--each", when each is one of its own.
	ddl []string
}

// soakTables are the tables of the soak. Together they have what makes shapes hard: values out of line, keys that
// change, names that need quotes, partitions that rows move between, no key at all, and an invariant over several rows.
var soakTables = []*soakTable{
	{
		name: "items",
		create: `CREATE TABLE items (id int PRIMARY KEY, n int, s text, f bool, d numeric, at timestamptz, tags int[], doc jsonb,
			mood mood, big text, spare int); ALTER TABLE items ALTER COLUMN big SET STORAGE EXTERNAL`,
		fill: `INSERT INTO items SELECT g, g % 10, 's' || g % 7, g % 2 = 0, g / 4.0, '2026-01-01'::timestamptz + g * interval '1 day',
			ARRAY[g % 10, NULL, 3], jsonb_build_object('k', g % 10), 'ok', CASE WHEN g % 5 = 0 THEN repeat(g || '-', 900) END, g FROM generate_series(0, 59, 2) g`,
		keys:    []string{"id"},
		columns: []string{"n", "s", "f", "d", "at", "tags", "doc", "mood", "big"},
		terms: []string{
			"n = %d", "n > %d", "n <= %d", "n IN (1, 2, %d)", "n BETWEEN 2 AND %d", "n IS NULL", "n IS DISTINCT FROM %d", "n %% 3 = 1",
			"s = 's%d'", "s LIKE 's%d%%'", "s ILIKE '%%S%d'", "s < 's%d'", "s IS NOT NULL", "lower(s) = 's%d'", "s || 'x' = 's%dx'",
			"f", "NOT f", "f IS NOT TRUE", "d > %d.5", "d = %d", "d IN (0.25, %d.50)", "at > '2026-01-1%d'", "%d = ANY(tags)", "tags @> ARRAY[%d]",
			"tags IS NULL", "doc->>'k' = '%d'", "doc @> '{\"k\": %d}'", "mood = 'ok'", "mood > 'bad'", "big IS NULL", "big LIKE '%d%%'", "id %% 10 = %d", "id < 4%d",
			"coalesce(n, 0) = %d", "CASE WHEN f THEN n > %d ELSE n < %d END", "length(s) = 2",
		},
		statements: []string{
			"INSERT INTO items (id, n, s, f, big) VALUES (%d, %d %% 10, 's%d', true, repeat('%d ', 1000)) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
			"INSERT INTO items (id, n, d, doc, tags) VALUES (%d, NULL, %d / 4.0, '{\"k\": 3}', '{1,2,3}') ON CONFLICT (id) DO UPDATE SET d = excluded.d, tags = NULL",
			"UPDATE items SET n = %d %% 10 WHERE id = %d", "UPDATE items SET n = NULL, f = NOT f WHERE id %% 7 = %d %% 7",
			"UPDATE items SET s = 's' || %d %% 10, mood = 'bad' WHERE id = %d", "UPDATE items SET mood = 'ok', doc = jsonb_build_object('k', %d %% 10) WHERE id > %d",
			"UPDATE items SET at = at + interval '1 day', tags = tags || %d %% 10 WHERE id = %d AND cardinality(tags) < 20", "UPDATE items SET big = repeat('%d+', 1200) WHERE id = %d",
			"UPDATE items SET spare = %d WHERE id = %d", "UPDATE items SET id = %d WHERE id = %d", "UPDATE items SET id = id + 100 WHERE id = %d", "UPDATE items SET id = id - 100 WHERE id > 100",
			"DELETE FROM items WHERE id = %d", "DELETE FROM items WHERE n = %d %% 10 AND f", "UPDATE items SET s = s",
			"DELETE FROM items WHERE id = %[1]d; INSERT INTO items (id, n, s) VALUES (%[1]d, 5, 's5')",
		},
		ddl: []string{
			"ALTER TABLE items ADD COLUMN extra%d int DEFAULT 7", "ALTER TABLE items DROP COLUMN IF EXISTS extra%d", "ALTER TABLE items ALTER COLUMN n TYPE bigint", "ALTER TABLE items ALTER COLUMN n TYPE int",
			"--each ALTER TABLE items RENAME TO renamed; INSERT INTO renamed (id, n) VALUES (%d, 1) ON CONFLICT DO NOTHING; ALTER TABLE renamed RENAME TO items",
			"--each ALTER TABLE items RENAME COLUMN s TO other; UPDATE items SET other = 's3' WHERE id = %d; ALTER TABLE items RENAME COLUMN other TO s",
			"--each ALTER TABLE items SET SCHEMA aside; ALTER TABLE aside.items SET SCHEMA public", "ALTER TABLE items REPLICA IDENTITY DEFAULT", "ALTER TABLE items REPLICA IDENTITY NOTHING",
			"ALTER TYPE mood ADD VALUE IF NOT EXISTS 'new%d'",
			"ALTER TABLE items ADD COLUMN filled int; UPDATE items SET filled = %d; ALTER TABLE items DROP COLUMN filled",
		},
	},
	{
		name:   `"Odd Keys"`,
		create: `CREATE TABLE "Odd Keys" (a int, b text, n int, "U.u" uuid, spare int, PRIMARY KEY (a, b))`,
		fill: `INSERT INTO "Odd Keys" SELECT g % 6, chr(97 + g % 4) || '/"' , g % 10, md5(g::text)::uuid, g FROM generate_series(0, 30) g
			ON CONFLICT DO NOTHING`,
		keys:    []string{"a", "b"},
		columns: []string{"n", `"U.u"`},
		terms: []string{
			"a = %d", "a IN (1, %d)", "b = 'a/\"'", "b > 'b'", "n = %d", "n <> %d", "NOT (n > %d)", "n IS NULL", `"U.u" IS NOT NULL`, `"U.u" > '80000000-0000-0000-0000-00000000000%d'`,
			"(a, n) = (1, %d)", "a + n = %d", "greatest(a, n) > %d", "b LIKE '_/%%'",
		},
		statements: []string{
			`INSERT INTO "Odd Keys" VALUES (%d %% 6, chr(97 + %d %% 4) || '/"', %d %% 10, NULL) ON CONFLICT (a, b) DO UPDATE SET n = excluded.n`,
			`UPDATE "Odd Keys" SET n = n + 1 WHERE a = %d %% 6`, `UPDATE "Odd Keys" SET b = b || '%[1]d' WHERE a = %[1]d %% 6 AND length(b) < 9`,
			`UPDATE "Odd Keys" SET a = a + 10 WHERE a = %d %% 6`, `UPDATE "Odd Keys" SET a = a - 10 WHERE a >= 10 AND n <> %d`, `UPDATE "Odd Keys" SET "U.u" = md5('%d')::uuid WHERE n = %d %% 10`,
			`DELETE FROM "Odd Keys" WHERE n = %d %% 10 AND a = %d %% 6`, `UPDATE "Odd Keys" SET n = NULL WHERE a = %d %% 6`, `UPDATE "Odd Keys" SET n = %d %% 10 WHERE n IS NULL`,
		},
		ddl: []string{
			`ALTER TABLE "Odd Keys" DROP CONSTRAINT "Odd Keys_pkey", ADD CONSTRAINT "Odd Keys_pkey" PRIMARY KEY (b, a)`,
			`ALTER TABLE "Odd Keys" DROP CONSTRAINT "Odd Keys_pkey", ADD CONSTRAINT "Odd Keys_pkey" PRIMARY KEY (a, b)`,
			`ALTER TABLE "Odd Keys" ADD COLUMN "x %d" text`, `ALTER TABLE "Odd Keys" DROP COLUMN IF EXISTS "x %d"`,
		},
	},
	{
		name: "parts",
		create: `CREATE TABLE parts (id int, k int, v text, spare int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
			CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (0, 1, 2); CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (3, 4, 5); CREATE TABLE parts_d PARTITION OF parts DEFAULT`,
		fill:    `INSERT INTO parts SELECT g, g % 9, 'v' || g % 10 FROM generate_series(0, 40) g`,
		keys:    []string{"id", "k"},
		columns: []string{"v"},
		terms:   []string{"k = %d", "k < %d", "k IN (3, %d)", "v = 'v%d'", "v LIKE 'v%%'", "v IS NULL", "id %% 10 = %d", "k + id > 1%d"},
		statements: []string{
			"INSERT INTO parts VALUES (%d, %d %% 9, 'v' || %d %% 10) ON CONFLICT (id, k) DO UPDATE SET v = excluded.v", "UPDATE parts SET k = %d %% 9 WHERE id = %d AND k < 9", "UPDATE parts SET v = 'v%d' WHERE k = %d %% 9",
			"UPDATE parts SET v = NULL WHERE id = %d", "DELETE FROM parts WHERE id = %d", "UPDATE parts SET v = 'v' || %d %% 10 WHERE v IS NULL",
		},
		ddl: []string{
			"--each ALTER TABLE parts DETACH PARTITION parts_2; INSERT INTO parts_2 VALUES (70 + %d, 3, 'v3') ON CONFLICT DO NOTHING; " +
				"LOCK TABLE parts;DELETE FROM parts_d WHERE k IN (3, 4, 5);ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (3, 4, 5)", // which the default partition got meanwhile
			"TRUNCATE parts_1", "ALTER TABLE parts ADD COLUMN extra%d int", "ALTER TABLE parts DROP COLUMN IF EXISTS extra%d",
			"DROP TABLE parts_2; CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (3, 4, 5); INSERT INTO parts_2 VALUES (%d, 4, 'v4')", // perhaps a key of before
		},
	},
	{
		name:   "bare",
		create: `CREATE TABLE bare (id int, n int, s text); CREATE SEQUENCE IF NOT EXISTS bare_ids`,
		fill:   `INSERT INTO bare SELECT nextval('bare_ids'), g % 10, CASE WHEN g % 3 > 0 THEN 's' || g % 10 END FROM generate_series(0, 20) g`,
		terms:  []string{"n = %d", "n < %d", "s = 's%d'", "s IS NULL", "n IN (2, %d)", "id %% 10 = %d"},
		statements: []string{
			"INSERT INTO bare VALUES (nextval('bare_ids'), %d %% 10, 's' || %d %% 10)", "INSERT INTO bare VALUES (nextval('bare_ids'), NULL, NULL)", "UPDATE bare SET n = %d %% 10 WHERE id %% 20 = %d %% 20",
			"UPDATE bare SET s = NULL WHERE n = %d %% 10", "DELETE FROM bare WHERE id %% 10 = %d %% 10", "UPDATE bare SET s = 's%d' WHERE s IS NULL",
		},
		ddl: []string{"ALTER TABLE bare ADD COLUMN extra%d int", "ALTER TABLE bare DROP COLUMN IF EXISTS extra%d"},
	},
	{
		name:    "accounts",
		create:  `CREATE TABLE accounts (id int PRIMARY KEY, branch int NOT NULL, balance int NOT NULL, note text)`,
		fill:    `INSERT INTO accounts SELECT g, g % 5, 100 FROM generate_series(0, 59) g`,
		keys:    []string{"id"},
		columns: []string{"branch", "balance"},
		// Only conditions over the branch: money moves within one, so the sum of a branch is always 1200.
		terms: []string{"branch = %d %% 5", "branch IN (1, %d %% 5)", "branch > %d %% 5"},
		statements: []string{
			"UPDATE accounts SET balance = balance - %[2]d WHERE id = %[1]d; UPDATE accounts SET balance = balance + %[2]d WHERE id = (%[1]d + 5) %% 60",
			"UPDATE accounts SET note = 'n%d' WHERE id = %d",
		},
		ddl: []string{"TRUNCATE accounts; INSERT INTO accounts SELECT g, g %% 5, 100 FROM generate_series(0, 59) g"},
	},
}

// soakShape is the definition of a generated shape, as a client asks for it and as SQL.
type soakShape struct {
	table *soakTable
	// where and columns are empty for all rows and all columns.
	where, columns string
	full, changes  bool
}

func (s soakShape) params() (pairs []string) {
	pairs = []string{"table", s.table.name}
	for _, p := range [][2]string{{"where", s.where}, {"columns", s.columns}} {
		if p[1] != "" {
			pairs = append(pairs, p[0], p[1])
		}
	}
	if s.full {
		pairs = append(pairs, "replica", "full")
	}
	if s.changes {
		pairs = append(pairs, "log", "changes_only")
	}
	return pairs
}

func (s soakShape) sql() string {
	sql := "SELECT * FROM " + s.table.name
	if s.columns != "" {
		sql = "SELECT " + s.columns + " FROM " + s.table.name
	}
	if s.where != "" {
		sql += " WHERE " + s.where
	}
	return sql
}

func randomShape(r *rand.Rand) soakShape {
	table := soakTables[r.IntN(len(soakTables))]
	s := soakShape{table: table, full: r.IntN(4) == 0, changes: r.IntN(12) == 0}
	if r.IntN(12) > 0 {
		s.where = table.clause(r, r.IntN(3))
	}
	if len(table.keys) > 0 && r.IntN(3) == 0 {
		columns := append([]string{}, table.keys...)
		for _, c := range table.columns {
			if r.IntN(2) == 0 || (c == "balance") || c == "branch" {
				columns = append(columns, c)
			}
		}
		s.columns = strings.Join(columns, ",")
	}
	return s
}

// clause returns a random condition of at most so many levels of AND, OR and NOT.
func (t *soakTable) clause(r *rand.Rand, depth int) string {
	if depth == 0 {
		return fill(r, t.terms[r.IntN(len(t.terms))], 10)
	}
	left, right := t.clause(r, depth-1), t.clause(r, r.IntN(depth))
	switch r.IntN(5) {
	case 0, 1:
		return "(" + left + ") AND (" + right + ")"
	case 2, 3:
		return "(" + left + ") OR (" + right + ")"
	default:
		return "NOT (" + left + ")"
	}
}

func (t *soakTable) statement(r *rand.Rand) string {
	return fill(r, t.statements[r.IntN(len(t.statements))], 60)
}

// fill puts random numbers below n in the places of a text.
func fill(r *rand.Rand, format string, n int) string {
	places := strings.Count(format, "%d")
	if strings.Contains(format, "%[1]d") {
		places = 1
		if strings.Contains(format, "%[2]d") {
			places = 2
		}
	}
	args := make([]any, places)
	for i := range args {
		args[i] = r.IntN(n)
	}
	return fmt.Sprintf(format, args...)
}
