package api

import (
	"bytes"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
)

// Every row of the table in protocol.md §4.3, in its order.
func TestCacheControl(t *testing.T) {
	s := &server{headers: newFixedHeaders(Options{CacheMaxAge: 7 * time.Second, CacheStaleAge: 9 * time.Second, SSETimeout: 30 * time.Second})}
	first, tail := &request{offset: shapelog.Before}, &request{offset: shapelog.SnapshotEnd}
	live := &request{offset: shapelog.SnapshotEnd, live: true}
	sse := &request{offset: shapelog.SnapshotEnd, live: true, sse: true}
	for _, tc := range []struct {
		method          string
		status          int
		moved           bool
		req             *request
		want, surrogate string
	}{
		{"POST", 200, false, first, "no-cache", ""},
		{"DELETE", 400, false, nil, "no-cache", ""},
		{"POST", 409, true, nil, "no-cache", ""},
		{"GET", 409, true, nil, "public, max-age=60, must-revalidate", ""},
		{"HEAD", 409, false, nil, "public, max-age=1, must-revalidate", ""},
		{"GET", 400, false, nil, "no-store", "no-store"},
		{"GET", 503, false, first, "no-store", "no-store"},
		{"GET", 200, false, first, "public, max-age=604800, s-maxage=3600, stale-while-revalidate=2629746", ""},
		{"GET", 304, false, first, "public, max-age=604800, s-maxage=3600, stale-while-revalidate=2629746", ""},
		{"GET", 200, false, sse, "public, max-age=29", ""},
		{"GET", 200, false, live, "public, max-age=5, stale-while-revalidate=5", ""},
		{"GET", 200, false, tail, "public, max-age=7, stale-while-revalidate=9", ""},
		{"GET", 200, false, &request{now: true}, "public, max-age=7, stale-while-revalidate=9", ""},
	} {
		h := http.Header{}
		s.cacheControl(h, tc.method, tc.status, tc.moved, tc.req)
		require.Equal(t, tc.want, h.Get("cache-control"), tc)
		require.Equal(t, tc.surrogate, h.Get("surrogate-control"), tc)
	}
	short := newFixedHeaders(Options{SSETimeout: time.Second})
	require.Equal(t, []string{"public, max-age=1"}, short.cacheSSE)
}

// B150: the cursor is always above the client's, however far ahead that is, and garbage is none.
func TestCursor(t *testing.T) {
	at := cursorEpoch.Add(1001 * time.Second)
	for sent, want := range map[string]string{
		"": "1020", "abc": "1020", "-5": "1020", "1e9": "1020", "5\n6": "1020", "+3": "1020", "0": "1020", "1019": "1020", "0000": "1020",
		strings.Repeat("9", maxCursorDigits+1): "1020",
	} {
		require.Equal(t, want, cursor(sent, 20*time.Second, at), "%q", sent)
	}
	require.Equal(t, "1000", cursor("", 20*time.Second, cursorEpoch.Add(1000*time.Second)))
	require.Equal(t, "0", cursor("77", 900*time.Millisecond, at))
	for _, sent := range []string{"1020", "1021", "99999999999", "9223372036854775807", "999999999999999999", "99999999999999999999999999"} {
		for range 50 {
			was, _ := new(big.Int).SetString(sent, 10)
			got, ok := new(big.Int).SetString(cursor(sent, 20*time.Second, at), 10)
			require.True(t, ok)
			jump := new(big.Int).Sub(got, was)
			require.Positive(t, jump.Sign(), sent)
			require.LessOrEqual(t, jump.Int64(), int64(3600), sent)
		}
	}
}

