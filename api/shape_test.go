package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
)

func requireMoved(t *testing.T, w *httptest.ResponseRecorder, to string) {
	t.Helper()
	require.Equal(t, http.StatusConflict, w.Code, w.Body.String())
	require.Equal(t, `[{"headers":{"control":"must-refetch"}}]`, w.Body.String())
	require.Equal(t, to, w.Header().Get("electric-handle"))
	require.Equal(t, `"`+to+`::"`, w.Header().Get("etag"))
	require.Equal(t, "public, max-age=60, must-revalidate", w.Header().Get("cache-control"))
	require.Equal(t, []string{"electric-handle", "etag"}, electric(w.Header()))
	require.Empty(t, w.Header().Get("location"))
}

// B021, B154, B195 and protocol.md §3.5: a handle gives access to its own definition's shape and to nothing else.
func TestHandleMustBeTheDefinitions(t *testing.T) {
	f := newFront(t, Options{})
	f.backend.tables["public.other"] = &shape.Table{Schema: "public", Name: "other", Columns: []shape.Column{column("id", "int4")}}
	h, _ := f.shape(t)

	w := f.get(t, "table=items&offset=10_0&handle=123-456")
	requireMoved(t, w, string(h))
	for _, evil := range []string{"../../etc/passwd", "%2e%2e%2f", "'; DROP TABLE x; --", "1-99999999999999999999", "nope"} {
		requireMoved(t, f.get(t, "table=items&offset=10_0&handle="+evil), string(h))
	}

	w = f.get(t, "table=items&offset=10_0&handle=123-456&where=id = 7")
	fresh := w.Header().Get("electric-handle")
	require.NotEqual(t, string(h), fresh)
	requireMoved(t, w, fresh)
	w = f.get(t, "table=items&offset=-1&where=id = 7")
	require.Equal(t, fresh, w.Header().Get("electric-handle"), "the handle can be used at once")

	for _, query := range []string{
		"table=items&offset=0_0&where=id = 8", "table=items&offset=0_0&replica=full", "table=items&offset=0_0&columns=id",
		"table=items&offset=0_0&log=changes_only", "table=other&offset=0_0", "table=items&offset=0_0&where=title = $1&params[1]=x%26y=z",
	} {
		for range 2 { // the second time from memory
			w = f.get(t, query+"&handle="+string(h))
			require.NotEqual(t, string(h), w.Header().Get("electric-handle"), query)
			requireMoved(t, w, w.Header().Get("electric-handle"))
		}
	}
	w = f.get(t, "offset=0_0&handle="+string(h))
	require.Equal(t, http.StatusBadRequest, w.Code)
}

func TestLiveShapeNeedsNoDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		log.commit(false, "600_0")
		asked := f.backend.asked
		f.backend.tableErr = inspector.ErrUnreachable
		f.backend.ready = func(ctx context.Context) error { <-ctx.Done(); return told("down") }
		for _, query := range []string{
			"table=items&offset=0_0&handle=" + string(h),
			`table="items"&offset=0_inf&columns=&handle=` + string(h), // another text, the same shape
			"table=items&offset=600_0&live=true&handle=" + string(h),
		} {
			require.Equal(t, http.StatusOK, f.get(t, query).Code, query)
			require.Equal(t, asked, f.backend.asked, query)
		}
		for i, query := range []string{"table=items&offset=-1", "table=items&offset=now"} {
			require.Equal(t, http.StatusOK, f.get(t, query).Code, "the catalogue cannot be asked, but the shape is there")
			require.Equal(t, asked+i+1, f.backend.asked, query)
		}
	})
}

// A first request is not handed the rows of a table that was dropped, or made anew under its name.
func TestFirstRequestAsksForTheTable(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	another := *f.backend.tables["public.items"]
	another.OID++
	f.backend.tables["public.items"] = &another
	w := f.get(t, "table=items&offset=-1")
	require.Equal(t, http.StatusOK, w.Code)
	require.NotEqual(t, string(h), w.Header().Get("electric-handle"))
	delete(f.backend.tables, "public.items")
	require.Equal(t, http.StatusBadRequest, f.get(t, "table=items&offset=-1").Code)
	require.Equal(t, http.StatusBadRequest, f.get(t, "table=items&offset=now").Code)
}

