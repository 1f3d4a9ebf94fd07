package replication

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

func TestSettingsAreChecked(t *testing.T) {
	good := Config{ConnConfig: parseURL(t, "postgres://u:secret@localhost/d"), Slot: "s_1", Publication: `any "name"`}
	_, err := New(good, Options{})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		cfg  Config
		opts Options
		want []string
	}{
		"nothing":  {Config{}, Options{}, []string{"no connection", "slot name", "publication name"}},
		"slot":     {Config{ConnConfig: good.ConnConfig, Slot: "a'b", Publication: "p"}, Options{}, []string{`"a'b"`}},
		"negative": {good, Options{FragmentBytes: -1, LockPoll: -1}, []string{"FragmentBytes is negative", "LockPoll is negative"}},
		"long":     {Config{ConnConfig: good.ConnConfig, Slot: strings.Repeat("s", 64), Publication: strings.Repeat("p", 64)}, Options{}, []string{"slot name", "publication name"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(tc.cfg, tc.opts)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestBackoffGrowsWithoutProgress(t *testing.T) {
	for range 100 {
		require.LessOrEqual(t, backoff(0, time.Second, 10*time.Second), quickRetry)
		for failures, limit := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1000: 10 * time.Second} {
			wait := backoff(failures, time.Second, 10*time.Second)
			require.LessOrEqual(t, wait, limit)
			require.GreaterOrEqual(t, wait, limit/2)
		}
	}
}

func TestSlotCommandFitsTheRelease(t *testing.T) {
	require.Equal(t, "CREATE_REPLICATION_SLOT s LOGICAL pgoutput NOEXPORT_SNAPSHOT", createSlotCommand("s", false, 140012))
	require.Equal(t, "CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'nothing')", createSlotCommand("s", false, 160003))
	require.Equal(t, "CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'nothing', FAILOVER true)", createSlotCommand("s", false, 170000))
	require.Equal(t, "CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput (SNAPSHOT 'nothing')", createSlotCommand("s", true, 180000))
}

func TestSecondStreamWaitsForTheLockAndTakesOver(t *testing.T) {
	db := pgtest.New(t)
	a := follow(t, db, setup{})
	table(t, db, "a", "id int PRIMARY KEY")
	db.Exec(t, "INSERT INTO a VALUES (1)")
	b := follow(t, db, setup{idle: true})
	require.Contains(t, b.await(WaitingForLock).Detail, db.Name)
	a.Confirm(a.want("0 insert a new(1)").end)
	// One who waits for long must hold no snapshot, or it holds back VACUUM and CREATE INDEX CONCURRENTLY.
	db.Exec(t, "CREATE INDEX CONCURRENTLY ON a (id)")
	db.Exec(t, "INSERT INTO a VALUES (2)")
	a.want("0 insert a new(2)")
	require.EqualValues(t, 1, a.Stats().Connections, "the holder is left alone")
	require.Empty(t, b.infos)
	a.stop()
	b.await(Streaming)
	require.False(t, b.info().SlotCreated)
	b.want("0 insert a new(2)")
}

func TestWaitingForTheLockCanBeStopped(t *testing.T) {
	db := pgtest.New(t)
	follow(t, db, setup{})
	b := follow(t, db, setup{idle: true})
	b.await(WaitingForLock)
	b.stop()
}

func TestAttributesOfTheConnectionString(t *testing.T) {
	db := pgtest.New(t)
	sep := "?"
	if strings.Contains(db.URL, "?") {
		sep = "&"
	}
	cfg := parseURL(t, db.URL+sep+"target_session_attrs=read-write&application_name=mine")
	f := follow(t, db, setup{Config: Config{ConnConfig: cfg}})
	require.Equal(t, "mine", query1(t, db, fmt.Sprintf("SELECT application_name FROM pg_stat_activity WHERE pid = %d", f.info().BackendPID)))
}

func TestRunsOnlyOnce(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{})
	require.ErrorContains(t, f.Run(t.Context(), nil, nil), "running already")
}

func TestSlotDroppedBehindOurBack(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{})
	table(t, db, "a", "id int PRIMARY KEY")
	f.info()
	f.Confirm(1 << 50) // as if the slot's history had gone on
	f.stop()
	db.Exec(t, "SELECT pg_drop_replication_slot('"+db.Name+"'); INSERT INTO a VALUES (1)")
	f.start(setup{})
	info := f.info()
	require.True(t, info.SlotCreated)
	require.False(t, info.PublicationCreated)
	db.Exec(t, "INSERT INTO a VALUES (2)")
	tx := f.want("0 insert a new(2)")
	f.stop()
	require.Equal(t, "t", query1(t, db, "SELECT confirmed_flush_lsn < '"+tx.CommitLSN.String()+"' FROM pg_replication_slots WHERE slot_name = '"+db.Name+"'"),
		"what was confirmed of the former slot says nothing about this one")
}

