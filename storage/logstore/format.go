package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
)

// formatVersion is the version of everything drawn below. Open refuses any other.
const formatVersion = 1

// The keys of the pebble store. Numbers are big-endian, so that keys sort as what they mean; id is the log's number,
// never used twice in a directory.
//
//	"f"                              → u32 format version
//	"c"                              → u64 confirmed LSN
//	"n"                              → u64 ids from here on were never given out
//	"m" handle                       → meta: one per log, see below
//	"t" handle                       → u64 id: the handle was removed (tombstone)
//	"g" id u64                       → "": bytes of a removed log are still to be deleted
//	"u" id u64                       → mark: entries beyond it are not committed; deleted by the commit
//	"q" id u64 | tx u64 | op u64     → "": the chunk that ends here is complete and not yet sealed
//	"l" id u64 "b" | tx u64 | op u64 → bound: a log chunk ends here
//	"l" id u64 "e" | tx u64 | op u64 → end u64 | JSON: an entry
//	"s" id u64 | chunk u32           → bytes of a snapshot chunk that has no file; apart from "l", which Open scans
//
//	meta   phase u8 | id u64                                          phase 0: snapshot not complete
//	       … | lsn u64 | xmin u64 | xmax u64 | n u32 | n × xip u64    phase 1: complete
//	       … | chunks u32 | chunks × (kind u8 | len u64 | crc u32)    kind 0: in pebble, 1: in a file
//	mark   tx u64 | op u64 | end u64                                  tx 0: no entry is committed
//	bound  end u64 | sealed u8
//
// end counts the bytes of the log's entries from its beginning, the comma behind each included, up to and with this
// entry. So the size of a range is a subtraction, and a missing entry shows. crc is CRC-32C.
//
// The files of a log are in files/<id as 16 hexadecimal digits>, named by the offset at their end: 0_3.chunk is the
// fourth chunk of the snapshot, 123_4.chunk is the log chunk that ends there. They hold the chunk as it goes on the
// wire; a log chunk's file has an index behind it, drawn in sealed.go.
const (
	keyFormat    = 'f'
	keyConfirmed = 'c'
	keyNextID    = 'n'
	keyMeta      = 'm'
	keyTombstone = 't'
	keyGarbage   = 'g'
	keyUncommit  = 'u'
	keyUnsealed  = 'q'
	keyLog       = 'l'
	keySnapshot  = 's'

	kindBound = 'b'
	kindEntry = 'e'
)

const (
	logKeyLen    = 1 + 8 + 1
	offsetKeyLen = logKeyLen + 16
	entryHead    = 8
)

var errBadRecord = errors.New("record does not have the form of its kind")

func handleKey(kind byte, h shape.Handle) []byte { return append([]byte{kind}, h...) }

func idKey(kind byte, id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, id) }

func logKey(id uint64, kind byte) []byte { return append(idKey(keyLog, id), kind) }

// putOffset writes an offset that belongs to an entry; it sorts as the offset does.
func putOffset(dst []byte, o shapelog.Offset) {
	binary.BigEndian.PutUint64(dst, o.Tx())
	binary.BigEndian.PutUint64(dst[8:], o.Op())
}

func appendOffset(dst []byte, o shapelog.Offset) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, o.Tx()), o.Op())
}

func offsetKey(id uint64, kind byte, o shapelog.Offset) []byte {
	return appendOffset(logKey(id, kind), o)
}

func putOffsetKey(dst []byte, id uint64, kind byte, o shapelog.Offset) {
	dst[0] = keyLog
	binary.BigEndian.PutUint64(dst[1:], id)
	dst[9] = kind
	putOffset(dst[logKeyLen:], o)
}

func unsealedKey(id uint64, o shapelog.Offset) []byte { return appendOffset(idKey(keyUnsealed, id), o) }

func snapshotKey(id uint64, chunk int) []byte {
	return binary.BigEndian.AppendUint32(idKey(keySnapshot, id), uint32(chunk)) //nolint:gosec // few: they are small
}

// keyOffset reads the offset at the end of a key of one of the kinds b, e and q.
func keyOffset(key []byte) (shapelog.Offset, error) {
	if len(key) < 16 {
		return shapelog.Offset{}, errBadRecord
	}
	return readOffset(key[len(key)-16:]), nil
}

func readOffset(b []byte) shapelog.Offset {
	return shapelog.At(binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]))
}

// after returns the smallest key above every key with this prefix. The prefix must have a byte below 0xff.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// next returns the smallest key above key.
func next(key []byte) []byte { return append(key[:len(key):len(key)], 0) }

// snapChunk is one chunk of a complete snapshot.
type snapChunk struct {
	size   int64
	crc    uint32
	file   bool
	intact bool // the file's bytes were checked, or written, by this process
}

// meta is a log's record.
type meta struct {
	id       uint64
	complete bool
	lsn      changes.LSN
	snap     changes.Snapshot
	chunks   []snapChunk
}

