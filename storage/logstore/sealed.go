package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"

	"github.com/shapeserver/shapeserver/shapelog"
)

// A sealed log chunk is one file: the entries as they go on the wire, then an index that finds the end of an entry by
// its offset. Numbers are big-endian, varint is encoding/binary's Uvarint, crc is CRC-32C.
//
//	+---------------------+--------+--------+-----+-------+--------+
//	| entries, by commas  | block  | block  | ... | table | footer |
//	+---------------------+--------+--------+-----+-------+--------+
//	block   blockEntries × (Δtx varint | op varint | size varint)    the last block may have fewer; Δtx is to the entry
//	                                                                 before, in a block's first entry it is tx
//	table   per block (tx u64 | op u64 | pos u64 | at u32 | n u32)   of its first entry, and where that begins;
//	                                                                 at counts from the first block on
//	footer  data u64 | blocks u32 | table u32 | crc of data u32 | crc of blocks, table and the footer's first 20 bytes u32
//
// data, blocks and table are sizes in bytes, the latter without the footer.
const (
	blockEntries = 128
	tableEntry   = 32
	footerLen    = 8 + 4 + 4 + 4 + 4
)

// sealedWriter makes such a file from entries in order.
type sealedWriter struct {
	w      io.Writer
	data   int64
	crc    uint32
	blocks []byte
	table  []byte
	n      int // entries in the last block
	tx     uint64
}

func (s *sealedWriter) add(off shapelog.Offset, json []byte) {
	if s.n == 0 || s.n == blockEntries {
		pos := s.data
		if pos > 0 {
			pos++ // behind the comma
		}
		s.table = appendOffset(s.table, off)
		s.table = binary.BigEndian.AppendUint64(s.table, uint64(pos))           //nolint:gosec // not negative
		s.table = binary.BigEndian.AppendUint32(s.table, uint32(len(s.blocks))) //nolint:gosec // a chunk's index is small
		s.table = binary.BigEndian.AppendUint32(s.table, 0)
		s.n, s.tx = 0, 0
	}
	s.blocks = binary.AppendUvarint(s.blocks, off.Tx()-s.tx)
	s.blocks = binary.AppendUvarint(s.blocks, off.Op())
	s.blocks = binary.AppendUvarint(s.blocks, uint64(len(json)))
	s.tx = off.Tx()
	s.n++
	binary.BigEndian.PutUint32(s.table[len(s.table)-4:], uint32(s.n)) //nolint:gosec // at most blockEntries
	if s.data > 0 {
		s.data++
	}
	s.data += int64(len(json))
}

// write writes bytes of the entries, with the commas between them.
func (s *sealedWriter) write(b []byte) error {
	s.crc = crc32.Update(s.crc, castagnoli, b)
	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("write chunk: %w", err)
	}
	return nil
}

func (s *sealedWriter) finish() error {
	end := slices.Concat(s.blocks, s.table)
	end = binary.BigEndian.AppendUint64(end, uint64(s.data))        //nolint:gosec // not negative
	end = binary.BigEndian.AppendUint32(end, uint32(len(s.blocks))) //nolint:gosec // a chunk's index is small
	end = binary.BigEndian.AppendUint32(end, uint32(len(s.table)))  //nolint:gosec // a chunk's index is small
	end = binary.BigEndian.AppendUint32(end, s.crc)
	end = binary.BigEndian.AppendUint32(end, crc32.Checksum(end, castagnoli))
	if _, err := s.w.Write(end); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// sealedFooter is a file's footer.
type sealedFooter struct {
	data, blocks, table int64
	dataCRC, indexCRC   uint32
}

var errBadIndex = errors.New("index does not have the form of a chunk's index")

func readFooter(f readFile) (sealedFooter, error) {
	size, err := fileSize(f)
	if err != nil {
		return sealedFooter{}, err
	}
	if size < footerLen {
		return sealedFooter{}, errBadIndex
	}
	var b [footerLen]byte
	if _, err := f.ReadAt(b[:], size-footerLen); err != nil && !errors.Is(err, io.EOF) {
		return sealedFooter{}, fmt.Errorf("read footer: %w", err)
	}
	ft := sealedFooter{
		data:     int64(binary.BigEndian.Uint64(b[:])), //nolint:gosec // checked below
		blocks:   int64(binary.BigEndian.Uint32(b[8:])),
		table:    int64(binary.BigEndian.Uint32(b[12:])),
		dataCRC:  binary.BigEndian.Uint32(b[16:]),
		indexCRC: binary.BigEndian.Uint32(b[20:]),
	}
	if ft.data < 0 || ft.data > size || ft.data+ft.blocks+ft.table+footerLen != size || ft.table%tableEntry != 0 || ft.table == 0 {
		return sealedFooter{}, errBadIndex
	}
	return ft, nil
}

// checkSealed compares a file with its check sums and with the size that its entries must have.
func checkSealed(f readFile, size int64) error {
	ft, err := readFooter(f)
	if err != nil {
		return err
	}
	if ft.data != size {
		return fmt.Errorf("entries have %d bytes, not %d", ft.data, size)
	}
	index := make([]byte, ft.blocks+ft.table+footerLen-4)
	if _, err := f.ReadAt(index, ft.data); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	if crc32.Checksum(index, castagnoli) != ft.indexCRC {
		return errCheckSum
	}
	return checkSum(f, ft.data, ft.dataCRC)
}

// openSealed opens the file of a sealed chunk.
func (l *log) openSealed(c chunk) (readFile, error) {
	l.mu.Lock()
	i := l.chunkBehind(c.end) - 1
	size := c.pos - l.startLocked(i).pos - 1
	l.mu.Unlock()
	f, err := l.openChecked(l.filePath(chunkName(c.end)), -1, c.intact, func(f readFile) error { return checkSealed(f, size) })
	if err != nil {
		return nil, err
	}
	if !c.intact {
		l.mu.Lock()
		l.chunks[i].intact = true
		l.mu.Unlock()
	}
	return f, nil
}

// positionInFile returns the end of the last entry at or before off in a sealed chunk that begins at start.
func (l *log) positionInFile(c chunk, start mark, off shapelog.Offset) (int64, error) {
	f, err := l.openSealed(c)
	if err != nil {
		return 0, err
	}
	n, err := findInIndex(f, off)
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, l.fileError(l.filePath(chunkName(c.end)), -1, err)
	}
	return start.pos + n, nil
}

// findInIndex returns how many bytes of a file the entries at or before off take, the comma behind the last included.
func findInIndex(f readFile, off shapelog.Offset) (int64, error) {
	ft, err := readFooter(f)
	if err != nil {
		return 0, err
	}
	table := make([]byte, ft.table)
	if _, err := f.ReadAt(table, ft.data+ft.blocks); err != nil {
		return 0, fmt.Errorf("read table: %w", err)
	}
	n := len(table) / tableEntry
	i := sort.Search(n, func(i int) bool { return readOffset(table[i*tableEntry:]).Compare(off) > 0 }) - 1
	if i < 0 {
		return 0, nil // off is between the chunk before and the first entry
	}
	e := table[i*tableEntry:]
	pos := int64(binary.BigEndian.Uint64(e[16:])) //nolint:gosec // written from an int64
	at, count := int64(binary.BigEndian.Uint32(e[24:])), binary.BigEndian.Uint32(e[28:])
	stop := ft.blocks
	if i+1 < n {
		stop = int64(binary.BigEndian.Uint32(table[(i+1)*tableEntry+24:]))
	}
	if at > stop || stop > ft.blocks {
		return 0, errBadIndex
	}
	block := make([]byte, stop-at)
	if _, err := f.ReadAt(block, ft.data+at); err != nil {
		return 0, fmt.Errorf("read index: %w", err)
	}
	var tx uint64
	for range count {
		var v [3]uint64
		for k := range v {
			x, m := binary.Uvarint(block)
			if m <= 0 {
				return 0, errBadIndex
			}
			v[k], block = x, block[m:]
		}
		tx += v[0]
		if shapelog.At(tx, v[1]).Compare(off) > 0 {
			break
		}
		pos += int64(v[2]) + 1 //nolint:gosec // written from a length
	}
	return pos, nil
}