func TestPublicationDroppedAndCreatedAgain(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{})
	first := f.info()
	db.Exec(t, "DROP PUBLICATION "+db.Name)
	db.Exec(t, "CREATE PUBLICATION "+db.Name)
	db.Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(%d)", first.BackendPID))
	second := f.info()
	require.True(t, second.SlotCreated)
	require.False(t, second.PublicationCreated)
	require.NotEqual(t, first.PublicationOID, second.PublicationOID)
}

// B136: the slot is older than the publication, and somebody wrote between.
func TestSlotOlderThanPublication(t *testing.T) {
	for _, byUs := range []bool{true, false} {
		t.Run(fmt.Sprintf("created_by_us=%t", byUs), func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "SELECT pg_create_logical_replication_slot('"+db.Name+"', 'pgoutput')")
			db.Exec(t, "CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b VALUES (1)")
			if !byUs {
				db.Exec(t, "CREATE PUBLICATION "+db.Name)
			}
			f := follow(t, db, setup{idle: true})
			for !f.info().SlotCreated {
			}
			f.await(Streaming)
			table(t, db, "a", "id int PRIMARY KEY")
			db.Exec(t, "INSERT INTO a VALUES (1)")
			f.want("0 insert a new(1)")
		})
	}
}

func TestPublicationAndSlotThatDoNotFit(t *testing.T) {
	fails := func(t *testing.T, db *pgtest.DB, how setup, want ...string) {
		t.Helper()
		how.idle = true
		f := follow(t, db, how)
		err := f.end()
		var config *ConfigError
		require.ErrorAs(t, err, &config)
		for _, w := range want {
			require.ErrorContains(t, err, w)
		}
		status, _ := f.Status()
		require.Equal(t, err, status.Err, "health checks can tell why")
		require.NotContains(t, err.Error(), "Se/cret")
	}
	t.Run("publication is partial", func(t *testing.T) {
		db := pgtest.New(t)
		db.Exec(t, "CREATE PUBLICATION "+db.Name+" WITH (publish = 'insert, update, delete')")
		fails(t, db, setup{Config: Config{ManualPublication: true}}, "truncate", `ALTER PUBLICATION "`+db.Name+`" SET (publish = 'insert, update, delete, truncate');`)
	})
	t.Run("publication is missing", func(t *testing.T) {
		db := pgtest.New(t)
		fails(t, db, setup{Config: Config{ManualPublication: true}}, `CREATE PUBLICATION "`+db.Name+`"`, db.Name)
		require.Equal(t, "0", query1(t, db, "SELECT count(*) FROM pg_publication"))
	})
	t.Run("other plugin", func(t *testing.T) {
		db := pgtest.New(t)
		db.Exec(t, "SELECT pg_create_logical_replication_slot('"+db.Name+"', 'test_decoding')")
		fails(t, db, setup{}, "test_decoding", "pg_drop_replication_slot('"+db.Name+"')")
	})
	t.Run("other database", func(t *testing.T) {
		db, other := pgtest.New(t), pgtest.New(t)
		other.Exec(t, "SELECT pg_create_logical_replication_slot('"+db.Name+"', 'pgoutput')")
		fails(t, db, setup{}, other.Name)
	})
	t.Run("physical slot", func(t *testing.T) {
		db := pgtest.New(t)
		db.Exec(t, "SELECT pg_create_physical_replication_slot('"+db.Name+"')")
		defer db.Exec(t, "SELECT pg_drop_replication_slot('"+db.Name+"')")
		fails(t, db, setup{}, "pgoutput")
	})
	t.Run("privileges", func(t *testing.T) {
		db := pgtest.New(t)
		role := db.Name[max(0, len(db.Name)-20):] + "_r"
		db.Exec(t, fmt.Sprintf(`CREATE ROLE %q LOGIN PASSWORD 'Se/cret'`, role))
		defer db.Exec(t, fmt.Sprintf(`DROP OWNED BY %q; DROP ROLE %[1]q`, role))
		cfg := parseURL(t, db.URL)
		cfg.User, cfg.Password = role, "Se/cret"
		fails(t, db, setup{Config: Config{ConnConfig: cfg.Copy()}}, `ALTER ROLE "`+role+`" REPLICATION;`)
		db.Exec(t, fmt.Sprintf(`ALTER ROLE %q REPLICATION`, role))
		fails(t, db, setup{Config: Config{ConnConfig: cfg.Copy()}}, `GRANT CREATE ON DATABASE "`+db.Name+`" TO "`+role+`";`)
		db.Exec(t, fmt.Sprintf(`GRANT CREATE ON DATABASE %s TO %q`, db.Name, role))
		f := follow(t, db, setup{Config: Config{ConnConfig: cfg.Copy()}})
		require.True(t, f.info().PublicationCreated)
		f.stop()
		require.NoError(t, f.DropSlot(t.Context()))
	})
}

func TestPoolerIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 4096)); err == nil {
			_, _ = conn.Write(errorResponse("08P01"))
		}
	}()
	f := newFollower(t, fmt.Sprintf("postgres://u@%s/d?sslmode=disable", l.Addr()), "x", setup{})
	f.start(setup{idle: true})
	err = f.end()
	var config *ConfigError
	require.ErrorAs(t, err, &config)
	require.ErrorContains(t, err, "configure the address of Postgres itself")
	<-done
}

func TestUnreachableServerIsTriedAgain(t *testing.T) {
	cfg := parseURL(t, "postgres://u:Se%2Fcret@127.0.0.1:1/d?sslmode=disable")
	f := newFollower(t, "", "x", setup{Config: Config{ConnConfig: cfg}, idle: true})
	f.start(setup{idle: true})
	err := f.awaitFailure()
	require.ErrorContains(t, err, "connect: ")
	require.NotContains(t, err.Error(), "Se/cret")
	f.await(Connecting)
	f.stop()
}

func TestSlotInUseIsTriedAgain(t *testing.T) {
	db := pgtest.New(t)
	first := follow(t, db, setup{})
	first.stop()
	// What an administrator's pg_recvlogical does: it reads the slot and knows nothing of the lock.
	conn := takeSlot(t, db)
	f := follow(t, db, setup{idle: true})
	require.ErrorIs(t, f.awaitFailure(), ErrSlotInUse)
	require.NoError(t, conn.Close(t.Context()))
	f.await(Streaming)
	require.False(t, f.info().SlotCreated)
}

// takeSlot reads db's slot without holding the lock.
func takeSlot(t *testing.T, db *pgtest.DB) *pgconn.PgConn {
	t.Helper()
	f := newFollower(t, db.URL, db.Name, setup{})
	conn, _, err := f.connect(t.Context())
	require.NoError(t, err)
	for deadline := time.Now().Add(patience); ; {
		if err = f.Stream.start(t.Context(), conn); sqlState(err) != codeObjectInUse || time.Now().After(deadline) {
			break
		}
	}
	require.NoError(t, err)
	return conn
}

func TestTemporarySlot(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{Config: Config{Temporary: true}})
	pid := f.info().BackendPID
	require.Equal(t, "t", query1(t, db, "SELECT temporary FROM pg_replication_slots WHERE slot_name = '"+db.Name+"'"))
	db.Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
	require.True(t, f.info().SlotCreated)
	f.await(Streaming)
	f.stop()
	awaitQuery(t, db, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+db.Name+"'", "0")
}

