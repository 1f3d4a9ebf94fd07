package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/internal/notify"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
	"github.com/shapeserver/shapeserver/where"
)

// fakeLog is a storage.Log in memory. Its chunks are closed by the test, so that every boundary can be placed.
type fakeLog struct {
	handle shape.Handle
	state  notify.Var[storage.State]

	mu       sync.Mutex
	chunks   []string // of the snapshot: items joined by commas
	entries  []shapelog.Entry
	bounds   []shapelog.Offset // ends of closed log chunks
	readErr  error             // what Read gives
	bodyErr  error             // what a Body gives after its bytes
	sizeless bool              // Bodies do not know their size
	lag      func()            // called by Range after its own look
	reads    int               // calls of Read
}

var _ storage.Log = (*fakeLog)(nil)

func newFakeLog(h shape.Handle) *fakeLog {
	l := &fakeLog{handle: h}
	l.state.Set(storage.State{Last: shapelog.SnapshotEnd})
	return l
}

// snapshot adds a chunk that is complete; done ends the snapshot.
func (l *fakeLog) snapshot(done bool, items ...string) {
	l.mu.Lock()
	l.chunks = append(l.chunks, strings.Join(items, ","))
	n := len(l.chunks)
	l.mu.Unlock()
	l.state.Update(func(st storage.State) (storage.State, bool) {
		st.Phase, st.Chunks = storage.SnapshotWriting, n
		if done {
			st.Phase = storage.SnapshotComplete
		}
		return st, true
	})
}

// grow adds to the last, open chunk of the snapshot.
func (l *fakeLog) grow(done bool, items ...string) {
	l.mu.Lock()
	l.chunks[len(l.chunks)-1] += "," + strings.Join(items, ",")
	l.mu.Unlock()
	l.state.Update(func(st storage.State) (storage.State, bool) {
		if done {
			st.Phase = storage.SnapshotComplete
		}
		return st, true
	})
}

// commit appends entries and shows them; bound closes a chunk behind them.
func (l *fakeLog) commit(bound bool, offsets ...string) {
	l.mu.Lock()
	for _, o := range offsets {
		off, err := shapelog.Parse(o)
		if err != nil {
			panic(err)
		}
		l.entries = append(l.entries, shapelog.Entry{Offset: off, JSON: []byte(item(o))})
	}
	last := l.entries[len(l.entries)-1].Offset
	if bound {
		l.bounds = append(l.bounds, last)
	}
	l.mu.Unlock()
	l.state.Update(func(st storage.State) (storage.State, bool) {
		st.Last = last
		return st, true
	})
}

func (l *fakeLog) end(err error) {
	l.state.Update(func(st storage.State) (storage.State, bool) {
		st.Err = err
		return st, true
	})
}

// item is the JSON of a log item in these tests.
func item(id string) string { return fmt.Sprintf(`{"key":"%s","value":{"t":"a,\"{}[]\\"}}`, id) }

func (l *fakeLog) Handle() shape.Handle                    { return l.handle }
func (l *fakeLog) State() (storage.State, <-chan struct{}) { return l.state.Get() }
func (l *fakeLog) Append([]shapelog.Entry) error           { panic("not used") }
func (l *fakeLog) Commit() error                           { panic("not used") }
func (l *fakeLog) Size() int64                             { return 0 }

func (l *fakeLog) NewSnapshot(changes.Snapshot, changes.LSN) (storage.SnapshotWriter, error) {
	panic("not used")
}

func (l *fakeLog) Snapshot() (changes.Snapshot, changes.LSN, bool) { panic("not used") }

func (l *fakeLog) Range(after shapelog.Offset) (shapelog.Offset, bool) {
	l.mu.Lock()
	end, closed := l.rangeLocked(after)
	lag := l.lag
	l.mu.Unlock()
	if lag != nil {
		lag()
	}
	return end, closed
}

func (l *fakeLog) rangeLocked(after shapelog.Offset) (shapelog.Offset, bool) {
	st := l.state.Load()
	if after == shapelog.Before {
		return shapelog.SnapshotChunk(0), len(l.chunks) > 1
	}
	if after.IsSnapshot() {
		next := after.Op() + 1
		if st.Phase != storage.SnapshotComplete || next < uint64(len(l.chunks)) {
			return shapelog.At(0, next), next+1 < uint64(len(l.chunks))
		}
	}
	for _, b := range l.bounds {
		if b.Compare(after) > 0 {
			return b, true
		}
	}
	if len(l.entries) == 0 {
		return shapelog.SnapshotEnd, false
	}
	return l.entries[len(l.entries)-1].Offset, false
}

func (l *fakeLog) Read(ctx context.Context, after, end shapelog.Offset) (storage.Body, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.readErr != nil {
		return nil, l.readErr
	}
	if end.IsSnapshot() {
		return &fakeSnapshotBody{ctx: ctx, log: l, chunk: int(end.Op())}, nil //nolint:gosec // small
	}
	var b []byte
	for _, e := range l.entries {
		if e.Offset.Compare(after) > 0 && e.Offset.Compare(end) <= 0 {
			if len(b) > 0 {
				b = append(b, ',')
			}
			b = append(b, e.JSON...)
		}
	}
	return &fakeBody{b, l.bodyErr, l.sizeless}, nil
}

