package changes

import "time"

// Op is what a Change does.
type Op byte

// The operations, in the letters of the stream's messages.
const (
	Insert   Op = 'I'
	Update   Op = 'U'
	Delete   Op = 'D'
	Truncate Op = 'T'
)

// String returns the operation's name on the wire.
func (o Op) String() string {
	switch o {
	case Insert:
		return "insert"
	case Update:
		return "update"
	case Delete:
		return "delete"
	case Truncate:
		return "truncate"
	default:
		return "unknown"
	}
}

// Change is one row change, or the truncation of one table.
type Change struct {
	Op       Op
	Relation *Relation
	// Index counts the changes of the transaction from 0 over every published table, this shape's or not. The op
	// of an offset is twice the Index (protocol.md §6.1). A TRUNCATE of several tables counts once for each.
	Index uint64
	// Old is the row before an Update or Delete: complete under REPLICA IDENTITY FULL, nil when Postgres sent no
	// old row (an Update under another identity that leaves the key alone).
	Old Row
	// OldKeyOnly says that Old has the columns of another replica identity alone; the others are Null, and unknown.
	OldKeyOnly bool
	// New is the row after an Insert or Update, unchanged TOAST values already filled from Old where Old has them.
	New Row
}

// OldKnown reports whether Old is the row as it was.
func (c *Change) OldKnown() bool { return c.Old != nil && !c.OldKeyOnly }

// Txn is what all the fragments of a committed transaction share.
type Txn struct {
	CommitLSN  LSN // position of the commit record (Begin.final_lsn); the tx part of offsets
	Xid        Xid
	CommitTime time.Time
}

// Fragment is a contiguous piece of a committed transaction. Most transactions are one fragment with First and Last
// set; big ones come as several, so that memory stays bounded (I9), and their fragments are never interleaved with
// another transaction's. A fragment may be without changes.
type Fragment struct {
	Txn     *Txn
	Changes []Change
	First   bool
	Last    bool
	// EndLSN is set on the Last fragment: the end of the commit record (Commit.end_lsn). Once everything of the
	// transaction is durable this may be confirmed to Postgres.
	EndLSN LSN
}

// Event is what replication hands to collector: a Fragment, or, when Fragment is nil, the word that the server has
// sent everything up to WALEnd and that no transaction is open.
type Event struct {
	Fragment *Fragment
	WALEnd   LSN
}
