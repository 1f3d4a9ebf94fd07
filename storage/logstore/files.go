package logstore

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

func chunkName(end shapelog.Offset) string { return end.String() + ".chunk" }

func snapshotName(n int) string { return chunkName(shapelog.SnapshotChunk(n)) }

// filePath returns the path of a file of the log, or of its directory.
func (l *log) filePath(name ...string) string {
	id := strconv.FormatUint(l.id, 16)
	return l.store.path(append([]string{filesName, "0000000000000000"[len(id):] + id}, name...)...)
}

// createFile makes a file of the log to be written from the beginning, unless the log was removed.
func (l *log) createFile(name string) (vfs.File, error) {
	if err := l.store.enter(); err != nil {
		return nil, err
	}
	defer l.store.leave()
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if l.removed {
		return nil, storage.ErrRemoved
	}
	fs := l.store.fs
	if err := fs.MkdirAll(l.filePath(), 0o755); err != nil {
		return nil, fmt.Errorf("create chunk: %w", err)
	}
	f, err := fs.Create(l.filePath(name), writeCategory)
	if err != nil {
		return nil, fmt.Errorf("create chunk: %w", err)
	}
	return vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: 1 << 20, NoSyncOnClose: true}), nil
}

// readFile is a file that is open for reading: a vfs.File, or, when the file system is the operating system's, an
// *os.File, which net/http needs to send it with sendfile.
type readFile interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

func (s *Store) openFile(path string) (readFile, error) {
	if s.fs == vfs.Default {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open chunk: %w", err)
		}
		return f, nil
	}
	f, err := s.fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open chunk: %w", err)
	}
	return f, nil
}

func fileSize(f readFile) (int64, error) {
	var info os.FileInfo
	var err error
	switch f := f.(type) {
	case *os.File:
		info, err = f.Stat()
	case vfs.File:
		info, err = f.Stat()
	}
	if err != nil {
		return 0, fmt.Errorf("look at chunk: %w", err)
	}
	return info.Size(), nil
}

// copySection writes n bytes of a file from pos on. The *os.File goes to io.Copy in the one wrapping that net's
// ReadFrom knows, so that the kernel does the copying.
func (l *log) copySection(w io.Writer, f readFile, path string, pos, n int64) (int64, error) {
	var src *io.LimitedReader
	if osFile, ok := f.(*os.File); ok {
		if _, err := osFile.Seek(pos, io.SeekStart); err != nil {
			return 0, l.fileError(path, pos, err)
		}
		src = &io.LimitedReader{R: osFile, N: n}
	} else {
		src = &io.LimitedReader{R: io.NewSectionReader(f, pos, n), N: n}
	}
	copied, err := io.Copy(w, src)
	switch {
	case err != nil && isReadError(err):
		return copied, l.fileError(path, pos+copied, err)
	case err != nil:
		return copied, err //nolint:wrapcheck // the writer's own error
	case copied < n:
		return copied, l.fileError(path, pos+copied, io.ErrUnexpectedEOF)
	}
	return copied, nil
}
