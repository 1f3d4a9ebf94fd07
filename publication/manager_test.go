package publication_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/internal/pgtest"
	"github.com/shapeserver/shapeserver/publication"
	"github.com/shapeserver/shapeserver/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a database with a Manager that runs.
type fixture struct {
	*publication.Manager
	db    *pgtest.DB
	admin *pgxpool.Pool
	in    *inspector.Inspector
	lost  chan lost
	stop  func()
}

type lost struct {
	oid    uint32
	reason shape.Reason
}

const name = "Pub 1"

func start(t *testing.T, db *pgtest.DB, url string, opts publication.Options) *fixture {
	t.Helper()
	f := prepare(t, db, url, opts)
	f.run(t)
	return f
}

func prepare(t *testing.T, db *pgtest.DB, url string, opts publication.Options) *fixture {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	f := &fixture{db: db, admin: db.Pool(t), lost: make(chan lost, 1000)}
	f.in = inspector.New(f.admin, inspector.Options{})
	opts.OnLost = func(oid uint32, reason shape.Reason) { f.lost <- lost{oid, reason} }
	f.Manager = publication.New(pool, name, opts)
	return f
}

func (f *fixture) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	stopping := errors.New("stopping")
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel(stopping)
		assert.ErrorIs(t, <-done, stopping)
	})
	t.Cleanup(f.stop)
}

func (f *fixture) table(t *testing.T, table string) *shape.Table {
	t.Helper()
	tab, err := f.in.Table(t.Context(), "public", table, 0)
	require.NoError(t, err)
	return tab
}

func (f *fixture) published(t *testing.T) []string {
	t.Helper()
	rows, err := f.admin.Query(t.Context(), "SELECT c.relname FROM pg_publication_rel JOIN pg_class c ON c.oid = prrelid ORDER BY 1")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func (f *fixture) waitPublished(t *testing.T, want ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		if len(want) == 0 {
			assert.Empty(c, f.published(t))
			return
		}
		assert.Equal(c, want, f.published(t))
	}, 10*time.Second, 10*time.Millisecond)
}

func (f *fixture) identity(t *testing.T, table string) string {
	t.Helper()
	var id string
	require.NoError(t, f.admin.QueryRow(t.Context(), "SELECT relreplident::text FROM pg_class WHERE oid = $1::text::regclass", table).Scan(&id))
	return id
}

// acquire starts an Acquire and returns its result.
func (f *fixture) acquire(t *testing.T, h shape.Handle, tab *shape.Table) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() { done <- f.Acquire(ctx, h, tab) }()
	return done
}

func (f *fixture) begin(t *testing.T, sql string) pgx.Tx {
	t.Helper()
	tx, err := f.admin.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), sql)
	require.NoError(t, err)
	return tx
}

// major returns the server's major version.
func (f *fixture) major(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, f.admin.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&n))
	return n
}

func requirePending(t *testing.T, done <-chan error, d time.Duration) {
	t.Helper()
	select {
	case err := <-done:
		require.Failf(t, "did not wait", "%v", err)
	case <-time.After(d):
	}
}

