package logstore

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/storage/storagetest"
)

// leftBehind are the goroutines of pebble stores that broke, which nobody may stop (see health).
var leftBehind []goleak.Option

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(leftBehind...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func testOptions(t testing.TB) Options {
	return Options{
		ChunkBytes:         storagetest.ChunkBytes,
		SmallSnapshotBytes: 8 << 10,
		Logger:             slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func openStore(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStoreOnDisk(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Store { return openStore(t, t.TempDir(), testOptions(t)) })
}

func TestStoreInMemory(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Store {
		o := testOptions(t)
		o.FS = vfs.NewMem()
		return openStore(t, "/data", o)
	})
}
