package logstore

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/storage/storagetest"
)

// crashDisk loses, at a crash, what was not synced, all of it or at random.
func crashDisk(unsyncedPercent int) func(t *testing.T) storagetest.Disk {
	return func(t *testing.T) storagetest.Disk {
		t.Helper()
		fs := vfs.NewCrashableMem()
		rng := rand.New(rand.NewPCG(uint64(unsyncedPercent), 2)) //nolint:gosec // a test's choice
		return storagetest.Disk{
			Open: func(t *testing.T) storage.Store {
				t.Helper()
				o := testOptions(t)
				o.FS = fs
				s, err := Open("/data", o)
				require.NoError(t, err)
				return s
			},
			Crash: func(t *testing.T, s storage.Store) {
				t.Helper()
				after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsyncedPercent, RNG: rng})
				require.NoError(t, s.Close()) // on the disk that nobody looks at any more
				fs = after
			},
			Work: work1,
		}
	}
}

// work1 does once what Run does all the time.
func work1(t *testing.T, s storage.Store) {
	t.Helper()
	st := s.(*Store)
	require.NoError(t, st.findUnsealed())
	require.True(t, st.doWork(t.Context()))
}

func TestDurableWhenUnsyncedIsLost(t *testing.T)     { storagetest.RunDurable(t, crashDisk(0)) }
func TestDurableWhenSomeIsLost(t *testing.T)         { storagetest.RunDurable(t, crashDisk(50)) }
func TestDurableWhenTheProcessIsKilled(t *testing.T) { storagetest.RunDurable(t, crashDisk(100)) }
