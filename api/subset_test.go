package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/where"
)

// subsetAnswer is the body of a subset.
type subsetAnswer struct {
	Metadata struct {
		Xmin         string   `json:"xmin"`
		Xmax         string   `json:"xmax"`
		XipList      []string `json:"xip_list"`
		DatabaseLSN  string   `json:"database_lsn"`
		SnapshotMark *int32   `json:"snapshot_mark"`
	} `json:"metadata"`
	Data []struct {
		Key     string `json:"key"`
		Headers struct {
			Operation    string `json:"operation"`
			SnapshotMark *int32 `json:"snapshot_mark"`
		} `json:"headers"`
	} `json:"data"`
}

func readSubset(t *testing.T, w *httptest.ResponseRecorder) subsetAnswer {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var a subsetAnswer
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a), w.Body.String())
	require.NotNil(t, a.Metadata.SnapshotMark)
	require.GreaterOrEqual(t, *a.Metadata.SnapshotMark, int32(0))
	for _, d := range a.Data {
		require.Equal(t, a.Metadata.SnapshotMark, d.Headers.SnapshotMark)
		require.Equal(t, "insert", d.Headers.Operation)
	}
	return a
}

// The matrix of protocol.md §4.1 and the body of §10.
func TestSubsetAnswer(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	w := f.get(t, "table=items&offset=0_inf&handle="+string(h)+"&subset__where=done", "If-None-Match", "*")
	a := readSubset(t, w)
	require.Equal(t, "900", a.Metadata.Xmin)
	require.Equal(t, "905", a.Metadata.Xmax)
	require.Equal(t, []string{"902", "903"}, a.Metadata.XipList)
	require.Equal(t, "24563200", a.Metadata.DatabaseLSN)
	require.Len(t, a.Data, 2)
	require.Equal(t, "1", a.Data[0].Key)
	require.Equal(t, []string{"electric-handle", "electric-offset", "electric-schema", "electric-snapshot"}, electric(w.Header()))
	require.Equal(t, "true", w.Header().Get("electric-snapshot"))
	require.Equal(t, string(h), w.Header().Get("electric-handle"))
	require.JSONEq(t, `{"id":{"type":"int4","pk_index":0,"not_null":true},"title":{"type":"text"},"done":{"type":"bool"}}`, w.Header().Get("electric-schema"))
	require.Equal(t, "no-cache", w.Header().Get("cache-control"))
	require.Equal(t, "application/json; charset=utf-8", w.Header().Get("content-type"))

	head := f.do(t, http.MethodHead, "/v1/shape?table=items&offset=0_inf&handle="+string(h)+"&subset__where=done", "")
	require.Equal(t, http.StatusOK, head.Code)
	require.Empty(t, head.Body.String())
	require.Equal(t, electric(w.Header()), electric(head.Header()))

	f.backend.subset = func(_ context.Context, _ snapshot.Subset, to SubsetSink) error { return sendSubset(to) }
	require.Contains(t, f.get(t, "table=items&offset=-1&subset__where=done").Body.String(), `,"data":[]}`)
}

// What the client goes on from: where it is, so that nothing between is lost to it (see serveSubset).
func TestSubsetOffset(t *testing.T) {
	f := newFront(t, Options{})
	h, log := f.shape(t)
	log.commit(false, "10_0", "20_0", "20_2")
	for _, tc := range []struct{ offset, want string }{
		{"-1", "0_0"}, {"now", "20_2"}, {"0_inf", "0_inf"}, {"0_0", "0_0"}, {"10_0", "10_0"}, {"20_2", "20_2"}, {"30_0", "30_0"},
	} {
		w := f.get(t, "table=items&offset="+tc.offset+"&handle="+string(h)+"&subset__where=done")
		readSubset(t, w)
		require.Equal(t, tc.want, w.Header().Get("electric-offset"), tc.offset)
	}

	// The head of offset=now is that of before the snapshot: what is committed while it is read is for the log.
	f.backend.subset = func(_ context.Context, _ snapshot.Subset, to SubsetSink) error {
		log.commit(false, "40_0")
		return sendSubset(to)
	}
	w := f.get(t, "table=items&offset=now&subset__where=done")
	require.Equal(t, "20_2", w.Header().Get("electric-offset"))
}

