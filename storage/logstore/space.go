package logstore

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// space keeps the disk from filling up. A full disk is the one failure that is expected, and the one that pebble
// cannot take, so work that may fail is refused while there is still room for work that must not: snapshots and seals
// stop at the reserve, appends at half of it. Pebble's own writes, should they meet a full disk all the same, go
// through roomFS.
type space struct {
	fs      vfs.FS
	dir     string
	reserve int64

	unchecked atomic.Int64 // bytes asked for since the last look

	mu    sync.Mutex
	avail int64 // bytes that were free at the last look, less what was asked for since
	total int64
	off   bool // the file system does not say
}

const spaceLookBytes = 1 << 20 // how much may be written between two looks at the disk

func newSpace(fs vfs.FS, dir string, reserve int64) *space {
	s := &space{fs: fs, dir: dir, reserve: reserve}
	s.look()
	if s.reserve == 0 {
		s.reserve = min(64<<20, s.total/4)
	}
	return s
}

func (s *space) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unchecked.Store(0)
	u, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		s.off = true
		return
	}
	s.avail, s.total = int64(u.AvailBytes), int64(u.TotalBytes) //nolint:gosec // disks are smaller than 2⁶³ bytes
}

// memTable bounds the size of pebble's memtables, so that the write-ahead logs that go with them do not fill a small disk.
func (s *space) memTable(bytes int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return uint64(bytes) //nolint:gosec // not negative
	}
	return uint64(max(min(int64(bytes), s.total/64), 1<<20)) //nolint:gosec // not negative
}

// Full reports that the disk has no room for new snapshots.
func (s *Store) Full() bool { return s.space.snapshots(0) != nil }

// snapshots says whether n bytes of a snapshot or a sealed chunk may be written.
func (s *space) snapshots(n int) error { return s.ask(n, s.reserve) }

// appends says whether n bytes of entries may be written.
func (s *space) appends(n int) error { return s.ask(n, s.reserve/2) }

func (s *space) ask(n int, keep int64) error {
	asked := s.unchecked.Add(int64(n))
	if asked >= spaceLookBytes || s.left(asked) < keep {
		s.look()
		asked = int64(n)
	}
	if s.left(asked) < keep {
		return ErrDiskFull
	}
	return nil
}

func (s *space) left(asked int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return 1 << 62
	}
	return s.avail - asked
}
