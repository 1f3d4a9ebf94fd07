package logstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// unsyncedBytes is about how much of one snapshot may be on its way to the disk. A snapshot that is smaller never waits
// for the disk before its last row is served; a bigger one goes at the disk's pace, so that the kernel does not pile up
// more than others who write, Postgres among them, can stand waiting for.
const unsyncedBytes = 256 << 20

// syncer brings files to the disk beside the writer of a snapshot, in the order in which they were added, and closes
// them. Its goroutine lives from newSyncer to wait or abandon, one of which must be called.
type syncer struct {
	files     chan vfs.File
	running   sync.WaitGroup
	abandoned atomic.Bool
	failed    atomic.Pointer[error]
	once      sync.Once
}

// newSyncer makes a syncer to which no more than pending files can be added ahead of the disk.
func newSyncer(pending int) *syncer {
	s := &syncer{files: make(chan vfs.File, pending)}
	s.running.Go(s.run)
	return s
}

func (s *syncer) run() {
	for f := range s.files {
		var err error
		if !s.abandoned.Load() && s.failed.Load() == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("sync snapshot chunk: %w", err)
			s.failed.CompareAndSwap(nil, &err)
		}
	}
}

// add takes f over. It waits while too many files are ahead of it, and returns the error of an earlier one.
func (s *syncer) add(f vfs.File) error {
	s.files <- f
	return s.err()
}

func (s *syncer) err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// wait returns when all files are on the disk, or one has failed.
func (s *syncer) wait() error {
	s.end()
	return s.err()
}

// abandon closes the files without waiting for the disk longer than for the one that is being synced.
func (s *syncer) abandon() {
	s.abandoned.Store(true)
	s.end()
}

func (s *syncer) end() {
	s.once.Do(func() { close(s.files) })
	s.running.Wait()
}