func TestDropSlot(t *testing.T) {
	db := pgtest.New(t)
	f := follow(t, db, setup{})
	f.stop()
	require.NoError(t, f.DropSlot(t.Context()))
	require.Equal(t, "0", query1(t, db, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+db.Name+"'"))
	require.NoError(t, f.DropSlot(t.Context()), "dropping nothing is fine")
}

func TestSlotCreationWaitsForRunningTransactions(t *testing.T) {
	for _, stopEarly := range []bool{false, true} {
		t.Run(fmt.Sprintf("stop_early=%t", stopEarly), func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "CREATE TABLE w (id int)")
			conn, err := pgx.Connect(t.Context(), db.URL)
			require.NoError(t, err)
			defer conn.Close(context.WithoutCancel(t.Context()))
			_, err = conn.Exec(t.Context(), "BEGIN; INSERT INTO w VALUES (1)")
			require.NoError(t, err)

			f := follow(t, db, setup{idle: true})
			status := f.awaitStatus("what it waits for", func(s Status) bool {
				return s.State == CreatingSlot && strings.Contains(s.Detail, "waits for")
			})
			require.Contains(t, status.Detail, fmt.Sprintf("backend %d", conn.PgConn().PID()))
			if stopEarly {
				f.stop()
				// The server's side is gone too, though the transaction still runs.
				awaitQuery(t, db, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND datname = '"+db.Name+"'", "0")
				awaitQuery(t, db, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+db.Name+"'", "0")
				return
			}
			_, err = conn.Exec(t.Context(), "COMMIT")
			require.NoError(t, err)
			f.await(Streaming)
			require.True(t, f.info().SlotCreated)
		})
	}
}

func TestServerWithoutLogicalDecoding(t *testing.T) {
	srv := pgtest.NewServer(t, pgtest.ServerOptions{Settings: map[string]string{"wal_level": "replica"}})
	f := newFollower(t, srv.URL(), "x", setup{})
	f.start(setup{idle: true})
	err := f.end()
	var config *ConfigError
	require.ErrorAs(t, err, &config)
	require.ErrorContains(t, err, "ALTER SYSTEM SET wal_level = 'logical'; and restart Postgres")
}

func TestRestartsLimitsAndLostSlot(t *testing.T) {
	srv := pgtest.NewServer(t, pgtest.ServerOptions{Settings: map[string]string{
		"max_slot_wal_keep_size": "2MB", "max_wal_size": "32MB", "min_wal_size": "32MB", "max_replication_slots": "1",
		"wal_keep_size": "0",
	}})
	db := srv.NewDB(t)
	f := follow(t, db, setup{})
	require.True(t, f.info().SlotCreated)
	table(t, db, "a", "id int PRIMARY KEY, v text")
	db.Exec(t, "INSERT INTO a VALUES (1, 'x')")
	f.Confirm(f.want("0 insert a new(1 x)").end)

	// A slot for another stream: none is left.
	other := newFollower(t, db.URL, db.Name, setup{Config: Config{Slot: "another"}})
	other.start(setup{idle: true})
	err := other.awaitFailure()
	require.ErrorIs(t, err, ErrSlotsExhausted)
	require.ErrorContains(t, err, "max_replication_slots")
	require.Equal(t, codeConfigurationLimit, sqlState(err))
	other.stop()

	// A restart in good order, and a crash (B141). The collector of this test confirms whatever it is told.
	for i, down := range []func(testing.TB){srv.Restart, func(t testing.TB) { srv.Kill(t); srv.Start(t) }} {
		stopConfirming := f.confirmAll()
		down(t)
		stopConfirming()
		f.await(Streaming)
		require.False(t, f.info().SlotCreated)
		db.Exec(t, fmt.Sprintf("INSERT INTO a VALUES (%d, 'y')", 10+i))
		tx := f.next()
		for show(tx.changes[0]) != fmt.Sprintf("0 insert a new(%d y)", 10+i) {
			tx = f.next()
		}
		f.Confirm(tx.end)
	}

	// The slot falls behind too far (B122).
	f.stop()
	for range 4 {
		db.Exec(t, "INSERT INTO a SELECT g, repeat('j', 800) FROM generate_series(1000, 16000) g; DELETE FROM a WHERE id >= 1000")
		db.Exec(t, "SELECT pg_switch_wal()")
		db.Exec(t, "CHECKPOINT")
	}
	require.Equal(t, "lost", query1(t, db, "SELECT wal_status FROM pg_replication_slots"))
	f.start(setup{})
	require.True(t, f.info().SlotCreated)
	db.Exec(t, "INSERT INTO a VALUES (3, 'b')")
	f.want("0 insert a new(3 b)")
	require.Equal(t, "reserved true", query1(t, db, "SELECT wal_status || ' ' || active FROM pg_replication_slots"))
}

