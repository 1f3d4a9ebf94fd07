// Package publication keeps the server's publication equal to the set of tables that shapes need, with
// REPLICA IDENTITY FULL on each, and tells when a table is ready for a snapshot.
//
// It owns the reference counts of tables and every statement that changes a publication or a replica identity. It
// leaves the slot to replication, and the removal of shapes whose table was lost to whoever gets OnLost.
//
// Goroutines: Manager.Run, one, started by server; it alone changes anything in Postgres. Acquire, Settled, Release, Restore,
// Check and ComparePartitions, which only reads, may be called from any goroutine.
//
// A table goes through these phases:
//
//	(none) ──Acquire──► adding ──published, FULL──► barrier ──writers ended──► refreshing ──► ready
//	   ▲                   ▲                                                                    │ lost: OnLost
//	   └──dropped──── dropping ◄──last Release, and then nothing for a while─────────────────────┘
//
// A table that was lost begins anew, for who wants it, when every shape that it was lost with is released (phase leaving).
// One that is restored after a restart is unverified until the first check, and then ready; with synchronous replication its
// next shape has a barrier to pass before.
//
// Why a barrier: a transaction that wrote to the table before it was published, and is still open, is in neither the
// stream (it is decoded as of its own time) nor a snapshot taken now. So those are waited for, as CREATE INDEX
// CONCURRENTLY does, prepared ones too, without blocking anybody. Why refresh: older servers remember from decoding such a
// transaction that the table is not published, and leave out all that comes later; see Manager.refresh.
//
// Invariants: no statement waits for a lock on an application's table longer than tens of milliseconds, so that the
// application's queries never queue behind it; a table that cannot be published delays no other (I7); nothing waits for a removal
// from the publication.
//
// Start reading at Manager.Acquire, then Manager.Run.
package publication
