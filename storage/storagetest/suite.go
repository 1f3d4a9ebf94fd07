package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

// ChunkBytes is the chunk size that the stores under test must have.
const ChunkBytes = 1000

// Run checks a Store. open makes a new, empty one with chunks of ChunkBytes, and has it closed at the test's end.
func Run(t *testing.T, open func(t *testing.T) storage.Store) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s storage.Store)
	}{
		{"create, open, list", testCreate},
		{"a handle never comes back", testHandleNeverComesBack},
		{"phases of a snapshot", testPhases},
		{"snapshot chunks", testSnapshotChunks},
		{"first row of a snapshot is seen at once", testFirstRow},
		{"readers follow a growing snapshot", testFollowSnapshot},
		{"aborted snapshot", testAbort},
		{"abort after finish does nothing", testAbortAfterFinish},
		{"ranges (protocol.md 6.2, 6.3)", testRanges},
		{"ranges of a log in chunks", testChunkedRanges},
		{"every part of a chunked log", testEveryPart},
		{"append is seen at commit", testCommit},
		{"append skips a replay", testReplay},
		{"append refuses what is no entry", testBadOffsets},
		{"big transaction", testBigTransaction},
		{"commit wakes", testCommitWakes},
		{"newest entries", testNewest},
		{"remove wakes and ends", testRemove},
		{"remove ends a snapshot", testRemoveDuringSnapshot},
		{"open body outlives a removal", testBodyOutlivesRemoval},
		{"cancelled read", testCancelledRead},
		{"confirmed", testConfirmed},
		{"size", testSize},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// item makes a JSON object of n bytes, n ≥ 10.
func item(i, n int) []byte {
	head := fmt.Sprintf(`{"n":%d,"p":"`, i)
	return []byte(head + strings.Repeat("x", max(0, n-len(head)-2)) + `"}`)
}

func entry(tx, op uint64, n int) shapelog.Entry {
	return shapelog.Entry{Offset: shapelog.At(tx, op), JSON: item(int(tx*1000+op), n)} //nolint:gosec // small numbers
}

func at(t *testing.T, s string) shapelog.Offset {
	t.Helper()
	o, err := shapelog.Parse(s)
	require.NoError(t, err)
	return o
}

func create(t *testing.T, s storage.Store, h shape.Handle) storage.Log {
	t.Helper()
	l, err := s.Create(h)
	require.NoError(t, err)
	return l
}

var someSnapshot = changes.Snapshot{Xmin: 100, Xmax: 105, Xip: []uint64{101, 103}}

func begin(t *testing.T, l storage.Log) storage.SnapshotWriter {
	t.Helper()
	w, err := l.NewSnapshot(someSnapshot, 77)
	require.NoError(t, err)
	return w
}

var snapshotEnd = []byte(`{"headers":{"control":"snapshot-end"}}`)

// complete gives a log a snapshot of these rows, and returns the log.
func complete(t *testing.T, l storage.Log, rows ...[]byte) storage.Log {
	t.Helper()
	w := begin(t, l)
	for _, r := range rows {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Finish(snapshotEnd))
	return l
}

func appendAll(t *testing.T, l storage.Log, es ...shapelog.Entry) {
	t.Helper()
	require.NoError(t, l.Append(es))
	require.NoError(t, l.Commit())
}

// read returns (after, end], and checks what Body says about its size.
func read(t *testing.T, l storage.Log, after, end shapelog.Offset) string {
	t.Helper()
	b, err := l.Read(t.Context(), after, end)
	require.NoError(t, err)
	return drain(t, b)
}

func drain(t *testing.T, b storage.Body) string {
	t.Helper()
	size := b.Size()
	var buf bytes.Buffer
	n, err := b.WriteTo(&buf, nil)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.Equal(t, int64(buf.Len()), n)
	if size >= 0 {
		require.Equal(t, size, n, "Size")
	}
	return buf.String()
}

func join(items ...[]byte) string { return string(bytes.Join(items, []byte{','})) }

func joinEntries(es []shapelog.Entry) string {
	var items [][]byte
	for _, e := range es {
		items = append(items, e.JSON)
	}
	return join(items...)
}

// walk reads a log as a client does, from Before to the head, and returns the parts: after → end and their bytes.
func walk(t *testing.T, l storage.Log) (parts []Part) {
	t.Helper()
	after := shapelog.Before
	for range 100_000 {
		end, closed := l.Range(after)
		p := Part{After: after, End: end, Closed: closed, Body: read(t, l, after, end)}
		parts = append(parts, p)
		st, _ := l.State()
		if end.Compare(st.Last) >= 0 {
			return parts
		}
		require.Positive(t, end.Compare(after), "%s does not lead on from %s", end, after)
		after = end
	}
	require.Fail(t, "the log does not end")
	return nil
}

// Part is one response's part of a log.
type Part struct {
	After, End shapelog.Offset
	Closed     bool
	Body       string
}

// readErr reads a part that must fail.
func readErr(ctx context.Context, l storage.Log, after, end shapelog.Offset) error {
	b, err := l.Read(ctx, after, end)
	if err != nil {
		return err
	}
	_, err = b.WriteTo(&bytes.Buffer{}, nil)
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	return err
}

func requireWoken(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	default:
		require.Fail(t, "nobody was woken")
	}
}

func requireAsleep(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
		require.Fail(t, "woken without a change")
	default:
	}
}
