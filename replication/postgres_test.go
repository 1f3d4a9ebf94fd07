package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// follower runs a Stream and reads its events.
type follower struct {
	*Stream
	t      testing.TB
	events chan changes.Event
	infos  chan Info
	ended  chan error
	cancel context.CancelCauseFunc
	ran    bool
}

type setup struct {
	Config
	Options
	onConnect func(Info) error
	params    map[string]string // runtime parameters of the connection
	idle      bool              // do not wait until it streams
	unread    bool              // events are not buffered
}

// follow starts a Stream on db, by default with slot and publication of the database's name.
func follow(t testing.TB, db *pgtest.DB, how setup) *follower {
	t.Helper()
	f := newFollower(t, db.URL, db.Name, how)
	f.start(how)
	return f
}

func newFollower(t testing.TB, url, name string, how setup) *follower {
	t.Helper()
	if how.ConnConfig == nil {
		how.ConnConfig = parseURL(t, url)
	}
	for k, v := range how.params {
		how.ConnConfig.RuntimeParams[k] = v
	}
	if how.Slot == "" {
		how.Slot = name
	}
	if how.Publication == "" {
		how.Publication = name
	}
	if how.Logger == nil {
		how.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if how.MinBackoff == 0 {
		how.MinBackoff, how.MaxBackoff = 20*time.Millisecond, 100*time.Millisecond
	}
	if how.LockPoll == 0 {
		how.LockPoll = 10 * time.Millisecond
	}
	s, err := New(how.Config, how.Options)
	require.NoError(t, err)
	f := &follower{Stream: s, t: t, infos: make(chan Info, 100)}
	f.events = make(chan changes.Event, 10_000)
	if how.unread {
		f.events = make(chan changes.Event)
	}
	return f
}

func (f *follower) start(how setup) {
	f.t.Helper()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(f.t.Context()))
	f.cancel, f.ended, f.ran = cancel, make(chan error, 1), true
	go func() {
		f.ended <- f.Run(ctx, func(_ context.Context, info Info) error {
			f.infos <- info
			if how.onConnect != nil {
				return how.onConnect(info)
			}
			return nil
		}, f.events)
	}()
	f.t.Cleanup(func() { f.stop() })
	if !how.idle {
		f.await(Streaming)
	}
}

// stop ends Run in good order.
func (f *follower) stop() {
	f.t.Helper()
	if !f.ran {
		return
	}
	f.ran = false
	f.cancel(errStopping)
	require.ErrorIs(f.t, f.end(), errStopping)
}

// end waits for Run's end and returns its error.
func (f *follower) end() error {
	f.t.Helper()
	f.ran = false
	defer f.cancel(nil)
	select {
	case err := <-f.ended:
		return err
	case <-time.After(patience):
		require.FailNow(f.t, "Run did not end")
		return nil
	}
}

func (f *follower) await(want State) Status {
	f.t.Helper()
	return f.awaitStatus(want.String(), func(s Status) bool { return s.State == want })
}

// awaitFailure waits until an attempt has failed.
func (f *follower) awaitFailure() error {
	f.t.Helper()
	return f.awaitStatus("a failure", func(s Status) bool { return s.Err != nil }).Err
}

func (f *follower) awaitStatus(what string, good func(Status) bool) Status {
	f.t.Helper()
	timeout := time.After(patience)
	for {
		status, changed := f.Status()
		if good(status) {
			return status
		}
		select {
		case <-changed:
		case err := <-f.ended:
			f.ended <- err
			require.NoError(f.t, err, "Run ended")
		case <-timeout:
			require.FailNowf(f.t, "no such status", "want %s, have %+v", what, status)
		}
	}
}

func (f *follower) info() Info {
	f.t.Helper()
	select {
	case i := <-f.infos:
		return i
	case <-time.After(patience):
		require.FailNow(f.t, "not connected")
		return Info{}
	}
}

// transaction is one that was read whole.
type transaction struct {
	changes.Txn
	end     changes.LSN
	changes []changes.Change
	pieces  int
}

