package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Class 7: caches, browsers, proxies and clients that go away get what HTTP and the protocol promise them.
func TestHTTPFaults(t *testing.T) { runFaults(t, httpFaults) }

var httpFaults = []fault{
	{entry: "B145", name: "CORS", elsewhere: "api.TestCORS"},
	{entry: "B145", name: "preflight", elsewhere: "api.TestPreflight"},
	{entry: "B147", name: "HEAD", elsewhere: "api.TestHeadAgreesWithGetInEveryCoding"},
	{entry: "B147", name: "HEAD and aborted downloads", run: func(w *faultWorld) {
		w.sql("CREATE TABLE hd (id int PRIMARY KEY, v text); INSERT INTO hd SELECT g, repeat('x', 1000) FROM generate_series(1, 3000) g")
		f := w.follow("table", "hd")
		for _, q := range []url.Values{shape("table", "hd", "offset", "-1"), shape("table", "hd", "offset", "0_0", "handle", f.Handle), shape("table", "hd", "offset", "0_0", "handle", "nope"), shape("table", "nosuch", "offset", "-1")} {
			get, head := w.raw(http.MethodGet, q.Encode(), "", "Accept-Encoding", "identity"), w.raw(http.MethodHead, q.Encode(), "", "Accept-Encoding", "identity")
			require.Equal(w, get.status, head.status)
			require.Empty(w, head.body)
			for name, value := range get.header {
				if name != "Date" && name != "X-Request-Id" && name != "Content-Length" {
					require.Equal(w, value, head.header[name], "%s of %v", name, q)
				}
			}
		}
		// Bodies that are left after their first bytes, one after another and many at once.
		connections, routines, log := w.metric("shapeserver_http_live_requests"), w.metric("go_goroutines"), w.srv.log.String()
		for range 3 {
			var leaving sync.WaitGroup
			for range 40 {
				leaving.Go(func() { abort(w.Context(), w.srv.url+"/v1/shape?table=hd&offset=-1") })
			}
			leaving.Wait()
			abort(w.Context(), w.srv.url+"/v1/shape?table=hd&offset=0_0&handle="+f.Handle)
		}
		http.DefaultClient.CloseIdleConnections()
		require.EventuallyWithT(w, func(c *collect) {
			require.LessOrEqual(c, w.metric("shapeserver_http_live_requests"), connections)
			require.LessOrEqual(c, w.metric("go_goroutines"), routines+30, "each download that was left must end")
			require.Zero(c, w.metric("shapeserver_http_admission_permits"), "permits come back")
		}, 20*time.Second, 50*time.Millisecond)
		require.Empty(w, errorLines(strings.TrimPrefix(w.srv.log.String(), log)), "a client that goes away is no error")
		w.goesOn(f, "SELECT * FROM hd")
		// HEAD of a live request ends as GET does: with the change.
		heads := make(chan shapeReply, 1)
		waiting := w.metric("shapeserver_http_live_requests")
		go func() {
			heads <- w.ask(http.MethodHead, shape("table", "hd", "offset", f.Offset, "handle", f.Handle, "live", "true"))
		}()
		require.Eventually(w, func() bool { return w.metric("shapeserver_http_live_requests") > waiting }, 20*time.Second, 10*time.Millisecond)
		w.sql("INSERT INTO hd VALUES (0, 'new')")
		head := <-heads
		require.NoError(w, head.err)
		require.Equal(w, http.StatusOK, head.status)
		require.Empty(w, head.body)
		require.Equal(w, "true", head.header.Get("electric-has-data"))
	}},
	{entry: "B149", name: "the cache's headers of every state", elsewhere: "api.TestResponsesCarryWhatTheMatrixSays"},
	{entry: "B149", name: "what caches may keep", run: func(w *faultWorld) {
		w.sql("CREATE TABLE ce (id int PRIMARY KEY)")
		f := w.follow("table", "ce")
		const none = "no-store"
		for _, tc := range []struct {
			q     url.Values
			cache string
		}{
			{shape("table", "ce", "offset", "-1"), "public, max-age=604800, s-maxage=3600, stale-while-revalidate=2629746"},
			{shape("table", "ce", "offset", "0_0", "handle", f.Handle), "public, max-age=60, stale-while-revalidate=300"},
			{shape("table", "ce", "offset", "0_0", "handle", "nope"), "public, max-age=60, must-revalidate"},
			{shape("table", "nosuch", "offset", "-1"), none},
			{shape("table", "ce", "offset", "0_0"), none},
			{shape("table", "ce", "offset", "-1", "where", "nosuch = 1"), none},
		} {
			r := w.ask(http.MethodGet, tc.q)
			require.Equal(w, tc.cache, r.header.Get("cache-control"), "%v %d", tc.q, r.status)
			if r.status >= 400 && r.status != http.StatusConflict {
				require.Equal(w, none, r.header.Get("surrogate-control"), "%v", tc.q)
			}
		}
		r := w.ask(http.MethodDelete, shape("table", "nosuch"))
		require.Equal(w, "no-cache", r.header.Get("cache-control"))
		require.Equal(w, "no-cache", w.post("table=ce&offset=-1", `{"limit":1,"order_by":"id"}`).header.Get("cache-control"))
		live := w.wait(f)
		w.sql("INSERT INTO ce VALUES (1)")
		r = <-live
		require.NoError(w, r.err)
		require.Equal(w, "public, max-age=5, stale-while-revalidate=5", r.header.Get("cache-control"))
	}},
	{entry: "B150", name: "the cursor", elsewhere: "api.TestCursor"},
	{entry: "B150", name: "a client never sends the same cursor twice", run: func(w *faultWorld) {
		w.sql("CREATE TABLE cu (id serial PRIMARY KEY, v int); INSERT INTO cu(v) VALUES (0)")
		f := w.follow("table", "cu")
		sent := int64(0)
		for i, jump := range []int64{0, 0, 0, 3000, 99_999_999_999, 0} {
			if sent += jump; sent > 0 {
				f.Cursor = strconv.FormatInt(sent, 10)
			}
			live := w.wait(f)
			w.sql(fmt.Sprintf("INSERT INTO cu(v) VALUES (%d)", i))
			r := <-live
			require.NoError(w, r.err)
			require.Equal(w, http.StatusOK, r.status, r.body)
			got, err := strconv.ParseInt(r.header.Get("electric-cursor"), 10, 64)
			require.NoError(w, err)
			require.Greater(w, got, sent)
			sent, f.Offset = got, r.header.Get("electric-offset")
		}
		for _, garbage := range []string{"abc", "-5", "", "1e9", "5\n6", "5\r\nx-bad: 1", strings.Repeat("9", 5000)} {
			f.Cursor = garbage
			live := w.wait(f)
			w.sql("INSERT INTO cu(v) VALUES (1)")
			r := <-live
			require.NoError(w, r.err)
			require.Contains(w, []int{http.StatusOK, http.StatusBadRequest}, r.status)
			if r.status == http.StatusOK {
				require.Regexp(w, `^\d{1,20}$`, r.header.Get("electric-cursor"), garbage)
				f.Offset = r.header.Get("electric-offset")
			}
			require.Empty(w, r.header.Get("x-bad"))
		}
	}},
	{entry: "B151", name: "a live request without changes", elsewhere: "api.TestHasDataTellsEmptyAnswers"},
	{entry: "B151", name: "and while the server is down", elsewhere: "api.TestLongPollTimesOutWhileTheServerIsDown"},
	{entry: "B151", name: "from one end to the other", elsewhere: "integration_test.TestAcceptance"},
	{entry: "B152", name: "invalid parameters", elsewhere: "api.TestInvalidParameters"},
	{entry: "B152", name: "odd parameters", elsewhere: "api.TestToleratedParameters"},
	{entry: "B152", name: "combinations of parameters", run: func(w *faultWorld) {
		w.sql("CREATE TABLE vp (id int PRIMARY KEY); INSERT INTO vp VALUES (1)")
		for query, status := range map[string][]int{
			"table=vp&offset=-1&live=true": {400}, "table=vp&offset=now&live=true": {400}, "table=vp&offset=0_0": {400}, "table=vp": {400}, "offset=-1": {400},
			"table=vp&offset=-1&live_sse=true": {400}, "table=vp&offset=-1&live=maybe": {400}, "table=vp&offset=-1&replica=both": {400}, "table=vp&offset=-1&log=some": {400},
			"table=vp&offset=-1&columns=": {200, 400}, "table=vp&offset=-1&handle=any": {200}, "table=vp&offset=-1&unknown=1": {200}, "table=vp&offset=now": {200},
			"table=vp&offset=0_0&handle=x&experimental_live_sse=true": {400}, "table=vp&offset=-1&live=false": {200}, "table=vp&offset=-1&live=0": {200, 400},
			"table=vp&offset=-1&offset=0_0": {200, 400}, "table=vp&table=pg_class&offset=-1": {400}, "table[]=vp&offset=-1": {400}, "table=vp&offset=-1&params[1][x]=1": {200, 400},
			"%ZZ=1&table=vp&offset=-1": {400}, "table=vp&offset=-1&where=%E9": {400},
		} {
			r := w.raw(http.MethodGet, query, "")
			require.Contains(w, status, r.status, "%s: %s", query, r.body)
			if r.status == http.StatusBadRequest {
				var body struct{ Errors map[string]any }
				require.NoError(w, json.Unmarshal([]byte(r.body), &body), query)
				require.NotEmpty(w, body.Errors, query)
			}
		}
	}},
	{entry: "B154", name: "handle and definition do not match", run: func(w *faultWorld) {
		w.sql("CREATE TABLE hm (id int PRIMARY KEY, a text); INSERT INTO hm VALUES (1, 'x')")
		f := w.follow("table", "hm")
		q := shape("table", "hm", "offset", "0_0", "handle", f.Handle, "where", "a = $1", "params[1]", "x&y=z")
		r := w.ask(http.MethodGet, q)
		require.NoError(w, r.err)
		require.Equal(w, http.StatusConflict, r.status)
		require.JSONEq(w, `[{"headers":{"control":"must-refetch"}}]`, r.body)
		require.Empty(w, r.header.Get("location"))
		q.Set("offset", "-1")
		q.Del("handle")
		asked := w.ask(http.MethodGet, q).header.Get("electric-handle")
		require.Equal(w, r.header.Get("electric-handle"), asked)
		require.NotEqual(w, f.Handle, asked)
	}},
	{entry: "B156", name: "event streams", elsewhere: "api.TestEventStream"},
	{entry: "B156", name: "the life of an event stream", run: (*faultWorld).eventStream},
	{entry: "B158", name: "electric-schema only where it belongs", elsewhere: "api.TestResponsesCarryWhatTheMatrixSays"},
	{entry: "B159", name: "the first answer is not up to date", elsewhere: "integration_test.TestAcceptance"},
	{entry: "B159", name: "nor is an empty table's", run: func(w *faultWorld) {
		w.sql("CREATE TABLE fe (id int PRIMARY KEY)")
		first := w.get("table", "fe", "offset", "-1")
		require.NotContains(w, first.body, "up-to-date")
		require.NotContains(w, first.header, "Electric-Up-To-Date")
		require.Equal(w, "0_0", first.header.Get("electric-offset"))
		second := w.get("table", "fe", "offset", "0_0", "handle", first.header.Get("electric-handle"))
		require.Contains(w, second.body, `"control":"up-to-date"`)
		require.Contains(w, second.header, "Electric-Up-To-Date")
	}},
	{entry: "B160", name: "bodies", elsewhere: "api.TestPostBodies"},
	{entry: "B160", name: "bodies and URLs of any length", run: func(w *faultWorld) {
		w.sql("CREATE TABLE po (id int PRIMARY KEY, t text); INSERT INTO po SELECT g, 't' FROM generate_series(1, 300) g")
		var list []string
		for i := range 9000 {
			list = append(list, strconv.Itoa(i))
		}
		in := "id IN (" + strings.Join(list, ",") + ")"
		for _, tc := range []struct {
			body   string
			status []int
		}{
			{"", []int{200}},
			{"{", []int{400}},
			{"[]", []int{400}},
			{`"x"`, []int{400}},
			{"null", []int{400}},
			{`{"limit":"x"}`, []int{400}},
			{`{"where":1}`, []int{400}},
			{`{"where":{"a":1}}`, []int{400}},
			{`{"where":"id = ANY($1)","params":{"1":"{1,2,3}"}}`, []int{200}},
			{`{"order_by":"id","limit":3}`, []int{200}},
			{`{"unknown":1}`, []int{200}},
			{`{"where":"` + in + `"}`, []int{200}},
			{strings.Repeat(" ", 9_000_000), []int{413}},
		} {
			r := w.post("table=po&offset=-1", tc.body)
			require.Contains(w, tc.status, r.status, "%.80s: %.200s", tc.body, r.body)
		}
		require.Contains(w, []int{200, 414}, w.get("table", "po", "offset", "-1", "where", in).status)
		// A body that is shorter than announced is not waited for without end, and leaves nothing behind.
		conn := w.dial()
		_, err := fmt.Fprintf(conn, "POST /v1/shape?table=po&offset=-1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"a\"")
		require.NoError(w, err)
		require.NoError(w, conn.(*net.TCPConn).CloseWrite())
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil { // otherwise it was cut, which says as much
			defer res.Body.Close()
			require.Contains(w, []int{400, 408}, res.StatusCode)
		}
	}},
	{entry: "B162", name: "idle connections", elsewhere: "integration_test.TestStrictFaults"},
	{entry: "B163", name: "a failure in a body", elsewhere: "api.TestFailureInTheBodyCutsTheConnection"},
	{entry: "B163", name: "files that go while they are sent", elsewhere: "integration_test.TestStrictFaults"},
	{entry: "B165", name: "paths and methods", elsewhere: "api.TestRoutes"},
	{entry: "B165", name: "forms of requests", run: func(w *faultWorld) {
		w.sql("CREATE TABLE rt7 (id int PRIMARY KEY)")
		const q = "?table=rt7&offset=-1"
		for request, status := range map[string][]int{
			"PUT /v1/shape" + q: {404, 405}, "TRACE /v1/shape" + q: {404, 405}, "FOO /v1/shape" + q: {404, 405}, "GET /" + q: {200}, "GET /v1" + q: {404}, "GET /v1/" + q: {404}, "GET /v1/shape/x" + q: {404},
			"GET /v2/shape" + q: {404}, "GET /v1/health/": {200}, "GET /v1/../v1/shape" + q: {301, 404}, "GET /v1/shape/" + q: {200}, "GET //v1/shape" + q: {200}, "GET /favicon.ico": {404}, "GET //": {200, 404},
			"GET http://x/v1/health": {200}, "CONNECT x:1": {400, 404, 405}, "GET *": {400, 404}, "OPTIONS *": {200, 204, 404}, "GET v1/health": {400}, "GET /v1/shape?table=rt7 offset=-1": {400}, "GET": {400},
		} {
			require.Contains(w, status, w.send(request+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), request)
		}
		for request, status := range map[string][]int{
			"GET /v1/health HTTP/1.0\r\n\r\n": {200}, "GET /v1/health HTTP/1.1\r\nConnection: close\r\n\r\n": {400}, "GET /v1/health HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n": {200, 400},
			"POST /v1/shape" + q + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nxyz\r\n": {400}, "GET /v1/health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n": {400},
			"POST /v1/shape" + q + " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd": {400}, "POST /v1/shape" + q + " HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n": {400},
			"GET /v1/health HTTP/9.9\r\nHost: x\r\n\r\n": {400, 505}, "GET /v1/health HTTP/1.1\r\nHost: x\r\n bad: y\r\n\r\n": {400}, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n": {400},
			"GET /v1/health HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("a", 100_000) + "\r\nConnection: close\r\n\r\n": {200, 431}, "GET /v1/health HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("a", 3_000_000): {431},
		} {
			require.Contains(w, status, w.send(request), "%.120q", request)
		}
	}},
	{entry: "B166", name: "codings of bodies", elsewhere: "api.TestCodingsOfARealLog"},
	{entry: "B166", name: "of subsets", elsewhere: "api.TestSubsetsAreCompressed"},
	{entry: "B166", name: "and of event streams, never", elsewhere: "api.TestEventStreamsAreNotCompressed"},
}