// The schema header follows the catalogue also where the shape goes on (protocol.md §4.5).
func TestSchemaIsRefreshed(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	changed := *f.backend.tables["public.items"]
	changed.Columns = append([]shape.Column(nil), changed.Columns...)
	changed.Columns[1].NotNull = true
	f.backend.tables["public.items"] = &changed
	w := f.get(t, "table=items&offset=-1")
	require.Equal(t, string(h), w.Header().Get("electric-handle"))
	require.Contains(t, w.Header().Get("electric-schema"), `"title":{"type":"text","not_null":true}`)
	w = f.get(t, "table=items&offset=0_0&handle="+string(h))
	require.Contains(t, w.Header().Get("electric-schema"), `"title":{"type":"text","not_null":true}`)
}

func TestShapeThatWentAwayIsForgotten(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	require.NoError(t, f.backend.Delete(t.Context(), h))
	w := f.get(t, "table=items&offset=0_0&handle="+string(h))
	next := w.Header().Get("electric-handle")
	require.NotEqual(t, string(h), next)
	requireMoved(t, w, next)
	require.Equal(t, next, f.get(t, "table=items&offset=-1").Header().Get("electric-handle"))
	delete(f.backend.tables, "public.items")
	require.NoError(t, f.backend.Delete(t.Context(), shape.Handle(next)))
	require.Equal(t, http.StatusBadRequest, f.get(t, "table=items&offset=0_0&handle="+next).Code)
}

func TestFiftyFirstRequestsMakeOneShape(t *testing.T) {
	f := newFront(t, Options{})
	handles := make([]string, 50)
	var wg sync.WaitGroup
	for i := range handles {
		wg.Go(func() {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, newRequestTo(t, http.MethodGet, "/v1/shape?table=items&offset=-1", ""))
			handles[i] = w.Header().Get("electric-handle")
		})
	}
	wg.Wait()
	for _, h := range handles {
		require.Equal(t, handles[0], h)
	}
	require.Equal(t, 1, f.backend.created)
}

func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{AllowDelete: true})
		f.backend.ready = func(ctx context.Context) error {
			<-ctx.Done()
			return told("Timeout waiting for Postgres lock acquisition")
		}
		for _, tc := range []struct{ method, query, cache string }{
			{"GET", "table=items&offset=-1", "no-store"},
			{"GET", "offset=nonsense", "no-store"}, // a server that is starting hides mistakes
			{"GET", "table=items&offset=0_0&handle=1-1", "no-store"},
			{"POST", "table=items&offset=-1", "no-cache"},
			{"DELETE", "table=items", "no-cache"},
		} {
			began := time.Now()
			w := f.do(t, tc.method, "/v1/shape?"+tc.query, "")
			require.Equal(t, 5*time.Second, time.Since(began), tc.query)
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Equal(t, `{"message":"Timeout waiting for Postgres lock acquisition"}`, w.Body.String())
			require.Equal(t, "5", w.Header().Get("retry-after"))
			require.Equal(t, tc.cache, w.Header().Get("cache-control"))
			require.Empty(t, w.Header().Get("electric-internal-known-error"))
		}
		f.backend.ready = nil
		for _, err := range []error{inspector.ErrUnreachable, errors.New("password authentication failed for host db.internal")} {
			f.backend.tableErr = err
			w := f.get(t, "table=items&offset=-1")
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Equal(t, `{"message":"Cannot connect to the database to verify the shape. Please try again later."}`, w.Body.String())
			require.Equal(t, "1", w.Header().Get("retry-after"))
		}
		f.backend.tableErr = nil
		for _, tc := range []struct {
			err         error
			status      int
			body, retry string
		}{
			{errors.New("disk full at /var/lib"), 503, `{"message":"Failed to create shape, please retry"}`, "1"},
			{fmt.Errorf("x: %w", shapecache.ErrNotReady), 503, `{"message":"Timeout waiting for the server to be ready"}`, "5"},
			{told("Timeout waiting for stack restart"), 503, `{"message":"Timeout waiting for stack restart"}`, "1"},
			{shapecache.ErrGone, 409, `[{"headers":{"control":"must-refetch"}}]`, ""},
			{&shapecache.FailedError{Err: told("permission denied"), RetryAt: time.Now().Add(3 * time.Second)}, 503, `{"message":"permission denied"}`, "10"},
			{&shapecache.FailedError{Err: told("permission denied"), RetryAt: time.Now().Add(20500 * time.Millisecond)}, 503, `{"message":"permission denied"}`, "21"},
			{
				&shapecache.FailedError{Err: &snapshot.Error{Message: "odd", Class: snapshot.ErrUnexpected}, RetryAt: time.Now().Add(3 * time.Second)},
				500, `{"message":"odd"}`, "3",
			},
			{
				&shapecache.FailedError{Err: &snapshot.Error{Message: "changed", Class: snapshot.ErrSchemaChanged}, RetryAt: time.Now().Add(3 * time.Second)},
				503, `{"message":"Failed to create shape, please retry"}`, "3",
			},
		} {
			f.backend.getErr = tc.err
			w := f.get(t, "table=items&offset=-1")
			require.Equal(t, tc.status, w.Code)
			require.Equal(t, tc.body, w.Body.String())
			require.Equal(t, tc.retry, w.Header().Get("retry-after"))
		}
	})
}