// All spellings of one question (protocol.md §2.1, §2.4 and §10).
func TestSubsetQuery(t *testing.T) {
	f := newFront(t, Options{})
	f.shape(t)
	var asked []string
	f.backend.subset = func(_ context.Context, q snapshot.Subset, to SubsetSink) error {
		text := fmt.Sprintf("limit %d offset %d", q.Limit, q.Offset)
		if q.OrderBy != nil {
			text = "order by " + q.OrderBy.SQL() + " " + text
		}
		if q.Where != nil {
			text = "where " + q.Where.SQL() + " " + text
		}
		asked = append(asked, text)
		return sendSubset(to)
	}
	const one = `where (title = 'x'::text) order by id DESC limit 3 offset 2`
	for _, tc := range []struct{ query, body, want string }{
		{"subset__where=title = $1&subset__params={\"1\":\"x\"}&subset__order_by=id DESC&subset__limit=3&subset__offset=2", "", one},
		{"subset__where=title = $1&subset__params[1]=x&subset__order_by=id DESC&subset__limit=3&subset__offset=2", "", one},
		{"subset[where]=title = $1&subset[params][1]=x&subset[order_by]=id DESC&subset[limit]=3&subset[offset]=2", "", one},
		{"subset[where]=title = $1&subset[params]={\"1\":\"x\"}&subset__order_by=id DESC&subset[limit]=3&subset[offset]=2", "", one},
		{"", `{"where":"title = $1","params":{"1":"x"},"order_by":"id DESC","limit":3,"offset":2}`, one},
		{"", `{"where":"title = $1","params":{"1":"x"},"order_by":"id DESC","limit":"3","offset":"2","where_expr":{},"order_by_expr":[]}`, one},
		{"", `{"subset":{"where":"title = $1","params":{"1":"x"},"order_by":"id DESC","limit":3,"offset":2},"cursor":"7"}`, one},
		{"subset__where=done&subset__params[1]=y&subset__limit=9", `{"where":"title = $1","params":{"1":"x"},"order_by":"id DESC","limit":3,"offset":2}`, one},
		{"subset__where=title = $1&subset__params[1]=x&subset__order_by=id DESC", `{"subset":{"limit":3,"offset":2}}`, one},
		{"subset__where=title = $1&subset__params[1]=y&subset__params={\"1\":\"x\"}&subset__order_by=id DESC&subset__limit=3&subset__offset=2&subset__limit=3", "", one},
		{"subset__where=id = $1&subset__params={\"1\":5}", "", "where (id = '5'::int4) limit 0 offset 0"},
		{"", `{"where":"id = $1","params":{"1":5}}`, "where (id = '5'::int4) limit 0 offset 0"},
		{"", `{"where":"id = $1","params":{"1":-5}}`, "where (id = '-5'::int4) limit 0 offset 0"},
		{"", `{"subset":{}}`, "limit 0 offset 0"},
		{"", `{"params":{}}`, "limit 0 offset 0"},
		{"", `{"where":null,"limit":null}`, "limit 0 offset 0"},
		{"subset__order_by=id&subset__limit=9223372036854775807", "", "order by id limit 9223372036854775807 offset 0"},
		{"subset__order_by=id&subset__offset=0", "", "order by id limit 0 offset 0"},
		{"subset__where=done&subset__limit= ", "", "where done limit 0 offset 0"},
		{"subset__where=done&live=true&live_sse=false", "", ""}, // live with -1
		{"subset__where= ' ' = title OR done&queryable_columns=id,title,done", "", "where ((' '::text = title) OR done) limit 0 offset 0"},
	} {
		asked = nil
		method := http.MethodGet
		if tc.body != "" {
			method = http.MethodPost
		}
		w := f.do(t, method, "/v1/shape?table=items&offset=-1&"+tc.query, tc.body)
		if tc.want == "" {
			require.Equal(t, http.StatusBadRequest, w.Code, tc.query)
			require.Empty(t, asked)
			continue
		}
		readSubset(t, w)
		require.Equal(t, []string{tc.want}, asked, tc.query+tc.body)
	}
	require.NotContains(t, f.get(t, "table=items&offset=-1&subset__where=&subset__limit= &subset__nosuch=1&subset[x][y]=1").Body.String(), "metadata")
}