func (m *meta) encode() []byte {
	var b []byte
	if !m.complete {
		return binary.BigEndian.AppendUint64(append(b, 0), m.id)
	}
	b = binary.BigEndian.AppendUint64(append(b, 1), m.id)
	b = binary.BigEndian.AppendUint64(b, uint64(m.lsn))
	b = binary.BigEndian.AppendUint64(b, m.snap.Xmin)
	b = binary.BigEndian.AppendUint64(b, m.snap.Xmax)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.snap.Xip))) //nolint:gosec // Postgres has fewer than 2³² backends
	for _, x := range m.snap.Xip {
		b = binary.BigEndian.AppendUint64(b, x)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.chunks))) //nolint:gosec // 2³² chunks are more than any disk holds
	for _, c := range m.chunks {
		kind := byte(0)
		if c.file {
			kind = 1
		}
		b = binary.BigEndian.AppendUint64(append(b, kind), uint64(c.size)) //nolint:gosec // sizes are not negative
		b = binary.BigEndian.AppendUint32(b, c.crc)
	}
	return b
}

// decodeMeta reads a record. On an error the id is still right if the record was long enough, and zero otherwise.
func decodeMeta(b []byte) (meta, error) {
	var m meta
	if len(b) < 9 {
		return m, fmt.Errorf("log record of %d bytes: %w", len(b), errBadRecord)
	}
	m.id = binary.BigEndian.Uint64(b[1:])
	switch {
	case b[0] == 0 && len(b) == 9:
		return m, nil
	case b[0] != 1:
		return m, fmt.Errorf("log record of phase %d: %w", b[0], errBadRecord)
	}
	r := reader{b: b[9:]}
	m.complete = true
	m.lsn = changes.LSN(r.u64())
	m.snap.Xmin, m.snap.Xmax = r.u64(), r.u64()
	if n := r.count(8); n > 0 {
		m.snap.Xip = make([]uint64, n)
		for i := range m.snap.Xip {
			m.snap.Xip[i] = r.u64()
		}
	}
	if n := r.count(13); n > 0 {
		m.chunks = make([]snapChunk, n)
		for i := range m.chunks {
			kind := r.u8()
			m.chunks[i] = snapChunk{file: kind == 1, size: int64(r.u64()), crc: r.u32()} //nolint:gosec // checked below
			r.bad = r.bad || kind > 1 || m.chunks[i].size < 0
		}
	}
	if r.bad || len(r.b) != 0 || len(m.chunks) == 0 {
		return meta{id: m.id}, fmt.Errorf("log record: %w", errBadRecord)
	}
	return m, nil
}

// reader reads fixed-width numbers; once there are too few bytes it is bad and reads zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) u8() byte    { return r.take(1)[0] }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// count reads how many items of a size follow, and is bad when there is no room for so many.
func (r *reader) count(size int) int {
	n := r.u32()
	if r.bad || uint64(n)*uint64(size) > uint64(len(r.b)) { //nolint:gosec // sizes are not negative
		r.bad = true
		return 0
	}
	return int(n)
}

// chunk is one complete log chunk. The zero chunk stands for the beginning of the log.
type chunk struct {
	end    shapelog.Offset
	pos    int64 // end of the chunk, as entries count it
	sealed bool
	intact bool // the file's bytes were checked, or written, by this process
}

func encodeBound(pos int64, sealed bool) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(pos)) //nolint:gosec // positions are not negative
	if sealed {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeBound(key, value []byte) (chunk, error) {
	end, err := keyOffset(key)
	if err != nil || len(value) != 9 || value[8] > 1 {
		return chunk{}, fmt.Errorf("chunk bound: %w", errBadRecord)
	}
	return chunk{end: end, pos: int64(binary.BigEndian.Uint64(value)), sealed: value[8] == 1}, nil //nolint:gosec // written from an int64
}

// mark is a position in a log: behind which entry, and how many bytes are before it.
type mark struct {
	off shapelog.Offset // shapelog.SnapshotEnd at the beginning of the log
	pos int64
}

func (m mark) encode() []byte {
	return binary.BigEndian.AppendUint64(appendOffset(nil, m.first()), uint64(m.pos)) //nolint:gosec // not negative
}

// first returns an offset that no entry up to the mark is above, and none behind it below or at.
func (m mark) first() shapelog.Offset {
	if m.off == shapelog.SnapshotEnd {
		return shapelog.At(0, 0)
	}
	return m.off
}

func decodeMark(b []byte) (mark, error) {
	if len(b) != 24 {
		return mark{}, fmt.Errorf("commit mark: %w", errBadRecord)
	}
	m := mark{off: readOffset(b), pos: int64(binary.BigEndian.Uint64(b[16:]))} //nolint:gosec // written from an int64
	if m.off.Tx() == 0 {
		m.off = shapelog.SnapshotEnd
	}
	return m, nil
}

// decodeEntry splits an entry's value; JSON aliases it.
func decodeEntry(key, value []byte) (off shapelog.Offset, pos int64, json []byte, err error) {
	off, err = keyOffset(key)
	if err != nil || len(value) < entryHead {
		return off, 0, nil, fmt.Errorf("entry: %w", errBadRecord)
	}
	return off, int64(binary.BigEndian.Uint64(value)), value[entryHead:], nil //nolint:gosec // written from an int64
}