// A client is told that its handle is over only when no crash can bring it back (I5); while that is not sure, it is told to
// come again.
func TestMustRefetchWaitsForTheRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{ReadyTimeout: 2 * time.Second})
		durable := make(chan struct{})
		f.backend.gone = func(ctx context.Context, h shape.Handle) error {
			require.Equal(t, shape.Handle("1-1"), h)
			select {
			case <-durable:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		w := f.get(t, "table=items&offset=5_0&handle=1-1")
		require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body.String())
		require.NotEmpty(t, w.Header().Get("retry-after"))
		time.AfterFunc(time.Second, func() { close(durable) })
		began := time.Now()
		w = f.get(t, "table=items&offset=5_0&handle=1-1")
		require.Equal(t, time.Second, time.Since(began))
		requireMoved(t, w, w.Header().Get("electric-handle"))
	})
}

// Every error that a package below exports for the front has a response of its own, and no response tells its text.
func TestFailureTable(t *testing.T) {
	const detail = "/var/lib/secret.db"
	for _, row := range failureOf {
		f := fromError(fmt.Errorf("%s: %w", detail, row.err), errInternal)
		require.Equal(t, row.failure.status, f.status, row.err)
		require.Equal(t, row.failure.body, f.body, row.err)
		require.NotContains(t, fmt.Sprint(f.body), row.err.Error())
		require.NotContains(t, fmt.Sprint(f.body), detail)
	}
	for _, sentinel := range []error{
		shapecache.ErrGone, shapecache.ErrNotReady, storage.ErrRemoved, storage.ErrNotFound, storage.ErrSnapshotFailed,
		inspector.ErrUnreachable, context.DeadlineExceeded, context.Canceled,
	} {
		require.NotEqual(t, http.StatusInternalServerError, fromError(sentinel, errInternal).status, sentinel)
	}
	require.Equal(t, errInternal.body, fromError(errors.New(detail), errInternal).body)
}

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{MaxInitial: 3, MaxExisting: 2})
		f.backend.create = func(*fakeLog) {} // snapshots that do not start
		results := make(chan *httptest.ResponseRecorder, 10)
		ask := func(query string) {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, newRequestTo(t, http.MethodGet, "/v1/shape?"+query, ""))
			results <- w
		}
		for i := range 3 {
			go ask(fmt.Sprintf("table=items&offset=-1&where=id = %d", i))
		}
		synctest.Wait()
		for _, query := range []string{"table=items&offset=-1", "offset=nonsense", "table=items&offset=0_0&handle=1-1"} {
			w := f.get(t, query)
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Equal(t, `{"code":"concurrent_request_limit_exceeded","message":"Concurrent initial request limit exceeded (limit: 3), please retry"}`, w.Body.String())
			require.Contains(t, []string{"6", "7", "8", "9", "10"}, w.Header().Get("retry-after"))
			require.Equal(t, "no-store", w.Header().Get("cache-control"))
			require.Equal(t, "no-store", w.Header().Get("surrogate-control"))
			require.Equal(t, "true", w.Header().Get("electric-internal-known-error"))
		}
		require.Equal(t, http.StatusOK, f.do(t, "GET", "/v1/health", "").Code)

		f.backend.mu.Lock()
		for _, s := range f.backend.shapes {
			s.Log.(*fakeLog).snapshot(true, snapshotEnd) //nolint:forcetypeassert // all are
		}
		f.backend.mu.Unlock()
		for range 3 {
			require.Equal(t, http.StatusOK, (<-results).Code)
		}
		// All permits are back; now live requests take the other kind.
		f.backend.create = func(l *fakeLog) { l.snapshot(true, snapshotEnd) }
		h, _ := f.shape(t)
		for range 2 {
			go ask("table=items&offset=0_inf&live=true&handle=" + string(h))
		}
		synctest.Wait()
		w := f.get(t, "table=items&offset=0_0&handle="+string(h))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "Concurrent existing request limit exceeded (limit: 2)")
		require.Equal(t, http.StatusOK, f.get(t, "table=items&offset=-1").Code, "one that cannot change over keeps its permit")
		for range 2 {
			require.Equal(t, http.StatusOK, (<-results).Code)
		}
	})
}