// A live request for a subset is answered with the subset at once.
func TestSubsetIgnoresLive(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	w := f.get(t, "table=items&offset=0_inf&handle="+string(h)+"&subset__where=done&live=true&live_sse=true")
	readSubset(t, w)
	require.Equal(t, []string{"electric-handle", "electric-offset", "electric-schema", "electric-snapshot"}, electric(w.Header()))
}

// The texts of protocol.md §10, and B074, B186 as far as no database is needed.
func TestInvalidSubsets(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	mood := column("mood", "int4")
	mood.Type = &where.Type{OID: 20000, Schema: "public", Name: "mood", Kind: where.KindEnum, Labels: []string{"sad", "ok"}}
	f.backend.tables["public.en"] = &shape.Table{
		OID: 1001, Schema: "public", Name: "en", Kind: 'r', Key: []int{0}, Columns: []shape.Column{column("id", "int4"), mood},
	}
	f.backend.subset = func(context.Context, snapshot.Subset, SubsetSink) error {
		t.Error("a mistake must not reach the database")
		return errors.New("no")
	}
	created := f.backend.created
	const items = "table=items&offset=-1&"
	for _, tc := range []struct{ query, body, errors string }{
		{items + "subset__limit=5", "", `{"order_by":["order_by is required when limit or offset is present"]}`},
		{items + "subset__offset=2", "", `{"order_by":["order_by is required when limit or offset is present"]}`},
		{items, `{"limit":5}`, `{"order_by":["order_by is required when limit or offset is present"]}`},
		{items, `{"limit":0}`, `{"limit":["must be greater than 0"],"order_by":["order_by is required when limit or offset is present"]}`},
		{items + "subset__limit=0&subset__order_by=id", "", `{"limit":["must be greater than 0"]}`},
		{items + "subset__limit=-1&subset__order_by=id", "", `{"limit":["must be greater than 0"]}`},
		{items + "subset__offset=-1&subset__order_by=id", "", `{"offset":["must be greater than or equal to 0"]}`},
		{items + "subset__limit=abc&subset__order_by=id", "", `{"limit":["is invalid"]}`},
		{items + "subset__limit=1.5&subset__offset=2x&subset__order_by=nosuch", "", `{"limit":["is invalid"],"offset":["is invalid"]}`},
		{items, `{"limit":"x"}`, `{"limit":["is invalid"]}`},
		{items, `{"limit":true,"offset":[]}`, `{"limit":["is invalid"],"offset":["is invalid"]}`},
		{items, `{"limit":1e2,"order_by":"id"}`, `{"limit":["is invalid"]}`},
		{items + "subset__limit=99999999999999999999&subset__order_by=id", "", `{"limit":["is invalid"]}`},
		{items + "subset__order_by=nosuch", "", `{"order_by":["At location 0: unknown reference nosuch"]}`},
		{items + "subset__order_by=lower(title)", "", `{"order_by":["At location 0: FuncCall expressions are not allowed in ORDER BY clauses"]}`},
		{items + "subset__order_by=$1&subset__params[1]=id", "", `{"order_by":["At location 0: parameter $1 is not supported in ORDER BY clauses"]}`},
		{items, `{"order_by":"id; DROP TABLE items"}`, "{\"order_by\":[\"Unexpected `;` in order by\"]}"},
		{items + "subset__where=title", "", `{"where":["WHERE clause must return a boolean"]}`},
		{items, `{"where":"nope = 1"}`, `{"where":["At location 0: unknown reference nope"]}`},
		{items + "subset__where=id=$1", "", `{"where":["At location 3: parameter $1 was not provided"]}`},
		{items + "subset__where=id=$1&params[1]=5", "", `{"where":["At location 3: parameter $1 was not provided"]}`},
		{items + "subset__where=id=$2&subset__params[2]=5", "", `{"params":["Parameters must be numbered sequentially, starting from 1"]}`},
		{items + "subset__where=id=1&subset__params[a]=5", "", `{"params":["Parameters can only use numbers as keys"]}`},
		{items + "subset__where=id IN (SELECT 1)", "", `{"where":["Subqueries are not allowed in subsets"]}`},
		{items + "subset__where=EXISTS (SELECT 1)", "", `{"where":["Subqueries are not allowed in subsets"]}`},
		{items + "subset__where=id=1; DROP TABLE items", "", `{"where":["unescaped \";\" causing statement split"]}`},
		{items + "subset__params=[1]", "", `{"params":["params must be a JSON object"]}`},
		{items + "subset__params=5", "", `{"params":["params must be a JSON object"]}`},
		{items + "subset__params=notjson", "", `{"params":["params must be valid JSON"]}`},
		{items + `subset__params={"1":"a"`, "", `{"params":["params must be valid JSON"]}`},
		{items + `subset__params={"1":null}`, "", `{"params":["is invalid"]}`},
		{items + `subset__params={"1":["a"]}`, "", `{"params":["is invalid"]}`},
		{items + `subset__params={"1":"a\u0000"}`, "", `{"params":["is invalid"]}`},
		{items + "subset__params[]=a", "", `{"params":["is invalid"]}`},
		{items + "subset[params][1][2]=a", "", `{"params":["is invalid"]}`},
		{items, `{"params":[1]}`, `{"params":["params must be a JSON object"]}`},
		{items, `{"params":{"1":null}}`, `{"params":["is invalid"]}`},
		{items, `{"params":{"1":true}}`, `{"params":["is invalid"]}`},
		{items, `{"where":1}`, `{"where":["is invalid"]}`},
		{items, `{"where":{"a":1},"order_by":false}`, `{"where":["is invalid"],"order_by":["is invalid"]}`},
		{items + "subset__where[x]=1", "", `{"where":["is invalid"]}`},
		{items + "queryable_columns=id,done&subset__where=title = 'x'&subset__order_by=title", "", `{"where":["At location 0: unknown reference title"],"order_by":["At location 0: unknown reference title"]}`},
		{"table=en&offset=-1&subset__where=mood = 'nosuch'", "", `{"where":"invalid input value for enum mood: \"nosuch\""}`},
		{"table=items&offset=0_0&handle=" + string(h) + "&subset__where=nope", "", `{"where":["At location 0: unknown reference nope"]}`},
		{"table=items&offset=0_0&handle=1-1&subset__where=nope", "", `{"where":["At location 0: unknown reference nope"]}`},
		{"table=items&offset=-1&where=id %3E 5&subset__where=nope", "", `{"where":["At location 0: unknown reference nope"]}`},
	} {
		method := http.MethodGet
		if tc.body != "" {
			method = http.MethodPost
		}
		w := f.do(t, method, "/v1/shape?"+tc.query, tc.body)
		require.Equal(t, http.StatusBadRequest, w.Code, tc.query+tc.body+w.Body.String())
		require.JSONEq(t, `{"message":"Invalid request","errors":{"subset":`+tc.errors+`}}`, w.Body.String(), tc.query+tc.body)
		if method == http.MethodGet {
			require.Equal(t, "no-store", w.Header().Get("surrogate-control"))
		} else {
			require.Equal(t, "no-cache", w.Header().Get("cache-control"))
		}
		require.Empty(t, electric(w.Header()), tc.query)
	}
	require.Equal(t, created, f.backend.created, "a 400 never makes a shape")

	w := f.get(t, "table=items&offset=x&replica=both&subset__limit=x")
	require.JSONEq(t, `{"message":"Invalid request","errors":{"replica":["is invalid"],"subset":{"limit":["is invalid"]}}}`, w.Body.String())
	w = f.get(t, "table=items&offset=0_0&handle=1-1&subset__where=done")
	requireMoved(t, w, string(h))
}

