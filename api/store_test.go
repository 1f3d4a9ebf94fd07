package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/storage/logstore"
)

// realFront is the front over the real store and real connections.
type realFront struct {
	url     string
	client  *http.Client
	store   *logstore.Store
	backend *fakeBackend
	shape   *shapecache.Shape
	metrics *prometheus.Registry
}

// newRealFront makes a shape whose snapshot has items of itemBytes each, rows of them.
func newRealFront(tb testing.TB, chunkBytes int64, rows, itemBytes int) *realFront {
	tb.Helper()
	store, err := logstore.Open(tb.TempDir(), logstore.Options{ChunkBytes: chunkBytes})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, store.Close()) })
	b := newFakeBackend()
	d, err := shape.NewDefinition(b.tables["public.items"], shape.Request{})
	require.NoError(tb, err)
	h := shape.NewHandle(d, time.Now())
	log, err := store.Create(h)
	require.NoError(tb, err)
	w, err := log.NewSnapshot(changes.Snapshot{Xmin: 1, Xmax: 1}, 1)
	require.NoError(tb, err)
	for i := range rows {
		require.NoError(tb, w.Write([]byte(fmt.Sprintf(`{"key":"%d","pad":"%s"}`, i, strings.Repeat("x", itemBytes)))))
	}
	require.NoError(tb, w.Finish([]byte(snapshotEnd)))
	sh := &shapecache.Shape{Handle: h, Definition: d, Log: log}
	b.shapes[h] = sh
	metrics := prometheus.NewRegistry()
	srv := httptest.NewServer(New(b, Options{Registerer: metrics}))
	tb.Cleanup(srv.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}}
	tb.Cleanup(client.CloseIdleConnections)
	return &realFront{srv.URL, client, store, b, sh, metrics}
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	length int64 // what was announced, -1 for nothing
	body   []byte
}

func (f *realFront) get(tb testing.TB, query string, header ...string) answer {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, f.url+"/v1/shape?table=items&"+query, nil)
	require.NoError(tb, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.client.Do(req)
	require.NoError(tb, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	require.NoError(tb, resp.Body.Close())
	return answer{resp.StatusCode, resp.Header, resp.ContentLength, body}
}

// awaitParked returns when n long-polls wait.
func (f *realFront) awaitParked(tb testing.TB, n int) {
	tb.Helper()
	for parked := -1; parked != n; runtime.Gosched() {
		families, err := f.metrics.Gather()
		require.NoError(tb, err)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "shapeserver_http_live_requests" && m.GetLabel()[0].GetValue() == "long_poll" {
					parked = int(m.GetGauge().GetValue())
				}
			}
		}
	}
}

func (f *realFront) commit(tb testing.TB, lsn uint64) {
	tb.Helper()
	json := []byte(fmt.Sprintf(`{"key":"%d","pad":"%s"}`, lsn, strings.Repeat("y", 200)))
	require.NoError(tb, f.shape.Log.Append([]shapelog.Entry{{Offset: shapelog.At(lsn, 0), JSON: json}}))
	require.NoError(tb, f.shape.Log.Commit())
}

// A client that follows the offsets gets every item once, in order, and every body is JSON, over snapshots in memory and
// in files, log chunks and the tail.
func TestFollowingARealLog(t *testing.T) {
	for _, rows := range []int{0, 10, 3000} {
		f := newRealFront(t, 200_000, rows, 200)
		const changed = 2000
		for i := range uint64(changed) {
			f.commit(t, 1000+i)
		}
		offset, got := "-1", []string{}
		for {
			part := f.get(t, fmt.Sprintf("offset=%s&handle=%s", offset, f.shape.Handle))
			require.Equal(t, http.StatusOK, part.status, string(part.body))
			require.Equal(t, part.length, int64(len(part.body)), "complete parts have a length")
			require.Less(t, len(part.body), 210_000)
			var items []struct {
				Key     string
				Headers struct{ Control string }
			}
			require.NoError(t, json.Unmarshal(part.body, &items))
			last := ""
			for _, it := range items {
				if last = it.Headers.Control; last == "" {
					got = append(got, it.Key)
				}
			}
			_, upToDate := part.header["Electric-Up-To-Date"]
			require.Equal(t, last == "up-to-date", upToDate)
			next := part.header.Get("electric-offset")
			require.NotEqual(t, offset, next)
			if offset = next; upToDate {
				break
			}
		}
		require.Len(t, got, rows+changed)
		for i, key := range got {
			want := i
			if i >= rows {
				want = 1000 + i - rows
			}
			require.Equal(t, fmt.Sprint(want), key)
		}
	}
}

func TestNotModifiedOnTheWire(t *testing.T) {
	f := newRealFront(t, 0, 10, 10)
	query := "offset=-1&handle=" + string(f.shape.Handle)
	full := f.get(t, query)
	same := f.get(t, query, "If-None-Match", full.header.Get("etag"))
	require.Equal(t, http.StatusNotModified, same.status)
	require.Empty(t, same.body)
	require.Equal(t, []string{"application/json; charset=utf-8"}, same.header["Content-Type"])
	require.Empty(t, same.header["Transfer-Encoding"])
}