// next reads the next transaction that has changes, and checks how its fragments hang together.
func (f *follower) next() transaction {
	f.t.Helper()
	var tx transaction
	timeout := time.After(patience)
	for {
		select {
		case ev := <-f.events:
			frag := ev.Fragment
			if frag == nil {
				require.Zero(f.t, tx.pieces, "WALEnd inside a transaction")
				continue
			}
			if frag.First { // after a lost connection a transaction starts over
				tx = transaction{Txn: *frag.Txn}
			}
			require.Equal(f.t, tx.Txn, *frag.Txn)
			tx.pieces++
			for _, c := range frag.Changes {
				require.Equal(f.t, uint64(len(tx.changes)), c.Index)
				tx.changes = append(tx.changes, c)
			}
			if !frag.Last {
				require.Zero(f.t, frag.EndLSN)
				continue
			}
			tx.end = frag.EndLSN
			require.Greater(f.t, tx.end, tx.CommitLSN)
			if len(tx.changes) > 0 {
				return tx
			}
			tx = transaction{}
		case <-timeout:
			status, _ := f.Status()
			require.FailNowf(f.t, "no transaction", "status %+v", status)
		}
	}
}

func (tx transaction) lines() []string {
	var lines []string
	for _, c := range tx.changes {
		lines = append(lines, show(c))
	}
	return lines
}

// want reads the next transaction and compares it.
func (f *follower) want(lines ...string) transaction {
	f.t.Helper()
	tx := f.next()
	require.Equal(f.t, lines, tx.lines())
	return tx
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func parseURL(t testing.TB, url string) *pgconn.Config {
	t.Helper()
	cfg, err := pgconn.ParseConfig(url)
	require.NoError(t, err)
	return cfg
}

// query1 returns one value as text.
func query1(t testing.TB, db *pgtest.DB, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := query(t.Context(), conn.PgConn(), sql)
	require.NoError(t, err)
	if len(rows) == 0 {
		return ""
	}
	return rows[0][0]
}

// awaitQuery asks until the answer is want.
func awaitQuery(t testing.TB, db *pgtest.DB, sql, want string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, query1(t, db, sql)) }, patience, 20*time.Millisecond, sql)
}

// table makes a published table with full replica identity.
func table(t testing.TB, db *pgtest.DB, name, columns string) {
	t.Helper()
	db.Exec(t, fmt.Sprintf("CREATE TABLE %s (%s); ALTER TABLE %[1]s REPLICA IDENTITY FULL; ALTER PUBLICATION %[3]s ADD TABLE %[1]s",
		name, columns, db.Name))
}

func TestRowsKeysAndTruncate(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{})
	info := f.info()
	require.True(t, info.SlotCreated)
	require.True(t, info.PublicationCreated)
	require.Equal(t, query1(t, db, "SELECT oid FROM pg_publication"), fmt.Sprint(info.PublicationOID))
	require.Equal(t, query1(t, db, "SELECT system_identifier FROM pg_control_system()"), info.SystemID)
	require.Equal(t, query1(t, db, "SHOW server_version_num"), fmt.Sprint(info.ServerVersion))
	require.Equal(t, query1(t, db, "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '"+db.Name+"'"), info.ConfirmedLSN.String())

	table(t, db, "a", "id int PRIMARY KEY, v text")
	table(t, db, `"Q ""t"`, `"I d" int PRIMARY KEY`)
	db.Exec(t, "CREATE TABLE d (id int PRIMARY KEY, v text, big text); ALTER TABLE d ALTER big SET STORAGE EXTERNAL; ALTER PUBLICATION "+db.Name+" ADD TABLE d")
	db.Exec(t, "CREATE TABLE unpublished (id int); INSERT INTO unpublished VALUES (1)")

	db.Exec(t, "BEGIN; INSERT INTO a VALUES (1, 'x'), (2, NULL); INSERT INTO unpublished VALUES (2); UPDATE a SET v = '' WHERE id = 2; UPDATE a SET id = 3 WHERE id = 1; DELETE FROM a WHERE id = 2; COMMIT")
	tx := f.want("0 insert a new(1 x)", "1 insert a new(2 -)", "2 update a old(2 -) new(2 )", "3 update a old(1 x) new(3 x)", "4 delete a old(2 )")
	require.Equal(t, &changes.Relation{
		OID: tx.changes[0].Relation.OID, Schema: "public", Name: "a", Identity: changes.IdentityFull,
		Columns: []changes.Column{{Name: "id", TypeOID: 23, TypeMod: -1, Key: true}, {Name: "v", TypeOID: 25, TypeMod: -1, Key: true}},
	}, tx.changes[0].Relation)
	require.Equal(t, query1(t, db, "SELECT 'a'::regclass::oid"), fmt.Sprint(tx.changes[0].Relation.OID))
	require.WithinDuration(t, time.Now(), tx.CommitTime, time.Minute)

	db.Exec(t, `INSERT INTO "Q ""t" VALUES (1)`)
	f.want(`0 insert Q "t new(1)`)

	// Key only, and no old row at all.
	db.Exec(t, "INSERT INTO d VALUES (1, 'x', repeat('t', 100000)); UPDATE d SET v = 'y'; UPDATE d SET id = 2; DELETE FROM d")
	big := strings.Repeat("t", 100000)
	f.want("0 insert d new(1 x "+big+")", "1 update d new(1 y ~)", "2 update d old(1 - -) new(2 y ~)", "3 delete d old(2 - -)")
	// Unchanged TOAST under full identity.
	db.Exec(t, "ALTER TABLE d REPLICA IDENTITY FULL; INSERT INTO d VALUES (1, 'x', repeat('t', 100000)); UPDATE d SET v = 'y'")
	f.want("0 insert d new(1 x "+big+")", "1 update d old(1 x "+big+") new(1 y "+big+")")

	db.Exec(t, `BEGIN; INSERT INTO a VALUES (9, 'x'); TRUNCATE a, d, unpublished, "Q ""t" RESTART IDENTITY; INSERT INTO a VALUES (9, 'y'); COMMIT`)
	tx = f.next()
	require.Len(t, tx.changes, 5)
	var truncated []string
	for _, c := range tx.changes[1:4] {
		require.Equal(t, changes.Truncate, c.Op)
		truncated = append(truncated, c.Relation.Name)
	}
	require.ElementsMatch(t, []string{"a", "d", `Q "t`}, truncated)
	require.Equal(t, "4 insert a new(9 y)", show(tx.changes[4]))

	db.Exec(t, "ALTER TABLE a ADD COLUMN w int DEFAULT 7; INSERT INTO a VALUES (10, 'z', 8)")
	f.want("0 insert a new(10 z 8)")
}

