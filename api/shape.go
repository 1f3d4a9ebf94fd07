package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/storage"
)

// tablePatience is how long a first request for a shape that is known waits for the catalogue's word that its table is
// still the same.
const tablePatience = time.Second

// target is the shape that a request is about.
type target struct {
	*shapecache.Shape
	schema string // value of electric-schema
}

// shape serves every method of /v1/shape but OPTIONS. The order of its checks is the protocol's (§3.1): the secret, the
// limit, the body, readiness, the parameters, the definition, the handle.
func (s *server) shape(w http.ResponseWriter, r *http.Request) *failure {
	q := parseQuery(r.URL.RawQuery)
	if !s.authorized(q) {
		return &errUnauthorized
	}
	h := w.Header()
	s.allowOrigin(h, s.headers.shapeMethods)
	h["Content-Type"] = jsonContent
	if r.Method == http.MethodDelete {
		return s.remove(w, r, q)
	}

	named, live := s.lookup(shape.Handle(q.handle.text()))
	if r.Method == http.MethodPost { // before admission: who sends a body slowly must not keep others out
		release, f := s.postRoom.take(r)
		if f != nil {
			return f
		}
		defer release()
		if f := q.mergeBody(w, r, s.opts.BodyTimeout); f != nil {
			return f
		}
	}
	permit, f := s.admission.acquire(live)
	if f != nil {
		return f
	}
	defer permit.release()
	req, bad := newRequest(q)
	t, f := s.resolve(r.Context(), req, bad, named)
	if f != nil {
		return s.awaitGone(r.Context(), shape.Handle(q.handle.text()), f)
	}
	if f := s.awaitSnapshot(r.Context(), t.Shape); f != nil {
		return s.awaitGone(r.Context(), t.Handle, f)
	}
	s.admission.started(permit)
	failpoint.Hit(failpoint.AnswerBegun)
	if req.subset != nil {
		return s.serveSubset(w, r, req, t)
	}
	if req.now {
		return s.serveNow(w, r, req, t)
	}
	return s.serveLog(w, r, req, t)
}

// lookup finds a live shape by a handle as a client sent it.
func (s *server) lookup(h shape.Handle) (*shapecache.Shape, bool) {
	if !h.Valid() {
		return nil, false // such a handle was never made
	}
	return s.backend.Lookup(h)
}

// resolve finds the shape of a request, or makes it, and proves that it is the one the client's definition names. named
// is the live shape of the request's handle, nil when there is none. bad are the request's mistakes: a server that is not
// ready is reported before them, and a request for a shape that is there does not need a server that is ready.
func (s *server) resolve(ctx context.Context, req *request, bad *failure, named *shapecache.Shape) (*target, *failure) {
	var known *target
	var key definitionKey
	if bad == nil {
		key = keyOf(req)
		var on *shape.Table
		known, on = s.recall(key)
		if known == nil && named != nil && req.handle == named.Handle {
			known = s.prove(key, req, named)
		}
		// Only the first response of a session begins with rows and tells about columns, so only for that the catalogue
		// is asked: DDL alone sends nothing down the stream, and a table of yesterday must not be handed out anew.
		if known != nil && (req.handle != "" || s.unchanged(ctx, req, on)) {
			return s.withKnown(ctx, req, known)
		}
	}
	t, f := s.define(ctx, key, req, bad, known == nil && named == nil)
	if f != nil && known != nil && f.status >= http.StatusInternalServerError {
		// The catalogue cannot be asked whether the shape's columns are still described as they were. The shape itself
		// is alive, and what changes it would be noticed in the stream.
		return s.withKnown(ctx, req, known)
	}
	if f != nil {
		return nil, f
	}
	return t.expect(req)
}

// withKnown makes the checks that a request for a known shape has still before it.
func (s *server) withKnown(ctx context.Context, req *request, t *target) (*target, *failure) {
	if f := s.checkSubset(ctx, req, t.Definition); f != nil {
		return nil, f
	}
	return t.expect(req)
}

// expect sends a client that came with another handle to the shape's own.
func (t *target) expect(req *request) (*target, *failure) {
	if req.handle != "" && req.handle != t.Handle {
		return nil, moved(t.Handle)
	}
	return t, nil
}

// recall returns the live shape that the definition's text was proven to name, and the table it was proven on. It touches
// nothing outside the process.
func (s *server) recall(key definitionKey) (t *target, on *shape.Table) {
	known := s.known.get(key)
	if known == nil {
		return nil, nil
	}
	sh, ok := s.backend.Lookup(known.handle)
	if !ok {
		return nil, nil
	}
	return &target{sh, known.schema}, known.table
}

// unchanged reports whether the table that the request names is still the one that on describes, as far as can be told: a
// catalogue that does not answer says nothing against it.
func (s *server) unchanged(ctx context.Context, req *request, on *shape.Table) bool {
	ctx, cancel := context.WithTimeout(ctx, tablePatience)
	defer cancel()
	now, err := s.backend.Table(ctx, req.schemaName, req.tableName, true)
	if err != nil {
		return !errors.Is(err, inspector.ErrUndefinedTable)
	}
	return now == on
}