func TestTableIsCounted(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE p1 (id int PRIMARY KEY, c text); CREATE TABLE p2 (id int)`)
	f := start(t, db, db.URL, publication.Options{Linger: 20 * time.Millisecond})
	p1 := f.table(t, "p1")
	require.NoError(t, f.Acquire(t.Context(), "1-1", p1))
	assert.Equal(t, []string{"p1"}, f.published(t))
	assert.Equal(t, "f", f.identity(t, "p1"))
	require.NoError(t, f.Acquire(t.Context(), "1-1", p1), "twice for one shape counts once")
	require.NoError(t, f.Acquire(t.Context(), "1-2", p1))
	require.NoError(t, f.Acquire(t.Context(), "1-3", f.table(t, "p2")))
	f.Release("1-2")
	f.Release("1-2")
	f.Release("9-9")
	f.Release("1-3")
	f.waitPublished(t, "p1")
	f.Release("1-1")
	f.waitPublished(t)
	assert.Equal(t, "f", f.identity(t, "p1"), "the identity stays")
	require.NoError(t, f.Acquire(t.Context(), "1-4", p1), "and again")
	assert.Equal(t, []string{"p1"}, f.published(t))
}

// A table that is ready needs no database, also while it lingers.
func TestReadyTableNeedsNoDatabase(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE p1 (id int PRIMARY KEY)")
	f := start(t, db, db.URL, publication.Options{Linger: time.Hour})
	p1 := f.table(t, "p1")
	require.NoError(t, f.Acquire(t.Context(), "1-1", p1))
	f.Release("1-1")
	// Whoever wants to change the publication waits now.
	f.begin(t, `ALTER PUBLICATION "`+name+`" SET (publish = 'insert')`)
	require.NoError(t, f.Acquire(t.Context(), "1-2", p1))
}

// B026: an open writer is waited for, its later self and other tables' shapes are not held up.
func TestOpenWriterIsWaitedFor(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE gap (id int PRIMARY KEY, v text); ALTER TABLE gap REPLICA IDENTITY FULL;
CREATE TABLE other (id int PRIMARY KEY)`)
	f := start(t, db, db.URL, publication.Options{})
	tx := f.begin(t, "INSERT INTO gap VALUES (1, 'open')")
	done := f.acquire(t, "1-1", f.table(t, "gap"))
	f.waitPublished(t, "gap")
	requirePending(t, done, 150*time.Millisecond)
	require.NoError(t, f.Acquire(t.Context(), "1-2", f.table(t, "other")), "I7")
	_, err := f.admin.Exec(t.Context(), "INSERT INTO gap VALUES (2, 'others write on')")
	require.NoError(t, err)
	requirePending(t, done, 50*time.Millisecond)
	f.begin(t, "INSERT INTO gap VALUES (3, 'began later')")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
}