func TestKnownDefinitionsAreBounded(t *testing.T) {
	k := newKnownDefinitions(10)
	key := func(i int) definitionKey { return keyOf(&request{table: fmt.Sprint(i)}) }
	k.put(key(-1), &knownShape{handle: "kept"})
	for i := range 1000 {
		k.put(key(i), &knownShape{handle: shape.Handle(fmt.Sprint(i))})
		require.LessOrEqual(t, len(k.young)+len(k.old), 10)
		require.NotNil(t, k.get(key(-1)), "what is used stays")
		require.Equal(t, shape.Handle(fmt.Sprint(i)), k.get(key(i)).handle)
	}
	require.Nil(t, k.get(key(1)))
}

// The parts of a definition are kept apart in its key, or one client could be served another's definition.
func TestKeysOfDifferentDefinitionsDiffer(t *testing.T) {
	seen := map[definitionKey]*request{}
	for _, r := range []*request{
		{table: "a"},
		{table: "a", where: "b"},
		{table: "ab"},
		{where: "ab"},
		{table: "a", columns: "b"},
		{table: "a", queryable: "b"},
		{table: "a", replica: "full"},
		{table: "a", log: "full"},
		{table: "a", where: "x", params: map[string]string{"1": "23"}},
		{table: "a", where: "x", params: map[string]string{"12": "3"}},
		{table: "a", where: "x", params: map[string]string{"1": "2", "3": ""}},
		{table: "a", where: "x"},
		{table: "a", where: "x\x01" + "1\x02" + "23"},
	} {
		require.Nil(t, seen[keyOf(r)], r)
		seen[keyOf(r)] = r
	}
	require.Equal(t, keyOf(&request{table: "a"}), keyOf(&request{table: "a", params: map[string]string{"1": "x"}}))
	require.Equal(t,
		keyOf(&request{where: "x", params: map[string]string{"1": "a", "2": "b", "3": "c"}}),
		keyOf(&request{where: "x", params: map[string]string{"3": "c", "2": "b", "1": "a"}}))
}

// A file goes out in pieces with a deadline each, with what stands around it, through every way a storage may read it.
func TestWriterSendsFiles(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	path := filepath.Join(t.TempDir(), "chunk")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	sources := map[string]func(f *os.File) io.Reader{
		"file":    func(f *os.File) io.Reader { return f },
		"limited": func(f *os.File) io.Reader { return io.LimitReader(f, 700_001) },
		"section": func(f *os.File) io.Reader { return io.NewSectionReader(f, 5, 900_000) },
	}
	want := map[string][]byte{"file": content, "limited": content[:700_001], "section": content[5:900_005]}
	srv := httptest.NewServer(http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		w := newResponseWriter(inner, time.Minute)
		f, err := os.Open(path)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		if n := r.Header.Get("Length"); n != "" {
			w.Header().Set("Content-Length", n)
		}
		_, _ = w.Write([]byte{'['})
		_, err = io.Copy(w, sources[r.URL.Path[1:]](f))
		if err != nil {
			panic(err)
		}
		_, _ = w.Write([]byte{']'})
		if w.bytes != int64(len(want[r.URL.Path[1:]])+2) {
			panic(w.bytes)
		}
	}))
	defer srv.Close()
	for name, content := range want {
		for _, length := range []string{"", fmt.Sprint(len(content) + 2)} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/"+name, nil)
			require.NoError(t, err)
			req.Header.Set("Length", length)
			resp, err := srv.Client().Do(req)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.True(t, bytes.Equal(got, append(append([]byte("["), content...), ']')), name)
		}
	}
}

// B167: a client that stops reading is cut off; one that reads slowly is not.
func TestStalledClientIsCutOff(t *testing.T) {
	done := make(chan error, 1)
	piece := bytes.Repeat([]byte{'x'}, 1<<20)
	srv := httptest.NewServer(http.HandlerFunc(func(inner http.ResponseWriter, _ *http.Request) {
		w := newResponseWriter(inner, 100*time.Millisecond)
		var err error
		for range 64 { // more than sockets hold
			if _, err = w.ReadFrom(bytes.NewReader(piece)); err != nil {
				break
			}
		}
		done <- err
		panic(http.ErrAbortHandler)
	}))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	require.NoError(t, err)
	resp, err := srv.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
}