// confirmAll confirms every event until the function that it returns is called: a server that shuts down in good order
// waits for that.
func (f *follower) confirmAll() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case ev := <-f.events:
				if ev.Fragment == nil {
					f.Confirm(ev.WALEnd)
				} else if ev.Fragment.Last {
					f.Confirm(ev.Fragment.EndLSN)
				}
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// proxy forwards connections to Postgres; while stalled it forwards nothing and closes nothing (B140).
type proxy struct {
	net.Listener
	target string
	stall  chan struct{} // closed: connections of before are dead
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: l, target: target, stall: make(chan struct{})}
	done := make(chan struct{})
	go func() { defer close(done); p.serve() }()
	t.Cleanup(func() { l.Close(); <-done })
	return p
}

// serve takes one connection that can stall, and then as many as come that do not.
func (p *proxy) serve() {
	var live []net.Conn
	var pumps sync.WaitGroup
	defer func() {
		for _, c := range live {
			c.Close()
		}
		pumps.Wait()
	}()
	for n := 0; ; n++ {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		live = append(live, client, server)
		stall := p.stall
		if n > 0 {
			stall = nil
		}
		pumps.Go(func() { pump(client, server, stall) })
		pumps.Go(func() { pump(server, client, stall) })
	}
}

// pump forwards until either side ends; once stall is closed it swallows what comes and tells nobody.
func pump(from, to net.Conn, stall <-chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-stall:
			if err != nil {
				return
			}
			continue
		default:
		}
		if err != nil {
			to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestSilentNetworkLoss(t *testing.T) {
	db := pgtest.New(t)
	cfg := parseURL(t, db.URL)
	if strings.HasPrefix(cfg.Host, "/") {
		t.Fatal("the test server must listen on TCP")
	}
	p := newProxy(t, net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)))
	cfg.Host, cfg.Port = "127.0.0.1", uint16(p.Addr().(*net.TCPAddr).Port)
	cfg.Fallbacks, cfg.TLSConfig = nil, nil
	f := follow(t, db, setup{
		Config:  Config{ConnConfig: cfg},
		Options: Options{SilenceTimeout: 600 * time.Millisecond, StatusInterval: 200 * time.Millisecond},
		params:  map[string]string{"wal_sender_timeout": "0"}, // the server would keep the dead walsender for ever
	})
	f.info()
	table(t, db, "a", "id int PRIMARY KEY")
	db.Exec(t, "INSERT INTO a VALUES (1)")
	f.Confirm(f.want("0 insert a new(1)").end)
	<-time.After(1500 * time.Millisecond)
	require.EqualValues(t, 1, f.Stats().Connections, "an idle server that answers is not silent")

	close(p.stall)
	db.Exec(t, "INSERT INTO a VALUES (2)")
	require.False(t, f.info().SlotCreated)
	tx := f.next()
	if show(tx.changes[0]) == "0 insert a new(1)" { // the confirmation may have been lost
		tx = f.next()
	}
	require.Equal(t, "0 insert a new(2)", show(tx.changes[0]))
	require.EqualValues(t, 2, f.Stats().Connections)
}
