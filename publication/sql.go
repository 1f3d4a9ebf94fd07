package publication

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/internal/sqltext"
)

// publishAll is what every table needs, as publication parameters.
const publishAll = `publish = 'insert, update, delete, truncate', publish_via_partition_root = false`

// tableName is a table's name as the catalogue spells it.
type tableName struct{ schema, table string }

// String returns the name as protocol.md's messages have it: public.items.
func (n tableName) String() string { return n.schema + "." + n.table }

func (n tableName) quoted() string { return sqltext.Ident(n.schema) + "." + sqltext.Ident(n.table) }

func containsPublication(message string) bool { return strings.Contains(message, "publication") }

// view is what the catalogue says about the publication and some tables, in one snapshot.
type view struct {
	Publication *struct {
		AllTables bool     `json:"all"`
		Complete  bool     `json:"complete"` // all four operations
		ViaRoot   bool     `json:"via_root"`
		Members   []uint32 `json:"members"` // tables named in it
	} `json:"publication"`
	Relations   []relation `json:"relations"`
	Synchronous bool       `json:"synchronous"` // commits may wait for a standby, in the stream and not to be seen
}

// relation is a table that was asked about, or a partition below one.
type relation struct {
	Root      uint32 `json:"root"` // the table that was asked about
	OID       uint32 `json:"oid"`
	Schema    string `json:"schema"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Identity  string `json:"identity"`
	Partition bool   `json:"partition"`
	Published bool   `json:"published"` // itself, by an ancestor, by its schema, or with all tables
	Member    bool   `json:"member"`    // named in the publication
	Filtered  bool   `json:"filtered"`  // with a row filter or a column list
	Attached  string `json:"attached"`  // the transaction that made it a partition of the one above; of the root its place in the publication: pg_publication_rel.oid, and pg_publication.xmin, which changes with the options
	Born      bool   `json:"born"`      // made as a partition, so that it brought no rows
}

func (r *relation) name() tableName { return tableName{r.Schema, r.Name} }
func (r *relation) full() bool      { return r.Identity == "f" }

// byRoot sorts relations by the table that was asked about.
func byRoot(relations []relation) map[uint32][]relation {
	below := make(map[uint32][]relation)
	for _, r := range relations {
		below[r.Root] = append(below[r.Root], r)
	}
	return below
}

// lookSQL walks down from each table to its partitions, and up from each table to what may publish it. Functions that
// do the same (pg_partition_tree) would lock the tables. Schemas can be published from Postgres 15 on. A partition was born
// as one when its row type is as old as its place in the tree: pg_type's row stays, while that of pg_class is written anew
// for many reasons. A table that was made and attached in one transaction is as old, but attaching it wrote all its columns
// anew, in a later command (ATExecAttachPartition marks them as inherited), and it may have brought rows.
func lookSQL(major int) string {
	bySchema := "false"
	if major >= 15 {
		bySchema = `EXISTS (SELECT 1 FROM up JOIN pg_catalog.pg_class uc ON uc.oid = up.oid
        JOIN pg_catalog.pg_publication_namespace pn ON pn.pnnspid = uc.relnamespace
        JOIN pub ON pub.oid = pn.pnpubid WHERE up.root = down.root)`
	}
	return `
WITH RECURSIVE pub AS (
  SELECT *, xmin FROM pg_catalog.pg_publication WHERE pubname = $1::text
), ` + downSQL("$2") + `, up(root, oid) AS (
  SELECT o, o FROM unnest($2::oid[]) o
  UNION ALL
  SELECT up.root, i.inhparent
  FROM up JOIN pg_catalog.pg_class c ON c.oid = up.oid AND c.relispartition
  JOIN pg_catalog.pg_inherits i ON i.inhrelid = up.oid
)
SELECT json_build_object(
  'synchronous', current_setting('synchronous_standby_names') <> '',
  'publication', (SELECT json_build_object('all', puballtables,
      'complete', pubinsert AND pubupdate AND pubdelete AND pubtruncate, 'via_root', pubviaroot,
      'members', (SELECT json_agg(pr.prrelid::int8) FROM pg_catalog.pg_publication_rel pr WHERE pr.prpubid = pub.oid)) FROM pub),
  'relations', (SELECT json_agg(json_build_object('root', down.root::int8, 'oid', c.oid::int8, 'schema', n.nspname, 'name', c.relname,
      'kind', c.relkind, 'identity', c.relreplident, 'partition', c.relispartition,
      'attached', CASE WHEN down.oid = down.root THEN concat(pr.oid, ' ', (SELECT pub.xmin FROM pub)) ELSE down.attached END, 'born', ` + bornSQL + `,
      'published', EXISTS (SELECT 1 FROM pub WHERE puballtables)
        OR EXISTS (SELECT 1 FROM up JOIN pg_catalog.pg_publication_rel pr ON pr.prrelid = up.oid JOIN pub ON pub.oid = pr.prpubid WHERE up.root = down.root)
        OR ` + bySchema + `,
      'member', pr.oid IS NOT NULL,
      'filtered', coalesce(to_jsonb(pr)->>'prqual', to_jsonb(pr)->>'prattrs') IS NOT NULL))
    FROM down JOIN pg_catalog.pg_class c ON c.oid = down.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_type t ON t.oid = c.reltype
    LEFT JOIN pg_catalog.pg_publication_rel pr ON pr.prrelid = c.oid AND pr.prpubid = (SELECT oid FROM pub)))::text`
}

// downSQL is the WITH query of tables and the partitions below them, each with the transaction that made it a partition of the
// one above. tables is the parameter with the tables' OIDs.
func downSQL(tables string) string {
	return `down(root, oid, attached) AS (
  SELECT o, o, '' FROM unnest(` + tables + `::oid[]) o
  UNION ALL
  SELECT down.root, i.inhrelid, i.xmin::text
  FROM down JOIN pg_catalog.pg_class c ON c.oid = down.oid AND c.relkind = 'p'
  JOIN pg_catalog.pg_inherits i ON i.inhparent = down.oid AND NOT i.inhdetachpending
)`
}

// bornSQL is whether a relation below another was made as its partition: c is its pg_class, t its pg_type, down as in lookSQL.
const bornSQL = `t.xmin::text = down.attached AND EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.xmin = t.xmin AND a.cmin = t.cmin)`

// session is a connection in Run's hands.
type session struct {
	conn *pgx.Conn
	pub  string
}

// stepTimeout bounds one statement or transaction, on top of the server's own limits.
const stepTimeout = 10 * time.Second

// look reads what the catalogue says now.
func (s *session) look(ctx context.Context, oids []uint32) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var text string
	row := s.conn.QueryRow(ctx, lookSQL(s.major()), pgx.QueryExecModeExec, s.pub, sqltext.OIDs(oids))
	if err := row.Scan(&text); err != nil {
		return nil, fmt.Errorf("read publication: %w", err)
	}
	var v view
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("read publication: %w", err)
	}
	return &v, nil
}

func (s *session) major() int {
	major, _ := parseVersion(s.conn.PgConn().ParameterStatus("server_version"))
	return major
}

// parseVersion reads the first two numbers of server_version, such as "15.18 (Debian 15.18-0+deb12u1)" or "17beta1".
func parseVersion(version string) (major, minor int) {
	number := func(s string) (int, string) {
		end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(s)
		}
		n, err := strconv.Atoi(s[:end])
		if err != nil {
			return 0, s[end:]
		}
		return n, s[end:]
	}
	major, rest := number(version)
	if rest, ok := strings.CutPrefix(rest, "."); ok {
		minor, _ = number(rest)
	}
	return major, minor
}

// transact runs statements as one transaction, in one round trip when all goes well. The limits of the role are not
// for us; SET LOCAL leaves nothing behind in a pooler.
func (s *session) transact(ctx context.Context, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	pg := s.conn.PgConn()
	sql := "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;SET LOCAL statement_timeout=8000;" + strings.Join(statements, ";") + ";COMMIT"
	_, err := pg.Exec(ctx, sql).ReadAll()
	if err != nil && !pg.IsClosed() && pg.TxStatus() != 'I' {
		if _, rollErr := pg.Exec(ctx, "ROLLBACK").ReadAll(); rollErr != nil {
			return fmt.Errorf("roll back after %w: %w", err, rollErr)
		}
	}
	return err
}

// exec runs statements as they are.
func (s *session) exec(ctx context.Context, sql string) ([]*pgconn.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return s.conn.PgConn().Exec(ctx, sql).ReadAll()
}

func setLockTimeout(d time.Duration) string {
	return "SET LOCAL lock_timeout=" + strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
