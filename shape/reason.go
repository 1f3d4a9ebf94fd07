package shape

// Reason says why a shape ends. It is a metric label and a log attribute, so the set is small and fixed.
type Reason string

// The reasons.
const (
	ReasonDeleted        Reason = "deleted"         // by request
	ReasonTruncated      Reason = "truncated"       // TRUNCATE of its table
	ReasonSchemaChanged  Reason = "schema_changed"  // what it selects is no longer there or of another type
	ReasonTableDropped   Reason = "table_dropped"   // its table is gone or is another table by now
	ReasonSnapshotFailed Reason = "snapshot_failed" // the first read of its rows failed
	ReasonConsumerDied   Reason = "consumer_died"   // its consumer ended without being told to
	ReasonStalled        Reason = "stalled"         // its consumer stayed full past the stall limit
	ReasonEvicted        Reason = "evicted"         // more shapes than allowed; least recently used first
	ReasonOrphaned       Reason = "orphaned"        // its records disagreed after a crash
	ReasonStorageFailed  Reason = "storage_failed"  // its log could not be written or read
	ReasonIdentityLost   Reason = "identity_lost"   // updates came without their old row
	ReasonWhereFailed    Reason = "where_failed"    // its where clause fails for a row, as by a division by zero
)