// prove checks a definition's text against the table as a live shape knows it, and returns that shape if they are the
// same. A nil says nothing: the table may have changed since.
func (s *server) prove(key definitionKey, req *request, sh *shapecache.Shape) *target {
	table := sh.Definition.Table
	if table.Schema != req.schemaName || table.Name != req.tableName {
		return nil
	}
	d, err := shape.NewDefinition(table, req.definition())
	if err != nil || d.Identity() != sh.Definition.Identity() {
		return nil
	}
	return s.remember(key, d, sh)
}

func (s *server) remember(key definitionKey, d *shape.Definition, sh *shapecache.Shape) *target {
	schema := string(shape.SchemaHeader(d))
	s.known.put(key, &knownShape{handle: sh.Handle, schema: schema, table: d.Table})
	return &target{sh, schema}
}

// define is the long way: wait for the server, ask the catalogue, check the definition, find or make its shape.
// await is whether waiting for a server that is not ready is worth it.
func (s *server) define(ctx context.Context, key definitionKey, req *request, bad *failure, await bool) (*target, *failure) {
	if await {
		if f := s.awaitReady(ctx); f != nil {
			return nil, f
		}
	}
	if bad != nil {
		return nil, bad
	}
	d, f := s.check(ctx, req)
	if f == nil {
		f = s.checkSubset(ctx, req, d)
	}
	if f != nil {
		return nil, f
	}
	sh, err := s.backend.GetOrCreate(ctx, d)
	if err != nil {
		return nil, notCreated(err)
	}
	return s.remember(key, d, sh), nil
}

// check builds the definition on the table as it is now.
func (s *server) check(ctx context.Context, req *request) (*shape.Definition, *failure) {
	table, err := s.backend.Table(ctx, req.schemaName, req.tableName, true)
	if err != nil {
		if errors.Is(err, inspector.ErrUndefinedTable) {
			return nil, invalidFields(shape.FieldErrors{"table": {undefinedTable(err)}})
		}
		return nil, fromError(err, errUnreachable)
	}
	d, err := shape.NewDefinition(table, req.definition())
	if err != nil {
		var fields shape.FieldErrors
		if errors.As(err, &fields) {
			return nil, invalidFields(fields)
		}
		return nil, fromError(err, errInternal)
	}
	return d, nil
}

// undefinedTable is what the client is told about a table that cannot have shapes.
func undefinedTable(err error) string {
	var told *inspector.TableError
	if errors.As(err, &told) {
		return told.Message
	}
	return inspector.ErrUndefinedTable.Error()
}

func (s *server) awaitReady(ctx context.Context) *failure {
	ctx, cancel := context.WithTimeout(ctx, s.opts.ReadyTimeout)
	defer cancel()
	if err := s.backend.Ready(ctx); err != nil {
		return notReady(err, errNotReady)
	}
	return nil
}

// notReady is otherwise with the server's own reason.
func notReady(err error, otherwise failure) *failure {
	otherwise.cause = err
	if msg, ok := clientMessage(err); ok {
		otherwise.body = message{msg}
	}
	return &otherwise
}

// awaitGone holds a 409 back until the handle that it ends is over for good. Were the server killed before, the handle
// would be served again after the client was told to forget it (I5).
func (s *server) awaitGone(ctx context.Context, h shape.Handle, f *failure) *failure {
	if f.status != http.StatusConflict || !h.Valid() {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.ReadyTimeout)
	defer cancel()
	if err := s.backend.AwaitGone(ctx, h); err != nil {
		return notReady(err, errNotReady)
	}
	return f
}

// awaitSnapshot waits until the shape can be read.
func (s *server) awaitSnapshot(ctx context.Context, sh *shapecache.Shape) *failure {
	if st, _ := sh.Log.State(); st.Err == nil && st.Phase != storage.SnapshotPending {
		return nil
	}
	patience, cancel := context.WithTimeout(ctx, s.opts.SnapshotTimeout)
	defer cancel()
	err := s.backend.AwaitSnapshotStart(patience, sh)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &errNotReady // the server stops, or the client went away and does not read it
	}
	return snapshotFailure(err, errInternal)
}

// notCreated is the failure for an error of GetOrCreate. A definition that is not tried for a while gets the answer of its
// last try, with the time of the next; the log has had it then.
func notCreated(err error) *failure {
	var again *shapecache.FailedError
	if !errors.As(err, &again) {
		return fromError(err, errCreate)
	}
	f := snapshotFailure(err, errCreate)
	f.cause = nil
	if f.status < http.StatusInternalServerError {
		return f // the clause fails for a row: whoever wrote it has to change it
	}
	f.retryAfter = max(f.retryAfter, int(math.Ceil(time.Until(again.RetryAt).Seconds())), 1)
	return f
}