// After a transaction that had written before the table was published, servers without commit 4909b38af0 (17.4, 16.8,
// 15.12, 14.17 and before) leave out every later change of the table, unless the table joins the publication once more.
func TestLaterChangesAreInTheStream(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE gap (id int PRIMARY KEY); ALTER TABLE gap REPLICA IDENTITY FULL")
	f := start(t, db, db.URL, publication.Options{})
	require.NoError(t, f.Check(t.Context())) // makes the publication, which must be older than the slot
	slot := "s_" + db.Name[len(db.Name)-10:]
	db.Exec(t, "SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
	tx := f.begin(t, "INSERT INTO gap VALUES (1)")
	done := f.acquire(t, "1-1", f.table(t, "gap"))
	f.waitPublished(t, "gap")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	db.Exec(t, "INSERT INTO gap VALUES (7)")
	// One call is one decoding session, as one connection of the stream is.
	rows, err := f.admin.Query(t.Context(), "SELECT data FROM pg_logical_slot_get_binary_changes($1::text, NULL, NULL, "+
		"'proto_version', '1', 'publication_names', $2::text)", slot, `"`+name+`"`)
	require.NoError(t, err)
	messages, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	require.NoError(t, err)
	var values []string
	for _, m := range messages {
		if m[0] == 'I' { // relation OID, 'N', one column, 't', its length: then the text
			values = append(values, string(m[1+4+1+2+1+4:]))
		}
	}
	assert.Contains(t, values, "7")
}

func TestPreparedTransactionIsWaitedFor(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE gap (id int PRIMARY KEY); ALTER TABLE gap REPLICA IDENTITY FULL")
	f := start(t, db, db.URL, publication.Options{})
	var max string
	require.NoError(t, f.admin.QueryRow(t.Context(), "SHOW max_prepared_transactions").Scan(&max))
	if max == "0" {
		t.Skip("the server has max_prepared_transactions = 0")
	}
	id := "gid_" + db.Name
	tx := f.begin(t, "INSERT INTO gap VALUES (1)")
	done := f.acquire(t, "1-1", f.table(t, "gap"))
	f.waitPublished(t, "gap")
	requirePending(t, done, 50*time.Millisecond)
	_, err := tx.Exec(t.Context(), "PREPARE TRANSACTION '"+id+"'")
	require.NoError(t, err)
	requirePending(t, done, 250*time.Millisecond)
	db.Exec(t, "COMMIT PREPARED '"+id+"'")
	require.NoError(t, <-done)
}

// A writer to a partition holds up the root.
func TestWriterToPartitionIsWaitedFor(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE pt (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE pt1 PARTITION OF pt FOR VALUES IN (1);
ALTER TABLE pt1 REPLICA IDENTITY FULL; ALTER TABLE pt REPLICA IDENTITY FULL`)
	f := start(t, db, db.URL, publication.Options{})
	tx := f.begin(t, "INSERT INTO pt1 VALUES (1)")
	done := f.acquire(t, "1-1", f.table(t, "pt"))
	f.waitPublished(t, "pt")
	requirePending(t, done, 100*time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
}

// B127: nobody of the application queues behind the ACCESS EXCLUSIVE lock that REPLICA IDENTITY FULL takes.
func TestApplicationIsNotHeldUp(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE lq (id int PRIMARY KEY, v text); CREATE TABLE other (id int PRIMARY KEY)")
	f := start(t, db, db.URL, publication.Options{})
	tx := f.begin(t, "INSERT INTO lq VALUES (1, 'a')")
	done := f.acquire(t, "1-1", f.table(t, "lq"))
	var worst time.Duration
	for end := time.Now().Add(700 * time.Millisecond); time.Now().Before(end); {
		began := time.Now()
		_, err := f.admin.Exec(t.Context(), "SELECT count(*) FROM lq")
		require.NoError(t, err)
		worst = max(worst, time.Since(began))
	}
	assert.Less(t, worst, 500*time.Millisecond)
	requirePending(t, done, time.Millisecond)
	require.NoError(t, f.Acquire(t.Context(), "1-2", f.table(t, "other")))
	assert.Equal(t, []string{"other"}, f.published(t), "nothing is half done")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	assert.Equal(t, "f", f.identity(t, "lq"))
}

func TestTimeoutThenTryAgain(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE gap (id int PRIMARY KEY); ALTER TABLE gap REPLICA IDENTITY FULL; CREATE TABLE lq (id int)")
	f := start(t, db, db.URL, publication.Options{Timeout: 100 * time.Millisecond})
	tx := f.begin(t, "INSERT INTO gap VALUES (1); INSERT INTO lq VALUES (1)")
	for _, table := range []string{"gap", "lq"} {
		err := f.Acquire(t.Context(), "1-1", f.table(t, table))
		require.ErrorIs(t, err, publication.ErrTimeout)
		var own *publication.Error
		require.ErrorAs(t, err, &own)
		assert.Equal(t, "Snapshot timed out while waiting for a table lock", own.Message)
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, f.Acquire(t.Context(), "1-2", f.table(t, "gap")))
	require.NoError(t, f.Acquire(t.Context(), "1-3", f.table(t, "lq")))
}

func TestCallerGone(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE gap (id int PRIMARY KEY); ALTER TABLE gap REPLICA IDENTITY FULL")
	f := start(t, db, db.URL, publication.Options{Linger: time.Millisecond})
	f.begin(t, "INSERT INTO gap VALUES (1)")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	tab := f.table(t, "gap")
	done := make(chan error, 1)
	go func() { done <- f.Acquire(ctx, "1-1", tab) }()
	f.waitPublished(t, "gap")
	cancel(gone)
	require.ErrorIs(t, <-done, gone)
	f.waitPublished(t)
}

// B178: a burst of tables is a few statements.
func TestBurstOfTables(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `DO $$ BEGIN FOR i IN 1..300 LOOP EXECUTE format('CREATE TABLE pb%s (id int PRIMARY KEY)', i); END LOOP; END $$`)
	f := start(t, db, db.URL, publication.Options{})
	began := time.Now()
	tables := make([]*shape.Table, 300)
	var oids []uint32
	rows, err := f.admin.Query(t.Context(), "SELECT oid::int8 FROM pg_class WHERE relname LIKE 'pb%' AND relkind = 'r'")
	require.NoError(t, err)
	oids, err = pgx.CollectRows(rows, pgx.RowTo[uint32])
	require.NoError(t, err)
	byOID, err := f.in.ByOID(t.Context(), oids)
	require.NoError(t, err)
	for i, oid := range oids {
		tables[i] = byOID[oid]
	}
	var wg sync.WaitGroup
	for i, tab := range tables {
		for j := range 3 {
			wg.Go(func() { assert.NoError(t, f.Acquire(t.Context(), shape.Handle(fmt.Sprintf("%d-%d", i, j)), tab)) })
		}
	}
	wg.Wait()
	t.Logf("300 tables, 900 shapes: %v", time.Since(began))
	assert.Len(t, f.published(t), 300)
}

func lowRole(t *testing.T, db *pgtest.DB, grants string) (role, dsn string) {
	t.Helper()
	role = "low_" + db.Name[len(db.Name)-10:]
	db.Exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'p'; GRANT CREATE ON DATABASE "+db.Name+" TO "+role+";"+fmt.Sprintf(grants, role))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, db.URL)
		require.NoError(t, err)
		defer func() { assert.NoError(t, conn.Close(ctx)) }()
		_, err = conn.Exec(ctx, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role)
		assert.NoError(t, err)
	})
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(role, "p")
	return role, u.String()
}

// B129: no rights, no side effects, and the batch's other tables go through.
func TestNotTheOwner(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE np (a text); INSERT INTO np VALUES ('hello'); CREATE TABLE mine1 (id int); CREATE TABLE mine2 (id int)")
	role, dsn := lowRole(t, db, "ALTER TABLE mine1 OWNER TO %[1]s; ALTER TABLE mine2 OWNER TO %[1]s")
	f := prepare(t, db, dsn, publication.Options{Linger: time.Millisecond})
	np, one, two := f.acquire(t, "1-1", f.table(t, "np")), f.acquire(t, "1-2", f.table(t, "mine1")), f.acquire(t, "1-3", f.table(t, "mine2"))
	f.run(t)
	err := <-np
	var own *publication.Error
	require.ErrorAs(t, err, &own)
	assert.Equal(t, publication.CodePrivilege, own.Code)
	assert.Equal(t, `Unable to create initial snapshot: must be owner of table np. Run: ALTER TABLE "public"."np" OWNER TO "`+role+`"`, own.Message)
	require.NoError(t, <-one)
	require.NoError(t, <-two)
	assert.Equal(t, []string{"mine1", "mine2"}, f.published(t))
	assert.Equal(t, "d", f.identity(t, "np"))
	db.Exec(t, "UPDATE np SET a = 'still works'; ALTER TABLE np OWNER TO "+role)
	require.NoError(t, f.Acquire(t.Context(), "1-4", f.table(t, "np")))
	db.Exec(t, "ALTER TABLE np OWNER TO postgres")
}

// A publication of somebody else's that has the table already is used as it is.
func TestForeignPublication(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE a (id int); ALTER TABLE a REPLICA IDENTITY FULL; CREATE TABLE b (id int); CREATE PUBLICATION "`+name+`" FOR TABLE a`)
	role, dsn := lowRole(t, db, "ALTER TABLE b OWNER TO %[1]s")
	f := start(t, db, dsn, publication.Options{Linger: time.Millisecond})
	require.NoError(t, f.Acquire(t.Context(), "1-1", f.table(t, "a")))
	err := f.Acquire(t.Context(), "1-2", f.table(t, "b"))
	require.ErrorContains(t, err, `Database table "public.b" is missing from the publication "`+name+`" and shapeserver lacks privileges to add it`)
	require.ErrorContains(t, err, `ALTER PUBLICATION "`+name+`" OWNER TO "`+role+`"`)
	f.Release("1-1")
	require.NoError(t, f.Check(t.Context()))
	assert.Equal(t, []string{"a"}, f.published(t))
}

// B130.
func TestManualMode(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE mp (id int PRIMARY KEY, a text); CREATE TABLE mp2 (id int PRIMARY KEY);
CREATE TABLE pt (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE pt1 PARTITION OF pt FOR VALUES IN (1)`)
	_, dsn := lowRole(t, db, "GRANT USAGE ON SCHEMA public TO %[1]s")
	f := start(t, db, dsn, publication.Options{Manual: true, Linger: time.Millisecond})
	mp := f.table(t, "mp")
	steps := []struct{ do, want string }{
		{"SELECT 1", `Publication "` + name + `" not found in the database. Run: CREATE PUBLICATION "` + name + `"`},
		{`CREATE PUBLICATION "` + name + `" WITH (publish = 'insert')`, `Database table "public.mp" is missing from the publication "` + name +
			`" and the SHAPESERVER_MANUAL_TABLE_PUBLISHING setting prevents shapeserver from adding it. Run: ALTER PUBLICATION "` + name + `" ADD TABLE "public"."mp"`},
		{`ALTER PUBLICATION "` + name + `" ADD TABLE mp, mp2, pt`, `Publication "` + name + `" does not publish all operations. Run: ALTER PUBLICATION "` + name +
			`" SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = false)`},
		{
			`ALTER PUBLICATION "` + name + `" SET (publish = 'insert, update, delete, truncate')`,
			`Database table "public.mp" does not have its replica identity set to FULL. Run: ALTER TABLE "public"."mp" REPLICA IDENTITY FULL`,
		},
		{
			`ALTER TABLE mp REPLICA IDENTITY FULL; ALTER PUBLICATION "` + name + `" SET TABLE mp (id), mp2, pt`,
			`Publication "` + name + `" has a row filter or a column list for database table "public.mp"; it must publish whole rows`,
		},
		{`ALTER PUBLICATION "` + name + `" SET TABLE mp, mp2, pt`, ""},
	}
	if f.major(t) < 15 { // no column lists yet
		steps[4].do, steps[4].want, steps = "ALTER TABLE mp REPLICA IDENTITY FULL", "", steps[:5]
	}
	for _, step := range steps {
		db.Exec(t, step.do)
		err := f.Acquire(t.Context(), "1-1", mp)
		if step.want == "" {
			require.NoError(t, err)
			continue
		}
		var own *publication.Error
		require.ErrorAs(t, err, &own)
		assert.Equal(t, step.want, own.Message)
	}
	pt := f.table(t, "pt")
	require.ErrorContains(t, f.Acquire(t.Context(), "1-2", pt), `Run: ALTER TABLE "public"."pt1" REPLICA IDENTITY FULL`)
	db.Exec(t, "ALTER TABLE pt1 REPLICA IDENTITY FULL")
	require.NoError(t, f.Acquire(t.Context(), "1-2", pt))
	require.NoError(t, f.Acquire(t.Context(), "1-3", f.table(t, "pt1")), "published by its root")
	for _, h := range []shape.Handle{"1-1", "1-2", "1-3"} {
		f.Release(h)
	}
	require.NoError(t, f.Check(t.Context()))
	require.NoError(t, f.Check(t.Context()))
	assert.Equal(t, []string{"mp", "mp2", "pt"}, f.published(t), "what the operator published stays")
	require.NoError(t, f.Acquire(t.Context(), "1-4", mp))
	db.Exec(t, `ALTER PUBLICATION "`+name+`" DROP TABLE mp`)
	require.NoError(t, f.Check(t.Context()))
	assert.Equal(t, lost{mp.OID, shape.ReasonOrphaned}, <-f.lost)
}

