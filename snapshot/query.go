package snapshot

import (
	"strconv"
	"strings"
	"time"

	"github.com/shapeserver/shapeserver/shape"
)

// beginSQL opens the transaction, fixes everything that the values or the reading depend on, and locks the table. None of
// it takes a snapshot: the first statement that does is coordinatesSQL.
//
// The time limits of the role or the database are for its applications (statement_timeout and the like): this package has its
// own. row_security = off makes Postgres refuse to hide rows: the stream is not filtered, so a filtered
// snapshot would never agree with it. JIT costs tens of milliseconds before the first row. search_path keeps the
// clause's functions and operators those of Postgres, whatever the role has in its path.
func beginSQL(d *shape.Definition, serverVersion, encoding string, lockTimeout time.Duration) string {
	var b strings.Builder
	b.WriteString("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;" +
		"SET LOCAL bytea_output='hex';SET LOCAL datestyle='ISO, DMY';SET LOCAL timezone='UTC';" +
		"SET LOCAL extra_float_digits=1;SET LOCAL intervalstyle='iso_8601';" +
		"SET LOCAL statement_timeout=0;SET LOCAL idle_in_transaction_session_timeout=0;" +
		"SET LOCAL standard_conforming_strings=on;SET LOCAL row_security=off;SET LOCAL jit=off;" +
		"SET LOCAL search_path=pg_catalog;")
	b.WriteString("SET LOCAL client_encoding='" + encoding + "';")
	if major(serverVersion) >= 17 {
		b.WriteString("SET LOCAL transaction_timeout=0;")
	}
	b.WriteString("SET LOCAL lock_timeout=" + strconv.FormatInt(lockTimeout.Milliseconds(), 10) + ";")
	b.WriteString("LOCK TABLE " + source(d) + " IN ACCESS SHARE MODE")
	return b.String()
}

// major reads the major version off server_version, such as "15.18 (Debian 15.18-0+deb12u1)" or "17beta1".
func major(version string) int {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	n, err := strconv.Atoi(version[:end])
	if err != nil {
		return 0
	}
	return n
}

// source names the table in a FROM or LOCK. An ordinary table stands for itself alone, because the stream carries the
// rows of its children by inheritance under their own names; a partitioned one stands for its partitions.
func source(d *shape.Definition) string {
	name := quoteIdent(d.Table.Schema) + "." + quoteIdent(d.Table.Name)
	if d.Table.Kind == 'p' {
		return name
	}
	return "ONLY " + name
}

// coordinatesSQL takes the snapshot and tells what the table is in it, in the form of fingerprint.
func coordinatesSQL(d *shape.Definition) string {
	return `SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text, c.oid::text,
  (SELECT string_agg(a.attname || chr(1) || a.atttypid || chr(1) || a.atttypmod, chr(2) ORDER BY a.attnum)
   FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) || chr(3) || coalesce(
  (SELECT string_agg(a.attname, chr(2) ORDER BY k.ord)
   FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, ord)
   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
   WHERE i.indrelid = c.oid AND i.indisprimary AND k.ord <= i.indnkeyatts), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ` + quoteLiteral(d.Table.Schema) + ` AND c.relname = ` + quoteLiteral(d.Table.Name)
}

// fingerprint renders the columns and the key of a definition's table as coordinatesSQL does.
func fingerprint(t *shape.Table) string {
	var b strings.Builder
	for i, c := range t.Columns {
		if i > 0 {
			b.WriteByte(2)
		}
		b.WriteString(c.Name)
		b.WriteByte(1)
		b.WriteString(strconv.FormatUint(uint64(c.Type.OID), 10))
		b.WriteByte(1)
		b.WriteString(strconv.FormatInt(int64(c.TypeMod), 10))
	}
	b.WriteByte(3)
	for i, k := range t.Key {
		if i > 0 {
			b.WriteByte(2)
		}
		b.WriteString(t.Columns[k].Name)
	}
	return b.String()
}

// copySQL reads the rows and ends the transaction. Columns are not cast to text: output functions give the same text
// as the stream's (protocol.md §7.1).
func copySQL(d *shape.Definition) string {
	var b strings.Builder
	b.WriteString("COPY (SELECT ")
	for i, n := range d.ColumnNames() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoteIdent(n))
	}
	b.WriteString(" FROM " + source(d))
	if d.Where != nil {
		b.WriteString(" WHERE " + d.Where.SQL())
	}
	b.WriteString(") TO STDOUT;COMMIT")
	return b.String()
}

// quoteLiteral quotes a string under standard_conforming_strings.
func quoteLiteral(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }
