package logstore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/shapeserver/shapeserver/shapelog"
)

// seekBehind is up to how many entries of a log are passed one by one on the way to its last. Most logs have few, and
// seeking costs as much as passing so many.
const seekBehind = 16

// readEnds reads where the logs end, in one pass, because whoever opens a store asks each log for its State next: one
// by one takes ten times as long. What cannot be read is left to be found when its log is asked for.
func (s *Store) readEnds() error {
	byID := make(map[uint64]*log, len(s.logs))
	for _, l := range s.logs {
		byID[l.id] = l
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyLog}, UpperBound: []byte{keyLog + 1}})
	if err != nil {
		s.opts.Logger.Warn("read ends of logs", "error", err)
		return nil
	}
	for ok := it.First(); ok; ok = it.Valid() {
		if len(it.Key()) < logKeyLen {
			err = errBadRecord
			break
		}
		id := idOf(it.Key())
		l := byID[id]
		if l == nil {
			it.SeekGE(after(idKey(keyLog, id))) // a removed log that is not deleted yet
			continue
		}
		delete(byID, id)
		last, chunks, lerr := readEnd(it, id)
		if lerr == nil && it.Error() == nil {
			l.setEnd(last, chunks)
			continue
		}
		s.opts.Logger.Warn("read end of log", "handle", l.handle, "error", lerr)
		if it.Error() != nil {
			break
		}
		it.SeekGE(after(idKey(keyLog, id)))
	}
	if err := errors.Join(err, it.Close()); err != nil {
		s.opts.Logger.Warn("read ends of logs", "error", err)
		return nil
	}
	for _, l := range byID {
		l.setEnd(mark{off: shapelog.SnapshotEnd}, nil) // no key: nothing was appended
	}
	return nil
}

// findEnd reads where one log ends. The caller has entered.
func (l *log) findEnd() (last mark, chunks []chunk, err error) {
	it, err := l.store.db.NewIter(&pebble.IterOptions{LowerBound: idKey(keyLog, l.id), UpperBound: after(idKey(keyLog, l.id))})
	if err != nil {
		return mark{}, nil, fmt.Errorf("read end of log: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	it.First()
	return readEnd(it, l.id)
}

// readEnd reads the chunk bounds and the last entry of the log whose first key it stands on, and moves behind its last.
// Everything in the pebble store is committed: Open saw to it. An error of the iterator itself is left in it.
func readEnd(it *pebble.Iterator, id uint64) (last mark, chunks []chunk, err error) {
	last = mark{off: shapelog.SnapshotEnd}
	passed := 0
	for ok := it.Valid(); ok && idOf(it.Key()) == id; ok = it.Next() {
		if it.Key()[logKeyLen-1] == kindBound {
			v, err := it.ValueAndErr()
			if err != nil {
				return mark{}, nil, fmt.Errorf("read chunk bound: %w", err)
			}
			c, err := decodeBound(it.Key(), v)
			if err != nil {
				return mark{}, nil, err
			}
			chunks = append(chunks, c)
			continue
		}
		if passed++; passed > seekBehind && !it.SeekLT(after(idKey(keyLog, id))) {
			return mark{}, nil, errors.New("read last entry: not there")
		}
		off, pos, _, err := readEntry(it)
		if err != nil {
			return mark{}, nil, err
		}
		last = mark{off: off, pos: pos}
	}
	if n := len(chunks); n > 0 && chunks[n-1].end.Compare(last.off) >= 0 {
		last = mark{off: chunks[n-1].end, pos: chunks[n-1].pos} // its entries are in a file
	}
	return last, chunks, nil
}

// readEntry reads the entry that an iterator stands on; JSON is valid until it moves.
func readEntry(it *pebble.Iterator) (off shapelog.Offset, pos int64, json []byte, err error) {
	v, err := it.ValueAndErr()
	if err != nil {
		return shapelog.Offset{}, 0, nil, fmt.Errorf("read entry: %w", err)
	}
	return decodeEntry(it.Key(), v)
}
