package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Table is where the version is noted. The stock command is told so by x-migrations-table.
const Table = "shapeserver_schema_migrations"

// lockTimeout is how long a run waits for another one.
const lockTimeout = time.Minute

//go:embed *.sql
var files embed.FS

// ErrDirty reports that an earlier run was cut short, so that somebody must look before another one.
var ErrDirty = errors.New("an earlier migration did not finish")

// Newest returns the version that Up leads to.
func Newest() (uint, error) {
	names, err := fs.Glob(files, "*.up.sql")
	if err != nil {
		return 0, err
	}
	var newest uint64
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		v, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("migration file %s: %w", name, err)
		}
		newest = max(newest, v)
	}
	return uint(newest), nil
}

// Up brings the schema to the newest version. When it is there already that costs one query. The database at url needs to
// allow CREATE for the role.
func Up(ctx context.Context, url string, logger *slog.Logger) error {
	newest, err := Newest()
	if err != nil {
		return err
	}
	version, dirty, err := Version(ctx, url)
	switch {
	case err != nil:
		return err
	case dirty:
		return dirtyError(version)
	case version == newest:
		return nil
	case version > newest:
		return fmt.Errorf("the schema is at version %d, which is newer than this program knows (%d); use the newer program, "+
			"or take the schema down with it first", version, newest)
	}
	return run(ctx, url, logger, (*migrate.Migrate).Up)
}

// Down removes everything that Up made, and with it every shape.
func Down(ctx context.Context, url string, logger *slog.Logger) error {
	return run(ctx, url, logger, (*migrate.Migrate).Down)
}

// Version returns the version of the schema, 0 when there is none, and whether a migration to it was cut short.
func Version(ctx context.Context, url string) (version uint, dirty bool, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, false, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	var v int64
	err = conn.QueryRow(ctx, "SELECT version, dirty FROM "+Table+" LIMIT 1").Scan(&v, &dirty)
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &pg) && pg.Code == "42P01": // undefined_table
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("read the schema's version: %w", err)
	}
	return uint(max(v, 0)), dirty, nil
}

func dirtyError(version uint) error {
	return fmt.Errorf("%w: version %d; look what is missing in the schema shapeserver, then run "+
		"`migrate -path migrations -database '…?x-migrations-table=%s' force %d`", ErrDirty, version, Table, version)
}

// run does one run of golang-migrate under its lock.
func run(ctx context.Context, url string, logger *slog.Logger, do func(*migrate.Migrate) error) (err error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, closeDB(db)) }()
	source, err := iofs.New(files, ".")
	if err != nil {
		return fmt.Errorf("read embedded migrations: %w", err)
	}
	target, err := migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: Table})
	if err != nil {
		return explain(fmt.Errorf("prepare migration: %w", err))
	}
	m, err := migrate.NewWithInstance("embedded", source, "pgx5", target)
	if err != nil {
		return fmt.Errorf("prepare migration: %w", err)
	}
	defer func() {
		fromSource, fromTarget := m.Close()
		err = errors.Join(err, fromSource, fromTarget)
	}()
	m.LockTimeout = lockTimeout
	if logger != nil {
		m.Log = migrateLog{ctx, logger}
	}
	stop := context.AfterFunc(ctx, func() {
		select {
		case m.GracefulStop <- true:
		default:
		}
	})
	defer stop()
	var dirty migrate.ErrDirty
	switch err := do(m); {
	case err == nil, errors.Is(err, migrate.ErrNoChange):
		return nil
	case errors.As(err, &dirty):
		return dirtyError(uint(max(dirty.Version, 0)))
	default:
		return explain(fmt.Errorf("migrate: %w", err))
	}
}

func closeDB(db *sql.DB) error { return db.Close() }

// explain adds the remedy to the errors that an administrator can do something about.
func explain(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" { // insufficient_privilege
		return fmt.Errorf("%w; let the role make the schema with: GRANT CREATE ON DATABASE … TO …; and the version table with: "+
			"GRANT CREATE ON SCHEMA public TO …; or run `shapeserver migrate up` once as a role that may", err)
	}
	return err
}

// migrateLog writes golang-migrate's messages to slog.
type migrateLog struct {
	ctx    context.Context //nolint:containedctx // the library's logger takes none
	logger *slog.Logger
}

// Printf implements migrate.Logger.
func (l migrateLog) Printf(format string, v ...any) {
	l.logger.InfoContext(l.ctx, "schema migration", "message", strings.TrimSpace(fmt.Sprintf(format, v...)))
}

// Verbose implements migrate.Logger.
func (l migrateLog) Verbose() bool { return false }