func TestSubtransactionsPreparedAndInterleaved(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{})
	table(t, db, "a", "id int PRIMARY KEY, v text")
	db.Exec(t, `BEGIN; INSERT INTO a VALUES (1,'k'); SAVEPOINT a; INSERT INTO a VALUES (2,'no'); UPDATE a SET v='no' WHERE id=1; ROLLBACK TO a;
		INSERT INTO a VALUES (3,'k'); SAVEPOINT b; INSERT INTO a VALUES (4,'k'); RELEASE b; COMMIT`)
	f.want("0 insert a new(1 k)", "1 insert a new(3 k)", "2 insert a new(4 k)")

	pool := db.Pool(t)
	begin := func() pgx.Tx {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		return tx
	}
	exec := func(tx pgx.Tx, sql string) {
		_, err := tx.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	a, b, c := begin(), begin(), begin()
	for i := range 3 {
		exec(a, fmt.Sprintf("INSERT INTO a VALUES (10+%d, 'a')", i))
		exec(b, fmt.Sprintf("INSERT INTO a VALUES (20+%d, 'b')", i))
		exec(c, fmt.Sprintf("INSERT INTO a VALUES (30+%d, 'c')", i))
	}
	require.NoError(t, c.Commit(t.Context()))
	require.NoError(t, b.Rollback(t.Context()))
	require.NoError(t, a.Commit(t.Context()))
	first := f.want("0 insert a new(30 c)", "1 insert a new(31 c)", "2 insert a new(32 c)")
	second := f.want("0 insert a new(10 a)", "1 insert a new(11 a)", "2 insert a new(12 a)")
	require.Greater(t, second.CommitLSN, first.CommitLSN)
	require.Less(t, second.Xid, first.Xid)

	if query1(t, db, "SHOW max_prepared_transactions") != "0" {
		db.Exec(t, "BEGIN; INSERT INTO a VALUES (5, '2pc'); PREPARE TRANSACTION '"+db.Name+"1'")
		db.Exec(t, "INSERT INTO a VALUES (6, 'before')")
		f.want("0 insert a new(6 before)")
		db.Exec(t, "COMMIT PREPARED '"+db.Name+"1'")
		f.want("0 insert a new(5 2pc)")
		db.Exec(t, "BEGIN; INSERT INTO a VALUES (7, 'no'); PREPARE TRANSACTION '"+db.Name+"2'")
		db.Exec(t, "ROLLBACK PREPARED '"+db.Name+"2'")
	}
	// Messages that are not about rows (B143).
	db.Exec(t, "SELECT pg_logical_emit_message(true, 'app', 'hello'), pg_logical_emit_message(false, 'app', repeat('z', 100000))")
	db.Exec(t, "CREATE TYPE mood AS ENUM ('ok'); ALTER TABLE a ADD COLUMN m mood")
	origin := db.Name
	db.Exec(t, "SELECT pg_replication_origin_create('"+origin+"')")
	defer db.Exec(t, "SELECT pg_replication_origin_drop('"+origin+"')")
	db.Exec(t, "SELECT pg_replication_origin_session_setup('"+origin+"'); BEGIN; SELECT pg_replication_origin_xact_setup('0/1234', now()); INSERT INTO a VALUES (8, 'o', 'ok'); COMMIT")
	f.want("0 insert a new(8 o ok)")
	require.EqualValues(t, 1, f.Stats().Connections)
}

