package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// fault is a reported fault of servers of this kind, as a test of its whole kind. entry is its number in the collection that
// the tests were written from.
type fault struct {
	entry, name string
	run         func(*faultWorld)
	// elsewhere names the test that does it instead, as package.Test.
	elsewhere string
}

// faultClasses are the entries of each class, and their tests.
var faultClasses = []struct {
	entries string
	faults  []fault
}{
	// 1: the life of shapes; 2: order and offsets
	{"B001 B004 B005 B006 B007 B009 B011 B013 B014 B016 B017 B018 B020 B021 B022 B024 B025", lifeFaults},
	{"B026 B028 B029 B031 B032 B034 B035 B036 B038 B039 B041 B042 B043 B045 B048 B049 B050", orderFaults},
	// 4: values, keys, names; 5: schema changes
	{"B076 B078 B079 B081 B082 B084 B086 B087 B089 B090 B092 B093 B096 B097 B098 B099", valueFaults},
	{"B100 B103 B104 B105 B107 B108 B110 B111 B113 B114 B115", schemaFaults},
	// 7: HTTP; 9: attacks
	{"B145 B147 B149 B150 B151 B152 B154 B156 B158 B159 B160 B162 B163 B165 B166", httpFaults},
	{"B184 B186 B187 B188 B190 B191 B193 B195 B196 B198 B199", attackFaults},
}

// Every entry has a test.
func TestEveryFaultHasATest(t *testing.T) {
	for _, class := range faultClasses {
		var tested []string
		for _, f := range class.faults {
			require.NotEqual(t, f.run != nil, f.elsewhere != "", f.entry)
			tested = append(tested, f.entry)
			if f.elsewhere != "" {
				requireTest(t, f.elsewhere)
			}
			if f.elsewhere == "integration_test.TestTypeFaults" {
				require.True(t, slices.ContainsFunc(typeFaults, func(tf typeFault) bool { return tf.entry == f.entry }), f.entry)
			}
		}
		slices.Sort(tested)
		require.Equal(t, strings.Fields(class.entries), slices.Compact(tested))
	}
}

// faultWorld is what a fault's test has: the shared server, and a database of which it has the tables that it makes.
type faultWorld struct {
	testing.TB
	db  *pgtest.DB
	srv *process
	// metrics is the address of GET /metrics.
	metrics string
}

// runFaults runs the tests of one class, one after another on one server whose periods are short.
func runFaults(t *testing.T, faults []fault) {
	db := pgtest.New(t)
	port := freePort(t)
	srv := startServer(t, db, "SHAPESERVER_PUBLICATION_REFRESH_PERIOD=500ms", "SHAPESERVER_SCHEMA_RECONCILER_PERIOD=500ms", "SHAPESERVER_RECONCILE_PERIOD=1s",
		"SHAPESERVER_SHAPE_SUSPEND_AFTER=200ms", "SHAPESERVER_SHAPE_CHUNK_BYTES_THRESHOLD=100000", "SHAPESERVER_LONG_POLL_TIMEOUT=10s",
		"SHAPESERVER_ENABLE_INTEGRATION_TESTING=true", fmt.Sprintf("SHAPESERVER_PROMETHEUS_PORT=%d", port))
	for _, f := range faults {
		if f.run != nil {
			t.Run(f.entry+" "+f.name, func(t *testing.T) {
				f.run(&faultWorld{TB: t, db: db, srv: srv, metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port)})
			})
		}
	}
}

func (w *faultWorld) sql(sql ...string) {
	w.Helper()
	for _, s := range sql {
		w.db.Exec(w, s)
	}
}

// follow returns a client of a shape that has caught up.
func (w *faultWorld) follow(pairs ...string) *Fold {
	w.Helper()
	f := w.client(pairs...)
	require.NoError(w, f.CatchUp(w.Context()))
	require.NoError(w, f.Err())
	return f
}

