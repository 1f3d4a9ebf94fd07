package changes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Xid is a transaction id as the replication stream carries it: the low 32 bits of the full id, which wrap.
type Xid uint32

// Snapshot is what pg_current_snapshot() returns: full, 64-bit transaction ids that never wrap (section 9.27 of
// the Postgres manual, "Transaction ID and Snapshot Information Functions").
type Snapshot struct {
	Xmin uint64   // lowest id that was still in progress; every id below it is visible or was rolled back
	Xmax uint64   // one past the highest id that had completed; no id from here on is visible, though it may be running
	Xip  []uint64 // ids in [Xmin, Xmax) that were in progress, ascending; they are not visible
}

// ParseSnapshot reads the text form "xmin:xmax:xip,xip,…".
func ParseSnapshot(s string) (Snapshot, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Snapshot{}, fmt.Errorf("snapshot %q: want xmin:xmax:xip_list", s)
	}
	var snap Snapshot
	var err error
	if snap.Xmin, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %q: xmin: %w", s, err)
	}
	if snap.Xmax, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %q: xmax: %w", s, err)
	}
	if parts[2] != "" {
		for f := range strings.SplitSeq(parts[2], ",") {
			x, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				return Snapshot{}, fmt.Errorf("snapshot %q: xip: %w", s, err)
			}
			snap.Xip = append(snap.Xip, x)
		}
		slices.Sort(snap.Xip)
	}
	return snap, nil
}

// Full widens a 32-bit id to the full id nearest to Xmax. Postgres never lets two live ids lie 2³¹ or more
// apart, so the nearest is the right one for every transaction that can be in the stream beside this snapshot.
func (s Snapshot) Full(x Xid) uint64 {
	return s.Xmax + uint64(int64(int32(uint32(x)-uint32(s.Xmax)))) //nolint:gosec // modular distance is what is wanted
}

// Visible reports whether the snapshot saw the effects of transaction x, given that x committed.
func (s Snapshot) Visible(x Xid) bool {
	full := s.Full(x)
	if full < s.Xmin {
		return true
	}
	if full >= s.Xmax {
		return false
	}
	_, running := slices.BinarySearch(s.Xip, full)
	return !running
}
