package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/storage"
)

// record is what is kept of one shape.
type record struct {
	handle shape.Handle

	row           bool
	state         string // the row's
	oid           uint32
	schema, table string
	exists        bool // a table of that OID and name
	published     bool

	log  bool
	size int64
	bad  error // why the log cannot be served; nil when its snapshot is complete
}

// catalogue is what Postgres has.
type catalogue struct {
	records     []record
	publication bool
	allTables   bool
	members     map[uint32]string // tables named in the publication, quoted
	slot        bool
	confirmed   uint64 // the slot's confirmed_flush_lsn
}

// readRows lists the status rows of the stream, with what the catalogue says about their tables.
const readRows = `
WITH RECURSIVE pub AS (
  SELECT oid, puballtables FROM pg_catalog.pg_publication WHERE pubname = $2::text
), up(root, oid) AS (
  SELECT DISTINCT table_oid, table_oid FROM shapeserver.shapes WHERE stream_id = $1::text
  UNION ALL
  SELECT up.root, i.inhparent FROM up JOIN pg_catalog.pg_class c ON c.oid = up.oid AND c.relispartition
  JOIN pg_catalog.pg_inherits i ON i.inhrelid = up.oid
)
SELECT s.handle, s.state, s.table_oid::int8, s.table_schema, s.table_name,
  EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = s.table_oid AND c.relname = s.table_name AND n.nspname = s.table_schema),
  EXISTS (SELECT 1 FROM pub WHERE puballtables)
    OR EXISTS (SELECT 1 FROM up JOIN pg_catalog.pg_publication_rel r ON r.prrelid = up.oid JOIN pub ON pub.oid = r.prpubid WHERE up.root = s.table_oid)
    OR EXISTS (SELECT 1 FROM up JOIN pg_catalog.pg_class c ON c.oid = up.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_publication_tables t ON t.schemaname = n.nspname AND t.tablename = c.relname AND t.pubname = $2::text WHERE up.root = s.table_oid)
FROM shapeserver.shapes s WHERE s.stream_id = $1::text ORDER BY s.created_at, s.handle`

// read asks Postgres for all that it has of the stream.
func read(ctx context.Context, conn *pgx.Conn, o *Options) (*catalogue, error) {
	c := &catalogue{members: make(map[uint32]string)}
	rows, err := conn.Query(ctx, readRows, pgx.QueryExecModeExec, o.StreamID, o.Publication)
	if err == nil {
		c.records, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r record, err error) {
			r.row = true
			err = row.Scan(&r.handle, &r.state, &r.oid, &r.schema, &r.table, &r.exists, &r.published)
			return r, err
		})
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.Code == "42P01" || pgErr.Code == "3F000") {
		return nil, errors.New("the database has no schema shapeserver: no server was started on it, or its schema was removed; " +
			"shapeserver migrate up makes it")
	}
	if err != nil {
		return nil, fmt.Errorf("list status rows: %w", err)
	}
	if err := c.readPublication(ctx, conn, o.Publication); err != nil {
		return nil, fmt.Errorf("read publication: %w", err)
	}
	err = conn.QueryRow(ctx, `SELECT coalesce(confirmed_flush_lsn - '0/0'::pg_lsn, 0)::int8 FROM pg_catalog.pg_replication_slots
		WHERE slot_name = $1::text AND database = current_database()`, pgx.QueryExecModeExec, o.Slot).Scan(&c.confirmed)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("read replication slot: %w", err)
	}
	c.slot = err == nil
	return c, nil
}

func (c *catalogue) readPublication(ctx context.Context, conn *pgx.Conn, name string) error {
	rows, err := conn.Query(ctx, `SELECT p.puballtables, coalesce(r.prrelid, 0)::int8, coalesce(quote_ident(n.nspname) || '.' || quote_ident(t.relname), '')
		FROM pg_catalog.pg_publication p LEFT JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
		LEFT JOIN pg_catalog.pg_class t ON t.oid = r.prrelid LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
		WHERE p.pubname = $1::text`, pgx.QueryExecModeExec, name)
	if err != nil {
		return err
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var oid uint32
		var table string
		err := row.Scan(&c.allTables, &oid, &table)
		c.publication = true
		if oid != 0 {
			c.members[oid] = table
		}
		return struct{}{}, err
	})
	return err
}

// addLogs adds what the store has.
func (c *catalogue) addLogs(store Store) {
	at := make(map[shape.Handle]int, len(c.records))
	for i, r := range c.records {
		at[r.handle] = i
	}
	for _, h := range store.Handles() {
		log, err := store.Open(h)
		if err != nil {
			continue // gone meanwhile
		}
		i, ok := at[h]
		if !ok {
			i = len(c.records)
			c.records = append(c.records, record{handle: h})
		}
		r := &c.records[i]
		r.log, r.size = true, log.Size()
		st, _ := log.State()
		switch {
		case st.Err != nil:
			r.bad = st.Err
		case st.Phase != storage.SnapshotComplete:
			r.bad = errIncomplete
		}
	}
}

var errIncomplete = errors.New("its snapshot is not complete")
