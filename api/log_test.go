package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

func upToDate(lsn string) string {
	return `{"headers":{"control":"up-to-date","global_last_seen_lsn":"` + lsn + `"}}`
}

const schemaOfItems = `{"id":{"type":"int4","pk_index":0,"not_null":true},"title":{"type":"text"},"done":{"type":"bool"}}`

// The columns of protocol.md §4.1, each with its body, cache-control (§4.3) and tag (§4.2).
func TestResponsesCarryWhatTheMatrixSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		base := "table=items&handle=" + string(h)
		rest := "public, max-age=60, stale-while-revalidate=300"
		live := "public, max-age=5, stale-while-revalidate=5"

		check := func(name, query string, wantBody, wantOffset, wantCache, wantTag string, wantHeaders ...string) {
			t.Helper()
			w := f.get(t, query)
			require.Equal(t, http.StatusOK, w.Code, name+w.Body.String())
			require.Equal(t, wantBody, w.Body.String(), name)
			require.Equal(t, wantOffset, w.Header().Get("electric-offset"), name)
			require.Equal(t, string(h), w.Header().Get("electric-handle"), name)
			require.Equal(t, wantCache, w.Header().Get("cache-control"), name)
			require.Regexp(t, `^"`+string(h)+":"+wantTag+`"$`, w.Header().Get("etag"), name)
			require.Equal(t, "application/json; charset=utf-8", w.Header().Get("content-type"), name)
			require.Equal(t, fmt.Sprint(len(wantBody)), w.Header().Get("content-length"), name)
			require.Equal(t, wantHeaders, electric(w.Header()), name)
			if wantHeaders[len(wantHeaders)-1] == "electric-up-to-date" {
				require.Equal(t, []string{""}, w.Header()["Electric-Up-To-Date"], name)
			}
			if w.Header().Get("electric-schema") != "" {
				require.Equal(t, schemaOfItems, w.Header().Get("electric-schema"), name)
			}
			require.True(t, json.Valid(w.Body.Bytes()), name)
		}
		first := "[" + item("1") + "," + item("2") + "," + snapshotEnd + "]"
		week := "public, max-age=604800, s-maxage=3600, stale-while-revalidate=2629746"
		check("first", "table=items&offset=-1", first, "0_0", week, "-1:0_0",
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "etag")
		check("first, other handle", "table=items&offset=-1&handle=whatever", first, "0_0", week, "-1:0_0",
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "etag")
		check("first, -1_0", "table=items&offset=-1_0", first, "0_0", week, "-1:0_0",
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "etag")
		check("at head of a new shape", base+"&offset=0_0", "["+upToDate("500")+"]", "0_inf", rest, "0_0:0_inf",
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "electric-up-to-date", "etag")
		check("now, new shape", "table=items&offset=now", "["+upToDate("500")+"]", "0_inf", rest, `now:0_inf:\d+`,
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "electric-up-to-date", "etag")

		log.commit(false, "600_0", "600_2")
		tail := item("600_0") + "," + item("600_2")
		check("catch-up to the head", base+"&offset=0_inf", "["+tail+","+upToDate("600")+"]", "600_2", rest, "0_inf:600_2",
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "electric-up-to-date", "etag")
		check("leading zeros", base+"&offset=0600_00", "["+item("600_2")+","+upToDate("600")+"]", "600_2", rest, "600_0:600_2",
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "electric-up-to-date", "etag")
		check("live data", base+"&offset=0_0&live=true", "["+tail+","+upToDate("600")+"]", "600_2", live, "0_0:600_2",
			"electric-cursor", "electric-handle", "electric-has-data", "electric-offset", "electric-up-to-date", "etag")
		f.backend.seen = 900
		check("at head", base+"&offset=600_2", "["+upToDate("900")+"]", "600_2", rest, "600_2:600_2",
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "electric-up-to-date", "etag")
		check("live data tells of the shape only", base+"&offset=600_0&live", "["+item("600_2")+","+upToDate("600")+"]", "600_2",
			live, "600_0:600_2", "electric-cursor", "electric-handle", "electric-has-data", "electric-offset", "electric-up-to-date", "etag")
		check("now", "table=items&offset=now&handle=x", "["+upToDate("900")+"]", "600_2", rest, `now:600_2:\d+`,
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "electric-up-to-date", "etag")

		began := time.Now()
		check("live timeout", base+"&offset=600_2&live=true", "["+upToDate("900")+"]", "600_2", live, `600_2:600_2:\d+`,
			"electric-cursor", "electric-handle", "electric-has-data", "electric-offset", "electric-up-to-date", "etag")
		require.Equal(t, 20*time.Second, time.Since(began))

		log.commit(true, "1000_0")
		log.commit(false, "1100_0")
		check("closed chunk", base+"&offset=0_inf", "["+tail+","+item("1000_0")+"]", "1000_0", rest, "0_inf:1000_0",
			"electric-handle", "electric-has-data", "electric-offset", "electric-schema", "etag")
		check("closed chunk, live", base+"&offset=0_inf&live=1", "["+tail+","+item("1000_0")+"]", "1000_0", live, "0_inf:1000_0",
			"electric-cursor", "electric-handle", "electric-has-data", "electric-offset", "etag")
	})
}

func TestHasDataTellsEmptyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, _ := f.shape(t)
		for query, want := range map[string]string{
			"table=items&offset=-1":                                      "true",
			"table=items&offset=0_0&handle=" + string(h):                 "true",
			"table=items&offset=now":                                     "false",
			"table=items&offset=0_inf&live=true&handle=" + string(h):     "false",
			"table=items&offset=0_0&live=true&handle=" + string(h):       "false",
			"table=items&offset=0_inf&live=false&handle=" + string(h):    "true",
			"table=items&offset=0_4711&live=false&handle=" + string(h):   "true",
			"table=items&offset=0_inf&handle=" + string(h) + "&cursor=1": "true",
		} {
			w := f.get(t, query)
			require.Equal(t, http.StatusOK, w.Code, query)
			require.Equal(t, want, w.Header().Get("electric-has-data"), query)
		}
	})
}

func TestUniqueTagsNeverRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, _ := f.shape(t)
		seen := map[string]bool{}
		for _, query := range []string{"table=items&offset=now", "table=items&offset=0_inf&live=true&handle=" + string(h)} {
			for range 3 {
				tag := f.get(t, query).Header().Get("etag")
				require.False(t, seen[tag], tag)
				seen[tag] = true
			}
		}
	})
}

func TestNotModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		base := "table=items&handle=" + string(h)
		for _, query := range []string{"table=items&offset=-1", base + "&offset=0_0"} {
			full := f.get(t, query)
			for _, match := range []string{
				full.Header().Get("etag"), `"other", ` + full.Header().Get("etag"), strings.Trim(full.Header().Get("etag"), `"`),
			} {
				w := f.get(t, query, "If-None-Match", match)
				require.Equal(t, http.StatusNotModified, w.Code)
				require.Empty(t, w.Body.String())
				for _, same := range []string{"etag", "cache-control", "electric-handle", "electric-offset", "electric-up-to-date"} {
					require.Equal(t, full.Header()[http.CanonicalHeaderKey(same)], w.Header()[http.CanonicalHeaderKey(same)], same)
				}
				require.Equal(t, "true", w.Header().Get("electric-has-data"))
				require.Empty(t, w.Header().Get("electric-schema"))
				require.Empty(t, w.Header().Get("electric-cursor"))
			}
			for _, other := range []string{"W/" + full.Header().Get("etag"), "*", `"x"`} {
				require.Equal(t, http.StatusOK, f.get(t, query, "If-None-Match", other).Code, other)
			}
		}
		log.commit(false, "600_0")
		live := base + "&offset=0_inf&live=true"
		w := f.get(t, live, "If-None-Match", f.get(t, live).Header().Get("etag"))
		require.Equal(t, http.StatusNotModified, w.Code)
		require.NotEmpty(t, w.Header().Get("electric-cursor"))

		idle := base + "&offset=600_0&live=true"
		w = f.get(t, idle, "If-None-Match", f.get(t, idle).Header().Get("etag"))
		require.Equal(t, http.StatusOK, w.Code)
		w = f.get(t, idle, "If-None-Match", `"`+string(h)+`:600_0:600_0"`)
		require.Equal(t, http.StatusOK, w.Code, "nothing new is waited for, not answered from a cache")
	})
}

func TestLongPollEndsWithTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		began := time.Now()
		time.AfterFunc(7*time.Second, func() { log.commit(false, "600_0") })
		w := f.get(t, "table=items&offset=0_inf&live=true&handle="+string(h))
		require.Equal(t, 7*time.Second, time.Since(began))
		require.Equal(t, "["+item("600_0")+","+upToDate("600")+"]", w.Body.String())
		require.Equal(t, "true", w.Header().Get("electric-has-data"))
		require.Equal(t, `"`+string(h)+`:0_inf:600_0"`, w.Header().Get("etag"))
	})
}

func TestLongPollEndsWithTheShape(t *testing.T) {
	for _, sse := range []string{"", "&live_sse=true"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, Options{})
			h, _ := f.shape(t)
			began := time.Now()
			time.AfterFunc(3*time.Second, func() { require.NoError(t, f.backend.Delete(t.Context(), h)) })
			w := f.get(t, "table=items&offset=0_inf&live=true&handle="+string(h)+sse)
			require.Equal(t, 3*time.Second, time.Since(began))
			if sse != "" { // the stream ends, and the next request is told
				require.Equal(t, http.StatusOK, w.Code)
				require.Empty(t, w.Body.String())
				w = f.get(t, "table=items&offset=0_inf&live=true&handle="+string(h)+sse)
				require.Equal(t, http.StatusConflict, w.Code)
				require.NotEmpty(t, w.Header().Get("electric-handle"))
				require.Equal(t, "application/json; charset=utf-8", w.Header().Get("content-type"))
				return
			}
			require.Equal(t, http.StatusConflict, w.Code)
			require.Equal(t, `[{"headers":{"control":"must-refetch"}}]`, w.Body.String())
			require.Equal(t, "public, max-age=1, must-revalidate", w.Header().Get("cache-control"))
			require.Empty(t, electric(w.Header()))
		})
	}
}

func TestLongPollEndsWhenTheServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, _ := f.shape(t)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		w := httptest.NewRecorder()
		f.ServeHTTP(w, newRequestTo(t, http.MethodGet, "/v1/shape?table=items&offset=0_inf&live=true&handle="+string(h), "").WithContext(ctx))
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "["+upToDate("500")+"]", w.Body.String())

		ctx, stop = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		w = httptest.NewRecorder()
		f.ServeHTTP(w, newRequestTo(t, http.MethodGet, "/v1/shape?table=items&offset=9999_0&handle="+string(h), "").WithContext(ctx))
		require.Equal(t, http.StatusServiceUnavailable, w.Code, "the client did nothing wrong")
	})
}

func TestLongPollTimesOutWhileTheServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, _ := f.shape(t)
		f.backend.health = HealthStarting
		f.backend.ready = func(ctx context.Context) error {
			<-ctx.Done()
			return told("Timeout waiting for Postgres lock acquisition")
		}
		w := f.get(t, "table=items&offset=0_inf&live=true&handle="+string(h))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.JSONEq(t, `{"message":"Timeout waiting for Postgres lock acquisition"}`, w.Body.String())
		require.Equal(t, "10", w.Header().Get("retry-after"))

		f.backend.ready = nil // it was ready once; then the database went away
		w = f.get(t, "table=items&offset=0_inf&live=true&handle="+string(h))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.NotContains(t, w.Body.String(), "up-to-date")

		f.backend.health = HealthWaiting // read-only: what is there can be read
		w = f.get(t, "table=items&offset=0_inf&live=true&handle="+string(h))
		require.Equal(t, http.StatusOK, w.Code)
	})
}

