package inspector

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// describe is the one look-up. It gives a row ('t', type) for each type that the columns need, followed or preceded by a row
// ('r', relation) for each relation found. Columns of the catalogue that only some versions have are read through
// to_jsonb, which leaves out what is not there.
//
// A DEFERRABLE primary key is none here: within a transaction two rows may have the same key, and a client that follows the
// changes in their order would lose one.
//
// pg_inherits is walked by hand because pg_partition_tree would lock every partition.
const describe = `
WITH RECURSIVE rel AS (
  SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE %[1]s
), part(root, oid) AS (
  SELECT rel.oid, i.inhrelid
  FROM rel JOIN pg_catalog.pg_inherits i ON i.inhparent = rel.oid
  WHERE rel.relkind = 'p' AND NOT i.inhdetachpending
  UNION ALL
  SELECT part.root, i.inhrelid
  FROM part JOIN pg_catalog.pg_inherits i ON i.inhparent = part.oid
  WHERE NOT i.inhdetachpending
), typ(oid) AS (
  SELECT a.atttypid
  FROM rel JOIN pg_catalog.pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
  UNION
  SELECT ref.oid
  FROM typ JOIN pg_catalog.pg_type t ON t.oid = typ.oid
  LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
  CROSS JOIN LATERAL (
    VALUES (t.typelem), (t.typbasetype), (r.rngsubtype)
    UNION ALL
    SELECT a.atttypid FROM pg_catalog.pg_attribute a
    WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
  ) ref(oid)
  WHERE ref.oid <> 0
), db AS (
  SELECT coalesce(j->>'datlocprovider', 'c') AS provider, datcollate,
         coalesce(j->>'datlocale', j->>'daticulocale') AS locale, datctype
  FROM (SELECT datcollate, datctype, to_jsonb(d) AS j FROM pg_catalog.pg_database d WHERE d.datname = current_database()) d
)
SELECT 't', json_build_object(
    'oid', t.oid::int8, 'schema', n.nspname, 'name', t.typname, 'typtype', t.typtype, 'category', t.typcategory,
    'elem', t.typelem::int8, 'base', t.typbasetype::int8, 'subtype', r.rngsubtype::int8,
    'labels', CASE WHEN t.typtype = 'e' THEN
        (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid) END,
    'attributes', CASE WHEN t.typtype = 'c' THEN
        (SELECT json_agg(quote_ident(a.attname) || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum)
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) END,
    'parts', CASE WHEN t.typtype = 'c' THEN
        (SELECT json_agg(a.atttypid::int8 ORDER BY a.attnum)
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) END
  )::text
FROM typ JOIN pg_catalog.pg_type t ON t.oid = typ.oid JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
UNION ALL
SELECT 'r', json_build_object(
    'oid', rel.oid::int8, 'files', %[2]s, 'schema', rel.nspname, 'name', rel.relname, 'kind', rel.relkind, 'persistence', rel.relpersistence,
    'default', (
      SELECT json_build_object('collated', true, 'collation', CASE WHEN db.provider = 'c' THEN db.datcollate ELSE coalesce(db.locale, db.datcollate) END,
        'ctype', CASE WHEN db.provider = 'c' THEN db.datctype END, 'provider', db.provider, 'deterministic', true) FROM db),
    'columns', (
      SELECT json_agg(json_build_object(
          'num', a.attnum, 'written', CASE WHEN a.xmin::text = ANY (w.xids) THEN a.xmin::text ELSE '' END, 'name', a.attname, 'type', a.atttypid::int8, 'typmod', a.atttypmod, 'dims', a.attndims,
          'not_null', a.attnotnull, 'generated', a.attgenerated <> '',
          'collated', a.attcollation <> 0,
          'collation', CASE
              WHEN co.collprovider <> 'd' THEN coalesce(to_jsonb(co)->>'colllocale', to_jsonb(co)->>'colliculocale', to_jsonb(co)->>'collcollate')
              WHEN db.provider = 'c' THEN db.datcollate
              ELSE coalesce(db.locale, db.datcollate) END,
          'ctype', CASE
              WHEN co.collprovider = 'c' THEN to_jsonb(co)->>'collctype'
              WHEN co.collprovider = 'd' AND db.provider = 'c' THEN db.datctype END,
          'provider', CASE WHEN co.collprovider = 'd' THEN db.provider ELSE co.collprovider::text END,
          'deterministic', co.collisdeterministic
        ) ORDER BY a.attnum)
      FROM pg_catalog.pg_attribute a CROSS JOIN db CROSS JOIN (SELECT %[3]s AS xids) w LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
      WHERE a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped),
    'key', (
      SELECT json_agg(k.attnum ORDER BY k.ord)
      FROM pg_catalog.pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, ord)
      WHERE i.indrelid = rel.oid AND i.indisprimary AND i.indimmediate AND k.ord <= i.indnkeyatts),
    'partitions', (SELECT json_agg(part.oid::int8 ORDER BY part.oid) FROM part WHERE part.root = rel.oid),
    'unreplicated', (
      SELECT c.relname FROM part JOIN pg_catalog.pg_class c ON c.oid = part.oid
      WHERE part.root = rel.oid AND (c.relkind NOT IN ('r', 'p') OR c.relpersistence <> 'p')
      ORDER BY c.oid LIMIT 1)
  )::text
FROM rel`

