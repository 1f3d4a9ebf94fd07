package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/snapshot"
)

const fuzzSecret = "s3cret"

// fuzzed is a server whose every shape has rows that name its definition.
type fuzzed struct {
	*front
	requests int
}

// marker is in every row of a definition's shape and in no other.
func marker(d *shape.Definition) string {
	sum := sha256.Sum256([]byte(d.Identity()))
	return hex.EncodeToString(sum[:12])
}

func newFuzzed(t testing.TB, secret string) *fuzzed {
	t.Helper()
	b := newFakeBackend()
	hidden := *b.tables["public.items"]
	hidden.OID, hidden.Name = 2000, "hidden"
	b.tables["public.hidden"] = &hidden
	b.rows = func(d *shape.Definition) []string {
		return []string{`{"key":"1","value":{"of":"` + marker(d) + `","table":"` + d.Table.Name + `"},"headers":{}}`, snapshotEnd}
	}
	b.subset = func(_ context.Context, q snapshot.Subset, to SubsetSink) error {
		return sendSubset(to, `{"key":"1","value":{"table":"`+q.Table.Name+`"},"headers":{"operation":"insert"}}`)
	}
	s := newServer(b, Options{
		Secret: secret, AllowDelete: true, LongPollTimeout: time.Millisecond, SSETimeout: time.Millisecond, SSEKeepAlive: time.Millisecond,
		ReadyTimeout: time.Second, SnapshotTimeout: time.Second, KnownDefinitions: 64, BodyCacheBytes: 64 << 10,
	})
	return &fuzzed{front: &front{s.routes(), b, s}}
}

// FuzzRequest sends whole requests: whatever the path, the query, the headers and the body, there is an answer, and soon;
// it is no 500; its headers are one line each; nothing comes without the secret; and rows are of the shape that was asked
// for, although everything that the server remembers is full of other requests.
func FuzzRequest(f *testing.F) {
	add := func(method, path, query, body string, header ...string) {
		header = append(header, "", "", "")
		f.Add(method, path, query, header[0], header[1], header[2], body)
	}
	first := "table=items&offset=-1"
	for _, query := range []string{
		first, "table=hidden&offset=-1", "table=items&offset=now", "table=items&offset=0_0", "table=items", "offset=-1", "table=items&offset=-1&live=true",
		"table=items&offset=-1&live_sse=true", "table=items&offset=-1&replica=both", "table=items&offset=-1&columns=", "table=items&offset=-1&handle=any",
		"table=items&offset=0_0&handle=x&experimental_live_sse=true", "table=items&table=hidden&offset=-1", "table[]=items&offset=-1",
		first + "&params[1][x]=1", first + "&%ZZ=1", first + "&where=%E9", first + "&where=a%00b", first + "&where=id%3D%241&params[1]=1",
		first + "&params%5B1%5D=%ed%a0%80", first + "&cursor=5%0A6", first + "&subset__limit=1&subset__order_by=id", first + "&subset[where]=id=1",
		first + "&subset__order_by=(SELECT 1)", "table=items+WHERE+1=1;--&offset=-1", "table=%22items%22;&offset=-1", first + "&columns=id,(SELECT+1)",
		first + "&secret=" + fuzzSecret, first + "&api_secret=" + fuzzSecret, first + "&secret=&api_secret=" + fuzzSecret, first + "&secret=x&secret=" + fuzzSecret,
		"table=items&offset=0_0&handle=../../etc/passwd", first + "&where=" + strings.Repeat("(", 500) + "id=1" + strings.Repeat(")", 500),
		"table=items&offset=99999999999999999999_1&handle=1-1", "table=items&offset=600_0&live=true&cursor=99999999999999999999&handle=1-1",
	} {
		add("GET", "/v1/shape", query, "")
		add("GET", "/v1/shape", query, "", "gzip;q=0.5, zstd;q=1", `"1-1:-1:0_0", W/"x"`, "https://app.example")
	}
	for _, path := range []string{
		"/", "//", "/v1/health", "/v1/shape/", "/v1//shape", "//v1/shape", "/v1/%73hape", "/%76%31/shape", "/v1/shape%2f", "/v1/./shape",
		"/v1/x/../shape", "/V1/shape", "/v1/shape;x=1", "/v1/shape%00", "/v1/shape%20", "/favicon.ico", "/openapi.json",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "FOO"} {
			add(method, path, first, "")
		}
	}
	for _, body := range []string{
		"{", "[]", `"x"`, "null", `{"limit":"x"}`, `{"where":"id = $1","params":{"1":"1"}}`, `{"where":"id = $1","params":{"1":5}}`, `{"order_by":"id","limit":3}`,
		`{"unknown":1}`, `{"where":1}`, `{"table":"hidden"}`, `{"subset":{"limit":1},"where":"id = 1"}`, `{"params":{"1":"a\u0000b"}}`, `{"params":{"1":"\ud800"}}`,
		`{"secret":"s3cret"}`, `{"offset":-1}`, `{"live":false}`, `{"subset":1}`, `{"subset":{"order_by":"1; DROP TABLE items"}}`, "\xff",
	} {
		add("POST", "/v1/shape", first, body)
	}
	open, guarded := newFuzzed(f, ""), newFuzzed(f, fuzzSecret)
	f.Fuzz(func(t *testing.T, method, path, query, encodings, ifNoneMatch, origin, body string) {
		if open.requests++; open.requests%2000 == 0 { // or every definition ever made stays
			open, guarded = newFuzzed(t, ""), newFuzzed(t, fuzzSecret)
			open.requests = 0
		}
		r := fuzzRequest(t, method, path, query, body)
		if r == nil {
			return
		}
		for name, value := range map[string]string{"Accept-Encoding": encodings, "If-None-Match": ifNoneMatch, "Origin": origin, "X-Request-Id": origin} {
			if sendable(value) {
				r.Header.Set(name, value)
			}
		}
		checkOpen(t, open, r, body)
		r2 := fuzzRequest(t, method, path, query, body)
		if w := guarded.timed(t, r2); !hasSecret(query) {
			require.Empty(t, w.Header().Get("electric-handle"), "without the secret")
			require.NotContains(t, w.Body.String(), `"table":"`, "without the secret")
			require.Zero(t, guarded.backend.asked, "the catalogue was asked without the secret")
		}
		guarded.backend.asked = 0
	})
}

