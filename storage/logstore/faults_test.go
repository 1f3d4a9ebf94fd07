package logstore

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/storage/storagetest"
)

func TestDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	openStore(t, dir, testOptions(t))
	_, err := Open(dir, testOptions(t))
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "SHAPESERVER_STORAGE_DIR")
}

func TestUnknownVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, testOptions(t))
	require.NoError(t, err)
	makeLog(t, s, "1-1", 5)
	b := s.db.NewBatch()
	require.NoError(t, b.Set([]byte{keyFormat}, []byte{0, 0, 0, 9}, nil))
	require.NoError(t, s.db.Apply(b, nil))
	require.NoError(t, s.Close())
	_, err = Open(dir, testOptions(t))
	require.ErrorIs(t, err, ErrVersion)
	_, err = os.Stat(filepath.Join(dir, damagedDir))
	require.ErrorIs(t, err, fs.ErrNotExist, "another version's store is left alone")
}

func TestClosedStore(t *testing.T) {
	s, err := Open(t.TempDir(), testOptions(t))
	require.NoError(t, err)
	l := makeLog(t, s, "1-1", 0)
	add(t, l, testEntries(0, 5, 60))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Create("2-2")
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, l.Append(testEntries(5, 1, 60)), ErrClosed)
	require.ErrorIs(t, l.Commit(), ErrClosed)
	require.ErrorIs(t, s.Sync(), ErrClosed)
	require.ErrorIs(t, s.SetConfirmed(1), ErrClosed)
	require.ErrorIs(t, s.Remove("1-1"), ErrClosed)
	require.ErrorIs(t, getErr(t, l, shapelog.SnapshotEnd, l.last.off), ErrClosed)
	require.ErrorIs(t, getErr(t, l, shapelog.Before, shapelog.SnapshotChunk(0)), ErrClosed)
}

// TestEveryDamagedFile is case B013: whatever file is damaged, however, the store opens, and serves what was written or
// says that it cannot.
func TestEveryDamagedFile(t *testing.T) {
	master := t.TempDir()
	s, err := Open(master, testOptions(t))
	require.NoError(t, err)
	big := makeLog(t, s, "1-1", 200)
	es := testEntries(0, 100, 60)
	add(t, big, es)
	small := makeLog(t, s, "2-2", 3)
	add(t, small, es[:5])
	work1(t, s)
	want := map[shape.Handle][]string{"1-1": parts(t, big), "2-2": parts(t, small)}
	require.NoError(t, s.Close())
	s, err = Open(master, testOptions(t)) // so that there are tables, too
	require.NoError(t, err)
	require.NoError(t, s.Close())

	var files []string
	require.NoError(t, filepath.WalkDir(master, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(master, path) // it is in master
			files = append(files, rel)
		}
		return err
	}))
	require.Greater(t, len(files), 30)
	for _, file := range files {
		for _, how := range []string{"truncate", "garbage", "empty", "delete", "flip"} {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(master)))
			damage(t, filepath.Join(dir, file), how)
			t.Run(how+" "+file, func(t *testing.T) { checkDamaged(t, dir, file, want) })
			require.NoError(t, os.RemoveAll(dir))
		}
	}
}

func checkDamaged(t *testing.T, dir, file string, want map[shape.Handle][]string) {
	t.Helper()
	s, err := Open(dir, testOptions(t))
	require.NoError(t, err)
	inFiles := strings.HasPrefix(file, filesName)
	for h, parts := range want {
		l, err := s.Open(h)
		if err != nil {
			require.ErrorIs(t, err, storage.ErrNotFound)
			require.False(t, inFiles, "a chunk's damage must not lose the log")
			continue
		}
		after, failed := shapelog.Before, false
		for i := 0; ; i++ {
			end, _ := l.Range(after)
			b, err := l.Read(t.Context(), after, end)
			var buf bytes.Buffer
			if err == nil {
				_, err = b.WriteTo(&buf, nil)
				require.NoError(t, b.Close())
			}
			if err != nil {
				var corrupt *storage.CorruptError
				require.ErrorAs(t, err, &corrupt)
				failed = true
			} else {
				require.Equal(t, parts[i], buf.String(), "wrong bytes")
			}
			if st, _ := l.State(); end.Compare(st.Last) >= 0 || st.Err != nil {
				break
			}
			after = end
		}
		if inFiles {
			require.Equal(t, h == "1-1", failed, "%s: damage of one log", h)
		}
	}
	l := makeLog(t, s, "3-3", 50) // and work goes on
	add(t, l, testEntries(0, 50, 60))
	require.NoError(t, s.Sync())
	require.NoError(t, s.Close())
}