// client returns a client that has asked for nothing yet.
func (w *faultWorld) client(pairs ...string) *Fold {
	f := NewFold(w.srv.url, shape(pairs...))
	f.Retry = true
	return f
}

// same requires that a client becomes what Postgres has.
func (w *faultWorld) same(f *Fold, sql string) {
	w.Helper()
	requireSame(w, f, w.db, sql)
}

// goesOn requires that a client becomes what Postgres has without having had to begin anew.
func (w *faultWorld) goesOn(f *Fold, sql string) {
	w.Helper()
	w.same(f, sql)
	require.Zero(w, f.Refetched, "the shape must live on")
}

// changed requires that a client becomes what Postgres has, with a shape that was made anew, and so a fresh one.
func (w *faultWorld) changed(f *Fold, sql string) {
	w.Helper()
	handle, before := f.Handle, f.Refetched
	require.EventuallyWithT(w, func(c *collect) {
		require.NoError(c, f.CatchUp(w.Context()))
		require.NotEqual(c, handle, f.Handle, "the shape must end")
	}, 20*time.Second, 50*time.Millisecond)
	require.Greater(w, f.Refetched, before)
	w.same(f, sql)
	late := w.client()
	late.params = f.params
	w.same(late, sql)
}

// shapeReply is what a request was answered, and how long it took.
type shapeReply struct {
	status int
	header http.Header
	body   string
	took   time.Duration
	err    error
}

// ask makes one request for a shape.
func (w *faultWorld) ask(method string, q url.Values) shapeReply {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, method, w.srv.url+"/v1/shape?"+q.Encode(), http.NoBody)
	if err != nil {
		return shapeReply{err: err}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return shapeReply{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return shapeReply{res.StatusCode, res.Header, string(body), time.Since(began), err}
}

func (w *faultWorld) get(pairs ...string) shapeReply {
	w.Helper()
	a := w.ask(http.MethodGet, shape(pairs...))
	require.NoError(w, a.err)
	return a
}

// delete has a shape removed.
func (w *faultWorld) delete(pairs ...string) {
	w.Helper()
	a := w.ask(http.MethodDelete, shape(pairs...))
	require.NoError(w, a.err)
	require.Equal(w, http.StatusAccepted, a.status, a.body)
}

// wait sends a live request from where a client is, returns once the server holds it, and then gives its reply.
func (w *faultWorld) wait(f *Fold) <-chan shapeReply {
	w.Helper()
	q := url.Values{"live": {"true"}, "offset": {f.Offset}, "handle": {f.Handle}, "cursor": {f.Cursor}}
	for name, v := range f.params {
		q[name] = v
	}
	before := w.metric("shapeserver_http_live_requests")
	answers := make(chan shapeReply, 1)
	go func() { answers <- w.ask(http.MethodGet, q) }()
	require.Eventually(w, func() bool { return len(answers) > 0 || w.metric("shapeserver_http_live_requests") > before }, 20*time.Second, 10*time.Millisecond)
	return answers
}

// refetch requires that a live request is told to refetch well before it would have ended by itself.
func (w *faultWorld) refetch(answers <-chan shapeReply) {
	w.Helper()
	a := <-answers
	require.NoError(w, a.err)
	require.Equal(w, http.StatusConflict, a.status, a.body)
	require.JSONEq(w, `[{"headers":{"control":"must-refetch"}}]`, a.body)
}

// metric returns the sum of a metric's values over its labels.
func (w *faultWorld) metric(name string) (sum float64) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.metrics, http.NoBody)
	require.NoError(w, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(w, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(w, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var v float64
			if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &v); err == nil {
				sum += v
			}
		}
	}
	return sum
}

// one returns a value that Postgres selects, as text.
func (w *faultWorld) one(sql string) (v string) {
	w.Helper()
	for line := range query(w, w.db, sql).lines {
		v = strings.Trim(line, `" `)
	}
	return v
}