// hasSecret reports whether any parameter of a query is the secret.
func hasSecret(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		_, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(value); err == nil && plain == fuzzSecret {
			return true
		}
	}
	return false
}

// sendable reports whether net/http would have let a header's value through.
func sendable(value string) bool {
	return strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) < 0
}

// fuzzRequest makes a request as net/http's server would, nil if that would have refused it.
func fuzzRequest(t *testing.T, method, path, query, body string) *http.Request {
	t.Helper()
	if !sendable(query) || strings.Contains(query, " ") || strings.Contains(query, "#") || method == "" || strings.ContainsFunc(method, func(c rune) bool { return c < 'A' || c > 'Z' }) {
		return nil
	}
	u, err := url.ParseRequestURI(path)
	if err != nil || u.IsAbs() || !strings.HasPrefix(path, "/") || strings.Contains(path, "?") {
		return nil
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
	r.URL = u
	r.URL.RawQuery = query
	return r
}

// timed serves a request and fails the test if that takes long.
func (f *fuzzed) timed(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f.ServeHTTP(w, r)
	}()
	select {
	case cause := <-done:
		require.Nil(t, cause, "panic")
	case <-time.After(30 * time.Second):
		t.Fatalf("no answer: %s %s?%s", r.Method, r.URL, r.URL.RawQuery)
	}
	require.Less(t, w.Code, 500, w.Body.String())
	for name, values := range w.Header() {
		for _, value := range values {
			require.True(t, sendable(value), "header %s: %q", name, value)
		}
	}
	return w
}

// checkOpen checks the rows in the answer against the definition that the request has when it is read by a server that
// knows nothing.
func checkOpen(t *testing.T, f *fuzzed, r *http.Request, body string) {
	t.Helper()
	w := f.timed(t, r)
	handle := shape.Handle(w.Header().Get("electric-handle"))
	if w.Code != http.StatusOK || handle == "" || r.Method == http.MethodHead {
		return
	}
	plain := string(decoded(t, w.Header(), w.Body.Bytes()))
	served, ok := f.backend.Lookup(handle)
	require.True(t, ok)
	q := parseQuery(r.URL.RawQuery)
	if r.Method == http.MethodPost {
		again := httptest.NewRequestWithContext(t.Context(), r.Method, "/", strings.NewReader(body))
		require.Nil(t, q.mergeBody(httptest.NewRecorder(), again, time.Second))
	}
	req, bad := newRequest(q)
	require.Nil(t, bad)
	d, err := shape.NewDefinition(f.backend.tables[req.schemaName+"."+req.tableName], req.definition())
	require.NoError(t, err)
	require.Equal(t, d.Identity(), served.Definition.Identity(), "the handle is another shape's")
	if strings.Contains(plain, `"of"`) {
		require.Contains(t, plain, marker(d), "the rows are another shape's")
	}
	// Whatever the parser makes of it: nobody gets the other table who did not name it.
	if strings.Contains(plain, `"table":"hidden"`) && !strings.ContainsAny(body, `\`) {
		named, err := url.QueryUnescape(r.URL.RawQuery)
		require.True(t, err != nil || strings.Contains(strings.ToLower(named+body), "hidden"))
	}
}

// FuzzCursor: a cursor is a number, and more than any number the client sent (B150).
func FuzzCursor(f *testing.F) {
	for _, sent := range []string{"", "0", "-5", "1e9", "abc", "99999999999", "999999999999999999", "9999999999999999999999", "5\n6", "007", "67000000", strings.Repeat("9", 100)} {
		f.Add(sent, int64(1_796_000_000), uint16(20))
	}
	f.Fuzz(func(t *testing.T, sent string, unix int64, interval uint16) {
		got := cursor(sent, time.Duration(interval)*time.Second, time.Unix(unix, 0))
		n, ok := new(big.Int).SetString(got, 10)
		require.True(t, ok, got)
		if interval == 0 {
			require.Equal(t, "0", got)
			return
		}
		if before, ok := new(big.Int).SetString(sent, 10); ok && isDigits(sent) && len(sent) <= maxCursorDigits {
			require.Equal(t, 1, n.Cmp(before), "%s after %s", got, sent)
		}
	})
}