var (
	describeByName = fmt.Sprintf(describe, `n.nspname = $1::text AND c.relname = $2::text`, files("rel.oid"), rewriters("rel.oid"))
	describeByOID  = fmt.Sprintf(describe, `c.oid = ANY ($1::oid[])`, files("rel.oid"), rewriters("rel.oid"))
)

// ancestors walks from a partition to its root. Like layouts, it gives the snapshot that it read under with each row, and is a
// plain query of the catalogue's tables: functions such as pg_partition_ancestors read caches, which may be older.
const ancestors = `
WITH RECURSIVE up(oid, depth) AS (
  SELECT $1::oid, 0
  UNION ALL
  SELECT i.inhparent, up.depth + 1
  FROM up JOIN pg_catalog.pg_inherits i ON i.inhrelid = up.oid AND NOT i.inhdetachpending
  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
  WHERE c.relispartition
)
SELECT oid::int8, pg_catalog.pg_current_snapshot()::text FROM up ORDER BY depth`

// layouts lists the columns of primary keys, what the catalogue says of every column, and the files.
var layouts = fmt.Sprintf(`
SELECT o.oid::int8,
  coalesce((SELECT array_agg(a.attname::text ORDER BY k.ord)
    FROM pg_catalog.pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, ord)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = o.oid AND i.indisprimary AND i.indimmediate AND k.ord <= i.indnkeyatts), '{}'),
  coalesce((SELECT json_object_agg(a.attname, json_build_object('number', a.attnum,
      'written', CASE WHEN a.xmin::text = ANY (w.xids) THEN a.xmin::text ELSE '' END))
    FROM pg_catalog.pg_attribute a CROSS JOIN (SELECT %[2]s AS xids) w
    WHERE a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped), '{}')::text,
  coalesce(%[1]s, ''), pg_catalog.pg_current_snapshot()::text
FROM unnest($1::oid[]) o(oid)`, files("o.oid"), rewriters("o.oid"))

// down is the head of a query over a table and its partitions.
func down(oid string) string {
	return `WITH RECURSIVE down(oid) AS (
      SELECT ` + oid + `
      UNION ALL
      SELECT i.inhrelid FROM down JOIN pg_catalog.pg_class c ON c.oid = down.oid AND c.relkind = 'p'
      JOIN pg_catalog.pg_inherits i ON i.inhparent = down.oid AND NOT i.inhdetachpending
    ) `
}

// rewriters lists the transactions that last changed what the catalogue says of a table's files: its own entry, and those of
// its indexes and TOAST tables, which hardly anything else changes. One that also wrote a column's entry may have computed
// its values anew (ALTER TABLE … TYPE … USING).
func rewriters(oid string) string {
	return "(" + down(oid) + `SELECT coalesce(array_agg(DISTINCT r.xmin::text), '{}') FROM down JOIN pg_catalog.pg_class c ON c.oid = down.oid
    CROSS JOIN LATERAL (SELECT c.oid UNION ALL SELECT c.reltoastrelid UNION ALL SELECT i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid) f(oid)
    JOIN pg_catalog.pg_class r ON r.oid = f.oid)`
}