func TestPublicationForAllTablesOrASchema(t *testing.T) {
	for _, what := range []string{"ALL TABLES", "TABLES IN SCHEMA public"} {
		for _, manual := range []bool{true, false} {
			t.Run(fmt.Sprint(what, manual), func(t *testing.T) {
				db := pgtest.New(t)
				f := prepare(t, db, db.URL, publication.Options{Manual: manual, Linger: time.Millisecond})
				if what != "ALL TABLES" && f.major(t) < 15 {
					t.Skip("schemas are published since Postgres 15")
				}
				db.Exec(t, `CREATE TABLE a (id int); ALTER TABLE a REPLICA IDENTITY FULL; CREATE PUBLICATION "`+name+`" FOR `+what)
				f.run(t)
				require.NoError(t, f.Acquire(t.Context(), "1-1", f.table(t, "a")))
				require.NoError(t, f.Check(t.Context()))
				f.Release("1-1")
				require.NoError(t, f.Check(t.Context()))
				assert.Empty(t, f.lost)
				assert.Empty(t, f.published(t))
			})
		}
	}
}

// B108 and its kind: whatever is done to the publication or the table, OnLost says so and a new shape gets it right.
func TestLostTables(t *testing.T) {
	for what, c := range map[string]struct {
		sql    string
		reason shape.Reason
		gone   bool
	}{
		"publication dropped": {`DROP PUBLICATION "` + name + `"`, shape.ReasonOrphaned, false},
		"operations":          {`ALTER PUBLICATION "` + name + `" SET (publish = 'insert')`, shape.ReasonOrphaned, false},
		"table taken out":     {`ALTER PUBLICATION "` + name + `" DROP TABLE pb`, shape.ReasonOrphaned, false},
		"row filter":          {`ALTER PUBLICATION "` + name + `" SET TABLE pb WHERE (id > 5)`, shape.ReasonOrphaned, false},
		"identity default":    {"ALTER TABLE pb REPLICA IDENTITY DEFAULT", shape.ReasonIdentityLost, false},
		"renamed":             {"ALTER TABLE pb RENAME TO pb2", shape.ReasonSchemaChanged, true},
		"dropped":             {"DROP TABLE pb", shape.ReasonTableDropped, true},
		"made again":          {"DROP TABLE pb; CREATE TABLE pb (id int)", shape.ReasonTableDropped, true},
	} {
		t.Run(what, func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "CREATE TABLE pb (id int PRIMARY KEY, v text)")
			f := start(t, db, db.URL, publication.Options{})
			if what == "row filter" && f.major(t) < 15 {
				t.Skip("row filters exist since Postgres 15")
			}
			pb := f.table(t, "pb")
			require.NoError(t, f.Acquire(t.Context(), "1-1", pb))
			require.NoError(t, f.Check(t.Context()))
			assert.Empty(t, f.lost)
			db.Exec(t, c.sql)
			require.NoError(t, f.Check(t.Context()))
			require.Equal(t, lost{pb.OID, c.reason}, <-f.lost)
			f.Release("1-1")
			err := f.Acquire(t.Context(), "1-2", pb)
			if c.gone {
				require.ErrorIs(t, err, publication.ErrTableGone)
				require.ErrorContains(t, err, `Database table "public.pb" has been dropped or renamed`)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []string{"pb"}, f.published(t))
			assert.Equal(t, "f", f.identity(t, "pb"))
			require.NoError(t, f.Check(t.Context()))
			assert.Empty(t, f.lost)
			var complete bool
			require.NoError(t, f.admin.QueryRow(t.Context(), "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication").Scan(&complete))
			assert.True(t, complete)
		})
	}
}

