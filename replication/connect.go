package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/sqltext"
)

const (
	// setupTimeout bounds each step of a start that waits for nobody: connecting, a look into the catalog.
	setupTimeout = 30 * time.Second
	// closeTimeout bounds saying goodbye.
	closeTimeout = 2 * time.Second
	// minServerVersion is the oldest release that is supported, Postgres 14.
	minServerVersion = 140000
)

// sessionSettings fix the text form of values (protocol.md §7.1) and take away limits that a role or a database may have
// set: they would end a session that waits for a lock or a slot. They are sent when connecting, which makes them the
// session's defaults, and a walsender's output functions obey them.
var sessionSettings = map[string]string{
	"replication":                         "database",
	"client_encoding":                     "UTF8",
	"bytea_output":                        "hex",
	"DateStyle":                           "ISO, DMY",
	"TimeZone":                            "UTC",
	"extra_float_digits":                  "1",
	"IntervalStyle":                       "iso_8601",
	"statement_timeout":                   "0",
	"lock_timeout":                        "0",
	"idle_in_transaction_session_timeout": "0",
	"standard_conforming_strings":         "on",         // quoteLiteral relies on it
	"search_path":                         "pg_catalog", // decides how values of types such as regclass read
	// So that the server notices that we are gone, and frees the lock, also while nothing streams.
	"tcp_keepalives_idle":     "30",
	"tcp_keepalives_interval": "10",
	"tcp_keepalives_count":    "3",
}

// meter counts the bytes that arrive on a connection, below TLS. Counting bytes, not messages, keeps a value of a
// gigabyte on a slow line from looking like silence.
type meter struct {
	net.Conn
	received atomic.Int64
}

// Read implements net.Conn.
func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.received.Add(int64(n))
	return n, err
}

// connect opens the replication connection.
func (s *Stream) connect(ctx context.Context) (*pgconn.PgConn, *meter, error) {
	s.setState(Connecting, "", nil)
	cfg := s.cfg.ConnConfig.Copy()
	params := maps.Clone(cfg.RuntimeParams)
	if params == nil {
		params = make(map[string]string)
	}
	if params["application_name"] == "" {
		params["application_name"] = "shapeserver"
	}
	maps.Copy(params, sessionSettings)
	cfg.RuntimeParams = params
	var last *meter // the one in use is the last that was dialled
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			// best effort: without it the kernel takes two hours to notice a dead peer while we wait for lock or slot
			_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3})
		}
		last = &meter{Conn: conn}
		return last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	db, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, nil, connectError(cfg, err)
	}
	if db.ParameterStatus("server_encoding") == "SQL_ASCII" {
		// Postgres cannot convert from it, and would end the stream at the first byte that is not UTF-8, again and again.
		// As they are, such bytes reach the Encoder of shapelog, which makes valid JSON of them.
		if _, err := db.Exec(ctx, "SET client_encoding = 'SQL_ASCII'").ReadAll(); err != nil {
			closeConn(ctx, db)
			return nil, nil, fmt.Errorf("set the encoding: %w", err)
		}
	}
	return db, last, nil
}

// connectError tells the refusals that have a known remedy from the rest.
func connectError(cfg *pgconn.Config, err error) error {
	switch sqlState(err) {
	case codeInsufficientPrivilege:
		return &ConfigError{
			Problem: fmt.Sprintf("role %q may not use replication", cfg.User),
			Fix: fmt.Sprintf("as a superuser run: ALTER ROLE %s REPLICATION; (on Amazon RDS: GRANT rds_replication TO %[1]s;)",
				sqltext.Ident(cfg.User)),
			Err: err,
		}
	case codeProtocolViolation:
		// What poolers answer to a parameter that they do not pass on, "unsupported startup parameter: replication".
		return &ConfigError{
			Problem: "the server refuses the start of a replication connection, as a connection pooler does",
			Fix:     "configure the address of Postgres itself",
			Err:     err,
		}
	case codeTooManyConnections:
		return fmt.Errorf("connect: %w or no connection: raise max_wal_senders or max_connections, or end other walsenders: %w",
			ErrSlotsExhausted, err)
	default:
		return fmt.Errorf("connect: %w", err)
	}
}

// server is what a connection tells about the other side and about itself.
type server struct {
	Info
	senderTimeout time.Duration // wal_sender_timeout; zero means that it is off
	backendStart  string        // ours, from pg_stat_activity
	database      string
}