// After a crash a client may be ahead of the log until the stream has brought again what was served and not synced. The npm
// client takes a 400 for the end.
func TestAheadWhileCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, _ := f.shape(t)
		f.backend.behind = true
		w := f.get(t, "table=items&offset=999_0&handle="+string(h))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "1", w.Header().Get("retry-after"))
		require.Equal(t, "no-store", w.Header().Get("cache-control"))
	})
}

func TestOutOfBounds(t *testing.T) {
	for _, form := range []string{"", "&live=true", "&live=true&live_sse=true"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFront(t, Options{})
			h, log := f.shape(t)
			began := time.Now()
			w := f.get(t, "table=items&offset=999_0&handle="+string(h)+form)
			require.Equal(t, 10*time.Second, time.Since(began))
			require.Equal(t, http.StatusBadRequest, w.Code)
			require.JSONEq(t, `{"message":"Invalid request","errors":{"offset":["out of bounds for this shape"]}}`, w.Body.String())
			require.Equal(t, "no-store", w.Header().Get("cache-control"))
			require.Equal(t, "no-store", w.Header().Get("surrogate-control"))
			require.Equal(t, "application/json; charset=utf-8", w.Header().Get("content-type"))

			began = time.Now()
			time.AfterFunc(time.Second, func() { log.commit(false, "600_0") })
			time.AfterFunc(2*time.Second, func() { log.commit(false, "999_0", "999_2") })
			w = f.get(t, "table=items&offset=999_0&handle="+string(h)+form)
			require.Equal(t, http.StatusOK, w.Code)
			require.Contains(t, w.Body.String(), item("999_2"))
			require.NotContains(t, w.Body.String(), item("999_0"))
			if !strings.Contains(form, "sse") {
				require.Equal(t, 2*time.Second, time.Since(began))
			}
		})
	}
}

func TestSnapshotInChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		f.backend.create = func(l *fakeLog) {
			l.snapshot(false, item("1"))
			l.snapshot(false, item("2"))
		}
		h, log := f.shape(t)
		base := "table=items&handle=" + string(h)
		w := f.get(t, base+"&offset=-1")
		require.Equal(t, "["+item("1")+"]", w.Body.String())

		time.AfterFunc(time.Second, func() { log.grow(false, item("3")) })
		time.AfterFunc(2*time.Second, func() { log.snapshot(true, item("4"), snapshotEnd) })
		began := time.Now()
		w = f.get(t, base+"&offset=0_0")
		require.Equal(t, 2*time.Second, time.Since(began), "the response follows the chunk to its end")
		require.Equal(t, "["+item("2")+","+item("3")+"]", w.Body.String())
		require.Equal(t, "0_1", w.Header().Get("electric-offset"))
		require.Empty(t, w.Header()["Electric-Up-To-Date"])

		w = f.get(t, base+"&offset=0_1")
		require.Equal(t, "["+item("4")+","+snapshotEnd+"]", w.Body.String())
		require.Equal(t, "0_2", w.Header().Get("electric-offset"))
		w = f.get(t, base+"&offset=0_2")
		require.Equal(t, "["+upToDate("500")+"]", w.Body.String())
		require.Equal(t, "0_inf", w.Header().Get("electric-offset"))
		w = f.get(t, base+"&offset=0_17")
		require.Equal(t, "0_inf", w.Header().Get("electric-offset"), "a chunk past the last is the log")
	})
}

