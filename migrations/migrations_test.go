package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/migrations"
)

// objects lists everything of ours in the database, also the version table.
func objects(t *testing.T, db *pgtest.DB) []string {
	t.Helper()
	rows, err := db.Pool(t).Query(t.Context(), `
SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname LIKE 'shapeserver%'
UNION ALL SELECT relkind::text || ' ' || c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE (nspname = 'shapeserver' OR relname LIKE 'shapeserver%') AND relkind <> 't' ORDER BY 1`)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

func requireVersion(t *testing.T, dsn string, want uint) {
	t.Helper()
	got, dirty, err := migrations.Version(t.Context(), dsn)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.False(t, dirty)
}

func newest(t *testing.T) uint {
	t.Helper()
	v, err := migrations.Newest()
	require.NoError(t, err)
	return v
}

const insert = `INSERT INTO shapeserver.streams VALUES ('s', 1, 'o', now(), '7', 1);
INSERT INTO shapeserver.shapes VALUES ('1-1', 's', 'i', 5, 1, 'public', 't', '{a}', false, NULL, 'default', 'full', 'active', 'o', 1, now(), NULL, now())`

func TestUpDownUp(t *testing.T) {
	db := pgtest.New(t)
	newest, err := migrations.Newest()
	require.NoError(t, err)
	requireVersion(t, db.URL, 0)
	require.NoError(t, migrations.Down(t.Context(), db.URL, nil), "down with nothing there")
	for range 2 {
		require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
		require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
		requireVersion(t, db.URL, newest)
		db.Exec(t, insert)
		require.NoError(t, migrations.Down(t.Context(), db.URL, nil))
		requireVersion(t, db.URL, 0)
		assert.Empty(t, objects(t, db), "down leaves nothing")
	}
}

// The rules of doc.go: each migration can run again, is undone by its down file, and writes its number.
func TestFilesKeepTheRules(t *testing.T) {
	db := pgtest.New(t)
	ups, err := filepath.Glob("*.up.sql")
	require.NoError(t, err)
	newest, err := migrations.Newest()
	require.NoError(t, err)
	require.Len(t, ups, int(newest)) //nolint:gosec // small
	read := func(name string) string {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(b)
	}
	downs, err := filepath.Glob("*.down.sql")
	require.NoError(t, err)
	require.Len(t, downs, len(ups))
	for i, up := range ups {
		require.Equal(t, fmt.Sprintf("%04d_", i+1), up[:5])
		db.Exec(t, read(up))
		before := objects(t, db)
		requireVersion(t, db.URL, uint(i+1)) //nolint:gosec // small
		db.Exec(t, read(up))
		assert.Equal(t, before, objects(t, db), up)
		db.Exec(t, read(downs[i]))
		requireVersion(t, db.URL, uint(i)) //nolint:gosec // small
		db.Exec(t, read(downs[i]))
		db.Exec(t, read(up))
		assert.Equal(t, before, objects(t, db), up)
	}
}

// Servers that start together: one migrates, the others wait.
func TestManyAtOnce(t *testing.T) {
	db := pgtest.New(t)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { assert.NoError(t, migrations.Up(t.Context(), db.URL, nil)) })
	}
	wg.Wait()
	db.Exec(t, insert)
}

// The application's own golang-migrate table is not touched.
func TestApplicationUsesGolangMigrateToo(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL); INSERT INTO schema_migrations VALUES (42, true)")
	require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
	require.NoError(t, migrations.Down(t.Context(), db.URL, nil))
	var version int
	require.NoError(t, db.Pool(t).QueryRow(t.Context(), "SELECT version FROM schema_migrations WHERE dirty").Scan(&version))
	assert.Equal(t, 42, version)
}

// Whatever golang-migrate's version table says after an accident, Up gets to a working schema.
func TestUpRepairs(t *testing.T) {
	for what, accident := range map[string]string{
		"killed before the statements": "UPDATE shapeserver_schema_migrations SET dirty = true; DROP SCHEMA shapeserver CASCADE",
		"killed after the statements":  "UPDATE shapeserver_schema_migrations SET dirty = true; COMMENT ON SCHEMA shapeserver IS NULL",
		"schema dropped by hand":       "DROP SCHEMA shapeserver CASCADE",
		"version table dropped":        "DROP TABLE shapeserver_schema_migrations",
		"both, and the schema kept":    "DROP TABLE shapeserver_schema_migrations; COMMENT ON SCHEMA shapeserver IS NULL",
	} {
		t.Run(what, func(t *testing.T) {
			db := pgtest.New(t)
			require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
			db.Exec(t, accident)
			require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
			newest, err := migrations.Newest()
			require.NoError(t, err)
			got, _, err := migrations.Version(t.Context(), db.URL)
			require.NoError(t, err)
			require.Equal(t, newest, got)
			db.Exec(t, insert)
			require.NoError(t, migrations.Down(t.Context(), db.URL, nil))
			assert.Empty(t, objects(t, db))
		})
	}
}

