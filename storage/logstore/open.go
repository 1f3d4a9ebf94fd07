package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/storage"
)

// Open opens the store in dir, which is made if there is none. It always recovers: entries that were not committed
// are dropped, files that no log owns are deleted, and logs whose snapshot is not complete are listed as
// storage.SnapshotPending, without bytes, for the caller to remove.
//
// A log that is damaged does not keep the store from opening: it is found when it is read, and gives
// *storage.CorruptError. If the pebble store itself is damaged, it is set aside in dir/damaged, where the next such
// accident replaces it, and Open begins with an empty store: the logs are a cache of what Postgres has. Errors of the
// environment (rights, a full disk, ErrInUse, ErrVersion) are returned and change nothing.
func Open(dir string, opts Options) (s *Store, err error) {
	opts = opts.withDefaults()
	s = &Store{
		dir: dir, opts: opts, fs: opts.FS,
		health:  health{broken: make(chan struct{})},
		closing: make(chan struct{}),
	}
	s.work.wake = make(chan struct{}, 1)
	s.hot.max = opts.HotBytes
	if err := makeDir(s.fs, s.path(filesName)); err != nil {
		return nil, fmt.Errorf("make storage directory: %w", err)
	}
	if s.lock, err = s.fs.Lock(s.path(lockName)); err != nil {
		var pathErr *fs.PathError // the lock file cannot be made; a lock that is taken gives a bare EAGAIN or EACCES
		if errors.As(err, &pathErr) {
			return nil, fmt.Errorf("lock storage directory: %w", err)
		}
		return nil, fmt.Errorf("storage directory %s is %w (%w)", dir, ErrInUse, err)
	}
	lock := s.lock
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	s.space = newSpace(s.fs, dir, opts.ReserveBytes)
	if _, err := s.fs.Stat(s.path(damageMark)); err == nil {
		if err := s.setAside(errors.New("a damaged file was found while it was in use")); err != nil {
			return nil, err
		}
	}
	if err := s.load(); err != nil {
		if isEnvironment(err) {
			return nil, fmt.Errorf("open storage directory %s: %w", dir, err)
		}
		if err := s.setAside(err); err != nil {
			return nil, err
		}
		if err := s.load(); err != nil {
			return nil, fmt.Errorf("open storage directory %s: %w", dir, err)
		}
	}
	return s, nil
}

// isEnvironment reports that an error of opening says nothing about the bytes on the disk.
func isEnvironment(err error) bool {
	if errors.Is(err, ErrVersion) || errors.Is(err, ErrInUse) || errors.Is(err, ErrBroken) || errors.Is(err, fs.ErrPermission) {
		return true
	}
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ENOENT && errno != syscall.EINVAL && errno != syscall.EISDIR &&
		errno != syscall.ENOTDIR
}

// setAside moves a damaged pebble store out of the way. Every step may be repeated.
func (s *Store) setAside(cause error) error {
	s.opts.Logger.Error("storage is damaged; it is set aside, and all shapes will be made anew",
		"error", cause, "moved_to", s.path(damagedDir))
	err := s.fs.RemoveAll(s.path(damagedDir))
	if err == nil {
		if err = s.fs.Rename(s.path(dbName), s.path(damagedDir)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		if err = s.fs.Remove(s.path(damageMark)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = syncDir(s.fs, s.dir)
	}
	if err != nil {
		return fmt.Errorf("set the damaged store aside: %w", err)
	}
	return nil
}

// load opens the pebble store and reads the records. When it fails, the pebble store is closed again.
func (s *Store) load() (err error) {
	s.logs, s.nextID, s.idLimit = map[shape.Handle]*log{}, 0, 0
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("open: %v", r) // pebble asserts things that a damaged file need not keep
		}
		if err != nil && s.db != nil {
			err = errors.Join(err, s.closeDamaged())
			s.db = nil
		}
	}()
	if s.db, err = openPebble(s.path(dbName), s); err != nil {
		if strings.Contains(err.Error(), "format major version") {
			return fmt.Errorf("%w: %w", ErrVersion, err)
		}
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"check version", s.checkVersion},
		{"read positions", s.readPositions},
		{"read logs", s.readLogs},
		{"drop what was not committed", s.dropUncommitted},
		{"read ends of logs", s.readEnds},
		{"list garbage", s.listGarbage},
		{"delete files of no log", s.sweepFiles},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (s *Store) closeDamaged() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("close: %v", r)
		}
	}()
	return s.db.Close()
}

func openPebble(dir string, s *Store) (*pebble.DB, error) {
	o := &pebble.Options{
		FS:                         &roomFS{FS: s.fs, log: s.opts.Logger, closing: s.closing},
		FormatMajorVersion:         pebble.FormatValueSeparation,
		CacheSize:                  s.opts.CacheBytes,
		MemTableSize:               s.space.memTable(s.opts.MemTableBytes),
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		BytesPerSync:               1 << 20,
		WALBytesPerSync:            1 << 20, // write-out begins early, so that a Sync has little left to wait for
		MaxOpenFiles:               512,
		Logger:                     pebbleLogger{log: s.opts.Logger, health: &s.health},
		EventListener:              s.events(),
	}
	db, err := pebble.Open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open pebble: %w", err)
	}
	return db, nil
}