// eventStream follows a shape by an event stream through transactions to its end.
func (w *faultWorld) eventStream() {
	w.sql("CREATE TABLE se (id int PRIMARY KEY, v text); INSERT INTO se VALUES (1, 'a')")
	f := w.follow("table", "se")
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	open := func() *http.Response {
		q := shape("table", "se", "offset", f.Offset, "handle", f.Handle, "live", "true", "live_sse", "true")
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.srv.url+"/v1/shape?"+q.Encode(), http.NoBody)
		require.NoError(w, err)
		req.Header.Set("Accept-Encoding", "gzip")
		res, err := http.DefaultClient.Do(req)
		require.NoError(w, err)
		return res
	}
	w.sql(`INSERT INTO se VALUES (2, E'multi\nline')`) // may be there when the stream opens
	res := open()
	defer res.Body.Close()
	require.Equal(w, http.StatusOK, res.StatusCode)
	require.Equal(w, "text/event-stream", res.Header.Get("content-type"))
	require.Empty(w, res.Header.Get("content-encoding"))
	for _, name := range []string{"electric-handle", "electric-offset", "electric-cursor"} {
		require.NotEmpty(w, res.Header.Get(name), name)
	}
	lines := bufio.NewReader(res.Body)
	// transaction reads the values of a transaction, to its up-to-date.
	transaction := func() (values []string) {
		for {
			line, err := lines.ReadString('\n')
			require.NoError(w, err)
			if line == "\n" || strings.HasPrefix(line, ":") {
				continue
			}
			data, ok := strings.CutPrefix(line, "data: ")
			require.True(w, ok, line)
			var m message
			require.NoError(w, json.Unmarshal([]byte(data), &m), line)
			end, err := lines.ReadString('\n')
			require.NoError(w, err)
			require.Equal(w, "\n", end, "an event is one line")
			if m.Headers.Control != "" {
				require.Equal(w, "up-to-date", m.Headers.Control)
				if values != nil {
					return values
				}
				continue
			}
			values = append(values, *m.Value["id"]+*m.Value["v"])
		}
	}
	require.Equal(w, []string{"2multi\nline"}, transaction())
	w.sql("BEGIN; INSERT INTO se VALUES (3, 'c'); UPDATE se SET v = 'd' WHERE id = 1; COMMIT")
	require.Equal(w, []string{"3c", "1d"}, transaction())
	w.delete("table", "se", "handle", f.Handle)
	_, err := io.Copy(io.Discard, lines)
	require.NoError(w, err, "the stream ends with the shape, in good order")
	dead := open()
	defer dead.Body.Close()
	require.Equal(w, http.StatusConflict, dead.StatusCode)
	require.Equal(w, "application/json; charset=utf-8", dead.Header.Get("content-type"))
}
