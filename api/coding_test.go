package api

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

func TestNegotiate(t *testing.T) {
	for header, want := range map[string]string{
		"":                                  "identity",
		"gzip":                              "gzip",
		"zstd":                              "zstd",
		"GZip":                              "gzip",
		"x-gzip":                            "gzip",
		"br, deflate":                       "identity",
		"gzip, deflate, br, zstd":           "zstd",
		"gzip;q=1.0, zstd;q=0.9":            "gzip",
		"gzip;q=0.5,zstd;q=0.5":             "zstd",
		"gzip;q=0, zstd; q=0.000":           "identity",
		"gzip ; q = 0.001":                  "gzip",
		"*":                                 "zstd",
		"*;q=0":                             "identity",
		"zstd;q=0, *":                       "gzip",
		"gzip, *;q=0":                       "gzip",
		"identity;q=0, *;q=0":               "identity",
		"identity;q=0":                      "identity",
		"identity, gzip;q=0.5":              "identity",
		"gzip;q=0.5":                        "gzip",
		"gzip;q=NaN":                        "identity",
		"gzip;q=2":                          "identity",
		"gzip;q=-1":                         "identity",
		"gzip;q=":                           "identity",
		"gzip;level=9":                      "gzip",
		",,,":                               "identity",
		"gzipp, agzip, zstd2":               "identity",
		strings.Repeat("a,", 1000) + "gzip": "identity", // not looked at any more
	} {
		require.Equal(t, want, names[negotiate([]string{header}).best], header)
	}
	require.Equal(t, zstandard, negotiate([]string{"gzip", "zstd"}).best, "two lines")
	require.False(t, negotiate([]string{"gzip;q=0, *"}).takes[gzipped])
	require.True(t, negotiate(nil).takes[identity])
}

// decoded returns a body as it was before Content-Encoding.
func decoded(tb testing.TB, header http.Header, body []byte) []byte {
	tb.Helper()
	var r io.Reader = bytes.NewReader(body)
	switch c := header.Get("Content-Encoding"); c {
	case "":
	case "gzip":
		z, err := gzip.NewReader(r) // the standard library's: another program's word for it
		require.NoError(tb, err)
		r = z
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(8<<20)) // what RFC 9659 lets a browser refuse beyond
		require.NoError(tb, err)
		defer z.Close()
		r = z
	default:
		tb.Fatalf("content-encoding %q", c)
	}
	plain, err := io.ReadAll(r)
	require.NoError(tb, err)
	return plain
}

// B166: whatever the coding, a body is the same once decoded, and so are its headers; its tag is its own, and every answer
// tells caches what it was chosen by. Over snapshots in memory and in files, log chunks and the tail.
func TestCodingsOfARealLog(t *testing.T) {
	f := newRealFront(t, 200_000, 3000, 200)
	for i := range uint64(2000) {
		f.commit(t, 1000+i)
	}
	compressed := 0
	for offset, upToDate := "-1", false; !upToDate; {
		query := fmt.Sprintf("offset=%s&handle=%s", offset, f.shape.Handle)
		plain := f.get(t, query)
		require.Empty(t, plain.header.Get("Content-Encoding"))
		require.Equal(t, "accept-encoding", plain.header.Get("Vary"))
		tags := map[string]bool{plain.header.Get("Etag"): true}
		for _, name := range []string{"gzip", "zstd"} {
			for range 2 { // made, and remembered
				got := f.get(t, query, "Accept-Encoding", name)
				require.Equal(t, string(plain.body), string(decoded(t, got.header, got.body)), "%s at %s", name, offset)
				require.Equal(t, int64(len(got.body)), got.length, "announced length")
				if len(plain.body) >= minCompressed {
					require.Equal(t, name, got.header.Get("Content-Encoding"))
					require.Less(t, len(got.body), len(plain.body)/3)
					tags[got.header.Get("Etag")] = true
					compressed++
				} else {
					require.Empty(t, got.header.Get("Content-Encoding"), "%d bytes", len(plain.body))
				}
				for _, h := range []string{"Vary", "Cache-Control", "Electric-Handle", "Electric-Offset", "Electric-Schema", "Content-Type"} {
					require.Equal(t, plain.header[h], got.header[h], h)
				}
				again := f.get(t, query, "Accept-Encoding", name, "If-None-Match", got.header.Get("Etag"))
				require.Equal(t, http.StatusNotModified, again.status)
				require.Equal(t, got.header.Get("Etag"), again.header.Get("Etag"))
				require.Equal(t, "accept-encoding", again.header.Get("Vary"))
				require.Empty(t, again.header.Get("Content-Encoding"))
				if got.header.Get("Content-Encoding") != "" {
					other := f.get(t, query, "Accept-Encoding", "identity", "If-None-Match", got.header.Get("Etag"))
					require.Equal(t, http.StatusOK, other.status, "a body that the client cannot read is not one that it has")
				}
			}
		}
		if len(plain.body) >= minCompressed {
			require.Len(t, tags, 3)
		}
		offset = plain.header.Get("electric-offset")
		_, upToDate = plain.header["Electric-Up-To-Date"]
	}
	require.Greater(t, compressed, 20)
}

