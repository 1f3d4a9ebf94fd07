package logstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
)

const (
	// garbageBatch is how many removed logs are deleted with one batch.
	garbageBatch = 256
	// pointDeletes is up to how many keys of a log are deleted one by one. Pebble keeps a table of all ranges that
	// were deleted since the last flush, and makes it anew whenever one is added; thousands of small logs that are
	// removed at once must not each add one.
	pointDeletes = 64
	// tombstoneAge is how much younger than a removed handle the newest one must be before its tombstone is
	// forgotten. shape.NewHandle puts the time into each handle and never makes one twice; a clock that was set back
	// is the one way to an old handle, and it is not set back by so much.
	tombstoneAge = 30 * 24 * time.Hour
)

func idOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

// deleteGarbage deletes what is left of removed logs. All of it may be repeated.
func (s *Store) deleteGarbage(ctx context.Context, ids []uint64) error {
	slices.Sort(ids)
	for part := range slices.Chunk(ids, garbageBatch) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := failpoint.Err(failpoint.GarbageBegun); err != nil {
			return err
		}
		for _, id := range part {
			name := strconv.FormatUint(id, 16)
			dir := s.path(filesName, "0000000000000000"[len(name):]+name)
			if _, err := s.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := s.fs.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("delete files: %w", err)
			}
		}
		if err := failpoint.Err(failpoint.GarbageFiles); err != nil {
			return err
		}
		if err := s.deleteKeys(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) deleteKeys(ids []uint64) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	for _, id := range ids {
		for _, prefix := range [][]byte{idKey(keyLog, id), idKey(keySnapshot, id), idKey(keyUnsealed, id)} {
			if err := s.deletePrefix(b, prefix); err != nil {
				return errors.Join(err, b.Close())
			}
		}
		if err := errors.Join(b.Delete(idKey(keyUncommit, id), nil), b.Delete(idKey(keyGarbage, id), nil)); err != nil {
			return fmt.Errorf("delete keys: %w", errors.Join(err, b.Close()))
		}
	}
	if err := s.apply(b, pebble.NoSync); err != nil {
		return err
	}
	if s.space.snapshots(0) != nil {
		// The room is wanted now: compactions drop what was deleted once the deletions are in a table.
		if _, err := s.db.AsyncFlush(); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
	}
	return nil
}

func (s *Store) deletePrefix(b *pebble.Batch, prefix []byte) error {
	var keys [][]byte
	err := s.scan(prefix, after(prefix), func(key, _ []byte) error {
		if keys = append(keys, slices.Clone(key)); len(keys) > pointDeletes {
			return errStop
		}
		return nil
	})
	if err != nil || len(keys) > pointDeletes {
		// A damaged table cannot be read, but a range can be deleted without.
		if err := b.DeleteRange(prefix, after(prefix), nil); err != nil {
			return fmt.Errorf("delete keys: %w", err)
		}
		return nil //nolint:nilerr // see above
	}
	for _, key := range keys {
		if err := b.Delete(key, nil); err != nil {
			return fmt.Errorf("delete keys: %w", err)
		}
	}
	return nil
}

// forgetTombstones deletes the tombstones of handles that are tombstoneAge older than the newest handle there is.
// Open does not need them: a removed log has no record. They only keep Create from making a handle again.
func (s *Store) forgetTombstones() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	s.mu.Lock()
	newest := int64(0)
	for h := range s.logs {
		if t := handleMicros(h); t > newest && h.Valid() {
			newest = t
		}
	}
	s.mu.Unlock()
	b := s.db.NewBatch()
	err := s.scanKind(keyTombstone, func(key, _ []byte) error {
		if handleMicros(shape.Handle(key[1:])) < newest-tombstoneAge.Microseconds() {
			return b.Delete(slices.Clone(key), nil)
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return s.apply(b, pebble.NoSync)
}
