package logstore

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// roomFS is pebble's file system. When the disk is full, writes to the write-ahead log and the manifest, which pebble
// cannot do without, wait until they succeed or the store closes. Tables fail: pebble deletes what it has of them,
// which makes room, and tries again.
type roomFS struct {
	vfs.FS

	log     *slog.Logger
	closing <-chan struct{}

	logged atomic.Int64 // when it was last said that the disk is full, in unix nanoseconds
}

const (
	roomRetry = 250 * time.Millisecond
	roomWords = time.Minute // between two lines in the log
)

// Create implements vfs.FS.
func (fs *roomFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.open(name, func() (vfs.File, error) { return fs.FS.Create(name, c) })
}

// ReuseForWrite implements vfs.FS.
func (fs *roomFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.open(name, func() (vfs.File, error) { return fs.FS.ReuseForWrite(old, name, c) })
}

// Unwrap implements vfs.FS.
func (fs *roomFS) Unwrap() vfs.FS { return fs.FS }

func (fs *roomFS) open(name string, open func() (vfs.File, error)) (vfs.File, error) {
	f, err := open()
	for isFull(err) && fs.wait(name) {
		f, err = open()
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // pebble wants the file system's own error
	}
	return &roomFile{File: f, fs: fs, name: name}, nil
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// wait waits a little, and reports whether to try again then.
func (fs *roomFS) wait(name string) bool {
	if last, now := fs.logged.Load(), time.Now().UnixNano(); now-last >= int64(roomWords) && fs.logged.CompareAndSwap(last, now) {
		fs.log.Error("disk is full: writes wait until there is room; free some, or enlarge the file system", "path", name)
	}
	t := time.NewTimer(roomRetry)
	defer t.Stop()
	select {
	case <-t.C:
		return !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".blob")
	case <-fs.closing:
		return false
	}
}

type roomFile struct {
	vfs.File

	fs   *roomFS
	name string
}

// Write implements vfs.File.
func (f *roomFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	for isFull(err) && f.fs.wait(f.name) {
		var m int
		m, err = f.File.Write(p[n:])
		n += m
	}
	return n, err //nolint:wrapcheck // pebble wants the file system's own error
}
