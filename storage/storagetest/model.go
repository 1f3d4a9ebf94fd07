package storagetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

// model does random things to a store and knows what must come of them. What changes the disk is a history of events, in
// the order of one write-ahead log; a crash leaves some beginning of it that has at least what was synced.
type model struct {
	t     *testing.T
	disk  Disk
	rng   *rand.Rand
	store storage.Store

	history []event
	durable int // events that a crash must leave
	logs    map[shape.Handle]*modelLog
	handles int
	tx      uint64
}

type event struct {
	kind  eventKind
	h     shape.Handle
	lsn   changes.LSN
	es    []shapelog.Entry
	parts []Part // of the snapshot
}

type eventKind int

const (
	created eventKind = iota
	finished
	committed
	confirmed
	removed
)

// modelLog is a log in use.
type modelLog struct {
	log     storage.Log
	writer  storage.SnapshotWriter
	rows    [][]byte
	done    bool // the snapshot is complete
	failed  bool // the snapshot was aborted, or was incomplete at a crash
	entries []shapelog.Entry
	pending []shapelog.Entry
}

func (m *model) run(steps int) {
	m.logs = map[shape.Handle]*modelLog{}
	m.store = m.disk.Open(m.t)
	m.tx = 1000
	for range steps {
		switch n := m.rng.IntN(100); {
		case n < 6:
			m.create()
		case n < 30:
			m.snapshot()
		case n < 70:
			m.append()
		case n < 76:
			m.read()
		case n < 82:
			m.sync()
		case n < 88:
			m.confirm()
		case n < 91:
			m.remove()
		case n < 96:
			m.disk.work(m.t, m.store)
		default:
			m.restart(m.rng.IntN(3) > 0)
		}
	}
	m.sync()
	m.restart(true)
	require.NoError(m.t, m.store.Close())
}

// pick returns some log for which ok holds.
func (m *model) pick(ok func(*modelLog) bool) (shape.Handle, *modelLog) {
	var hs []shape.Handle
	for h, l := range m.logs {
		if ok(l) {
			hs = append(hs, h)
		}
	}
	if len(hs) == 0 {
		return "", nil
	}
	slices.Sort(hs)
	h := hs[m.rng.IntN(len(hs))]
	return h, m.logs[h]
}

func (m *model) create() {
	m.handles++
	h := shape.Handle(fmt.Sprintf("%d-%d", m.rng.IntN(100), 1_700_000_000_000_000+m.handles))
	m.logs[h] = &modelLog{log: create(m.t, m.store, h)}
	m.history = append(m.history, event{kind: created, h: h})
}

func (m *model) snapshot() {
	h, l := m.pick(func(l *modelLog) bool { return !l.done && !l.failed })
	if l == nil {
		return
	}
	if l.writer == nil {
		l.writer = begin(m.t, l.log)
	}
	for range m.rng.IntN(6) {
		row := item(m.rng.IntN(1000), 20+m.rng.IntN(700)*m.rng.IntN(8))
		require.NoError(m.t, l.writer.Write(row))
		l.rows = append(l.rows, row)
	}
	switch n := m.rng.IntN(10); {
	case n < 4:
		require.NoError(m.t, l.writer.Finish(snapshotEnd))
		l.done = true
		m.history = append(m.history, event{kind: finished, h: h, parts: snapshotParts(l.rows)})
	case n == 4:
		l.writer.Abort()
		l.failed = true
	}
}

// snapshotParts cuts rows into chunks as protocol.md §6.4 says.
func snapshotParts(rows [][]byte) (parts []Part) {
	var chunk [][]byte
	n := 0
	for _, r := range rows {
		chunk = append(chunk, r)
		if n += len(r) + 1; n >= ChunkBytes {
			parts, chunk, n = append(parts, Part{Body: join(chunk...)}), nil, 0
		}
	}
	return append(parts, Part{Body: join(append(chunk, snapshotEnd)...)})
}