func TestPeriodicCheck(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE pb (id int PRIMARY KEY)")
	f := start(t, db, db.URL, publication.Options{CheckInterval: 20 * time.Millisecond})
	pb := f.table(t, "pb")
	require.NoError(t, f.Acquire(t.Context(), "1-1", pb))
	db.Exec(t, `ALTER PUBLICATION "`+name+`" DROP TABLE pb`)
	assert.Equal(t, lost{pb.OID, shape.ReasonOrphaned}, <-f.lost)
}

// A lost table does not begin anew before its shapes are released, which comes after their status rows: the next process
// would find nothing wrong with either.
func TestLostTableWaitsForItsShapes(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE pb (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)")
	f := start(t, db, db.URL, publication.Options{})
	pb := f.table(t, "pb")
	require.NoError(t, f.Acquire(t.Context(), "1-1", pb))
	require.NoError(t, f.Acquire(t.Context(), "1-2", pb))
	db.Exec(t, `ALTER PUBLICATION "`+name+`" DROP TABLE pb`)
	require.NoError(t, f.Check(t.Context()))
	require.Equal(t, lost{pb.OID, shape.ReasonOrphaned}, <-f.lost)
	acquired := make(chan error, 1)
	go func() { acquired <- f.Acquire(t.Context(), "1-3", pb) }()
	require.NoError(t, f.Acquire(t.Context(), "2-1", f.table(t, "other")), "it delays no other")
	f.Release("1-1")
	require.NoError(t, f.Check(t.Context()))
	require.Empty(t, acquired)
	require.Equal(t, []string{"other"}, f.published(t))
	f.Release("1-2")
	require.NoError(t, <-acquired)
	require.Equal(t, []string{"other", "pb"}, f.published(t))
	require.Empty(t, f.lost)
}

