package replication

import (
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrSlotInUse reports that another connection reads the replication slot, although we hold the lock: it is not one
	// of ours. Run tries again; whoever it is must stop.
	ErrSlotInUse = errors.New("replication slot is in use by another connection")
	// ErrStandby reports that the server is in recovery, where a publication cannot be changed. Run tries again, until it
	// is promoted or the address leads to the primary.
	ErrStandby = errors.New("server is a standby, logical replication needs the primary")
	// ErrSilent reports that the server sent nothing for Options.SilenceTimeout, although asked. Run reconnects.
	ErrSilent = errors.New("server went silent")
	// ErrSlotsExhausted reports that the server's max_replication_slots or max_wal_senders is used up. Run tries again,
	// until the setting is raised or a slot or a walsender becomes free.
	ErrSlotsExhausted = errors.New("server has no replication slot or walsender left")
)

// ConfigError reports something in the database that a person has to change. Run ends with it, because trying again
// cannot help.
type ConfigError struct {
	Problem string
	Fix     string // what to run, and where
	Err     error  // what Postgres said; may be nil
}

// Error implements error.
func (e *ConfigError) Error() string {
	s := e.Problem + "; to correct it: " + e.Fix
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns what Postgres said.
func (e *ConfigError) Unwrap() error { return e.Err }

// DecodeError reports a message of the stream that is not as the manual describes it (section 55.9, "Logical Replication
// Message Formats"). The connection is given up and the stream starts over.
type DecodeError struct {
	Type    byte // the message's type letter, zero for an empty message
	Size    int  // of the message, in bytes
	Pos     int  // byte in the message where it goes wrong
	Problem string
}

// Error implements error.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("pgoutput message %q of %d bytes, byte %d: %s", e.Type, e.Size, e.Pos, e.Problem)
}

// SQLSTATE codes (appendix A of the manual) that are told apart.
const (
	codeInsufficientPrivilege = "42501"
	codeDuplicateObject       = "42710"
	codeUndefinedObject       = "42704"
	codeObjectInUse           = "55006"
	codeProtocolViolation     = "08P01"
	codeTooManyConnections    = "53300"
	codeConfigurationLimit    = "53400"
)

// sqlState returns the SQLSTATE that err carries, or "".
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