// B035: an offset whose chunk is not written yet is held, never answered with an empty array that moves the client on.
func TestSnapshotChunkThatHasNotBegunIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		f.backend.create = func(l *fakeLog) { l.snapshot(false, item("1")) }
		h, log := f.shapeOpen(t)
		base := "table=items&handle=" + string(h)

		began := time.Now()
		time.AfterFunc(time.Second, func() { log.snapshot(false, item("2")) })
		time.AfterFunc(2*time.Second, func() { log.grow(true, snapshotEnd) })
		w := f.get(t, base+"&offset=0_0")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Equal(t, "["+item("2")+","+snapshotEnd+"]", w.Body.String())
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		f.backend.create = func(l *fakeLog) { l.snapshot(false, item("1")) }
		h, log := f.shapeOpen(t)
		time.AfterFunc(time.Second, func() { log.grow(true, snapshotEnd) })
		w := f.get(t, "table=items&offset=0_0&handle="+string(h))
		require.Equal(t, "["+upToDate("500")+"]", w.Body.String(), "the chunk never came: the log is next")
		require.Equal(t, "0_inf", w.Header().Get("electric-offset"))
	})
}

// shapeOpen is shape for a snapshot that does not end by itself.
func (f *front) shapeOpen(t *testing.T) (shape.Handle, *fakeLog) {
	t.Helper()
	w := f.do(t, http.MethodHead, "/v1/shape?table=items&offset=-1", "")
	require.Equal(t, http.StatusOK, w.Code)
	s, ok := f.backend.Lookup(shape.Handle(w.Header().Get("electric-handle")))
	require.True(t, ok)
	return s.Handle, s.Log.(*fakeLog) //nolint:forcetypeassert // all are
}

// I2: a part that ends before the head, or that is seen before the head of its transaction is, is not the head.
func TestHeadIsReadAfterThePart(t *testing.T) {
	f := newFront(t, Options{})
	h, log := f.shape(t)
	log.commit(false, "600_0")
	calls := 0
	log.lag = func() {
		if calls++; calls == 1 { // the part is (0_inf, 600_0], and now the log moves on
			log.commit(false, "700_0")
		}
	}
	w := f.get(t, "table=items&offset=0_inf&handle="+string(h))
	require.Equal(t, "["+item("600_0")+"]", w.Body.String())
	require.Equal(t, "600_0", w.Header().Get("electric-offset"))
	require.Empty(t, w.Header()["Electric-Up-To-Date"])
	require.Equal(t, 1, calls)

	head := func(offset string) {
		last, err := shapelog.Parse(offset)
		require.NoError(t, err)
		log.state.Update(func(st storage.State) (storage.State, bool) { st.Last = last; return st, true })
	}
	log.lag = nil
	log.commit(true, "800_0")
	head("700_0")
	calls = 0
	log.lag = func() {
		if calls++; calls == 3 { // until now the part is beyond the head
			log.commit(false, "800_2")
		}
	}
	w = f.get(t, "table=items&offset=700_0&handle="+string(h))
	require.Equal(t, "["+item("800_0")+"]", w.Body.String(), "a chunk that ends inside the transaction")
	require.Empty(t, w.Header()["Electric-Up-To-Date"])
	require.Equal(t, 3, calls)

	calls = 0
	head("700_0")
	log.lag = func() {
		if calls++; calls == 2 {
			head("800_2")
		}
	}
	w = f.get(t, "table=items&offset=800_0&handle="+string(h))
	require.Equal(t, "["+item("800_2")+","+upToDate("800")+"]", w.Body.String())
}