// A newer release's schema is left alone, so that a rolling update can go back.
func TestNewerSchemaIsLeftAlone(t *testing.T) {
	db := pgtest.New(t)
	require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
	db.Exec(t, "COMMENT ON SCHEMA shapeserver IS 'Schema version 999'; UPDATE shapeserver_schema_migrations SET version = 999")
	require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
	requireVersion(t, db.URL, 999)
}

// Somebody holds golang-migrate's lock for ever, the one that the command takes: Up waits for it until its context ends.
func TestUpEndsWithItsContext(t *testing.T) {
	db := pgtest.New(t)
	pool := db.Pool(t)
	holder, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer holder.Release()
	id, err := database.GenerateAdvisoryLockId("/"+db.Name, "public", migrations.Table)
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_lock($1::text::int8)", id)
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- migrations.Up(ctx, db.URL, nil) }()
	for waiting := 0; waiting == 0; {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waiting))
	}
	stop := errors.New("stop")
	cancel(stop)
	require.ErrorIs(t, <-done, stop)
}

func role(t *testing.T, db *pgtest.DB) (name, dsn string) {
	t.Helper()
	name = "low_" + db.Name[len(db.Name)-10:]
	db.Exec(t, "CREATE ROLE "+name+" LOGIN PASSWORD 'p'")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, db.URL)
		require.NoError(t, err)
		defer func() { assert.NoError(t, conn.Close(ctx)) }()
		_, err = conn.Exec(ctx, "DROP OWNED BY "+name+" CASCADE; DROP ROLE "+name)
		assert.NoError(t, err)
	})
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(name, "p")
	return name, u.String()
}

// The usual rights since Postgres 15: CREATE on the database at most, nothing on schema public.
func TestRights(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	name, dsn := role(t, db)
	err := migrations.Up(t.Context(), dsn, nil)
	require.ErrorIs(t, err, migrations.ErrPrivilege)
	require.ErrorContains(t, err, `GRANT CREATE ON DATABASE "`+db.Name+`" TO "`+name+`"`)

	db.Exec(t, "GRANT CREATE ON DATABASE "+db.Name+" TO "+name)
	for range 2 {
		require.NoError(t, migrations.Up(t.Context(), dsn, nil))
		require.NoError(t, migrations.Up(t.Context(), dsn, nil))
		requireVersion(t, dsn, newest(t))
		require.NoError(t, migrations.Down(t.Context(), dsn, nil))
		assert.Empty(t, objects(t, db))
	}
	require.NoError(t, migrations.Up(t.Context(), dsn, nil))
	require.NoError(t, migrations.Up(t.Context(), db.URL, nil), "the administrator after the server")
	require.NoError(t, migrations.Down(t.Context(), db.URL, nil))
	assert.Empty(t, objects(t, db))

	// The other way round: the administrator makes the schema, the server's role only uses it.
	require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
	err = migrations.Up(t.Context(), dsn, nil)
	require.ErrorIs(t, err, migrations.ErrPrivilege)
	require.ErrorContains(t, err, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shapeserver")
	db.Exec(t, "GRANT USAGE ON SCHEMA shapeserver TO "+name+"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shapeserver TO "+name)
	require.NoError(t, migrations.Up(t.Context(), dsn, nil))
}

// An administrator may make the empty schema, for a role that may create nothing in the database.
func TestSchemaMadeByTheAdministrator(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	name, dsn := role(t, db)
	db.Exec(t, "CREATE SCHEMA shapeserver AUTHORIZATION "+name)
	require.NoError(t, migrations.Up(t.Context(), dsn, nil))
	requireVersion(t, dsn, newest(t))
}

// The stock command and we take turns, with either of its drivers, on the same table under the same lock.
func TestStockCommand(t *testing.T) {
	command := filepath.Join(t.TempDir(), "migrate")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "postgres pgx5", "-o", command, "github.com/golang-migrate/migrate/v4/cmd/migrate")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "build the migrate command: %s", out)
	for _, scheme := range []string{"postgres", "pgx5"} {
		t.Run(scheme, func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "CREATE TABLE used (id int)")
			u, err := url.Parse(db.URL)
			require.NoError(t, err)
			u.Scheme = scheme
			q := u.Query()
			q.Set("x-migrations-table", migrations.Table)
			q.Set("sslmode", "disable")
			u.RawQuery = q.Encode()
			stock := func(words ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), command, append([]string{"-path", ".", "-database", u.String()}, words...)...)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			stock("up")
			requireVersion(t, db.URL, newest(t))
			stock("down", "-all")
			requireVersion(t, db.URL, 0)
			stock("up")
			db.Exec(t, insert)
			require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
			require.NoError(t, migrations.Down(t.Context(), db.URL, nil))
			assert.Empty(t, objects(t, db))
			require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
			stock("up")
			stock("down", "-all")
			require.NoError(t, migrations.Up(t.Context(), db.URL, nil))
			stock("down", "-all")
			assert.Equal(t, []string{"i " + migrations.Table + "_pkey", "r " + migrations.Table}, objects(t, db), "the command keeps its own table")
			stock("up")
			requireVersion(t, db.URL, newest(t))
		})
	}
}