func (s *Store) checkVersion() error {
	v, closer, err := s.db.Get([]byte{keyFormat})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		empty, err := s.isEmpty()
		if err != nil {
			return err
		}
		if !empty {
			return errors.New("there are records and no format version")
		}
		b := s.db.NewBatch()
		if err := b.Set([]byte{keyFormat}, binary.BigEndian.AppendUint32(nil, formatVersion), nil); err != nil {
			return fmt.Errorf("write version: %w", err)
		}
		return s.apply(b, pebble.Sync)
	case err != nil:
		return fmt.Errorf("read version: %w", err)
	}
	defer func() { _ = closer.Close() }()
	if len(v) != 4 {
		return fmt.Errorf("format version: %w", errBadRecord)
	}
	if n := binary.BigEndian.Uint32(v); n != formatVersion {
		return fmt.Errorf("%w: %d, and this server knows %d", ErrVersion, n, formatVersion)
	}
	return nil
}

func (s *Store) isEmpty() (bool, error) {
	empty := true
	err := s.scan(nil, nil, func([]byte, []byte) error { empty = false; return errStop })
	return empty, err
}

var errStop = errors.New("stop")

// scan calls f with the keys of a range and their values, which are valid until f returns. errStop ends it.
func (s *Store) scan(from, to []byte, f func(key, value []byte) error) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		if err := f(it.Key(), v); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return nil // Close returns the iterator's error
}

func (s *Store) scanKind(kind byte, f func(key, value []byte) error) error {
	return s.scan([]byte{kind}, []byte{kind + 1}, f)
}

func (s *Store) readPositions() error {
	get := func(kind byte) (uint64, error) {
		v, closer, err := s.db.Get([]byte{kind})
		if errors.Is(err, pebble.ErrNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read record %q: %w", kind, err)
		}
		defer func() { _ = closer.Close() }()
		if len(v) != 8 {
			return 0, fmt.Errorf("record %q: %w", kind, errBadRecord)
		}
		return binary.BigEndian.Uint64(v), nil
	}
	lsn, err := get(keyConfirmed)
	if err != nil {
		return err
	}
	s.confirmed.Store(uint64(changes.LSN(lsn)))
	s.idLimit, err = get(keyNextID)
	s.nextID = s.idLimit
	return err
}

func (s *Store) readLogs() error {
	return s.scanKind(keyMeta, func(key, value []byte) error {
		h := shape.Handle(key[1:])
		m, err := decodeMeta(value)
		l := recoverLog(s, h, m)
		if err != nil {
			l.end(&storage.CorruptError{Path: s.path(dbName), Pos: -1, Err: err})
		}
		s.logs[h] = l
		return nil
	})
}

// dropUncommitted deletes what half-written transactions left, and the chunk bounds in them.
func (s *Store) dropUncommitted() error {
	b := s.db.NewBatch()
	err := s.scanKind(keyUncommit, func(key, value []byte) error {
		if len(key) != 9 {
			return fmt.Errorf("commit mark: %w", errBadRecord)
		}
		id := binary.BigEndian.Uint64(key[1:])
		m, err := decodeMark(value)
		if err != nil {
			return err
		}
		for _, kind := range []byte{kindEntry, kindBound} {
			if err := b.DeleteRange(next(offsetKey(id, kind, m.first())), after(logKey(id, kind)), nil); err != nil {
				return fmt.Errorf("delete: %w", err)
			}
		}
		if err := b.DeleteRange(next(unsealedKey(id, m.first())), after(idKey(keyUnsealed, id)), nil); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		return b.Delete(append([]byte(nil), key...), nil)
	})
	if err != nil {
		return err
	}
	return s.apply(b, pebble.NoSync)
}

func (s *Store) listGarbage() error {
	return s.scanKind(keyGarbage, func(key, _ []byte) error {
		if len(key) != 9 {
			return fmt.Errorf("garbage: %w", errBadRecord)
		}
		s.work.addGarbage(binary.BigEndian.Uint64(key[1:]))
		return nil
	})
}

// sweepFiles deletes the directories of logs that are not there, or whose snapshot is not complete.
func (s *Store) sweepFiles() error {
	names, err := s.fs.List(s.path(filesName))
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	if len(names) == 0 {
		return nil
	}
	keep := make(map[uint64]bool, len(s.logs))
	for _, l := range s.logs {
		keep[l.id] = l.snapshotComplete()
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name, 16, 64)
		if err != nil || keep[id] {
			continue
		}
		if err := s.fs.RemoveAll(s.path(filesName, name)); err != nil {
			// Best effort: the next Open tries again.
			s.opts.Logger.Warn("delete files of a removed log", "path", s.path(filesName, name), "error", err)
		}
	}
	return nil
}

// makeDir makes a directory and those above it, durably: each new one's entry is synced too.
func makeDir(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil {
		return nil
	}
	parent := fsys.PathDir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return syncDir(fsys, parent)
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, errors.Join(err, d.Close()))
	}
	if err := d.Close(); err != nil {
		return fmt.Errorf("close directory: %w", err)
	}
	return nil
}

// Exists reports whether dir has a store, without opening or making anything.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, dbName))
	return err == nil
}