type fakeBody struct {
	b        []byte
	err      error
	sizeless bool
}

func (b *fakeBody) Size() int64 {
	if b.sizeless {
		return -1
	}
	return int64(len(b.b))
}

func (b *fakeBody) WriteTo(w io.Writer, _ func() error) (int64, error) {
	n, err := io.Copy(w, bytes.NewReader(b.b))
	return n, cmp.Or(err, b.err)
}

func (b *fakeBody) Close() error { return nil }

// fakeSnapshotBody follows a chunk until the next begins or the snapshot is complete.
type fakeSnapshotBody struct {
	ctx   context.Context //nolint:containedctx // as the real one
	log   *fakeLog
	chunk int
}

func (b *fakeSnapshotBody) Size() int64 {
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	if st := b.log.state.Load(); st.Phase == storage.SnapshotComplete || b.chunk+1 < len(b.log.chunks) {
		if b.chunk < len(b.log.chunks) && !b.log.sizeless {
			return int64(len(b.log.chunks[b.chunk]))
		}
	}
	return -1
}

func (b *fakeSnapshotBody) WriteTo(w io.Writer, flush func() error) (int64, error) {
	var written int64
	for {
		st, changed := b.log.State()
		b.log.mu.Lock()
		var text string
		if b.chunk < len(b.log.chunks) {
			text = b.log.chunks[b.chunk]
		}
		closed := st.Phase == storage.SnapshotComplete || b.chunk+1 < len(b.log.chunks)
		err := b.log.bodyErr
		b.log.mu.Unlock()
		n, werr := io.WriteString(w, text[written:])
		written += int64(n)
		if err := cmp.Or(werr, err, st.Err); err != nil {
			return written, err
		}
		if closed {
			return written, nil
		}
		if flush != nil {
			if err := flush(); err != nil {
				return written, err
			}
		}
		select {
		case <-changed:
		case <-b.ctx.Done():
			return written, context.Cause(b.ctx)
		}
	}
}

func (b *fakeSnapshotBody) Close() error { return nil }

// fakeBackend keeps shapes in memory. Its hooks, where set, stand in for what can go wrong.
type fakeBackend struct {
	mu      sync.Mutex
	tables  map[string]*shape.Table
	shapes  map[shape.Handle]*shapecache.Shape
	seen    changes.LSN
	created int
	asked   int // calls of Table
	damaged []shape.Handle

	health   Health
	full     bool
	behind   bool // not caught up
	ready    func(context.Context) error
	tableErr error
	create   func(*fakeLog)
	rows     func(*shape.Definition) []string // of a shape, instead of what create makes
	getErr   error
	await    func(context.Context, *shapecache.Shape) error
	subset   func(context.Context, snapshot.Subset, SubsetSink) error
	gone     func(context.Context, shape.Handle) error // nil: at once
}

var _ Backend = (*fakeBackend)(nil)

func column(name, typ string) shape.Column {
	oid := map[string]uint32{"bool": 16, "int4": 23, "text": 25}[typ] // pg_type.oid
	return shape.Column{Column: where.Column{
		Name: name, TypeMod: -1, Type: &where.Type{OID: oid, Schema: "pg_catalog", Name: typ, Kind: where.KindBase},
	}}
}

func newFakeBackend() *fakeBackend {
	id := column("id", "int4")
	id.NotNull = true
	items := &shape.Table{
		OID: 1000, Schema: "public", Name: "items", Kind: 'r', Key: []int{0},
		Columns: []shape.Column{id, column("title", "text"), column("done", "bool")},
	}
	return &fakeBackend{
		tables: map[string]*shape.Table{"public.items": items},
		shapes: make(map[shape.Handle]*shapecache.Shape),
		health: HealthActive,
		seen:   500,
		create: func(l *fakeLog) { l.snapshot(true, item("1"), item("2"), snapshotEnd) },
	}
}

const snapshotEnd = `{"headers":{"control":"snapshot-end","xmin":"1","xmax":"1","xip_list":[]}}`

func (b *fakeBackend) Ready(ctx context.Context) error {
	if b.ready != nil {
		return b.ready(ctx)
	}
	return nil
}

func (b *fakeBackend) StorageFull() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.full
}

func (b *fakeBackend) Health() Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}

func (b *fakeBackend) Table(_ context.Context, schema, name string, _ bool) (*shape.Table, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.tableErr != nil {
		return nil, b.tableErr
	}
	if t, ok := b.tables[schema+"."+name]; ok {
		return t, nil
	}
	return nil, fmt.Errorf("look up: %w", &inspector.TableError{Message: fmt.Sprintf("Table %q.%q does not exist.", schema, name)})
}

func (b *fakeBackend) Lookup(h shape.Handle) (*shapecache.Shape, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.shapes[h]
	return s, ok
}

