package snapshot

import (
	"strconv"
	"strings"
	"time"

	"github.com/shapeserver/shapeserver/internal/sqltext"
	"github.com/shapeserver/shapeserver/shape"
)

// beginSQL opens the transaction, fixes everything that the values or the reading depend on, and locks the table. None of
// it takes a snapshot: the first statement that does is coordinatesSQL.
//
// The time limits of the role or the database are for its applications (statement_timeout and the like): this package has its
// own. row_security = off makes Postgres refuse to hide rows: the stream is not filtered, so a filtered
// snapshot would never agree with it. JIT costs tens of milliseconds before the first row. search_path keeps the
// clause's functions and operators those of Postgres, whatever the role has in its path.
func beginSQL(d *shape.Definition, serverVersion, encoding string, opts Options) string {
	var b strings.Builder
	b.WriteString("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;" +
		"SET LOCAL bytea_output='hex';SET LOCAL datestyle='ISO, DMY';SET LOCAL timezone='UTC';" +
		"SET LOCAL extra_float_digits=1;SET LOCAL intervalstyle='iso_8601';" +
		"SET LOCAL idle_in_transaction_session_timeout=0;" +
		"SET LOCAL standard_conforming_strings=on;SET LOCAL row_security=off;SET LOCAL jit=off;" +
		"SET LOCAL search_path=pg_catalog;")
	b.WriteString("SET LOCAL client_encoding='" + encoding + "';")
	if major(serverVersion) >= 17 {
		b.WriteString("SET LOCAL transaction_timeout=0;")
	}
	// The reader itself ends what takes too long. This is for the case that it is not there any more to do so.
	ownTimeout := opts.ReadTimeout
	if ownTimeout > 0 {
		ownTimeout += rollbackTimeout
	}
	b.WriteString("SET LOCAL statement_timeout=" + milliseconds(ownTimeout) + ";")
	b.WriteString("SET LOCAL lock_timeout=" + milliseconds(opts.LockTimeout) + ";")
	b.WriteString("LOCK TABLE " + source(d) + " IN ACCESS SHARE MODE")
	return b.String()
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

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
	name := sqltext.Ident(d.Table.Schema) + "." + sqltext.Ident(d.Table.Name)
	if d.Table.Kind == 'p' {
		return name
	}
	return "ONLY " + name
}

// coordinatesSQL takes the snapshot and reads what the table is in it, as three results of one round trip: three plain
// look-ups cost Postgres a third of one query that joins them. The table is locked, so its name means the same throughout.
func coordinatesSQL(t *shape.Table) string {
	oid := strconv.FormatUint(uint64(t.OID), 10)
	return "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text, coalesce(to_regclass(" +
		sqltext.Literal(sqltext.Ident(t.Schema)+"."+sqltext.Ident(t.Name)) + ")::oid, 0);" +
		"SELECT attnum, attname, atttypid, atttypmod FROM pg_attribute WHERE attrelid = " + oid +
		" AND attnum > 0 AND NOT attisdropped ORDER BY attnum;" +
		"SELECT (indkey::int2[])[0:indnkeyatts - 1]::text FROM pg_index WHERE indrelid = " + oid + " AND indisprimary AND indimmediate"
}

// sameTable reports whether the columns and the key that coordinatesSQL gave are those of the definition's table.
func sameTable(t *shape.Table, columns, key [][][]byte) bool {
	if len(columns) != len(t.Columns) {
		return false
	}
	nums := make([]string, len(columns))
	for i, c := range t.Columns {
		row := columns[i]
		if string(row[1]) != c.Name || string(row[2]) != strconv.FormatUint(uint64(c.Type.OID), 10) ||
			string(row[3]) != strconv.FormatInt(int64(c.TypeMod), 10) {
			return false
		}
		nums[i] = string(row[0])
	}
	if len(t.Key) == 0 || len(key) == 0 {
		return len(t.Key) == 0 && len(key) == 0
	}
	want := make([]string, len(t.Key))
	for i, k := range t.Key {
		want[i] = nums[k]
	}
	_, got, _ := strings.Cut(string(key[0][0]), "{") // an int2vector's array begins at 0, which the text says: [0:1]={1,2}
	return got == strings.Join(want, ",")+"}"
}

// copySQL reads the rows and ends the transaction.
func copySQL(d *shape.Definition) string {
	var b strings.Builder
	b.WriteString("COPY (")
	writeSelect(&b, d)
	if d.Where != nil {
		b.WriteString(" WHERE " + d.Where.SQL())
	}
	b.WriteString(") TO STDOUT;COMMIT")
	return b.String()
}

// writeSelect writes the query up to its FROM. Columns are not cast to text: output functions give the same text as the
// stream's (protocol.md §7.1).
func writeSelect(b *strings.Builder, d *shape.Definition) {
	b.WriteString("SELECT ")
	for i, n := range d.ColumnNames() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(sqltext.Ident(n))
	}
	b.WriteString(" FROM " + source(d))
}
