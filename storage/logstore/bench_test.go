package logstore

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

func benchLogs(b *testing.B, s *Store, n int) []storage.Log {
	b.Helper()
	logs := make([]storage.Log, n)
	for i := range logs {
		l, err := s.Create(shape.Handle(fmt.Sprintf("%d-%d", i, 1_700_000_000_000_000+i)))
		require.NoError(b, err)
		w, err := l.NewSnapshot(changes.Snapshot{Xmin: 1, Xmax: 1}, 1)
		require.NoError(b, err)
		require.NoError(b, w.Finish([]byte(`{"headers":{"control":"snapshot-end","xmin":"1","xmax":"1","xip_list":[]}}`)))
		logs[i] = l
	}
	return logs
}

func benchJSON(n int) []byte {
	return []byte(`{"key":"` + strings.Repeat("k", n-10) + `"}`)
}

// BenchmarkAppend commits transactions of 100 entries of 250 bytes, spread over some logs, and syncs every 100.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		for _, waiting := range []bool{false, true} {
			b.Run(fmt.Sprintf("logs=%d/waiting=%v", n, waiting), func(b *testing.B) {
				s := openStore(b, b.TempDir(), Options{})
				logs := benchLogs(b, s, n)
				json := benchJSON(250)
				tx, next := uint64(1), 0
				for b.Loop() {
					tx++
					for i := range 100 {
						l := logs[next%n]
						next++
						if waiting {
							l.State()
						}
						if err := l.Append([]shapelog.Entry{{Offset: shapelog.At(tx, uint64(i)), JSON: json}}); err != nil { //nolint:gosec // small
							b.Fatal(err)
						}
						if n > 1 || i == 99 {
							if err := l.Commit(); err != nil {
								b.Fatal(err)
							}
						}
					}
					if tx%100 == 0 {
						if err := s.Sync(); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.N*100)/b.Elapsed().Seconds(), "entries/s")
			})
		}
	}
}

// BenchmarkReadTail reads the last entries of a log with 5 MB in pebble.
func BenchmarkReadTail(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		for _, newest := range []bool{false, true} {
			if newest && n > 100 {
				continue // more than is kept
			}
			b.Run(fmt.Sprintf("entries=%d/newest=%v", n, newest), func(b *testing.B) {
				s := openStore(b, b.TempDir(), Options{})
				l := benchLogs(b, s, 1)[0]
				json := benchJSON(250)
				for i := range uint64(20_000) {
					if newest {
						l.State()
					}
					require.NoError(b, l.Append([]shapelog.Entry{{Offset: shapelog.At(i+1, 0), JSON: json}}))
					require.NoError(b, l.Commit())
				}
				after := shapelog.At(uint64(20_000-n), 0) //nolint:gosec // small
				b.SetBytes(int64(n) * 251)
				b.ReportAllocs()
				for b.Loop() {
					end, _ := l.Range(after)
					readDiscard(b, l, after, end)
				}
			})
		}
	}
}

// discard is an io.Writer without ReadFrom.
type discard struct{ n int }

func (d *discard) Write(p []byte) (int, error) { d.n += len(p); return len(p), nil }

func readDiscard(b *testing.B, l storage.Log, after, end shapelog.Offset) {
	b.Helper()
	body, err := l.Read(b.Context(), after, end)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := body.WriteTo(&discard{}, nil); err != nil {
		b.Fatal(err)
	}
	if err := body.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReadSnapshot reads a snapshot chunk, small from pebble and big from a file, into a TCP connection.
func BenchmarkReadSnapshot(b *testing.B) {
	for _, size := range []int{1 << 10, 40 << 10, 10 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s := openStore(b, b.TempDir(), Options{})
			l, err := s.Create("1-1")
			require.NoError(b, err)
			w, err := l.NewSnapshot(changes.Snapshot{}, 1)
			require.NoError(b, err)
			for n := 0; n < size; n += 250 {
				require.NoError(b, w.Write(benchJSON(249)))
			}
			require.NoError(b, w.Finish([]byte(`{}`)))
			conn, done := sink(b)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				end, _ := l.Range(shapelog.Before)
				body, err := l.Read(b.Context(), shapelog.Before, end)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := body.WriteTo(conn, nil); err != nil {
					b.Fatal(err)
				}
				_ = body.Close() // only read
			}
			require.NoError(b, conn.Close())
			<-done
		})
	}
}