func TestRealLogIsRemovedWhileItIsWaitedFor(t *testing.T) {
	f := newRealFront(t, 0, 10, 10)
	answers := make(chan int, 10)
	query := fmt.Sprintf("offset=0_inf&handle=%s&live=true", f.shape.Handle)
	for range cap(answers) {
		go func() { answers <- f.get(t, query).status }()
	}
	f.awaitParked(t, cap(answers))
	f.backend.mu.Lock()
	delete(f.backend.shapes, f.shape.Handle)
	f.backend.mu.Unlock()
	require.NoError(t, f.store.Remove(f.shape.Handle))
	for range cap(answers) {
		require.Equal(t, http.StatusConflict, <-answers)
	}
	_, err := f.shape.Log.Read(t.Context(), shapelog.SnapshotEnd, shapelog.SnapshotEnd)
	require.ErrorIs(t, err, storage.ErrRemoved)
}

func BenchmarkRead(b *testing.B) {
	for _, tc := range []struct {
		name            string
		rows, itemBytes int
	}{{"body=40KB", 40, 1000}, {"body=10MB", 10_000, 1000}} {
		b.Run(tc.name, func(b *testing.B) {
			f := newRealFront(b, 0, tc.rows, tc.itemBytes)
			query := "offset=-1&handle=" + string(f.shape.Handle)
			b.SetBytes(int64(len(f.get(b, query).body)))
			b.ReportAllocs()
			for b.Loop() {
				resp, err := f.client.Get(f.url + "/v1/shape?table=items&" + query) //nolint:noctx // hot loop
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
}

// BenchmarkHandler is the front's own cost, without connections.
func BenchmarkHandler(b *testing.B) {
	f := newRealFront(b, 0, 1, 10)
	f.commit(b, 1000)
	for name, query := range map[string]string{
		"catch-up": "offset=0_inf&handle=" + string(f.shape.Handle),
		"live":     "offset=0_inf&live=true&cursor=1&handle=" + string(f.shape.Handle),
	} {
		b.Run(name, func(b *testing.B) {
			handler := New(f.backend, Options{})
			r := newRequestTo(b, http.MethodGet, "/v1/shape?table=items&"+query, "")
			w := &discard{h: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				handler.ServeHTTP(w, r)
			}
		})
	}
}

type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkWaiting is the memory that a waiting client takes, its connection's share of net/http included.
func BenchmarkWaiting(b *testing.B) {
	const clients = 2000
	for b.Loop() {
		b.StopTimer()
		f := newRealFront(b, 0, 1, 10)
		host := strings.TrimPrefix(f.url, "http://")
		var before, waiting runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		conns := make([]net.Conn, clients)
		for i := range conns {
			c, err := new(net.Dialer).DialContext(b.Context(), "tcp", host)
			require.NoError(b, err)
			_, err = fmt.Fprintf(c, "GET /v1/shape?table=items&offset=0_inf&live=true&handle=%s HTTP/1.1\r\nHost: x\r\n\r\n", f.shape.Handle)
			require.NoError(b, err)
			conns[i] = c
		}
		b.StartTimer()
		f.awaitParked(b, clients)
		b.StopTimer()
		runtime.GC()
		runtime.GC() // the second empties the pools
		runtime.ReadMemStats(&waiting)
		held := int64(waiting.StackInuse+waiting.HeapInuse) - int64(before.StackInuse+before.HeapInuse) //nolint:gosec // memory fits
		b.ReportMetric(float64(held)/clients, "B/client")
		b.ReportMetric(float64(waiting.HeapAlloc-before.HeapAlloc)/clients, "B-alloc/client")
		b.ReportMetric(float64(waiting.StackInuse-before.StackInuse)/clients, "B-stack/client")
		for _, c := range conns {
			require.NoError(b, c.Close())
		}
		b.StartTimer()
	}
}

// BenchmarkFanOut is the time from a commit until the last of many waiting clients has its answer, clients included.
func BenchmarkFanOut(b *testing.B) {
	for _, clients := range []int{1, 1000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			f := newRealFront(b, 0, 1, 10)
			lsn := uint64(1000)
			f.commit(b, lsn)
			for b.Loop() {
				b.StopTimer()
				url := fmt.Sprintf("%s/v1/shape?table=items&offset=%d_0&live=true&handle=%s", f.url, lsn, f.shape.Handle)
				ctx, cancel := context.WithCancel(b.Context())
				var wg sync.WaitGroup
				for range clients {
					wg.Go(func() {
						req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
						resp, err := f.client.Do(req)
						if err != nil {
							b.Error(err)
							return
						}
						defer func() { _ = resp.Body.Close() }()
						if body, _ := io.ReadAll(resp.Body); !bytes.Contains(body, []byte("up-to-date")) {
							b.Errorf("got %s", body)
						}
					})
				}
				f.awaitParked(b, clients)
				b.StartTimer()
				lsn++
				f.commit(b, lsn)
				wg.Wait()
				b.StopTimer()
				cancel()
				b.StartTimer()
			}
		})
	}
}
