package server

import (
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// isUnreachable reports whether an error of the database will pass by itself: nobody answers, or it is starting, stopping,
// or full. Everything else, a wrong password or a missing right, somebody has to correct.
func isUnreachable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// Appendix A of the Postgres manual: class 08 connection exceptions, 53300 too_many_connections,
		// 57P01…57P03 admin_shutdown, crash_shutdown, cannot_connect_now, 55P03 lock_not_available.
		return strings.HasPrefix(pg.Code, "08") || pg.Code == "53300" || strings.HasPrefix(pg.Code, "57P0") || pg.Code == "55P03"
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.Timeout(err)
}
