package replication

import (
	"time"

	"github.com/shapeserver/shapeserver/changes"
)

// State is what a Stream is doing.
type State int

// The states, in the order of a start.
const (
	Connecting     State = iota // also between two attempts, and before and after Run
	WaitingForLock              // another process holds the advisory lock
	CreatingSlot                // Postgres waits for the transactions that are running now
	Streaming
)

// String returns the state in words.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case WaitingForLock:
		return "waiting for lock"
	case CreatingSlot:
		return "creating slot"
	case Streaming:
		return "streaming"
	default:
		return "unknown"
	}
}

// Status is a Stream's state for health checks.
type Status struct {
	State State
	Since time.Time // when State was entered
	// Detail says what is being waited for, or "".
	Detail string
	// Err is what ended the last attempt, nil once the stream runs.
	Err error
}

// Info describes a connection that is about to stream.
type Info struct {
	// SystemID and Timeline tell one cluster, and one history of it, from another (IDENTIFY_SYSTEM). If either is not what
	// it was when shapes were made, their logs do not continue in this stream.
	SystemID      string
	Timeline      int32
	ServerVersion int // server_version_num, such as 150018
	// WALPosition is how far the WAL was flushed when the connection was made: what was committed before and is in the
	// stream has all come once the stream is there.
	WALPosition changes.LSN
	// SlotCreated says that the slot is new: what was committed before ConfirmedLSN will not come. It and
	// PublicationCreated are repeated until onConnect has returned nil once.
	SlotCreated        bool
	PublicationCreated bool
	PublicationOID     uint32 // another OID than before: the publication was dropped and made again
	// ConfirmedLSN is where the stream begins: transactions whose commit record ends at or before it do not come. If it
	// is higher than what was ever given to Confirm, somebody moved or replaced the slot, and what lies between is lost.
	ConfirmedLSN changes.LSN
	BackendPID   uint32
}

// Stats counts since New. All are totals over every connection, so that what was sent twice counts twice.
type Stats struct {
	Connections  uint64
	Transactions uint64
	Changes      uint64
	Bytes        uint64      // of pgoutput messages
	Received     changes.LSN // position up to which the server has sent everything
	Confirmed    changes.LSN // everything up to here is known to be durable
}
