package logstore

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shapelog"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// TestFormat pins every key, record and file: a change of any byte makes stores of before unreadable, and needs a new
// formatVersion.
func TestFormat(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t)
	o.ChunkBytes, o.SmallSnapshotBytes = 150, 300
	s := openStore(t, dir, o)
	makeLog(t, s, "11-1700000000000001", 1)
	l := makeLog(t, s, "22-1700000000000002", 4)
	add(t, l, testEntries(0, 5, 60))
	work1(t, s)
	add(t, l, testEntries(5, 2, 60))
	require.NoError(t, l.Append(testEntries(7, 2, spillBytes)))
	makeLog(t, s, "33-1700000000000003", 1)
	require.NoError(t, s.Remove("33-1700000000000003"))
	_, err := s.Create("44-1700000000000004")
	require.NoError(t, err)
	require.NoError(t, s.SetConfirmed(0x16B374D848))

	var got strings.Builder
	require.NoError(t, s.scan(nil, nil, func(key, value []byte) error {
		text := hex.EncodeToString(value)
		if len(text) > 300 {
			text = fmt.Sprintf("%s… %d bytes", text[:100], len(value))
		}
		fmt.Fprintf(&got, "%q\n  %s\n", key, text)
		return nil
	}))
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, filesName), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path) // it is in dir
		fmt.Fprintf(&got, "%s\n%s", rel, hex.Dump(b))
		return err
	}))
	const golden = "testdata/format.golden"
	if *rewrite {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add((&meta{id: 7}).encode())
	f.Add((&meta{
		id: 7, complete: true, lsn: 5, snap: changes.Snapshot{Xmin: 1, Xmax: 9, Xip: []uint64{3, 4}},
		chunks: []snapChunk{{size: 5, crc: 6}, {size: 7, crc: 8, file: true}},
	}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			require.ErrorIs(t, err, errBadRecord)
			return
		}
		require.Equal(t, b, m.encode())
	})
}

func FuzzFindInIndex(f *testing.F) {
	var file sliceWriter
	w := sealedWriter{w: &file}
	for _, e := range testEntries(0, 300, 40) {
		w.add(e.Offset, e.JSON)
		if w.data > int64(len(e.JSON)) {
			require.NoError(f, w.write([]byte{','}))
		}
		require.NoError(f, w.write(e.JSON))
	}
	require.NoError(f, w.finish())
	f.Add([]byte(file), uint64(1003), uint64(2))
	f.Add([]byte(file), uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, tx, op uint64) {
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		r, err := os.Open(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()) }()
		_, _ = findInIndex(r, shapelog.At(tx, op)) // no panic; what it finds in a damaged file is not asked for
	})
}

type sliceWriter []byte

func (w *sliceWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

func TestIndexFindsEveryEntry(t *testing.T) {
	var file sliceWriter
	w := sealedWriter{w: &file}
	es := testEntries(0, 1000, 30)
	pos, ends := int64(0), make([]int64, len(es))
	for i, e := range es {
		w.add(e.Offset, e.JSON)
		pos += int64(len(e.JSON)) + 1
		ends[i] = pos
		if i > 0 {
			require.NoError(t, w.write([]byte{','}))
		}
		require.NoError(t, w.write(e.JSON))
	}
	require.NoError(t, w.finish())
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.NoError(t, checkSealed(f, pos-1))
	require.Error(t, checkSealed(f, pos))
	before := int64(0)
	for i, e := range es {
		for _, try := range []struct {
			off  shapelog.Offset
			want int64
		}{
			{shapelog.At(e.Offset.Tx(), e.Offset.Op()+1), ends[i]},
			{e.Offset, ends[i]},
		} {
			got, err := findInIndex(f, try.off)
			require.NoError(t, err)
			require.Equal(t, try.want, got, "%s", try.off)
		}
		before = ends[i]
	}
	require.Equal(t, pos, before)
	got, err := findInIndex(f, shapelog.At(1, 0))
	require.NoError(t, err)
	require.Zero(t, got)
}