// B174: whatever becomes of a request, its permit comes back.
func TestPermitsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{MaxInitial: 1, MaxExisting: 1, BodyCacheBytes: 1}) // nothing is remembered
		h, log := f.shape(t)
		log.commit(false, "600_0")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5 {
			f.get(t, "table=nosuch&offset=-1")
			f.get(t, "table=items&offset=-1&where=bad(")
			f.get(t, "table=items&offset=5_5&handle=x")
			f.do(t, "POST", "/v1/shape?table=items&offset=-1", "{")
			f.do(t, "POST", "/v1/shape?table=items&offset=0_0&handle="+string(h), "[")
			f.serve(newRequestTo(t, "GET", "/v1/shape?table=items&offset=600_0&live=true&handle="+string(h), "").WithContext(gone))
			f.serve(newRequestTo(t, "GET", "/v1/shape?table=items&offset=600_0&live=true&live_sse=true&handle="+string(h), "").WithContext(gone))
			log.sizeless, log.bodyErr = true, io.ErrUnexpectedEOF
			for _, query := range []string{"offset=-1", "offset=0_inf&handle=" + string(h)} {
				require.Panics(t, func() { f.get(t, "table=items&"+query) })
			}
			log.sizeless, log.bodyErr = false, nil
		}
		require.Equal(t, http.StatusOK, f.get(t, "table=items&offset=-1").Code)
		require.Equal(t, http.StatusOK, f.get(t, "table=items&offset=0_0&handle="+string(h)).Code)
	})
}

func TestDelete(t *testing.T) {
	f := newFront(t, Options{AllowDelete: true})
	del := func(query string) *httptest.ResponseRecorder {
		return f.do(t, http.MethodDelete, "/v1/shape?"+query, "")
	}
	h, _ := f.shape(t)
	for _, tc := range []struct {
		query  string
		status int
		body   string
	}{
		{"", 400, `{"message":"Invalid request","errors":{"handle":["can't be blank when shape definition is missing"]}}`},
		{"handle=" + string(h) + "&live=abc", 400, `{"message":"Invalid request","errors":{"live":["is invalid"]}}`},
		{"table=nope", 400, `{"message":"Invalid request","errors":{"table":["Table \"public\".\"nope\" does not exist."]}}`},
		{"table=a.b.c", 400, `{"message":"Invalid request","errors":{"table":["Invalid relation identifier, too many delimiters: a.b.c"]}}`},
		{"table=items&where=id = 9", 404, `{"message":"No existing shape found"}`},
		{"handle=1-1", 404, `{"message":"No existing shape found"}`},
		{"table=items&handle=1-1", 400, `{"message":"The specified shape definition and handle do not match. Please ensure the shape definition is correct or omit the shape handle from the request to obtain a new one."}`},
		{"table=items&where=id = 9&handle=" + string(h), 404, `{"message":"No existing shape found"}`},
	} {
		w := del(tc.query)
		require.Equal(t, tc.status, w.Code, tc.query)
		require.Equal(t, tc.body, w.Body.String(), tc.query)
		require.Equal(t, "no-cache", w.Header().Get("cache-control"))
		require.Empty(t, w.Header().Get("surrogate-control"))
	}
	require.Equal(t, 1, f.backend.created)
	for _, form := range []string{"table=items&offset=x&live=true", "handle=%s", "table=items&handle=%s"} {
		h, _ := f.shape(t)
		query := form
		if form != "table=items&offset=x&live=true" {
			query = fmt.Sprintf(form, h)
		}
		w := del(query)
		require.Equal(t, http.StatusAccepted, w.Code, query)
		require.Empty(t, w.Body.String())
		require.Equal(t, "no-cache", w.Header().Get("cache-control"))
		require.Equal(t, "true", w.Header().Get("electric-has-data"))
		require.Equal(t, http.StatusNotFound, del("handle="+string(h)).Code)
	}
}

func TestDeleteIsOffByDefault(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	for _, query := range []string{"table=items", "handle=" + string(h), ""} {
		w := f.do(t, http.MethodDelete, "/v1/shape?"+query, "")
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, `{"message":"DELETE not allowed"}`, w.Body.String())
		require.Equal(t, "no-cache", w.Header().Get("cache-control"))
	}
	_, ok := f.backend.Lookup(h)
	require.True(t, ok)
}