func TestValuesDoNotDependOnTheDatabasesSettings(t *testing.T) {
	db := pgtest.New(t)
	for _, set := range []string{
		"DateStyle = 'German'", "TimeZone = 'Asia/Tokyo'", "bytea_output = 'escape'", "IntervalStyle = 'postgres_verbose'",
		"extra_float_digits = -5", "client_encoding = 'LATIN1'", "statement_timeout = '200ms'", "lock_timeout = '100ms'",
		"idle_in_transaction_session_timeout = '100ms'", "idle_session_timeout = '150ms'",
	} {
		db.Exec(t, "ALTER DATABASE "+db.Name+" SET "+set)
	}
	connected := make(chan struct{})
	f := follow(t, db, setup{idle: true, onConnect: func(Info) error { <-connected; return nil }})
	f.info()
	// onConnect takes longer than any of the time-outs.
	<-time.After(400 * time.Millisecond)
	close(connected)
	f.await(Streaming)
	table(t, db, "v", "f8 float8, f4 float4, d date, tz timestamptz, ts timestamp, b bytea, i interval, t text, bo bool, n numeric, j jsonb, a text[]")
	db.Exec(t, `INSERT INTO v VALUES (0.1::float8+0.2, 1.1, '2024-01-31', '2024-01-02 03:04:05.678+02', '2024-01-02 03:04:05', '\x0aff',
		'1 year 2 mons 3 days 04:05:06.5', chr(233) || chr(8364) || chr(128512), true, 12.340, '{"b":1,"a":[1,2]}', ARRAY['a b',NULL,''])`)
	tx := f.next()
	var got []string
	for _, v := range tx.changes[0].New {
		got = append(got, string(v.Bytes))
	}
	require.Equal(t, []string{
		"0.30000000000000004", "1.1", "2024-01-31", "2024-01-02 01:04:05.678+00", "2024-01-02 03:04:05", `\x0aff`,
		"P1Y2M3DT4H5M6.5S", "é€😀", "t", "12.340", `{"a": [1, 2], "b": 1}`, `{"a b",NULL,""}`,
	}, got)
	require.EqualValues(t, 1, f.Stats().Connections)
}

func TestBigTransactionComesInFragments(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{Options: Options{FragmentChanges: 100}, unread: true})
	table(t, db, "a", "id int PRIMARY KEY, v text")
	db.Exec(t, "INSERT INTO a SELECT g, repeat('x', 100) FROM generate_series(1, 25000) g")
	tx := f.next()
	require.Equal(t, 250, tx.pieces)
	require.Len(t, tx.changes, 25000)
	for i, c := range tx.changes {
		require.Equal(t, strconv.Itoa(i+1), string(c.New[0].Bytes))
	}
}

// I9: half of a transaction of 40 MB has passed, and of it no more is in memory than a few fragments.
func TestMemoryDoesNotGrowWithTheTransaction(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{unread: true, Options: Options{FragmentBytes: 256 << 10}})
	table(t, db, "a", "id int PRIMARY KEY, v text")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	db.Exec(t, "INSERT INTO a SELECT g, repeat('x', 1000) FROM generate_series(1, 40000) g")
	n := 0
	for last := false; !last; {
		ev := <-f.events
		if ev.Fragment == nil {
			continue
		}
		if n < 20000 && n+len(ev.Fragment.Changes) >= 20000 {
			require.Less(t, heap(), before+8<<20)
		}
		n, last = n+len(ev.Fragment.Changes), ev.Fragment.Last && n > 0
	}
	require.Equal(t, 40000, n)
}

