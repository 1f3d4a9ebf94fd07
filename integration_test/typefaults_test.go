package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// typeFault is a fault of class 4 of shared/cases/faults.md as a test of its whole kind: shapes of tables whose values or keys
// are of unusual types, followed through changes. After each change the shape's texts must be Postgres's own.
type typeFault struct {
	entry, setup string
	shapes       []typedShape
	changes      []string
}

type typedShape struct{ table, where, columns, replica string }

var typeFaults = []typeFault{
	{
		entry:  "B076",
		setup:  "CREATE TABLE bo (name text, ok bool); INSERT INTO bo VALUES ('a',true),('b',false),('c',NULL); CREATE TABLE bo2 (ok bool PRIMARY KEY, n int); INSERT INTO bo2 VALUES (true,1),(false,2)",
		shapes: []typedShape{{table: "bo"}, {table: "bo2"}, {table: "bo", where: "ok"}, {table: "bo", where: "ok IS NOT TRUE"}, {table: "bo2", replica: "full"}},
		changes: []string{
			"UPDATE bo SET name='a2' WHERE name='a'; DELETE FROM bo WHERE name='b'; INSERT INTO bo VALUES ('d',true)",
			"UPDATE bo2 SET n=n+1; DELETE FROM bo2 WHERE NOT ok; UPDATE bo SET ok = NOT ok",
		},
	},
	{
		entry:   "B078",
		setup:   "CREATE DOMAIN code5 AS char(5); CREATE TABLE cn (k char(8) PRIMARY KEY, c char(10), d code5, a char(4)[], z char(3)); INSERT INTO cn VALUES ('ab','x','q','{a,bc}',NULL),('  c','  y  ',NULL,'{}','')",
		shapes:  []typedShape{{table: "cn"}, {table: "cn", where: "c = 'x'"}, {table: "cn", where: "c = 'x   ' OR k = 'ef'"}, {table: "cn", where: "d = 'q'"}, {table: "cn", where: "z < 'n'"}, {table: "cn", where: "length(c) = 1"}, {table: "cn", where: "c LIKE 'x%'"}},
		changes: []string{"UPDATE cn SET z='n'; INSERT INTO cn VALUES ('ef','z','r',NULL,'m')", "UPDATE cn SET c='x' WHERE k='ef'; UPDATE cn SET k='abc' WHERE k='ab'", "DELETE FROM cn"},
	},
	{
		entry: "B081",
		setup: `CREATE TABLE tt (id int PRIMARY KEY, n int, x text, j jsonb, b bytea, a int[]); ALTER TABLE tt ALTER x SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL;
			INSERT INTO tt SELECT 1,0, repeat('x',20000), jsonb_build_object('k',(SELECT string_agg(md5(i::text),'') FROM generate_series(1,900) i)), decode(repeat('ab',20000),'hex'), (SELECT array_agg(i*7919%100003) FROM generate_series(1,5000) i)`,
		shapes:  []typedShape{{table: "tt"}, {table: "tt", replica: "full"}, {table: "tt", where: "n < 100"}, {table: "tt", where: "length(x) = 20001"}, {table: "tt", where: "a @> '{7919}' AND j ? 'k' AND n <> 1"}, {table: "tt", where: "length(b) > 5", columns: "id,n"}},
		changes: []string{"UPDATE tt SET n=1", "UPDATE tt SET x=x||'y'", "UPDATE tt SET id=2", "UPDATE tt SET n=200", "UPDATE tt SET n=3", "UPDATE tt SET b='', j='{}', n=4", "UPDATE tt SET a=NULL"},
	},
	{
		entry:   "B082",
		setup:   "CREATE TABLE iv (id int PRIMARY KEY, i interval); INSERT INTO iv VALUES (1,'1 year 2 mons 3 days 04:05:06.7'),(2,'-1 day +02:03'),(3,'0'),(4,'-1 year -2 mons'),(5,'1 mon -1 day'),(6,'178000000 years')",
		shapes:  []typedShape{{table: "iv"}, {table: "iv", where: "i > interval '0 days'"}, {table: "iv", where: "i = interval '30 days' OR i < 'P0D'"}},
		changes: []string{"UPDATE iv SET i=i*1, id=id+10", "UPDATE iv SET i=-i WHERE id < 16"},
	},
	{
		entry: "B084",
		setup: `CREATE TABLE bc (id int PRIMARY KEY, d date, t timestamp, z timestamptz, r tstzrange);
			INSERT INTO bc VALUES (1,'0044-03-15 BC','0044-03-15 15:40 BC','0001-12-31 23:40:28+00 BC','[2024-01-01,infinity)'),(2,'infinity','-infinity','infinity',NULL),(3,'5874897-12-31','294276-12-31 23:59:59.999999','294276-12-31 23:59:59+00','empty'),(4,'4713-01-01 BC','4713-01-01 BC','10000-01-02 03:04:05.123456+00','(,)')`,
		shapes:  []typedShape{{table: "bc"}, {table: "bc", where: "d < '2024-01-01'"}, {table: "bc", where: "t = '-infinity' OR t > '10000-01-01'"}, {table: "bc", where: "z < '0001-01-01' OR z = 'infinity'"}},
		changes: []string{"UPDATE bc SET id=id+10", "INSERT INTO bc SELECT id+100,d,t,z,r FROM bc", "UPDATE bc SET d=NULL, t='epoch' WHERE id > 100"},
	},
	{
		entry: "B086",
		setup: `CREATE TYPE m AS ENUM ('sad','very happy'); CREATE DOMAIN pos AS int CHECK (VALUE > 0); CREATE DOMAIN poss AS pos[]; CREATE TYPE cmp AS (a int, b text, c m); CREATE TYPE "Upper Type" AS ENUM ('X');
			CREATE TABLE ud (id int PRIMARY KEY, e m, ea m[], d pos, da pos[], dd poss, c cmp, ca cmp[], r int4range, mr int4multirange, ra tstzrange[], j json, jb jsonb[], h "Upper Type", x xml, bt bit varying(8), pt point, bx box[], ts tsvector, mac macaddr, l pg_lsn, ch "char", nm name, o oid);
			INSERT INTO ud VALUES (1,'sad','{sad,"very happy",NULL}',5,'{1,2}','{3}',ROW(1,'a "q", b',NULL),ARRAY[ROW(1,'x','sad')::cmp,NULL],'[1,10)','{[1,3),[5,7)}','{"[2024-01-01,2024-02-01)"}','{"a": 1, "a":2}','{"{\"k\": [1]}"}','X','<a b="c">é</a>','101','(1,2)','{(1,1),(0,0);(2,2),(1,1)}','a b','08:00:2b:01:02:03','0/16B3748','z','nm',5); INSERT INTO ud(id) VALUES (2)`,
		shapes:  []typedShape{{table: "ud"}, {table: "ud", where: "d > 4"}, {table: "ud", where: `h = 'X' AND e = 'sad'`}, {table: "ud", where: "'sad' = ANY(ea)"}, {table: "ud", where: "ca IS NULL AND x IS NULL"}, {table: "ud", where: "mac IS NOT NULL AND pt IS NOT NULL AND mr IS NOT NULL"}, {table: "ud", where: "nm = 'nm' AND o = 5"}},
		changes: []string{"UPDATE ud SET id=id+10, ea='{}', c=NULL WHERE id=1", "INSERT INTO ud SELECT id+100, e,ea,d,da,dd,c,ca,r,mr,ra,j,jb,h,x,bt,pt,bx,ts,mac,l,ch,nm,o FROM ud", "UPDATE ud SET d=1, x=NULL WHERE id > 100"},
	},
	{
		entry: "B099",
		setup: `CREATE TABLE k1 (c int, b text, a timestamptz, v int, PRIMARY KEY (b, a)); CREATE TABLE k2 (f float8 PRIMARY KEY, v int); CREATE TABLE k3 (b bytea PRIMARY KEY, v int); CREATE TABLE k4 (n numeric PRIMARY KEY, v int); CREATE TABLE k5 (j jsonb PRIMARY KEY, v int); CREATE TABLE k6 (r int4range PRIMARY KEY, v int); CREATE TABLE k7 (a int[] PRIMARY KEY, v int);
			INSERT INTO k1 VALUES (1,'x','2024-01-01 00:00:00+05',0); INSERT INTO k2 VALUES (0.1,0),('NaN',0),(1e22,0); INSERT INTO k3 VALUES ('\x00ff',0),('',0); INSERT INTO k4 VALUES (1.10,0),('NaN',0); INSERT INTO k5 VALUES ('{"a":  1}',0),('"x/y"',0); INSERT INTO k6 VALUES ('[1,5]',0); INSERT INTO k7 VALUES ('{1,NULL}',0)`,
		shapes: []typedShape{
			{table: "k1"},
			{table: "k2"},
			{table: "k3"},
			{table: "k4"},
			{table: "k5"},
			{table: "k6"},
			{table: "k7"},
			{table: "k2", where: "f = 'NaN' OR f > 1"},
			{table: "k3", where: `b > '\x'`},
			{table: "k4", where: "n = 1.100"},
			{table: "k5", where: `j @> '{"a": 1}'`},
			{table: "k7", where: "a[2] IS NULL"},
		},
		changes: []string{
			"UPDATE k1 SET v=v+1; UPDATE k2 SET v=v+1; UPDATE k3 SET v=v+1; UPDATE k4 SET v=v+1; UPDATE k5 SET v=v+1; UPDATE k6 SET v=v+1; UPDATE k7 SET v=v+1", "UPDATE k4 SET n=1.1 WHERE n=1.10",
			"DELETE FROM k1; DELETE FROM k2; DELETE FROM k3; DELETE FROM k4; DELETE FROM k5; DELETE FROM k6; DELETE FROM k7",
		},
	},
}

func TestTypeFaults(t *testing.T) {
	db := pgtest.New(t)
	srv := startServer(t, db)
	for _, f := range typeFaults {
		t.Run(f.entry, func(t *testing.T) {
			db.Exec(t, f.setup)
			folds := make([]*Fold, len(f.shapes))
			queries := make([]string, len(f.shapes))
			for i, s := range f.shapes {
				params := shape("table", s.table)
				queries[i] = "SELECT * FROM " + s.table
				if s.columns != "" {
					params.Set("columns", s.columns)
					queries[i] = "SELECT " + s.columns + " FROM " + s.table
				}
				if s.where != "" {
					params.Set("where", s.where)
					queries[i] += " WHERE " + s.where
				}
				if s.replica != "" {
					params.Set("replica", s.replica)
				}
				folds[i] = NewFold(srv.url, params)
				requireSame(t, folds[i], db, queries[i])
			}
			for _, sql := range f.changes {
				db.Exec(t, sql)
				for i, fold := range folds {
					requireSame(t, fold, db, queries[i])
					require.Zero(t, fold.Refetched, queries[i])
				}
			}
		})
	}
}
