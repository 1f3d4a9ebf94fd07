package shapelog

import (
	"strconv"

	"github.com/shapeserver/shapeserver/changes"
)

// MustRefetchBody is the whole body of a 409 (protocol.md §3.5).
const MustRefetchBody = `[{"headers":{"control":"must-refetch"}}]`

// AppendUpToDate appends the control message that ends a response which reaches the head of the log.
// lastSeen is the position up to which everything relevant to the shape has been delivered (protocol.md §5.4).
func AppendUpToDate(dst []byte, lastSeen changes.LSN) []byte {
	dst = append(dst, `{"headers":{"control":"up-to-date","global_last_seen_lsn":"`...)
	dst = strconv.AppendUint(dst, uint64(lastSeen), 10)
	return append(dst, `"}}`...)
}

// AppendSnapshotEnd appends the last item of a snapshot, with the coordinates of the transaction that read it.
func AppendSnapshotEnd(dst []byte, s changes.Snapshot) []byte {
	dst = append(dst, `{"headers":{"control":"snapshot-end",`...)
	return append(appendCoordinates(dst, s), `}}`...)
}

// AppendSubsetMetadata appends the metadata of a subset (protocol.md §10): the coordinates of the transaction that read
// it, a position in the WAL that all it saw was committed before, and the mark that its rows carry, which is not negative.
func AppendSubsetMetadata(dst []byte, s changes.Snapshot, lsn changes.LSN, mark int32) []byte {
	dst = appendCoordinates(append(dst, '{'), s)
	dst = append(dst, `,"database_lsn":"`...)
	dst = strconv.AppendUint(dst, uint64(lsn), 10)
	dst = append(dst, `","snapshot_mark":`...)
	dst = strconv.AppendInt(dst, int64(mark), 10)
	return append(dst, '}')
}

// appendCoordinates appends the members xmin, xmax and xip_list: full transaction ids, as strings because they have more
// bits than a number in JavaScript.
func appendCoordinates(dst []byte, s changes.Snapshot) []byte {
	dst = append(dst, `"xmin":"`...)
	dst = strconv.AppendUint(dst, s.Xmin, 10)
	dst = append(dst, `","xmax":"`...)
	dst = strconv.AppendUint(dst, s.Xmax, 10)
	dst = append(dst, `","xip_list":[`...)
	for i, x := range s.Xip {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = strconv.AppendUint(dst, x, 10)
		dst = append(dst, '"')
	}
	return append(dst, ']')
}
