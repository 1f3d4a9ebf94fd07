package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// cleanupTimeout bounds the removal of a database, which may have to end sessions of a server under test first.
const cleanupTimeout = 30 * time.Second

// DB is a database that belongs to one test.
type DB struct {
	// URL is a superuser's connection string for this database.
	URL string
	// Name is the database's name, safe as an identifier without quotes.
	Name string
	// Server is where the database lives; only a Server of NewServer can be stopped.
	Server *Server
}

// New makes a fresh database on the shared server and removes it, with the replication slots, prepared transactions
// and sessions in it, when the test ends. It skips nothing: without a server the test fails, and the message says what
// to install.
func New(t testing.TB) *DB {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s.NewDB(t)
}

// NewDB makes a fresh database on s, as New does on the shared server.
func (s *Server) NewDB(t testing.TB) *DB {
	t.Helper()
	db := &DB{Name: databaseName(t.Name()), Server: s}
	var err error
	if db.URL, err = s.urlOf(db.Name); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := s.createDatabase(ctx, db.Name); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cleanupTimeout)
		defer cancel()
		if s.stopped() {
			return // the server's own clean-up removes everything
		}
		if err := s.dropDatabase(ctx, db); err != nil {
			t.Errorf("pgtest: remove database %s: %v", db.Name, err)
		}
	})
	return db
}

// Exec runs SQL (one or several statements, as one simple query) and fails the test on an error.
func (db *DB) Exec(t testing.TB, sql string) {
	t.Helper()
	// Without the test's cancellation, so that clean-up functions may use it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	err := withConn(ctx, db.URL, func(conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
	if err != nil {
		t.Fatalf("pgtest: %v\nin: %s", err, sql)
	}
}

// Pool returns a connection pool on the database, closed when the test ends.
func (db *DB) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// databaseName makes a name from the test's: lower case letters, digits and underscores, at most 63 bytes, never the
// same twice. A part of it is random because test processes share the server.
func databaseName(test string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		}
		return '_'
	}, test)
	return fmt.Sprintf("t_%.40s_%s", clean, strings.ToLower(rand.Text()[:10]))
}

// urlOf returns the connection string of a database on s, with the host and the parameters of the server's own.
func (s *Server) urlOf(name string) (string, error) {
	u, err := url.Parse(s.url)
	if err != nil {
		return "", fmt.Errorf("parse %s: %w", EnvURL, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

func (s *Server) createDatabase(ctx context.Context, name string) error {
	return withConn(ctx, s.url, func(conn *pgx.Conn) error {
		// template1 and not template0 would do on our own servers, but a server named by the environment may hold
		// anything there. One retry without the locale: not every system has C.UTF-8.
		create := "CREATE DATABASE " + name + " TEMPLATE template0 ENCODING 'UTF8'"
		_, err := conn.Exec(ctx, create+" LOCALE 'C.UTF-8'")
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && strings.Contains(pgErr.Message, "locale") {
			_, err = conn.Exec(ctx, create+" LOCALE 'C'")
		}
		if err != nil {
			return fmt.Errorf("create database: %w", err)
		}
		return nil
	})
}

// dropDatabase removes a database and what keeps it from being removed. Slots belong to the whole server, and one
// that is in use cannot be dropped until its sender is gone, so this asks again until the time is up.
func (s *Server) dropDatabase(ctx context.Context, db *DB) error {
	if err := rollbackPrepared(ctx, db); err != nil {
		return err
	}
	return withConn(ctx, s.url, func(conn *pgx.Conn) error {
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		var last error
		for {
			// No new sessions, end those there are, then the slots, then the database.
			_, err1 := conn.Exec(ctx, "ALTER DATABASE "+db.Name+" WITH ALLOW_CONNECTIONS false")
			_, err2 := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, db.Name)
			_, err3 := conn.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
				WHERE database = $1 AND active_pid IS NULL`, db.Name)
			_, err4 := conn.Exec(ctx, "DROP DATABASE "+db.Name+" WITH (FORCE)")
			if err4 == nil {
				return nil
			}
			last = cmp.Or(errors.Join(err1, err2, err3, err4), last)
			select {
			case <-ctx.Done():
				return last
			case <-tick.C:
			}
		}
	})
}

// rollbackPrepared ends the prepared transactions of db, which only a session in db can do.
func rollbackPrepared(ctx context.Context, db *DB) error {
	return withConn(ctx, db.URL, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = $1", db.Name)
		if err != nil {
			return fmt.Errorf("list prepared transactions: %w", err)
		}
		gids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("list prepared transactions: %w", err)
		}
		for _, gid := range gids {
			if _, err := conn.Exec(ctx, "ROLLBACK PREPARED '"+strings.ReplaceAll(gid, "'", "''")+"'"); err != nil {
				return fmt.Errorf("roll back prepared transaction %q: %w", gid, err)
			}
		}
		return nil
	})
}

func withConn(ctx context.Context, url string, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

// shared returns the server that all tests of this process use.
var shared = sync.OnceValues(openShared)