func TestConfirmedPositionDecidesWhatComesAgain(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{})
	require.True(t, f.info().SlotCreated)
	table(t, db, "a", "id int PRIMARY KEY")
	for i := range 3 {
		db.Exec(t, fmt.Sprintf("INSERT INTO a VALUES (%d)", i))
	}
	f.want("0 insert a new(0)")
	second := f.want("0 insert a new(1)")
	third := f.want("0 insert a new(2)")
	f.Confirm(second.end)
	confirmed := "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '" + db.Name + "'"
	awaitQuery(t, db, confirmed, second.end.String())
	f.stop()

	f.start(setup{})
	info := f.info()
	require.Equal(t, second.end, info.ConfirmedLSN)
	require.False(t, info.SlotCreated)
	require.False(t, info.PublicationCreated)
	again := f.want("0 insert a new(2)")
	require.Equal(t, third.Txn, again.Txn)
	f.Confirm(again.end)
	f.stop() // the last status carries it
	require.Equal(t, again.end.String(), query1(t, db, confirmed))
}

func TestIdleDatabaseAdvances(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE noise (v text)")
	f := follow(t, db, setup{})
	db.Exec(t, "INSERT INTO noise SELECT repeat('n', 1000) FROM generate_series(1, 2000)")
	written, err := changes.ParseLSN(query1(t, db, "SELECT pg_current_wal_lsn()"))
	require.NoError(t, err)
	timeout := time.After(patience)
	for told := changes.LSN(0); told < written; {
		select {
		case ev := <-f.events:
			require.True(t, ev.Fragment == nil || len(ev.Fragment.Changes) == 0)
			told = max(told, ev.WALEnd)
		case <-timeout:
			require.FailNowf(t, "not told", "have %s, want %s", told, written)
		}
	}
	lag := "SELECT confirmed_flush_lsn >= '" + written.String() + "' FROM pg_replication_slots WHERE slot_name = '" + db.Name + "'"
	require.Equal(t, "f", query1(t, db, lag), "telling is not confirming")
	f.Confirm(written)
	awaitQuery(t, db, lag, "t")
}

func TestStatusKeepsABlockedConnectionAlive(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{params: map[string]string{"wal_sender_timeout": "1s"}, unread: true})
	table(t, db, "a", "id int PRIMARY KEY, v text")
	db.Exec(t, "INSERT INTO a SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g") // more than sockets hold
	<-time.After(3500 * time.Millisecond)
	tx := f.next()
	require.Len(t, tx.changes, 20000)
	<-time.After(1500 * time.Millisecond)
	db.Exec(t, "INSERT INTO a VALUES (0, '')")
	f.want("0 insert a new(0 )")
	require.EqualValues(t, 1, f.Stats().Connections)
}

func TestTerminatedWalsender(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{})
	table(t, db, "a", "id int PRIMARY KEY")
	last := changes.LSN(0)
	for i := range 20 {
		info := f.info()
		require.Equal(t, i == 0, info.SlotCreated)
		db.Exec(t, fmt.Sprintf("INSERT INTO a VALUES (%d)", 2*i))
		db.Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(%d)", info.BackendPID))
		db.Exec(t, fmt.Sprintf("INSERT INTO a VALUES (%d)", 2*i+1))
		for seen := false; !seen; { // what was not confirmed in time comes twice
			tx := f.next()
			if tx.CommitLSN <= last {
				continue
			}
			last = tx.CommitLSN
			seen = show(tx.changes[0]) == fmt.Sprintf("0 insert a new(%d)", 2*i+1)
			require.True(t, seen || show(tx.changes[0]) == fmt.Sprintf("0 insert a new(%d)", 2*i), "a change is missing before %s", show(tx.changes[0]))
			f.Confirm(tx.end)
		}
	}
}

func TestFailedOnConnectIsToldAgain(t *testing.T) {
	db := pgtest.New(t)
	calls := 0
	f := follow(t, db, setup{onConnect: func(Info) error {
		if calls++; calls < 3 {
			return errors.New("status store is away")
		}
		return nil
	}})
	for range 3 {
		info := f.info()
		require.True(t, info.SlotCreated)
		require.True(t, info.PublicationCreated)
	}
	f.stop()
	f.start(setup{})
	require.False(t, f.info().SlotCreated)
}