// A label or a column that the table got since it was last looked at.
func TestSubsetOnAChangedTable(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	items := f.backend.tables["public.items"]
	wider := *items
	wider.Columns = append(wider.Columns[:len(wider.Columns):len(wider.Columns)], column("extra", "int4"))
	for _, known := range []bool{false, true} { // the second is found out only by the snapshot
		f.backend.tables["public.items"] = items
		asked := 0
		f.backend.subset = func(_ context.Context, q snapshot.Subset, to SubsetSink) error {
			if asked++; q.Table != &wider {
				f.backend.tables["public.items"] = &wider
				return &snapshot.Error{Message: "changed", Class: snapshot.ErrSchemaChanged}
			}
			return sendSubset(to)
		}
		question, times := "done", 2
		if !known {
			f.backend.tables["public.items"] = &wider
			question, times = "extra = 1", 1
		}
		readSubset(t, f.get(t, "table=items&offset=0_0&handle="+string(h)+"&subset__where="+question))
		require.Equal(t, times, asked)
	}

	f.backend.subset = func(context.Context, snapshot.Subset, SubsetSink) error {
		return &snapshot.Error{Message: "changed", Class: snapshot.ErrSchemaChanged}
	}
	w := f.get(t, "table=items&offset=0_0&handle="+string(h)+"&subset__where=done")
	require.Equal(t, http.StatusConflict, w.Code)
	require.Equal(t, `[{"headers":{"control":"must-refetch"}}]`, w.Body.String())
}