// files names the files that hold a table's rows, or those of its partitions. A change of a column's type writes them anew, but
// VACUUM FULL does, too.
func files(oid string) string {
	return "(" + down(oid) + `SELECT md5(string_agg(c.relfilenode::text, ',' ORDER BY c.oid)) FROM down JOIN pg_catalog.pg_class c ON c.oid = down.oid AND c.relkind = 'r')`
}

// awaited tells whether commits wait for who reads from a slot. To roles that may not see others' sessions it tells so of
// their own.
const awaited = `
SELECT EXISTS (
  SELECT 1 FROM pg_catalog.pg_replication_slots s JOIN pg_catalog.pg_stat_replication r ON r.pid = s.active_pid
  WHERE s.slot_name = $1 AND r.sync_state IN ('sync', 'quorum'))`

// typeRow, columnRow and relationRow are the JSON that describe gives.
type typeRow struct {
	OID        uint32   `json:"oid"`
	Schema     string   `json:"schema"`
	Name       string   `json:"name"`
	Typtype    string   `json:"typtype"`
	Category   string   `json:"category"`
	Elem       uint32   `json:"elem"`
	Base       uint32   `json:"base"`
	Subtype    uint32   `json:"subtype"`
	Labels     []string `json:"labels"`
	Attributes []string `json:"attributes"`
	Parts      []uint32 `json:"parts"` // types of the attributes
}

type columnRow struct {
	Num           int16  `json:"num"`
	Written       string `json:"written"`
	Name          string `json:"name"`
	Type          uint32 `json:"type"`
	TypeMod       int32  `json:"typmod"`
	Dims          int    `json:"dims"`
	NotNull       bool   `json:"not_null"`
	Generated     bool   `json:"generated"`
	Collated      bool   `json:"collated"`
	Collation     string `json:"collation"`
	Ctype         string `json:"ctype"`
	Provider      string `json:"provider"`
	Deterministic bool   `json:"deterministic"`
}

type relationRow struct {
	Files        string      `json:"files"`
	OID          uint32      `json:"oid"`
	Schema       string      `json:"schema"`
	Name         string      `json:"name"`
	Kind         string      `json:"kind"`
	Persistence  string      `json:"persistence"`
	Columns      []columnRow `json:"columns"`
	Default      columnRow   `json:"default"` // the database's collation, as a column would have it
	Key          []int16     `json:"key"`
	Partitions   []uint32    `json:"partitions"`
	Unreplicated string      `json:"unreplicated"` // a partition whose changes are not in the stream
}

// noJIT turns compilation off for the rest of a transaction. Postgres expects far more of describe than there is when asked
// for some hundred tables, and would compile for seconds what runs for milliseconds.
const noJIT = `SELECT pg_catalog.set_config('jit', 'off', true)`

// fetch runs one of the describe queries, in one round trip and one transaction with noJIT.
func (in *Inspector) fetch(ctx context.Context, sql string, args ...any) (_ []relationRow, _ map[uint32]typeRow, err error) {
	var batch pgx.Batch
	batch.Queue(noJIT)
	batch.Queue(sql, args...)
	results := in.pool.SendBatch(ctx, &batch)
	defer func() {
		if cerr := results.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("read catalogue: %w", cerr)
		}
	}()
	if _, err := results.Exec(); err != nil {
		return nil, nil, fmt.Errorf("read catalogue: %w", err)
	}
	rows, err := results.Query()
	if err != nil {
		return nil, nil, fmt.Errorf("read catalogue: %w", err)
	}
	defer rows.Close()
	var rels []relationRow
	types := make(map[uint32]typeRow)
	for rows.Next() {
		var kind, data string
		if err := rows.Scan(&kind, &data); err != nil {
			return nil, nil, fmt.Errorf("read catalogue: %w", err)
		}
		if kind == "t" {
			var t typeRow
			if err := json.Unmarshal([]byte(data), &t); err != nil {
				return nil, nil, fmt.Errorf("read catalogue: type: %w", err)
			}
			types[t.OID] = t
			continue
		}
		var r relationRow
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			return nil, nil, fmt.Errorf("read catalogue: relation: %w", err)
		}
		rels = append(rels, r)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("read catalogue: %w", err)
	}
	return rels, types, nil
}
