package consumer

import "github.com/shapeserver/shapeserver/changes"

// seam decides which transactions of the stream the snapshot has already seen.
//
// Visibility is a question of transaction ids, not of positions: a transaction may commit, in the WAL, before the
// snapshot is taken and still be invisible to it, because its commit is announced to other backends a moment later
// (or much later, while it waits for a synchronous standby). But the other way round positions do help: whatever the
// snapshot saw had committed before it, so its commit record lies below the write position read after the snapshot.
// From there on nothing is filtered, and 32-bit ids that wrapped since cannot be mistaken.
type seam struct {
	snapshot changes.Snapshot
	lsn      changes.LSN // write position at, or just after, the moment of the snapshot
}

// saw reports whether the snapshot saw the transaction.
func (s seam) saw(t *changes.Txn) bool {
	return t.CommitLSN < s.lsn && s.snapshot.Visible(t.Xid)
}
