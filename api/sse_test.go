package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/storage"
)

func event(json string) string { return "data: " + json + "\n\n" }

// timedRecorder notes when each flush of a stream shows something.
type timedRecorder struct {
	*httptest.ResponseRecorder
	began  time.Time
	shown  int
	events []timedText
}

type timedText struct {
	at   time.Duration
	text string
}

func (r *timedRecorder) Flush() {
	r.ResponseRecorder.Flush()
	if text := r.Body.String()[r.shown:]; text != "" {
		r.events = append(r.events, timedText{time.Since(r.began), text})
		r.shown += len(text)
	}
}

// watch serves an event stream to its end and tells when what came.
func (f *front) watch(t *testing.T, query string) *timedRecorder {
	t.Helper()
	w := &timedRecorder{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
	f.ServeHTTP(w, newRequestTo(t, http.MethodGet, "/v1/shape?live=true&live_sse=true&"+query, ""))
	require.Equal(t, w.shown, w.Body.Len(), "everything was flushed")
	return w
}

func TestEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		time.AfterFunc(time.Second, func() { log.commit(false, "600_0", "600_2") })
		time.AfterFunc(5*time.Second, func() { f.backend.setSeen(9999) })    // other shapes' transactions
		time.AfterFunc(30*time.Second, func() { log.commit(true, "700_0") }) // closes a chunk
		time.AfterFunc(31*time.Second, func() { log.commit(false, "701_0") })
		began := time.Now()
		w := f.watch(t, "table=items&offset=0_inf&handle="+string(h))
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, []timedText{
			{time.Second, event(item("600_0")) + event(item("600_2")) + event(upToDate("600"))},
			{22 * time.Second, ": keep-alive\n\n"},
			{30 * time.Second, event(item("700_0")) + event(upToDate("700"))},
			{31 * time.Second, event(item("701_0")) + event(upToDate("701"))},
			{52 * time.Second, ": keep-alive\n\n"},
		}, w.events)
		require.Equal(t, "text/event-stream", w.Header().Get("content-type"))
		require.Equal(t, "keep-alive", w.Header().Get("connection"))
		require.Equal(t, "public, max-age=59", w.Header().Get("cache-control"))
		require.Equal(t, "0_inf", w.Header().Get("electric-offset"))
		require.Equal(t, `"`+string(h)+`:0_inf:0_inf"`, w.Header().Get("etag"))
		require.Equal(t, []string{
			"electric-cursor", "electric-handle", "electric-has-data", "electric-offset", "electric-up-to-date", "etag",
		}, electric(w.Header()))
	})
}

func TestEventStreamOpensWithWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		log.commit(false, "600_0")
		time.AfterFunc(2*time.Second, func() { log.commit(false, "700_0") })
		w := f.watch(t, "table=items&offset=0_0&handle="+string(h))
		require.Equal(t, []timedText{
			{0, event(item("600_0")) + event(upToDate("600"))},
			{2 * time.Second, event(item("700_0")) + event(upToDate("700"))},
			{23 * time.Second, ": keep-alive\n\n"},
			{44 * time.Second, ": keep-alive\n\n"},
		}, w.events, "the stream stays open after what was there")
		require.Equal(t, "600_0", w.Header().Get("electric-offset"))
		require.Equal(t, `"`+string(h)+`:0_0:600_0"`, w.Header().Get("etag"))
		require.Equal(t, []string{""}, w.Header()["Electric-Up-To-Date"])

		// Where a client begins again after an up-to-date of a transaction with several changes.
		log.commit(false, "800_0", "800_2")
		w = f.watch(t, "table=items&offset=800_0&handle="+string(h))
		require.Equal(t, event(item("800_2"))+event(upToDate("800")), w.events[0].text)
	})
}