// TestDamageFoundInUse checks that a damaged block in a table of the pebble store costs the logs in it, and the others
// only at the next start.
func TestDamageFoundInUse(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, testOptions(t))
	require.NoError(t, err)
	bad, good := makeLog(t, s, "1-1", 3), makeLog(t, s, "2-2", 3)
	require.NoError(t, s.db.Flush())
	for i := range 40 {
		add(t, bad, []shapelog.Entry{{Offset: shapelog.At(uint64(i+1), 0), JSON: randomJSON(t, 10_000)}}) //nolint:gosec // small
	}
	require.NoError(t, s.db.Flush())
	add(t, good, testEntries(0, 5, 60))
	require.NoError(t, s.Close())
	path := biggest(t, filepath.Join(dir, dbName))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := len(b) / 4; i < len(b)/2; i++ {
		b[i] ^= 0x55
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))

	s, err = Open(dir, testOptions(t))
	require.NoError(t, err)
	l, err := s.Open("1-1")
	require.NoError(t, err)
	var corrupt *storage.CorruptError
	require.ErrorAs(t, getErr(t, l, shapelog.SnapshotEnd, shapelog.At(40, 0)), &corrupt)
	l, err = s.Open("2-2")
	require.NoError(t, err)
	storagetest.CheckEntries(t, l, testEntries(0, 5, 60))
	require.NoError(t, s.Remove("1-1"))
	work1(t, s)
	require.NoError(t, s.Close())
	require.FileExists(t, filepath.Join(dir, damageMark))

	s = openStore(t, dir, testOptions(t))
	require.Empty(t, s.Handles())
	require.Zero(t, s.Confirmed())
	require.NoFileExists(t, filepath.Join(dir, damageMark))
	require.DirExists(t, filepath.Join(dir, damagedDir))
	makeLog(t, s, "3-3", 200)
}

// randomJSON does not compress.
func randomJSON(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n/2)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return fmt.Appendf(nil, `{"x":"%x"}`, b)
}

func biggest(t *testing.T, dir string) (path string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var size int64
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		if info.Size() > size && strings.HasSuffix(e.Name(), ".sst") {
			path, size = filepath.Join(dir, e.Name()), info.Size()
		}
	}
	require.Greater(t, size, int64(100_000))
	return path
}

// parts reads a log as a client does.
func parts(t *testing.T, l storage.Log) (parts []string) {
	t.Helper()
	after := shapelog.Before
	for {
		end, _ := l.Range(after)
		parts = append(parts, get(t, l, after, end))
		if st, _ := l.State(); end == st.Last {
			return parts
		}
		after = end
	}
}

func damage(t *testing.T, path, how string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	switch how {
	case "truncate":
		b = b[:len(b)/2]
	case "garbage":
		_, err = rand.Read(b)
		require.NoError(t, err)
	case "empty":
		b = nil
	case "delete":
		require.NoError(t, os.Remove(path))
		return
	case "flip":
		if len(b) > 0 {
			b[len(b)/2] ^= 0x10
		}
	}
	require.NoError(t, os.WriteFile(path, b, info.Mode()))
}