func (m *model) append() {
	h, l := m.pick(func(l *modelLog) bool { return l.done })
	if l == nil {
		return
	}
	if len(l.pending) == 0 {
		m.tx += uint64(1 + m.rng.IntN(50)) //nolint:gosec // small numbers
	}
	op := uint64(0)
	if n := len(l.pending); n > 0 {
		op = l.pending[n-1].Offset.Op() + 1
	}
	var es []shapelog.Entry
	tx := m.tx
	if len(l.pending) > 0 {
		tx = l.pending[0].Offset.Tx()
	}
	size := 300
	if m.rng.IntN(12) == 0 {
		size = 60_000 // so that some transactions are written before their commit
	}
	for range m.rng.IntN(8) {
		es = append(es, entry(tx, op, 20+m.rng.IntN(size)))
		op += uint64(1 + m.rng.IntN(3)) //nolint:gosec // small numbers
	}
	replay := slices.Clone(l.pending)
	if n := len(l.entries); n > 0 && m.rng.IntN(4) == 0 {
		replay = append(slices.Clone(l.entries[m.rng.IntN(n):]), replay...)
	}
	if m.rng.IntN(4) > 0 {
		replay = nil
	}
	require.NoError(m.t, l.log.Append(append(replay, es...)))
	l.pending = append(l.pending, es...)
	if m.rng.IntN(4) == 0 {
		return
	}
	require.NoError(m.t, l.log.Commit())
	if len(l.pending) > 0 {
		m.history = append(m.history, event{kind: committed, h: h, es: l.pending})
	}
	l.entries, l.pending = append(l.entries, l.pending...), nil
}

func (m *model) read() {
	_, l := m.pick(func(l *modelLog) bool { return l.done })
	if l != nil {
		CheckEntries(m.t, l.log, l.entries)
	}
}

func (m *model) sync() {
	require.NoError(m.t, m.store.Sync())
	m.durable = len(m.history)
}

func (m *model) confirm() {
	m.tx++
	require.NoError(m.t, m.store.SetConfirmed(changes.LSN(m.tx)))
	m.history = append(m.history, event{kind: confirmed, lsn: changes.LSN(m.tx)})
}

func (m *model) remove() {
	h, l := m.pick(func(*modelLog) bool { return true })
	if l == nil {
		return
	}
	require.NoError(m.t, m.store.Remove(h))
	delete(m.logs, h)
	m.history = append(m.history, event{kind: removed, h: h})
	m.durable = len(m.history)
}

// image is what a store has.
type image struct {
	confirmed changes.LSN
	logs      map[shape.Handle]*modelLog
	snapshots map[shape.Handle][]Part
}

// imageAfter is what a store has after n events.
func (m *model) imageAfter(n int) image {
	im := image{logs: map[shape.Handle]*modelLog{}, snapshots: map[shape.Handle][]Part{}}
	for _, e := range m.history[:n] {
		switch e.kind {
		case created:
			im.logs[e.h] = &modelLog{}
		case finished:
			im.logs[e.h].done = true
			im.snapshots[e.h] = e.parts
		case committed:
			im.logs[e.h].entries = append(im.logs[e.h].entries, e.es...)
		case confirmed:
			im.confirmed = e.lsn
		case removed:
			delete(im.logs, e.h)
		}
	}
	return im
}

// matches reports whether the store's states are those of an image.
func (m *model) matches(im image) bool {
	if m.store.Confirmed() != im.confirmed || len(m.store.Handles()) != len(im.logs) {
		return false
	}
	for h, want := range im.logs {
		l, err := m.store.Open(h)
		if err != nil {
			return false
		}
		st, _ := l.State()
		last := shapelog.SnapshotEnd
		if n := len(want.entries); n > 0 {
			last = want.entries[n-1].Offset
		}
		if (st.Phase == storage.SnapshotComplete) != want.done || st.Last != last || st.Err != nil {
			return false
		}
	}
	return true
}

func (m *model) restart(crash bool) {
	least := m.durable
	if !crash {
		least = len(m.history)
	}
	m.store = m.disk.reopen(m.t, m.store, crash)
	n := len(m.history)
	for !m.matches(m.imageAfter(n)) {
		n--
		require.GreaterOrEqual(m.t, n, least, "the store has no beginning of its history that has what was synced")
	}
	m.history = m.history[:n]
	m.durable = n
	im := m.imageAfter(n)
	m.logs = im.logs
	for h, l := range m.logs {
		var err error
		l.log, err = m.store.Open(h)
		require.NoError(m.t, err)
		if !l.done {
			l.failed = true
			continue
		}
		for i, p := range im.snapshots[h] {
			require.Equal(m.t, p.Body, read(m.t, l.log, shapelog.Before, shapelog.SnapshotChunk(i)), "%s: chunk %d", h, i)
		}
		CheckEntries(m.t, l.log, l.entries)
	}
}
