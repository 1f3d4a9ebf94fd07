package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	driver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

//go:embed *.sql
var files embed.FS

const (
	// Schema is the schema that the migrations make.
	Schema = "shapeserver"
	// Table is golang-migrate's version table, in the first schema of the search path in which the role may create
	// tables, or else in Schema.
	Table = "shapeserver_schema_migrations"
)

// lockTimeout bounds the wait for another server that is migrating.
const lockTimeout = 2 * time.Minute

// ErrPrivilege reports that the role may not make the schema. The error's text names the GRANT; nothing else helps.
var ErrPrivilege = errors.New("missing privilege for the schema " + Schema)

// Version returns the version of the schema, 0 when there is none, and whether a migration was cut short. Up finishes
// one that was.
func Version(ctx context.Context, url string) (version uint, dirty bool, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, false, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // best effort: it was only read from
	st, err := look(ctx, conn)
	if err != nil {
		return 0, false, err
	}
	for _, table := range []string{Table, Schema + "." + Table} {
		err := conn.QueryRow(ctx, "SELECT dirty FROM "+table+" LIMIT 1", pgx.QueryExecModeExec).Scan(&dirty)
		var pgErr *pgconn.PgError
		switch {
		case err == nil:
			return st.version, dirty, nil
		case errors.Is(err, pgx.ErrNoRows), errors.As(err, &pgErr): // not there, or not ours to read
		default:
			return 0, false, fmt.Errorf("read version table: %w", err)
		}
	}
	return st.version, false, nil
}

var versionComment = regexp.MustCompile(`version (\d+)$`)

// state is what the schema says of itself.
type state struct {
	version uint
	usable  bool // the role has the rights that status needs; true when there is no schema
}

// look reads the state in one query, for which no right is needed.
func look(ctx context.Context, conn *pgx.Conn) (state, error) {
	row := conn.QueryRow(ctx, `
SELECT coalesce(obj_description(n.oid, 'pg_namespace'), ''), has_schema_privilege(n.oid, 'USAGE') AND NOT EXISTS (
  SELECT 1 FROM pg_catalog.pg_class c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) privilege
  WHERE c.relnamespace = n.oid AND c.relname IN ('shapes', 'streams', 'partitions') AND NOT has_table_privilege(c.oid, privilege))
FROM pg_catalog.pg_namespace n WHERE n.nspname = $1::text`, pgx.QueryExecModeExec, Schema)
	var comment string
	st := state{usable: true}
	if err := row.Scan(&comment, &st.usable); errors.Is(err, pgx.ErrNoRows) {
		return st, nil
	} else if err != nil {
		return state{}, fmt.Errorf("read schema version: %w", err)
	}
	if match := versionComment.FindStringSubmatch(comment); match != nil {
		v, err := strconv.ParseUint(match[1], 10, 31)
		if err != nil {
			return state{}, fmt.Errorf("read schema version: %w", err)
		}
		st.version = uint(v)
	}
	return st, nil
}

// lookOnce is look on a connection of its own.
func lookOnce(ctx context.Context, url string) (st state, role string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return state{}, "", fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // best effort: it was only read from
	st, err = look(ctx, conn)
	return st, conn.Config().User, err
}

// Newest returns the version that Up brings the schema to.
func Newest() (uint, error) {
	names, err := fs.Glob(files, "*.up.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	var newest uint64
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		v, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return 0, fmt.Errorf("migration file %s: %w", name, err)
		}
		newest = max(newest, v)
	}
	return uint(newest), nil
}

// Up brings the schema to the newest version. At that version, or at a newer one that another release made, it does
// nothing but one query. url must not lead through a transaction-mode pooler. Missing rights, also to use what is
// there, give an ErrPrivilege. A nil logger discards.
func Up(ctx context.Context, url string, logger *slog.Logger) error {
	newest, err := Newest()
	if err != nil {
		return err
	}
	st, role, err := lookOnce(ctx, url)
	if err != nil {
		return err
	}
	if st.version >= newest {
		if !st.usable {
			return errUse(role)
		}
		return nil
	}
	return withMigrate(ctx, url, logger, true, func(m *migrate.Migrate) error {
		if err := settle(m, st.version); err != nil {
			return err
		}
		if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return nil
	})
}

