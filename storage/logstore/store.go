package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/singleflight"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/storage"
)

const (
	writeCategory vfs.DiskWriteCategory = "shape-chunk"

	lockName   = "LOCK"
	dbName     = "db"
	filesName  = "files"
	damageMark = "DAMAGED"
	damagedDir = "damaged"

	idsAtOnce = 4096 // ids taken by one record, so that creating a log need not write it
)

// Store implements storage.Store in a directory.
type Store struct {
	dir    string
	opts   Options
	fs     vfs.FS // for files/; pebble has its own around it, which waits when the disk is full
	db     *pebble.DB
	lock   io.Closer
	space  *space
	health health
	gate   gate

	closing chan struct{} // closed by Close
	damaged sync.Once

	confirmed atomic.Uint64
	work      work
	hot       hotList
	checks    singleflight.Group // of files' check sums, by path

	mu      sync.Mutex // guards what follows
	logs    map[shape.Handle]*log
	nextID  uint64
	idLimit uint64 // the record "n": ids below it may be given out
}

var _ storage.Store = (*Store)(nil)

func (s *Store) path(elem ...string) string {
	return s.fs.PathJoin(append([]string{s.dir}, elem...)...)
}

// Create implements storage.Store. A handle is 1 to 255 bytes; shape.Handle.Valid is not asked for.
//
// A removed handle is remembered as storage.ErrExists asks for as long as its bytes are not deleted, and then until
// handles that are tombstoneAge younger are removed, see forgetTombstones.
func (s *Store) Create(h shape.Handle) (storage.Log, error) {
	if len(h) == 0 || len(h) > 255 {
		return nil, fmt.Errorf("create log: handle of %d bytes", len(h))
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := s.space.appends(256); err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	switch _, closer, err := s.db.Get(handleKey(keyTombstone, h)); {
	case err == nil:
		_ = closer.Close()
		return nil, storage.ErrExists
	case !errors.Is(err, pebble.ErrNotFound):
		return nil, fmt.Errorf("create log: look for a tombstone: %w", err)
	}
	l, err := s.reserve(h)
	if err != nil {
		return nil, err
	}
	b := s.db.NewBatch()
	m := meta{id: l.id}
	if err = b.Set(handleKey(keyMeta, h), m.encode(), nil); err == nil {
		err = s.apply(b, pebble.NoSync)
	}
	if err != nil {
		s.mu.Lock()
		delete(s.logs, h)
		s.mu.Unlock()
		return nil, fmt.Errorf("create log: %w", err)
	}
	return l, nil
}

// reserve gives out an id and enters the log.
func (s *Store) reserve(h shape.Handle) (*log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs[h] != nil {
		return nil, storage.ErrExists
	}
	if s.nextID >= s.idLimit {
		// Written before any log that uses these ids, in the same write-ahead log, so no crash can bring an id back.
		b := s.db.NewBatch()
		if err := b.Set([]byte{keyNextID}, binary.BigEndian.AppendUint64(nil, s.idLimit+idsAtOnce), nil); err != nil {
			return nil, fmt.Errorf("take ids: %w", err)
		}
		if err := s.apply(b, pebble.NoSync); err != nil {
			return nil, fmt.Errorf("take ids: %w", err)
		}
		s.idLimit += idsAtOnce
	}
	l := newLog(s, h, meta{id: s.nextID})
	s.nextID++
	s.logs[h] = l
	return l, nil
}

// Open implements storage.Store.
func (s *Store) Open(h shape.Handle) (storage.Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[h]
	if l == nil {
		return nil, storage.ErrNotFound
	}
	return l, nil
}

// Handles implements storage.Store.
func (s *Store) Handles() []shape.Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	hs := make([]shape.Handle, 0, len(s.logs))
	for h := range s.logs {
		hs = append(hs, h)
	}
	return hs
}

// Remove implements storage.Store. It writes a tombstone and waits for the disk, once for all the calls that are
// made at the same time; Run deletes the bytes. It may be repeated after an error.
func (s *Store) Remove(h shape.Handle) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	s.mu.Lock()
	l := s.logs[h]
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	l.stopWriting() // from here on nothing is written under its id, so that Run deletes all there is
	b := s.db.NewBatch()
	err := errors.Join(
		b.Delete(handleKey(keyMeta, h), nil),
		b.Set(handleKey(keyTombstone, h), binary.BigEndian.AppendUint64(nil, l.id), nil),
		b.Set(idKey(keyGarbage, l.id), nil, nil))
	if err == nil {
		err = s.apply(b, pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("remove log: %w", err)
	}
	s.mu.Lock()
	first := s.logs[h] == l
	if first {
		delete(s.logs, h)
	}
	s.mu.Unlock()
	l.end(storage.ErrRemoved)
	if first {
		s.work.addGarbage(l.id)
	}
	return nil
}

// Confirmed implements storage.Store.
//
// A position that Postgres has as the slot's confirmed_flush_lsn and that lies beyond this one means that the
// directory lost what was durable: it was emptied, set back, or its write-ahead log was damaged. Every shape has a
// gap then and must be removed.
func (s *Store) Confirmed() changes.LSN { return changes.LSN(s.confirmed.Load()) }

// SetConfirmed implements storage.Store.
func (s *Store) SetConfirmed(lsn changes.LSN) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	err := b.Set([]byte{keyConfirmed}, binary.BigEndian.AppendUint64(nil, uint64(lsn)), nil)
	if err == nil {
		err = s.apply(b, pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("set confirmed position: %w", err)
	}
	s.confirmed.Store(uint64(lsn))
	return nil
}

// Sync implements storage.Store. Calls that are made at the same time share one fsync.
func (s *Store) Sync() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.sync()
}

// sync is Sync for a caller that has entered. An empty record is enough: one write-ahead log has everything, in order,
// and pebble syncs a log before it begins the next.
func (s *Store) sync() error {
	b := s.db.NewBatch()
	err := b.LogData(nil, nil)
	if err == nil {
		err = s.apply(b, pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// Close implements storage.Store. It waits for calls that are under way. Run should have returned before.
func (s *Store) Close() (err error) {
	idle, first := s.gate.close()
	if !first {
		select {
		case <-idle:
		case <-s.health.broken:
		}
		return nil
	}
	close(s.closing)
	select {
	case <-idle:
	case <-s.health.broken:
	}
	if err := s.health.check(); err != nil {
		return errors.Join(err, s.lock.Close()) // pebble is not touched again, see health
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("close: %v", r)
		}
		err = errors.Join(err, s.health.check(), s.lock.Close())
	}()
	return errors.Join(s.sync(), s.db.Close())
}

// handleMicros returns the time in a handle, in µs since 1970 (shape.NewHandle), or MaxInt64 when it has none: such a
// handle's tombstone is never forgotten.
func handleMicros(h shape.Handle) int64 {
	if h.Valid() {
		if _, text, ok := strings.Cut(string(h), "-"); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				return n
			}
		}
	}
	return math.MaxInt64
}