func (b *fakeBackend) Find(d *shape.Definition) (*shapecache.Shape, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.findLocked(d)
}

func (b *fakeBackend) findLocked(d *shape.Definition) (*shapecache.Shape, bool) {
	for _, s := range b.shapes {
		if s.Definition.Identity() == d.Identity() {
			return s, true
		}
	}
	return nil, false
}

func (b *fakeBackend) GetOrCreate(_ context.Context, d *shape.Definition) (*shapecache.Shape, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.getErr != nil {
		return nil, b.getErr
	}
	if s, ok := b.findLocked(d); ok {
		return s, nil
	}
	h := shape.NewHandle(d, time.Now())
	l := newFakeLog(h)
	if b.rows != nil {
		l.snapshot(true, b.rows(d)...)
		l.commit(false, "600_0")
	} else {
		b.create(l)
	}
	s := &shapecache.Shape{Handle: h, Definition: d, Log: l}
	b.shapes[h] = s
	b.created++
	return s, nil
}

func (b *fakeBackend) AwaitSnapshotStart(ctx context.Context, s *shapecache.Shape) error {
	if b.await != nil {
		return b.await(ctx, s)
	}
	for {
		st, changed := s.Log.State()
		switch {
		case st.Err != nil:
			return shapecache.ErrGone
		case st.Phase != storage.SnapshotPending:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *fakeBackend) ReadSubset(ctx context.Context, _ *shapecache.Shape, q snapshot.Subset, to SubsetSink) error {
	if b.subset != nil {
		return b.subset(ctx, q, to)
	}
	return sendSubset(to, `{"key":"1","headers":{"operation":"insert"}}`, `{"key":"2","headers":{"operation":"insert"}}`)
}

// sendSubset gives a sink coordinates and rows.
func sendSubset(to SubsetSink, rows ...string) error {
	if err := to.Begin(changes.Snapshot{Xmin: 900, Xmax: 905, Xip: []uint64{902, 903}}, 24563200); err != nil {
		return err
	}
	for _, r := range rows {
		if err := to.Row([]byte(r)); err != nil {
			return err
		}
	}
	return nil
}

func (b *fakeBackend) AwaitGone(ctx context.Context, h shape.Handle) error {
	if b.gone != nil {
		return b.gone(ctx, h)
	}
	return nil
}

func (b *fakeBackend) Leaving(h shape.Handle) bool {
	_, ok := b.Lookup(h)
	return !ok
}

func (b *fakeBackend) LastSeen() changes.LSN {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

func (b *fakeBackend) CaughtUp() bool { return !b.behind }

func (b *fakeBackend) Damaged(h shape.Handle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.damaged = append(b.damaged, h)
}

func (b *fakeBackend) Delete(_ context.Context, h shape.Handle) error {
	b.mu.Lock()
	s, ok := b.shapes[h]
	delete(b.shapes, h)
	b.mu.Unlock()
	if !ok {
		return shapecache.ErrGone
	}
	s.Log.(*fakeLog).end(storage.ErrRemoved) //nolint:forcetypeassert // all are
	return nil
}

// told is an error with a text for clients.
type told string

func (e told) Error() string         { return "secret detail of " + string(e) }
func (e told) ClientMessage() string { return string(e) }

// front is a handler under test.
type front struct {
	http.Handler
	backend *fakeBackend
	server  *server
}

func newFront(t *testing.T, opts Options) *front {
	t.Helper()
	b := newFakeBackend()
	s := newServer(b, opts)
	return &front{s.routes(), b, s}
}

// do serves one request to its end. target is a path with a query, unencoded but for "%" and "&".
func (f *front) do(t *testing.T, method, target, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := newRequestTo(t, method, target, body, header...)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

func newRequestTo(t testing.TB, method, target, body string, header ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
	path, query, _ := strings.Cut(target, "?")
	u, err := url.ParseRequestURI(path) // as net/http does
	require.NoError(t, err)
	r.URL = u
	r.URL.RawQuery = strings.NewReplacer(" ", "+", `"`, "%22").Replace(query)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (f *front) get(t *testing.T, query string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	return f.do(t, http.MethodGet, "/v1/shape?"+query, "", header...)
}

// shape makes the shape of table=items and returns its handle and log.
func (f *front) shape(t *testing.T) (shape.Handle, *fakeLog) {
	t.Helper()
	w := f.get(t, "table=items&offset=-1")
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	h := shape.Handle(w.Header().Get("electric-handle"))
	s, ok := f.backend.Lookup(h)
	require.True(t, ok)
	return h, s.Log.(*fakeLog) //nolint:forcetypeassert // all are
}

// electric lists the headers of a response that the protocol defines, name by name.
func electric(h http.Header) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "electric-") && name != "electric-server" || name == "etag" || name == "retry-after" {
			names = append(names, name)
		}
	}
	return names
}

func (f *front) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

func jsonValid(b []byte) bool { return json.Valid(b) }

func (b *fakeBackend) setSeen(lsn changes.LSN) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = lsn
}

func mustText(tx uint64) string { return strconv.FormatUint(tx, 10) + "_0" }
