package logstore

import (
	"cmp"
	"errors"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options tunes a Store. The zero Options is ready to use.
type Options struct {
	// ChunkBytes is the size at which a chunk is closed, right after the item that reaches it; each item counts its
	// bytes and one more (protocol.md §6.4). It may differ from one start to the next: chunks that are complete stay
	// as they are. Zero means 10 MiB.
	ChunkBytes int64
	// SmallSnapshotBytes is the size up to which a complete snapshot is kept in the pebble store and in no file. A
	// snapshot that is being written takes as much memory. Zero means 64 KiB.
	SmallSnapshotBytes int
	// CacheBytes is the size of pebble's cache of uncompressed blocks. Zero means 32 MiB.
	CacheBytes int64
	// MemTableBytes is how much is written before pebble flushes; about twice as much may be in memory, and three times
	// as much on the disk in write-ahead logs, whose room pebble takes in advance. On a disk of
	// less than 64 times as much, it is a 64th of the disk. Zero means 8 MiB.
	MemTableBytes int
	// HotBytes bounds the memory for the newest entries of the logs that somebody waits on, all together; of one
	// log at most 64 KiB are kept. Zero means 64 MiB.
	HotBytes int64
	// ReserveBytes is how much of the disk is left free: below it, snapshots and seals fail; below half of it,
	// appends fail too, so that there is room to remove logs and to write what is in memory. Zero means 64 MiB or a
	// quarter of the disk, whichever is less.
	ReserveBytes int64
	// FS is the file system. nil means the operating system's; with any other, no file is sent with sendfile.
	FS vfs.FS
	// Logger gets what the operator should know. nil means none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.ChunkBytes = cmp.Or(o.ChunkBytes, 10<<20)
	o.SmallSnapshotBytes = cmp.Or(o.SmallSnapshotBytes, 64<<10)
	o.CacheBytes = cmp.Or(o.CacheBytes, 32<<20)
	o.MemTableBytes = cmp.Or(o.MemTableBytes, 8<<20)
	o.HotBytes = cmp.Or(o.HotBytes, 64<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}

var (
	// ErrClosed reports that the store was closed. The server is stopping: the caller should stop too.
	ErrClosed = errors.New("storage is closed")
	// ErrInUse reports that another process, or another Store of this one, has the directory. The operator must
	// give each server a directory of its own.
	ErrInUse = errors.New("in use by another process; each server needs its own SHAPESERVER_STORAGE_DIR")
	// ErrVersion reports a directory written by another version of shapeserver. The operator must run that version,
	// or give this one another directory.
	ErrVersion = errors.New("storage directory has another format version")
	// ErrDiskFull reports that less than the reserve is left on the disk. The log takes no more and should be
	// removed; others go on, and everything works again once there is room.
	ErrDiskFull error = diskFullError{}
	// ErrBroken reports that the disk failed in a way that leaves unknown what is written. Nothing more can be
	// written; the process should end, and the next start recovers.
	ErrBroken = errors.New("storage is broken")
)

// diskFullError is ErrDiskFull.
type diskFullError struct{}

// Error implements error.
func (diskFullError) Error() string { return "disk is nearly full" }

// ClientMessage is what a client is told, with a 503.
func (diskFullError) ClientMessage() string { return "The server's storage is full" }

const (
	ioBytes    = 64 << 10  // buffers between the disk and whatever else
	showBytes  = 256 << 10 // of a snapshot that are written before its readers are woken again
	spillBytes = 256 << 10 // uncommitted entries of one log that are held in memory
	hotMax     = 64 << 10  // newest entries of one log that are held in memory
)