func TestSubsetFailures(t *testing.T) {
	reg := prometheus.NewRegistry()
	f := newFront(t, Options{Registerer: reg})
	h, log := f.shape(t)
	target := "table=items&offset=0_0&handle=" + string(h) + "&subset__where=done&subset__order_by=id"
	for _, tc := range []struct {
		err        error
		status     int
		body       string
		retryAfter string
	}{
		{&snapshot.Error{Message: "Snapshot query took too long", Class: snapshot.ErrUnavailable, Err: errors.New("secret")}, 503, `{"message":"Snapshot query took too long"}`, "10"},
		{&snapshot.Error{Message: "Unexpected", Class: snapshot.ErrUnexpected, Err: errors.New("secret")}, 500, `{"message":"Unexpected"}`, ""},
		{&snapshot.QueryError{Field: "where", Message: "division by zero", Err: errors.New("secret")}, 400, `{"message":"Invalid request","errors":{"subset":{"where":"division by zero"}}}`, ""},
		{&snapshot.QueryError{Field: "order_by", Message: "no order", Err: errors.New("secret")}, 400, `{"message":"Invalid request","errors":{"subset":{"order_by":["no order"]}}}`, ""},
		{shapecache.ErrGone, 409, `[{"headers":{"control":"must-refetch"}}]`, ""},
		{shapecache.ErrNotReady, 503, `{"message":"Timeout waiting for the server to be ready"}`, "5"},
		{errors.New("secret"), 500, `{"error":"Internal server error"}`, ""},
	} {
		for _, rows := range []int{-1, 0, 2} { // before the coordinates, before and after the first rows
			f.backend.subset = func(_ context.Context, _ snapshot.Subset, to SubsetSink) error {
				if rows >= 0 {
					if err := sendSubset(to, strings.Split(strings.Repeat(`|{"headers":{}}`, rows), "|")[1:]...); err != nil {
						return err
					}
				}
				return tc.err
			}
			w := f.get(t, target)
			require.Equal(t, tc.status, w.Code, "%v %d", tc.err, rows)
			require.Equal(t, tc.body, w.Body.String())
			require.Equal(t, tc.retryAfter, w.Header().Get("retry-after"))
			require.Empty(t, w.Header().Get("electric-snapshot"))
			require.NotContains(t, w.Body.String(), "secret")
		}
	}
	require.Equal(t, 6, count(t, reg, "refused"))

	// What is bigger than the buffer has begun when it fails, and is cut.
	row := `{"v":"` + strings.Repeat("x", subsetBuffer/2) + `","headers":{}}`
	f.backend.subset = func(_ context.Context, _ snapshot.Subset, to SubsetSink) error {
		require.NoError(t, sendSubset(to, row, row, row))
		return errors.New("lost")
	}
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { f.get(t, target) })

	// A shape that ended meanwhile has no log to go on in.
	f.backend.subset = func(_ context.Context, _ snapshot.Subset, to SubsetSink) error {
		log.end(storage.ErrRemoved)
		return sendSubset(to, row, row, row)
	}
	require.Equal(t, http.StatusConflict, f.get(t, target).Code)
	require.Equal(t, 0, count(t, reg, "complete"))
}