func TestFailureBeforeTheBodyIsAResponse(t *testing.T) {
	for _, tc := range []struct {
		err     error
		status  int
		damaged bool
	}{
		{storage.ErrRemoved, 409, false},
		{storage.ErrNotFound, 409, false},
		{fmt.Errorf("read: %w", storage.ErrRemoved), 409, false},
		{errors.New("crc of another day"), 500, false},
		{&storage.CorruptError{Path: "/var/lib/x", Err: errors.New("crc")}, 500, true},
	} {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		log.commit(false, "600_0")
		for _, set := range []*error{&log.readErr, &log.bodyErr} {
			*set = tc.err
			w := f.get(t, "table=items&offset=0_inf&handle="+string(h))
			require.Equal(t, tc.status, w.Code, tc.err)
			require.NotContains(t, w.Body.String(), "crc")
			require.Empty(t, electric(w.Header()))
			require.Equal(t, tc.damaged, slices.Equal(f.backend.damaged, []shape.Handle{h}), "a damaged shape ends, and no other: %v", f.backend.damaged)
			f.backend.damaged, *set = nil, nil
		}
	}
}

// B163: what cannot be completed is cut off.
func TestFailureInTheBodyCutsTheConnection(t *testing.T) {
	f := newFront(t, Options{})
	h, log := f.shape(t)
	log.commit(false, "600_0")
	log.sizeless, log.bodyErr = true, storage.ErrRemoved
	for _, form := range []string{"", "&live=true&live_sse=true"} {
		require.PanicsWithValue(t, http.ErrAbortHandler, func() {
			f.get(t, "table=items&offset=0_inf&handle="+string(h)+form)
		})
	}
	require.Empty(t, f.backend.damaged)
	log.bodyErr = &storage.CorruptError{Path: "/var/lib/x", Err: errors.New("crc")}
	for i, form := range []string{"", "&live=true&live_sse=true"} {
		require.PanicsWithValue(t, http.ErrAbortHandler, func() {
			f.get(t, "table=items&offset=0_inf&handle="+string(h)+form)
		})
		require.Equal(t, slices.Repeat([]shape.Handle{h}, i+1), f.backend.damaged)
	}
}

func TestHeadHasTheHeadersOfGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		log.commit(false, "600_0")
		for _, query := range []string{
			"table=items&offset=-1", "table=items&offset=0_0&handle=" + string(h), "table=items&offset=600_0&handle=" + string(h),
			"table=items&offset=0_inf&live=true&live_sse=true&handle=" + string(h), "table=items&offset=x", "table=items&offset=1_0&handle=1-1",
		} {
			get := f.get(t, query)
			head := f.do(t, http.MethodHead, "/v1/shape?"+query, "")
			require.Equal(t, get.Code, head.Code, query)
			require.Empty(t, head.Body.String(), query)
			for _, ignored := range []string{"X-Request-Id", "Electric-Cursor"} {
				get.Header().Del(ignored)
				head.Header().Del(ignored)
			}
			require.Equal(t, get.Header(), head.Header(), query)
		}
	})
}

func TestSnapshotWaits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		status int
		retry  string
		known  string
		body   string
	}{
		{"gone", shapecache.ErrGone, 409, "", "", `[{"headers":{"control":"must-refetch"}}]`},
		{"failed", fmt.Errorf("snapshot: %w", told("Snapshot timed out while waiting for a table lock")), 503, "10", "true", `{"message":"Snapshot timed out while waiting for a table lock"}`},
		{"unknown", errors.New("dial 10.0.0.1"), 500, "", "", `{"error":"Internal server error"}`},
		{"too long", context.DeadlineExceeded, 503, "10", "true", `{"message":"Timed out while waiting for snapshot to start"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, Options{})
				f.backend.create = func(*fakeLog) {}
				f.backend.await = func(ctx context.Context, _ *shapecache.Shape) error {
					if errors.Is(tc.err, context.DeadlineExceeded) {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					return tc.err
				}
				began := time.Now()
				w := f.get(t, "table=items&offset=-1")
				require.Equal(t, tc.status, w.Code)
				require.Equal(t, tc.body, w.Body.String())
				require.Equal(t, tc.retry, w.Header().Get("retry-after"))
				require.Equal(t, tc.known, w.Header().Get("electric-internal-known-error"))
				if tc.name == "too long" {
					require.Equal(t, 45*time.Second, time.Since(began))
				}
			})
		})
	}
}