// sink is a TCP connection whose other end reads everything.
func sink(b *testing.B) (net.Conn, <-chan struct{}) {
	b.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err == nil {
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
		_ = ln.Close()
	}()
	var d net.Dialer
	conn, err := d.DialContext(b.Context(), "tcp", ln.Addr().String())
	require.NoError(b, err)
	return conn, done
}

// BenchmarkWriteSnapshot writes a snapshot of 100 MB in rows of 150 bytes.
func BenchmarkWriteSnapshot(b *testing.B) {
	s := openStore(b, b.TempDir(), Options{})
	row := benchJSON(150)
	b.SetBytes(100 << 20)
	i := 0
	for b.Loop() {
		i++
		h := shape.Handle(fmt.Sprintf("%d-1", i))
		l, err := s.Create(h)
		require.NoError(b, err)
		w, err := l.NewSnapshot(changes.Snapshot{}, 1)
		require.NoError(b, err)
		for n := 0; n < 100<<20; n += 151 {
			if err := w.Write(row); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, w.Finish([]byte(`{}`)))
		b.StopTimer()
		require.NoError(b, s.Remove(h))
		s.doWork(b.Context())
		b.StartTimer()
	}
}

// BenchmarkCreate creates small shapes: create, snapshot, finish.
func BenchmarkCreate(b *testing.B) {
	s := openStore(b, b.TempDir(), Options{})
	i := 0
	for b.Loop() {
		i++
		l, err := s.Create(shape.Handle(fmt.Sprintf("%d-1", i)))
		if err != nil {
			b.Fatal(err)
		}
		w, err := l.NewSnapshot(changes.Snapshot{}, 1)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Finish([]byte(`{"headers":{"control":"snapshot-end"}}`)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRemove removes shapes one after the other, each durable on return.
func BenchmarkRemove(b *testing.B) {
	s := openStore(b, b.TempDir(), Options{})
	logs := benchLogs(b, s, 20_000)
	i := 0
	for b.Loop() {
		if i == len(logs) {
			b.StopTimer()
			b.Skip("no more logs")
		}
		if err := s.Remove(logs[i].Handle()); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkOpen opens a store with 100 000 logs of a snapshot and an entry each, then asks each for its state.
func BenchmarkOpen(b *testing.B) {
	const n, entries = 100_000, 1
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	require.NoError(b, err)
	for i, l := range benchLogs(b, s, n) {
		require.NoError(b, l.Append([]shapelog.Entry{{Offset: shapelog.At(uint64(i+1), 0), JSON: benchJSON(250)}})) //nolint:gosec // small
		require.NoError(b, l.Commit())
	}
	require.NoError(b, s.Close())
	var open, states, heap float64
	for b.Loop() {
		before := heapBytes()
		t0 := b.Elapsed()
		s, err := Open(dir, Options{})
		require.NoError(b, err)
		t1 := b.Elapsed()
		open += (t1 - t0).Seconds()
		for _, h := range s.Handles() {
			l, err := s.Open(h)
			if err != nil {
				b.Fatal(err)
			}
			if st, _ := l.State(); st.Last == shapelog.SnapshotEnd {
				b.Fatal("no entries")
			}
		}
		states += (b.Elapsed() - t1).Seconds()
		heap = float64(heapBytes()-before) / n
		require.NoError(b, s.Close())
	}
	b.ReportMetric(open/float64(b.N), "open-s")
	b.ReportMetric(states/float64(b.N), "all-states-s")
	b.ReportMetric(heap, "heap-B/log")
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // a heap
}