// What was written while a table was out of the publication is in no stream, also when it is in again.
func TestLeavingAndJoiningIsSeen(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE pb (id int PRIMARY KEY)")
	f := start(t, db, db.URL, publication.Options{})
	pb := f.table(t, "pb")
	require.NoError(t, f.Acquire(t.Context(), "1-1", pb))
	require.NoError(t, f.Check(t.Context()))
	require.Empty(t, f.lost)
	db.Exec(t, `ALTER PUBLICATION "`+name+`" DROP TABLE pb`)
	db.Exec(t, `ALTER PUBLICATION "`+name+`" ADD TABLE pb`)
	require.NoError(t, f.Check(t.Context()))
	require.Equal(t, lost{pb.OID, shape.ReasonSchemaChanged}, <-f.lost)
	f.Release("1-1")
	require.NoError(t, f.Acquire(t.Context(), "1-2", pb))
	require.NoError(t, f.Check(t.Context()))
	require.Empty(t, f.lost)
}

func TestRestore(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE good (id int); ALTER TABLE good REPLICA IDENTITY FULL; CREATE TABLE bad (id int); CREATE TABLE left1 (id int);
CREATE PUBLICATION "`+name+`" FOR TABLE good, left1`)
	f := prepare(t, db, db.URL, publication.Options{Linger: 20 * time.Millisecond})
	good, bad := f.table(t, "good"), f.table(t, "bad")
	f.Restore("1-1", good)
	f.Restore("1-2", bad)
	f.begin(t, "INSERT INTO good VALUES (1)") // no barrier for a table that was published all the time
	f.run(t)
	require.NoError(t, f.Acquire(t.Context(), "1-3", good))
	assert.Equal(t, lost{bad.OID, shape.ReasonOrphaned}, <-f.lost)
	f.Release("1-2")
	f.waitPublished(t, "good") // and what a crash left behind is gone
	assert.Empty(t, f.lost)
}

// B096: every leaf gets its identity, also those that come later; only the root is published.
func TestPartitions(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE pt (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (id);
CREATE TABLE pt1 PARTITION OF pt FOR VALUES IN (1);
CREATE TABLE pt2 PARTITION OF pt FOR VALUES IN (2) PARTITION BY LIST (k);
CREATE TABLE pt2a PARTITION OF pt2 FOR VALUES IN (1);`)
	f := start(t, db, db.URL, publication.Options{Linger: time.Millisecond})
	pt := f.table(t, "pt")
	require.NoError(t, f.Acquire(t.Context(), "1-1", pt))
	assert.Equal(t, []string{"pt"}, f.published(t))
	for _, leaf := range []string{"pt", "pt1", "pt2a"} {
		assert.Equal(t, "f", f.identity(t, leaf), leaf)
	}
	db.Exec(t, "CREATE TABLE pt3 PARTITION OF pt FOR VALUES IN (3)")
	require.NoError(t, f.Check(t.Context()))
	assert.Equal(t, "f", f.identity(t, "pt3"))
	assert.Empty(t, f.lost)
	// A leaf with a shape of its own stays published when the root goes.
	require.NoError(t, f.Acquire(t.Context(), "1-2", f.table(t, "pt1")))
	f.Release("1-1")
	f.waitPublished(t, "pt1")
	require.NoError(t, f.Check(t.Context()))
	assert.Empty(t, f.lost)
	require.NoError(t, f.Acquire(t.Context(), "1-3", pt))
	db.Exec(t, "ALTER TABLE pt3 REPLICA IDENTITY DEFAULT; ALTER TABLE pt2a REPLICA IDENTITY DEFAULT")
	require.NoError(t, f.Acquire(t.Context(), "1-4", f.table(t, "pt2a")))
	db.Exec(t, "ALTER TABLE pt2a REPLICA IDENTITY NOTHING")
	require.NoError(t, f.Check(t.Context()))
	got := map[lost]bool{<-f.lost: true, <-f.lost: true}
	assert.Equal(t, map[lost]bool{{pt.OID, shape.ReasonIdentityLost}: true, {f.table(t, "pt2a").OID, shape.ReasonIdentityLost}: true}, got)
}