func TestCodingCanBeSwitchedOff(t *testing.T) {
	f := newFront(t, Options{NoCompression: true})
	f.backend.create = func(l *fakeLog) { l.snapshot(true, manyItems(100)...) }
	w := f.get(t, "table=items&offset=-1", "Accept-Encoding", "gzip, zstd")
	require.Empty(t, w.Header().Get("Content-Encoding"))
	require.Empty(t, w.Header().Get("Vary"))
	require.NotContains(t, w.Header().Get("Etag"), "gzip")
	require.True(t, jsonValid(w.Body.Bytes()))
}

func manyItems(n int) []string {
	items := make([]string, 0, n)
	for i := range n {
		items = append(items, item(strconv.Itoa(i)))
	}
	return items
}

// HEAD says what GET would say, in each coding and for parts that are small, closed, growing and of unknown length.
func TestHeadAgreesWithGetInEveryCoding(t *testing.T) {
	for _, name := range []string{"identity", "gzip", "zstd"} {
		for _, sizeless := range []bool{false, true} {
			f := newFront(t, Options{})
			f.backend.create = func(l *fakeLog) {
				l.sizeless = sizeless
				l.snapshot(false, manyItems(3000)...)
				l.snapshot(true, manyItems(10)...)
			}
			h, log := f.shape(t)
			log.commit(false, "600_0")
			for _, query := range []string{"offset=-1", "offset=0_0&handle=" + string(h), "offset=0_1&handle=" + string(h)} {
				head := f.do(t, http.MethodHead, "/v1/shape?table=items&"+query, "", "Accept-Encoding", name)
				get := f.get(t, "table=items&"+query, "Accept-Encoding", name)
				require.Empty(t, head.Body.Bytes())
				for _, h := range []http.Header{head.Header(), get.Header()} {
					h.Del("X-Request-Id")
				}
				require.Equal(t, get.Header(), head.Header(), "%s %s", name, query)
				require.True(t, jsonValid(decoded(t, get.Header(), get.Body.Bytes())))
			}
		}
	}
}

// A snapshot that is still being written is compressed as it is sent, and what is there arrives before the rest exists.
func TestGrowingChunkIsCompressedAndFlushed(t *testing.T) {
	for _, name := range []string{"gzip", "zstd"} {
		b := newFakeBackend()
		var log *fakeLog
		b.create = func(l *fakeLog) {
			log = l
			l.snapshot(false, item("first"))
		}
		srv := httptest.NewServer(New(b, Options{}))
		defer srv.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/v1/shape?table=items&offset=-1", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Accept-Encoding", name)
		res, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, name, res.Header.Get("Content-Encoding"))
		var plain io.Reader
		if name == "gzip" {
			plain, err = gzip.NewReader(res.Body)
		} else {
			plain, err = zstd.NewReader(res.Body, zstd.WithDecoderConcurrency(1))
		}
		require.NoError(t, err)
		begin := make([]byte, len("["+item("first")))
		_, err = io.ReadFull(plain, begin)
		require.NoError(t, err)
		require.Equal(t, "["+item("first"), string(begin), "before the snapshot goes on")
		log.grow(true, snapshotEnd)
		rest, err := io.ReadAll(plain)
		require.NoError(t, err)
		require.Equal(t, ","+snapshotEnd+"]", string(rest))
	}
}

// Those who find all encoders lent get the body as it is.
func TestEncodersRunOut(t *testing.T) {
	f := newFront(t, Options{})
	f.backend.create = func(l *fakeLog) {
		l.sizeless = true
		l.snapshot(true, manyItems(100)...)
	}
	s := f.server
	for range maxStreams {
		require.NotNil(t, s.encoders.stream(gzipped, io.Discard))
	}
	w := f.get(t, "table=items&offset=-1", "Accept-Encoding", "gzip")
	require.Empty(t, w.Header().Get("Content-Encoding"))
	require.True(t, jsonValid(w.Body.Bytes()))
	s.encoders.endStream(gzipped, s.encoders.get(gzipped, io.Discard))
	for range 3 { // and they come back
		w = f.get(t, "table=items&offset=-1", "Accept-Encoding", "gzip")
		require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
		require.True(t, jsonValid(decoded(t, w.Header(), w.Body.Bytes())))
	}
}

func TestEventStreamsAreNotCompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		log.commit(false, "600_0")
		w := f.get(t, "table=items&offset=0_0&live=true&live_sse=true&handle="+string(h), "Accept-Encoding", "gzip, zstd")
		require.Empty(t, w.Header().Get("Content-Encoding"))
		require.True(t, strings.HasPrefix(w.Body.String(), "data: {"))
	})
}

// A thousand clients that wait for the same change, some reading gzip, cost one read of the log and one body for each
// coding.
func TestThousandPollersShareOneBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		log.commit(false, "600_0")
		const pollers = 1000
		query := "table=items&offset=600_0&live=true&handle=" + string(h)
		log.reads = 0
		var wg sync.WaitGroup
		bodies := make([]string, pollers)
		for i := range pollers {
			wg.Go(func() {
				w := f.get(t, query, "Accept-Encoding", []string{"identity", "gzip"}[i%2])
				require.Equal(t, http.StatusOK, w.Code)
				bodies[i] = string(decoded(t, w.Header(), w.Body.Bytes()))
			})
		}
		synctest.Wait()
		log.commit(false, offsets(601, 50)...)
		wg.Wait()
		for _, body := range bodies {
			require.Equal(t, bodies[0], body)
		}
		require.Contains(t, bodies[0], item("650_0"))
		require.Equal(t, 2, log.reads, "one for each coding")
		require.Len(t, f.server.bodies.entries, 3, "these two, and the first page")
	})
}

func offsets(first, n int) []string {
	all := make([]string, 0, n)
	for i := range n {
		all = append(all, strconv.Itoa(first+i)+"_0")
	}
	return all
}

func keyNumber(n int) bodyKey { return bodyKey{handle: "h", end: shapelog.At(uint64(n), 0)} }

func TestBodiesKeepTheirLimit(t *testing.T) {
	c := newBodies(1000)
	made := 0
	get := func(n, size int) *sharedBody {
		e, err := c.get(t.Context(), keyNumber(n), func() ([]byte, coding, error) {
			made++
			return bytes.Repeat([]byte{byte(n)}, size), identity, nil
		})
		require.NoError(t, err)
		require.Equal(t, byte(n), e.bytes[0])
		return e
	}
	for n := range 10 {
		get(n, 300).release()
		get(0, 300).release() // is used all the time, so it stays
		require.LessOrEqual(t, c.size, int64(1000))
		require.Len(t, c.entries, c.recent.Len())
	}
	require.Equal(t, 10, made)

	// What is being sent counts although it is pushed out, and is whole to the end.
	var held []*sharedBody
	for n := 20; n < 24; n++ {
		held = append(held, get(n, 300))
	}
	require.Equal(t, int64(1200), c.size)
	_, err := c.get(t.Context(), keyNumber(30), func() ([]byte, coding, error) { panic("must not be made: there is no room") })
	require.ErrorIs(t, err, errNotShared)
	for i, e := range held {
		require.Equal(t, bytes.Repeat([]byte{byte(20 + i)}, 300), e.bytes)
		e.release()
	}
	require.LessOrEqual(t, c.size, int64(1000))
	get(30, 300).release()

	// An error is for those who waited, and is forgotten.
	boom := errors.New("boom")
	_, err = c.get(t.Context(), keyNumber(40), func() ([]byte, coding, error) { return nil, identity, boom })
	require.ErrorIs(t, err, boom)
	get(40, 10).release()
	require.Panics(t, func() {
		_, _ = c.get(t.Context(), keyNumber(41), func() ([]byte, coding, error) { panic("boom") })
	})
	get(41, 10).release()
}

// A log that is removed while its last part is shared gives every one of the clients a clean 409.
func TestSharedBodyOfARemovedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		log.commit(false, "600_0")
		log.readErr = storage.ErrRemoved
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				w := f.get(t, "table=items&offset=0_inf&handle="+string(h))
				require.Equal(t, http.StatusConflict, w.Code)
			})
		}
		wg.Wait()
		log.readErr = nil
		require.Equal(t, http.StatusOK, f.get(t, "table=items&offset=0_inf&handle="+string(h)).Code)
	})
}

func BenchmarkCoding(b *testing.B) {
	f := newRealFront(b, 10<<20, 60_000, 200)
	for _, name := range []string{"identity", "gzip", "zstd"} {
		b.Run(name, func(b *testing.B) {
			var sent, plain int
			for b.Loop() {
				got := f.get(b, "offset=-1", "Accept-Encoding", name)
				sent = len(got.body)
				if plain == 0 {
					plain = len(decoded(b, got.header, got.body))
				}
			}
			b.SetBytes(int64(plain))
			b.ReportMetric(float64(plain)/float64(sent), "ratio")
		})
	}
}