// identify asks who is there and checks that it can do logical replication.
func (s *Stream) identify(ctx context.Context, db *pgconn.PgConn) (server, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	var srv server
	id, err := pglogrepl.IdentifySystem(ctx, db)
	if err != nil {
		return srv, fmt.Errorf("identify system: %w", err)
	}
	srv.SystemID, srv.Timeline, srv.BackendPID, srv.database = id.SystemID, id.Timeline, db.PID(), id.DBName
	srv.WALPosition = changes.LSN(id.XLogPos)
	row, err := queryRow(ctx, db, `SELECT current_setting('server_version_num'), current_setting('wal_level'),
		(SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'), pg_catalog.pg_is_in_recovery(),
		(SELECT backend_start FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid())`)
	if err != nil {
		return srv, fmt.Errorf("read server settings: %w", err)
	}
	if srv.ServerVersion, err = strconv.Atoi(row[0]); err != nil {
		return srv, fmt.Errorf("read server settings: server_version_num: %w", err)
	}
	timeout, err := strconv.Atoi(row[2]) // in milliseconds, its base unit
	if err != nil {
		return srv, fmt.Errorf("read server settings: wal_sender_timeout: %w", err)
	}
	srv.senderTimeout, srv.backendStart = time.Duration(timeout)*time.Millisecond, row[4]
	if row[3] == "t" {
		return srv, ErrStandby // first, as it passes: an address may lead to a standby for a moment during a failover
	}
	switch {
	case srv.ServerVersion < minServerVersion:
		return srv, &ConfigError{
			Problem: fmt.Sprintf("Postgres %d is not supported", srv.ServerVersion/10000),
			Fix:     "upgrade to Postgres 14 or newer",
		}
	case row[1] != "logical":
		return srv, &ConfigError{
			Problem: fmt.Sprintf("wal_level is %s, logical replication needs logical", row[1]),
			Fix:     "as a superuser run: ALTER SYSTEM SET wal_level = 'logical'; and restart Postgres",
		}
	}
	// Limits that not every release knows, and that would end us while we wait for slot or onConnect.
	unlimited := []string{"idle_session_timeout"}
	if srv.ServerVersion >= 170000 {
		unlimited = append(unlimited, "transaction_timeout")
	}
	for _, name := range unlimited {
		if _, err := query(ctx, db, "SET "+name+" = 0"); err != nil {
			return srv, fmt.Errorf("set %s: %w", name, err)
		}
	}
	// best effort, as not every platform has it: lets a backend that waits for a slot notice that its client was killed
	if _, err := query(ctx, db, "SET client_connection_check_interval = '10s'"); err != nil {
		s.log.DebugContext(ctx, "client_connection_check_interval not set", "error", err)
	}
	return srv, nil
}

// endPredecessor terminates the backend of the connection that we had before, should it not have noticed yet that we are
// gone. It would keep lock and slot until wal_sender_timeout, or for ever when that is off. The start time makes sure
// that it is that backend and not another with the same process id.
func (s *Stream) endPredecessor(ctx context.Context, db *pgconn.PgConn, srv server) error {
	if s.backendStart == "" || s.known.SystemID != srv.SystemID {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	rows, err := query(ctx, db, fmt.Sprintf(`SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
		WHERE pid = %d AND backend_start = %s AND usename = current_user`, s.known.BackendPID, sqltext.Literal(s.backendStart)))
	if err != nil {
		return fmt.Errorf("end our former backend: %w", err)
	}
	if len(rows) > 0 {
		s.log.InfoContext(ctx, "ended the walsender of our lost connection", "backend_pid", s.known.BackendPID)
	}
	return nil
}

// query runs one statement in the simple protocol, the only one that a walsender speaks, and returns its rows as text,
// NULL as "".
func query(ctx context.Context, db *pgconn.PgConn, sql string) ([][]string, error) {
	results, err := db.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, r := range results {
		for _, cells := range r.Rows {
			row := make([]string, len(cells))
			for i, cell := range cells {
				row[i] = string(cell)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// queryRow is query for a statement that gives one row.
func queryRow(ctx context.Context, db *pgconn.PgConn, sql string) ([]string, error) {
	rows, err := query(ctx, db, sql)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, errors.New("want one row")
	}
	return rows[0], nil
}

// closeConn ends a connection; it also works when ctx is over. A connection that broke is being closed by pgconn, which
// cancels what still runs on the server: that is waited for, so that a successor does not meet its predecessor.
func closeConn(ctx context.Context, db *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = db.Close(ctx) // best effort: the server notices by itself
	select {
	case <-db.CleanupDone():
	case <-ctx.Done():
	}
}