// B115: rows that come or go with a partition are not in the stream, so the shapes of the root must be read again. A
// partition that was made as one has none to bring.
func TestPartitionsComeAndGo(t *testing.T) {
	for change, sql := range map[string]string{
		"detached":               "ALTER TABLE rt DETACH PARTITION rt2",
		"dropped":                "DROP TABLE rt1",
		"attached":               "ALTER TABLE rt ATTACH PARTITION lone FOR VALUES IN (3)",
		"made, filled, attached": "BEGIN; CREATE TABLE late (LIKE rt INCLUDING ALL); INSERT INTO late VALUES (1, 7); ALTER TABLE rt ATTACH PARTITION late FOR VALUES IN (7); COMMIT",
		"made of a query":        "BEGIN; CREATE TABLE late AS SELECT 1 AS id, 7 AS k; ALTER TABLE late ALTER id SET NOT NULL, ALTER k SET NOT NULL; ALTER TABLE rt ATTACH PARTITION late FOR VALUES IN (7); COMMIT",
		"attached again":         "ALTER TABLE rt DETACH PARTITION rt2; ALTER TABLE rt ATTACH PARTITION rt2 FOR VALUES IN (2)",
		"attached with its leaf": "ALTER TABLE rt ATTACH PARTITION branch FOR VALUES IN (4)",
		"detached below":         "ALTER TABLE rt5 DETACH PARTITION rt5a",
	} {
		t.Run(change, func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, `CREATE TABLE rt (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE rt1 PARTITION OF rt FOR VALUES IN (1);
CREATE TABLE rt2 PARTITION OF rt FOR VALUES IN (2);
CREATE TABLE rt5 PARTITION OF rt FOR VALUES IN (5) PARTITION BY LIST (id);
CREATE TABLE rt5a PARTITION OF rt5 FOR VALUES IN (1);
CREATE TABLE lone (id int, k int, PRIMARY KEY (id, k));
CREATE TABLE branch (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (id);
CREATE TABLE leaf PARTITION OF branch FOR VALUES IN (1);`)
			f := start(t, db, db.URL, publication.Options{})
			rt := f.table(t, "rt")
			require.NoError(t, f.Acquire(t.Context(), "1-1", rt))
			require.NoError(t, f.Check(t.Context()))
			db.Exec(t, "CREATE TABLE rt6 PARTITION OF rt FOR VALUES IN (6)")
			require.NoError(t, f.Check(t.Context()))
			require.Empty(t, f.lost)

			db.Exec(t, sql)
			require.NoError(t, f.Check(t.Context()))
			require.Len(t, f.lost, 1)
			assert.Equal(t, lost{rt.OID, shape.ReasonSchemaChanged}, <-f.lost)
			f.Release("1-1")
			require.NoError(t, f.Acquire(t.Context(), "1-2", rt))
			require.NoError(t, f.Check(t.Context()))
			assert.Empty(t, f.lost)
		})
	}
}