// A client drops what is not ended by an up-to-date, but keeps the offset of the headers: a batch of many chunks must
// neither stop at a chunk nor be announced as had.
func TestEventStreamRunsToTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		log.commit(true, "600_0")
		log.commit(true, "700_0", "700_2")
		log.commit(false, "700_4")
		w := f.watch(t, "table=items&offset=0_inf&handle="+string(h))
		var all strings.Builder
		for _, e := range w.events[:3] {
			require.Zero(t, e.at)
			all.WriteString(e.text)
		}
		require.Equal(t, event(item("600_0"))+event(item("700_0"))+event(item("700_2"))+event(item("700_4"))+event(upToDate("700")), all.String())
		require.Equal(t, "0_inf", w.Header().Get("electric-offset"))
		require.NotContains(t, w.Header(), "Electric-Up-To-Date")

		log.sizeless = true // a batch of unknown size is not announced either
		w = f.watch(t, "table=items&offset=700_2&handle="+string(h))
		require.Equal(t, event(item("700_4"))+event(upToDate("700")), w.events[0].text)
		require.Equal(t, "700_2", w.Header().Get("electric-offset"))
	})
}

func TestEventStreamOverASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		f.backend.create = func(l *fakeLog) { l.snapshot(false, item("1")) }
		h, log := f.shapeOpen(t)
		time.AfterFunc(time.Second, func() { log.snapshot(false, item("2")) })
		time.AfterFunc(2*time.Second, func() { log.grow(true, snapshotEnd) })
		time.AfterFunc(3*time.Second, func() { log.commit(false, "600_0") })
		w := f.watch(t, "table=items&offset=0_0&handle="+string(h))
		require.Equal(t, event(item("2"))+event(snapshotEnd)+event(upToDate("0"))+event(item("600_0"))+event(upToDate("600"))+
			": keep-alive\n\n: keep-alive\n\n", w.Body.String())
	})
}

func TestEventStreamEndsWithTheShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		time.AfterFunc(time.Second, func() { log.commit(false, "600_0") })
		time.AfterFunc(2*time.Second, func() { log.end(storage.ErrRemoved) })
		w := f.watch(t, "table=items&offset=0_inf&handle="+string(h))
		require.Equal(t, event(item("600_0"))+event(upToDate("600")), w.Body.String())
		require.Equal(t, 2*time.Second, time.Since(w.began))
	})
}

// slowRecorder takes a second for every flush, as a slow client does.
type slowRecorder struct{ *httptest.ResponseRecorder }

func (r slowRecorder) Flush() { time.Sleep(time.Second) } //nolint:forbidigo // virtual time

// A shape that changes faster than its client reads must not keep a stream open for ever, nor without an up-to-date.
func TestEventStreamEndsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{})
		h, log := f.shape(t)
		var commits *time.Timer
		n := uint64(1000)
		commits = time.AfterFunc(300*time.Millisecond, func() {
			n++
			log.commit(false, mustText(n))
			commits.Reset(300 * time.Millisecond)
		})
		defer func() { commits.Stop() }()
		began := time.Now()
		w := slowRecorder{httptest.NewRecorder()}
		f.ServeHTTP(w, newRequestTo(t, http.MethodGet, "/v1/shape?live=true&live_sse=true&table=items&offset=0_inf&handle="+string(h), ""))
		require.Less(t, time.Since(began), 63*time.Second)
		require.Greater(t, strings.Count(w.Body.String(), "up-to-date"), 50)
		require.Contains(t, w.Body.String()[strings.LastIndex(w.Body.String(), "data:"):], "up-to-date", "it ends with a whole batch")
	})
}

func TestEventWriterInPieces(t *testing.T) {
	items := []string{item("1"), `{"a":[{"b":"}{"}],"c":"\\\""}`, `{}`, item("é")}
	var want strings.Builder
	for _, it := range items {
		want.WriteString(event(it))
	}
	joined := strings.Join(items, ",")
	for size := 1; size <= len(joined); size++ {
		var got strings.Builder
		e := newEventWriter(&got)
		for at := 0; at < len(joined); at += size {
			n, err := e.Write([]byte(joined[at:min(len(joined), at+size)]))
			require.NoError(t, err)
			require.Equal(t, min(size, len(joined)-at), n)
		}
		require.NoError(t, e.out.Flush())
		e.release()
		require.Equal(t, want.String(), got.String(), size)
	}
}

func BenchmarkEventWriter(b *testing.B) {
	part := []byte(strings.Repeat(item("1234567890")+",", 1000))
	var sink strings.Builder
	b.SetBytes(int64(len(part)))
	for b.Loop() {
		sink.Reset()
		e := newEventWriter(&sink)
		_, _ = e.Write(part)
		e.release()
	}
}