// TestChunkFileFailure is case B014: a disk that fails, or is full, for one log's files leaves the others alone.
func TestChunkFileFailure(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		t.Run(errno.Error(), func(t *testing.T) {
			var failing atomic.Bool
			o := testOptions(t)
			o.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if failing.Load() && strings.Contains(op.Path, filesName) && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					return errno
				}
				return nil
			}))
			s := openStore(t, "/data", o)
			small := makeLog(t, s, "1-1", 2)
			l, err := s.Create("2-2")
			require.NoError(t, err)
			w, err := l.NewSnapshot(small.meta.snap, 1)
			require.NoError(t, err)
			failing.Store(true)
			for i := 0; err == nil && i < 10_000; i++ {
				err = w.Write(testJSON(i, 100))
			}
			require.ErrorIs(t, err, errno)
			require.Error(t, w.Write(testJSON(1, 100)))
			require.Error(t, w.Finish(testJSON(1, 100)))
			w.Abort()
			require.ErrorIs(t, getErr(t, l, shapelog.Before, shapelog.SnapshotChunk(0)), storage.ErrSnapshotFailed)
			require.NoError(t, s.Remove("2-2"))
			add(t, small, testEntries(0, 100, 60))
			s.doWork(t.Context()) // cannot seal, nor delete
			require.Zero(t, sealedChunks(small))
			storagetest.CheckEntries(t, small, testEntries(0, 100, 60))
			require.NoError(t, s.Err())
			failing.Store(false)
			require.True(t, s.doWork(t.Context()))
			require.Positive(t, sealedChunks(small))
			storagetest.CheckEntries(t, small, testEntries(0, 100, 60))
			makeLog(t, s, "3-3", 200)
		})
	}
}

// TestReserve checks that work stops in the right order when the disk fills up, and goes on when there is room.
func TestReserve(t *testing.T) {
	mem := vfs.NewMem()
	usage := func(avail uint64) {
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: avail, TotalBytes: 1 << 30, UsedBytes: 1<<30 - avail})
	}
	usage(1 << 29)
	o := testOptions(t)
	o.FS, o.ReserveBytes = mem, 100<<20
	s := openStore(t, "/data", o)
	l := makeLog(t, s, "1-1", 200)
	other := makeLog(t, s, "2-2", 1)
	usage(80 << 20)
	s.space.look()
	snap, err := s.Create("3-3")
	require.NoError(t, err)
	w, err := snap.NewSnapshot(l.meta.snap, 1)
	require.NoError(t, err)
	for i := 0; err == nil && i < 1000; i++ {
		err = w.Write(testJSON(i, 100))
	}
	require.ErrorIs(t, err, ErrDiskFull)
	w.Abort()
	add(t, l, testEntries(0, 50, 60)) // entries still go
	s.doWork(t.Context())
	require.Zero(t, sealedChunks(l), "sealing needs room for a copy")
	usage(40 << 20)
	s.space.look()
	require.NoError(t, l.Append(testEntries(50, 5, 60)))
	require.ErrorIs(t, l.Commit(), ErrDiskFull)
	require.ErrorIs(t, l.Append(testEntries(55, 5, 60)), ErrDiskFull, "after an error the log takes no more")
	_, err = s.Create("4-4")
	require.ErrorIs(t, err, ErrDiskFull)
	storagetest.CheckEntries(t, l, testEntries(0, 50, 60))
	require.NoError(t, s.Remove("1-1"), "removing makes room, so it must go")
	usage(1 << 29)
	add(t, other, testEntries(0, 50, 60))
	makeLog(t, s, "5-5", 200)
	require.NoError(t, s.Err())
}

// TestFullDiskUnderPebble checks that pebble's writes wait for room instead of breaking the store.
func TestFullDiskUnderPebble(t *testing.T) {
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40})
	var full atomic.Bool
	met := make(chan struct{}, 1)
	o := testOptions(t)
	o.FS = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpFileWrite {
			select {
			case met <- struct{}{}:
			default:
			}
			return syscall.ENOSPC
		}
		return nil
	}))
	s := openStore(t, "/data", o)
	l := makeLog(t, s, "1-1", 0)
	full.Store(true)
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		if err = l.Append(testEntries(0, 10, 60)); err == nil {
			err = errors.Join(l.Commit(), s.Sync())
		}
	})
	<-met
	full.Store(false)
	wg.Wait()
	require.NoError(t, err)
	require.NoError(t, s.Err())
	storagetest.CheckEntries(t, l, testEntries(0, 10, 60))
}