// B097: the children of a table by inheritance are not published with it.
func TestInheritance(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE par (id int); CREATE TABLE chi (x int) INHERITS (par)")
	f := start(t, db, db.URL, publication.Options{Linger: time.Millisecond})
	require.NoError(t, f.Acquire(t.Context(), "1-1", f.table(t, "par")))
	assert.Equal(t, []string{"par"}, f.published(t))
	assert.Equal(t, "d", f.identity(t, "chi"))
	require.NoError(t, f.Acquire(t.Context(), "1-2", f.table(t, "chi")))
	f.Release("1-1")
	f.waitPublished(t, "chi")
}

func TestStop(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE gap (id int); ALTER TABLE gap REPLICA IDENTITY FULL")
	f := start(t, db, db.URL, publication.Options{})
	f.begin(t, "INSERT INTO gap VALUES (1)")
	gap := f.table(t, "gap")
	done := f.acquire(t, "1-1", gap)
	f.waitPublished(t, "gap")
	f.stop()
	require.ErrorIs(t, <-done, publication.ErrStopped)
	require.ErrorIs(t, f.Acquire(t.Context(), "1-2", gap), publication.ErrStopped)
	require.ErrorIs(t, f.Check(t.Context()), publication.ErrStopped)
	f.Release("1-1")
}

func TestDatabaseAway(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE a (id int)")
	f := start(t, db, "postgres://postgres@127.0.0.1:1/nowhere?sslmode=disable", publication.Options{Timeout: 100 * time.Millisecond})
	err := f.Acquire(t.Context(), "1-1", f.table(t, "a"))
	var own *publication.Error
	require.ErrorAs(t, err, &own)
	assert.Equal(t, publication.CodeUnavailable, own.Code)
	require.Error(t, f.Check(t.Context()))
}
