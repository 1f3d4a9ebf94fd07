package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/storage/storagetest"
)

// makeLog makes a log with a snapshot of rows of 100 bytes.
func makeLog(t testing.TB, s *Store, h shape.Handle, rows int) *log {
	t.Helper()
	l, err := s.Create(h)
	require.NoError(t, err)
	w, err := l.NewSnapshot(changes.Snapshot{Xmin: 3, Xmax: 9, Xip: []uint64{4, 7}}, 0x55)
	require.NoError(t, err)
	for i := range rows {
		require.NoError(t, w.Write(testJSON(i, 100)))
	}
	require.NoError(t, w.Finish([]byte(`{"end":1}`)))
	return l.(*log)
}

func testJSON(i, n int) []byte {
	head := fmt.Sprintf(`{"n":%d,"p":"`, i)
	return []byte(head + strings.Repeat("y", max(0, n-len(head)-2)) + `"}`)
}

func testEntries(from, n, size int) (es []shapelog.Entry) {
	for i := from; i < from+n; i++ {
		es = append(es, shapelog.Entry{
			Offset: shapelog.At(uint64(1000+i/3), uint64(2*(i%3))), JSON: testJSON(i, size), //nolint:gosec // small numbers
		})
	}
	return es
}

func add(t testing.TB, l storage.Log, es []shapelog.Entry) {
	t.Helper()
	require.NoError(t, l.Append(es))
	require.NoError(t, l.Commit())
}

func get(t testing.TB, l storage.Log, after, end shapelog.Offset) string {
	t.Helper()
	b, err := l.Read(t.Context(), after, end)
	require.NoError(t, err)
	var buf bytes.Buffer
	_, err = b.WriteTo(&buf, nil)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	return buf.String()
}

func getErr(t testing.TB, l storage.Log, after, end shapelog.Offset) error {
	t.Helper()
	b, err := l.Read(t.Context(), after, end)
	if err != nil {
		return err
	}
	_, err = b.WriteTo(&bytes.Buffer{}, nil)
	return errors.Join(err, b.Close())
}

func sealedChunks(l *log) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.chunks {
		if c.sealed {
			n++
		}
	}
	return n
}

func TestSealedChunksReadTheSame(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	l := makeLog(t, s, "1-1", 0)
	es := testEntries(0, 2000, 60)
	add(t, l, es)
	storagetest.CheckEntries(t, l, es)
	require.Zero(t, sealedChunks(l))
	// A body over everything that begins in pebble and ends in files.
	last, _ := l.State()
	b, err := l.Read(t.Context(), shapelog.At(1001, 1), last.Last)
	require.NoError(t, err)
	want := get(t, l, shapelog.At(1001, 1), last.Last)
	once := &callbackWriter{after: 1, do: func() { work1(t, s) }}
	_, err = b.WriteTo(once, nil)
	require.NoError(t, err)
	require.Equal(t, want, once.String())
	require.Equal(t, int64(len(want)), b.Size())
	require.Greater(t, sealedChunks(l), 100)
	storagetest.CheckEntries(t, l, es)
	n := 0
	require.NoError(t, s.scanKind(keyLog, func(key, _ []byte) error {
		if key[logKeyLen-1] == kindEntry {
			n++
		}
		return nil
	}))
	require.Less(t, n, 20, "entries of sealed chunks are still in pebble")
	require.NoError(t, s.scanKind(keyUnsealed, func([]byte, []byte) error { return errors.New("a chunk is queued") }))
}

// callbackWriter calls do once, after some writes.
type callbackWriter struct {
	bytes.Buffer

	after int
	do    func()
}

func (w *callbackWriter) Write(p []byte) (int, error) {
	if w.after--; w.after == 0 {
		w.do()
	}
	return w.Buffer.Write(p)
}

// ReadFrom is hidden, so that Write sees everything.
func (w *callbackWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

// TestReadersWhileRunSeals has readers go through a log, from all places at once, while it grows and is sealed.
func TestReadersWhileRunSeals(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	ctx, stop := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	var wg sync.WaitGroup
	wg.Go(func() { require.ErrorIs(t, s.Run(ctx), stopped) })
	l := makeLog(t, s, "1-1", 3)
	es := testEntries(0, 3000, 80)
	var want bytes.Buffer
	for _, e := range es {
		want.Write(e.JSON)
		want.WriteByte(',')
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			var got bytes.Buffer
			after := shapelog.SnapshotEnd
			for after != es[len(es)-1].Offset {
				st, changed := l.State()
				end, _ := l.Range(after)
				if end == after {
					if st.Last == after {
						<-changed
					}
					continue
				}
				body := get(t, l, after, end)
				if body == "" {
					t.Errorf("nothing in (%s, %s]", after, end)
					return
				}
				got.WriteString(body)
				got.WriteByte(',')
				after = end
			}
			if got.String() != want.String() {
				t.Errorf("a reader got other bytes")
			}
		})
	}
	for i := 0; i < len(es); i += 10 {
		add(t, l, es[i:i+10])
	}
	readers.Wait()
	stop(stopped)
	wg.Wait()
	require.Positive(t, sealedChunks(l))
	storagetest.CheckEntries(t, l, es)
}

// TestFilesGoToReadFrom checks that a chunk in a file gets to net/http in the form that it sends with sendfile.
func TestFilesGoToReadFrom(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	l := makeLog(t, s, "1-1", 200)
	es := testEntries(0, 100, 60)
	add(t, l, es)
	work1(t, s)
	end, closed := l.Range(shapelog.SnapshotEnd)
	require.True(t, closed)
	for _, part := range [][2]shapelog.Offset{
		{shapelog.Before, shapelog.SnapshotChunk(0)},
		{shapelog.SnapshotChunk(2), shapelog.SnapshotChunk(3)},
		{shapelog.SnapshotEnd, end},
		{es[3].Offset, end},
	} {
		b, err := l.Read(t.Context(), part[0], part[1])
		require.NoError(t, err)
		var w readFromWriter
		n, err := b.WriteTo(&w, nil)
		require.NoError(t, err)
		require.Equal(t, b.Size(), n)
		require.True(t, w.file, "(%s, %s] did not come as a limited file", part[0], part[1])
		require.NoError(t, b.Close())
	}
}

type readFromWriter struct {
	bytes.Buffer

	file bool
}

func (w *readFromWriter) ReadFrom(r io.Reader) (int64, error) {
	if lr, ok := r.(*io.LimitedReader); ok {
		_, w.file = lr.R.(*os.File)
	}
	return w.Buffer.ReadFrom(r)
}

func TestRemovedFilesAreDeleted(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, testOptions(t))
	files := func() (n int) {
		t.Helper()
		require.NoError(t, filepath.WalkDir(filepath.Join(dir, filesName), func(_ string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return err
		}))
		return n
	}
	for i := range 5 {
		l := makeLog(t, s, shape.Handle(fmt.Sprintf("%d-1", i)), 300)
		add(t, l, testEntries(0, 200, 60))
	}
	work1(t, s)
	all := files()
	require.Greater(t, all, 5*30)
	require.NoError(t, s.Remove("3-1"))
	work1(t, s)
	require.Equal(t, all*4/5, files())
	for _, h := range s.Handles() {
		require.NoError(t, s.Remove(h))
	}
	work1(t, s)
	require.Zero(t, files())
	for _, kind := range []byte{keyLog, keySnapshot, keyUnsealed, keyGarbage, keyMeta, keyUncommit} {
		require.NoError(t, s.scanKind(kind, func(key, _ []byte) error { return fmt.Errorf("key %q is left", key) }))
	}
}

func TestTombstonesAreForgotten(t *testing.T) {
	s := openStore(t, t.TempDir(), testOptions(t))
	const day = 24 * 3600 * 1_000_000
	for _, age := range []int{0, 29, 31, 400} {
		h := shape.Handle(fmt.Sprintf("7-%d", 1_700_000_000_000_000-age*day))
		makeLog(t, s, h, 0)
		if age > 0 {
			require.NoError(t, s.Remove(h))
		}
	}
	require.NoError(t, s.forgetTombstones())
	var left []string
	require.NoError(t, s.scanKind(keyTombstone, func(key, _ []byte) error {
		left = append(left, string(key[1:]))
		return nil
	}))
	require.Equal(t, []string{fmt.Sprintf("7-%d", 1_700_000_000_000_000-29*day)}, left)
}

func TestTrimLetsGoOfTheNewest(t *testing.T) {
	o := testOptions(t)
	o.HotBytes = 200_000
	s := openStore(t, t.TempDir(), o)
	var logs []*log
	for i := range 20 {
		l := makeLog(t, s, shape.Handle(fmt.Sprintf("%d-1", i)), 0)
		logs = append(logs, l)
		add(t, l, testEntries(0, 10, 100))
		require.Nil(t, l.newest, "nobody waits")
		l.State()
		add(t, l, testEntries(10, 300, 100))
		require.NotNil(t, l.newest)
	}
	kept := 0
	for _, l := range logs {
		if l.newest != nil {
			kept++
		}
	}
	require.LessOrEqual(t, s.hot.size, o.HotBytes)
	require.InDelta(t, 4, kept, 1)
	logs[19].Trim()
	require.Nil(t, logs[19].newest)
	before := s.hot.size
	require.NoError(t, s.Remove("18-1"))
	require.Less(t, s.hot.size, before)
}