// TestBrokenStore checks that a write-ahead log that cannot be written ends the store and not the process, and that
// the next start recovers.
func TestBrokenStore(t *testing.T) {
	mem := vfs.NewCrashableMem()
	var failing atomic.Bool
	o := testOptions(t)
	o.FS = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".log") {
			return syscall.EIO
		}
		return nil
	}))
	s, err := Open("/data", o)
	require.NoError(t, err)
	l := makeLog(t, s, "1-1", 3)
	add(t, l, testEntries(0, 20, 60))
	require.NoError(t, s.SetConfirmed(7))
	require.NoError(t, s.Sync())
	failing.Store(true)
	err = l.Append(testEntries(20, 20, 60))
	for err == nil { // pebble notices when it next flushes its log
		err = errors.Join(l.Commit(), s.Sync())
	}
	require.ErrorIs(t, err, ErrBroken)
	<-s.Done()
	require.ErrorIs(t, s.Err(), ErrBroken)
	require.ErrorIs(t, s.Sync(), ErrBroken)
	require.ErrorIs(t, s.SetConfirmed(9), ErrBroken)
	require.ErrorIs(t, s.Remove("1-1"), ErrBroken)
	require.ErrorIs(t, s.Run(t.Context()), ErrBroken)
	require.ErrorIs(t, s.Close(), ErrBroken)
	leftBehind = append(leftBehind, goleak.IgnoreCurrent())
	failing.Store(false)
	o.FS = mem.CrashClone(vfs.CrashCloneCfg{})
	s = openStore(t, "/data", o)
	require.EqualValues(t, 7, s.Confirmed())
	again, err := s.Open("1-1")
	require.NoError(t, err)
	storagetest.CheckEntries(t, again, testEntries(0, 20, 60))
}

// TestAnyFailedOperation fails each operation on the log's files in turn, then starts again: every log is as it was
// told to be, or incomplete.
func TestAnyFailedOperation(t *testing.T) {
	for n := int32(0); ; n++ {
		mem := vfs.NewCrashableMem()
		failNth := errorfs.OnIndex(n)
		o := testOptions(t)
		var armed atomic.Bool
		o.FS = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed.Load() && strings.Contains(op.Path, filesName) {
				return failNth.MaybeError(op)
			}
			return nil
		}))
		s, err := Open("/data", o)
		require.NoError(t, err)
		armed.Store(true)
		l, err := s.Create("1-1")
		require.NoError(t, err)
		finished := true
		w, err := l.NewSnapshot(changes.Snapshot{Xmin: 1, Xmax: 1}, 1)
		require.NoError(t, err)
		for i := 0; i < 150 && err == nil; i++ {
			err = w.Write(testJSON(i, 100))
		}
		if err == nil {
			err = w.Finish([]byte(`{}`))
		}
		if err != nil {
			w.Abort()
			finished = false
		}
		es := testEntries(0, 60, 60)
		add(t, l, es)
		s.doWork(t.Context())
		require.NoError(t, s.Sync())
		armed.Store(false)
		tag := fmt.Sprintf("operation %d", n)
		o.FS = mem.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, s.Close(), tag)
		s, err = Open("/data", o)
		require.NoError(t, err, tag)
		again, err := s.Open("1-1")
		require.NoError(t, err, tag)
		st, _ := again.State()
		require.Equal(t, finished, st.Phase == storage.SnapshotComplete, tag)
		if finished {
			require.Equal(t, 150, strings.Count(strings.Join(parts(t, again), ","), `"p":"yy`)-60, tag)
		}
		storagetest.CheckEntries(t, again, es)
		require.NoError(t, s.Remove("1-1"))
		work1(t, s)
		names, err := o.FS.List("/data/" + filesName)
		require.NoError(t, err)
		require.Empty(t, names, tag)
		require.NoError(t, s.Close())
		if failNth.Load() >= 0 { // it was not reached: all operations were tried
			require.Greater(t, n, int32(50))
			return
		}
	}
}