// Down removes everything that Up or the CLI made: the schema with all status rows, and the version table.
func Down(ctx context.Context, url string, logger *slog.Logger) error {
	st, _, err := lookOnce(ctx, url)
	if err != nil {
		return err
	}
	if st.version > 0 {
		err := withMigrate(ctx, url, logger, false, func(m *migrate.Migrate) error {
			if err := settle(m, st.version); err != nil {
				return err
			}
			if err := m.Down(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // best effort: everything is committed
	// CASCADE covers a version table within the schema, the fallback of roles that may create nothing elsewhere.
	if _, err := conn.Exec(ctx, "DROP TABLE IF EXISTS "+Table+"; DROP SCHEMA IF EXISTS "+Schema+" CASCADE"); err != nil {
		return fmt.Errorf("drop version table: %w", explain(err, conn.Config().User, conn.Config().Database))
	}
	return nil
}

// settle makes golang-migrate's version table agree with the schema. They differ when a migration was killed in the
// middle (the table says "dirty"), when the schema was dropped by hand, or when the CLI kept its version elsewhere.
// Each migration is one transaction, so the schema is at exactly the version that it says.
func settle(m *migrate.Migrate, now uint) error {
	table, dirty, err := m.Version()
	switch {
	case errors.Is(err, migrate.ErrNilVersion):
		table = 0
	case err != nil:
		return fmt.Errorf("read version table: %w", err)
	}
	if table == now && !dirty {
		return nil
	}
	version := int(now) //nolint:gosec // at most 31 bits
	if now == 0 {
		version = database.NilVersion
	}
	if err := m.Force(version); err != nil {
		return fmt.Errorf("set version table: %w", err)
	}
	return nil
}

// withMigrate runs f with a golang-migrate instance, whose blocking calls end with ctx.
func withMigrate(ctx context.Context, url string, logger *slog.Logger, create bool, f func(*migrate.Migrate) error) (err error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("parse database URL: %w", err)
	}
	// golang-migrate takes no context, so its connections are cut when ours ends.
	conns := &dialed{}
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return conns.add(c), err
	}
	defer context.AfterFunc(ctx, conns.closeAll)()
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }() // closed by the driver when all goes well
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()

	schema, err := versionTableSchema(ctx, db, create)
	if err != nil {
		return explain(err, cfg.User, cfg.Database)
	}
	target, err := driver.WithInstance(db, &driver.Config{
		MigrationsTable: Table,
		SchemaName:      schema,
		// The CLI takes the name with the slash of the URL's path; the same name makes it the same lock.
		DatabaseName: "/" + cfg.Database,
	})
	if err != nil {
		return fmt.Errorf("open version table: %w", explain(err, cfg.User, cfg.Database))
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		return fmt.Errorf("open migrations: %w", err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", target)
	if err != nil {
		return fmt.Errorf("open migrations: %w", err)
	}
	m.LockTimeout = lockTimeout
	m.Log = &migrateLog{ctx: ctx, logger: logger}
	defer func() {
		sourceErr, targetErr := m.Close()
		if err == nil {
			err = errors.Join(sourceErr, targetErr)
		}
	}()
	if err := f(m); err != nil {
		return fmt.Errorf("migrate: %w", explain(err, cfg.User, cfg.Database))
	}
	return nil
}

// versionTableSchema finds where the version table is or may be made. A role that may create a schema but no table in
// the search path, as is usual since Postgres 15, gets it in our own schema, which is then made first.
func versionTableSchema(ctx context.Context, db *sql.DB, create bool) (string, error) {
	var current sql.NullString
	var there, may bool
	row := db.QueryRowContext(ctx, `SELECT current_schema(), to_regclass('`+Table+`') IS NOT NULL,
coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)`)
	if err := row.Scan(&current, &there, &may); err != nil {
		return "", fmt.Errorf("find version table: %w", err)
	}
	if current.Valid && (there || may) {
		return current.String, nil
	}
	if create {
		if _, err := db.ExecContext(ctx, `DO $$ BEGIN IF to_regnamespace('`+Schema+`') IS NULL THEN CREATE SCHEMA `+Schema+`; END IF; END $$`); err != nil {
			return "", fmt.Errorf("make schema: %w", err)
		}
	}
	return Schema, nil
}

// dialed holds open network connections.
type dialed struct {
	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

func (d *dialed) add(c net.Conn) net.Conn {
	if c == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = c.Close() // best effort: it was never used
	}
	d.conns = append(d.conns, c)
	return c
}

func (d *dialed) closeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, c := range d.conns {
		_ = c.Close() // best effort: this is how a blocked call is woken
	}
}

// migrateLog is golang-migrate's logger.
type migrateLog struct {
	ctx    context.Context //nolint:containedctx // golang-migrate's interface has no place for it
	logger *slog.Logger
}

// Printf implements migrate.Logger.
func (l *migrateLog) Printf(format string, v ...any) {
	if l.logger != nil {
		l.logger.InfoContext(l.ctx, "migration", "step", strings.TrimSpace(fmt.Sprintf(format, v...)))
	}
}

// Verbose implements migrate.Logger.
func (l *migrateLog) Verbose() bool { return false }