func count(t *testing.T, reg *prometheus.Registry, result string) int {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "shapeserver_http_subsets_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == result {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// A big subset goes out as it comes, whole and in order.
func TestBigSubsetIsStreamed(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	srv := httptest.NewServer(f)
	defer srv.Close()
	const rows = 20_000
	next := make(chan struct{})
	f.backend.subset = func(_ context.Context, _ snapshot.Subset, to SubsetSink) error {
		if err := to.Begin(changes.Snapshot{Xmin: 1, Xmax: 1}, 7); err != nil {
			return err
		}
		for i := range rows {
			if i == rows/2 {
				<-next // the client has the beginning by now
			}
			if err := to.Row(fmt.Appendf(nil, `{"key":"%d","headers":{"operation":"insert"}}`, i)); err != nil {
				return err
			}
		}
		return nil
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/v1/shape?table=items&offset=0_0&subset__where=done&handle="+string(h), http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, "true", res.Header.Get("electric-snapshot"))
	first := make([]byte, 1000)
	_, err = io.ReadFull(res.Body, first)
	require.NoError(t, err)
	close(next)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	var a subsetAnswer
	require.NoError(t, json.Unmarshal(append(first, rest...), &a))
	require.Len(t, a.Data, rows)
	for i, d := range a.Data {
		require.Equal(t, fmt.Sprint(i), d.Key)
		require.Equal(t, a.Metadata.SnapshotMark, d.Headers.SnapshotMark)
	}
}

// Subsets are compressed as other bodies are: whole ones of some size, and big ones as they are sent.
func TestSubsetsAreCompressed(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	target := "table=items&offset=0_0&handle=" + string(h) + "&subset__where=done"
	for _, rows := range []int{0, 100, 20_000} {
		f.backend.subset = func(_ context.Context, _ snapshot.Subset, to SubsetSink) error {
			return sendSubset(to, slices.Repeat([]string{`{"key":"k","headers":{"operation":"insert"}}`}, rows)...)
		}
		for _, accept := range []string{"", "gzip", "zstd"} {
			w := f.get(t, target, "Accept-Encoding", accept)
			require.Equal(t, http.StatusOK, w.Code)
			want := accept
			if rows == 0 {
				want = ""
			}
			require.Equal(t, want, w.Header().Get("content-encoding"), rows)
			require.Equal(t, "accept-encoding", w.Header().Get("vary"))
			if rows <= 100 {
				require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("content-length"))
			}
			var a subsetAnswer
			require.NoError(t, json.Unmarshal(decoded(t, w.Header(), w.Body.Bytes()), &a))
			require.Len(t, a.Data, rows)

			head := f.do(t, http.MethodHead, "/v1/shape?"+target, "", "Accept-Encoding", accept)
			require.Equal(t, want, head.Header().Get("content-encoding"))
			require.Empty(t, head.Body.String())
		}
	}
	plain := newFront(t, Options{NoCompression: true})
	w := plain.get(t, "table=items&offset=-1&subset__where=done", "Accept-Encoding", "gzip")
	readSubset(t, w)
	require.Empty(t, w.Header().Get("vary"))
}

// A client that goes away ends the query, and is counted.
func TestSubsetClientGoesAway(t *testing.T) {
	reg := prometheus.NewRegistry()
	f := newFront(t, Options{Registerer: reg})
	h, _ := f.shape(t)
	srv := httptest.NewServer(f)
	defer srv.Close()
	began, ended := make(chan struct{}), make(chan error, 1)
	f.backend.subset = func(ctx context.Context, _ snapshot.Subset, _ SubsetSink) error {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	}
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/shape?table=items&offset=0_0&subset__where=done&handle="+string(h), http.NoBody)
	require.NoError(t, err)
	go func() {
		<-began
		leave()
	}()
	res, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return count(t, reg, "aborted") == 1 }, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		n, err := testutil.GatherAndCount(reg, "shapeserver_http_admission_permits")
		return err == nil && n == 2 && permits(t, reg) == 0
	}, 30*time.Second, time.Millisecond)
}

func permits(t *testing.T, reg *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "shapeserver_http_admission_permits" {
			for _, m := range family.GetMetric() {
				n += m.GetGauge().GetValue()
			}
		}
	}
	return n
}
