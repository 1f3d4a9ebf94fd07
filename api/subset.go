package api

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/where"
)

// subsetBuffer is up to what size, in bytes, a subset is read whole before any of it is sent: until then a failure gives
// a clean answer, and the database is done with before the client has to take anything. What is bigger is sent as it comes.
const subsetBuffer = 256 << 10

// checkSubset is the last stage of the checks (protocol.md §3.2): it makes the query of a request for a subset, on the
// table as it is now. A request for the log passes.
func (s *server) checkSubset(ctx context.Context, req *request, d *shape.Definition) *failure {
	if req.subset == nil {
		return nil
	}
	table := d.Table
	if now := s.tableNow(ctx, d, false); now != nil {
		table = now
	}
	bad := req.subset.check(table, req.queryableNames)
	if bad == nil {
		return nil
	}
	// An enum may have got the label, or the table the column, since it was last looked at.
	if now := s.tableNow(ctx, d, true); now != nil && now != table {
		bad = req.subset.check(now, req.queryableNames)
	}
	if bad == nil {
		return nil
	}
	return invalidSubset(nil, bad)
}

// tableNow looks a definition's table up again. It returns nil when the catalogue does not answer, or knows of no such
// table, which will be seen when it is read.
func (s *server) tableNow(ctx context.Context, d *shape.Definition, fresh bool) *shape.Table {
	ctx, cancel := context.WithTimeout(ctx, tablePatience)
	defer cancel()
	table, err := s.backend.Table(ctx, d.Table.Schema, d.Table.Name, fresh)
	if err != nil {
		return nil
	}
	return table
}

// check makes the query, or returns what is wrong with it by parameter. Only the columns of queryable can be named in
// it, all when that is nil.
func (r *subsetRequest) check(table *shape.Table, queryable []string) map[string]any {
	scope := table.WhereScope()
	if queryable != nil {
		scope.Columns = slices.DeleteFunc(scope.Columns, func(c where.Column) bool { return !slices.Contains(queryable, c.Name) })
	}
	bad := make(map[string]any)
	q := snapshot.Subset{Table: table}
	if r.where != "" {
		var err error
		if q.Where, err = where.Parse(r.where, r.params, scope); err != nil {
			name, message := subsetMistake(err)
			bad[name] = message
		}
	}
	if r.limit != nil {
		if q.Limit = *r.limit; q.Limit <= 0 {
			bad["limit"] = []string{"must be greater than 0"}
		}
	}
	if r.offset != nil {
		if q.Offset = *r.offset; q.Offset < 0 {
			bad["offset"] = []string{"must be greater than or equal to 0"}
		}
	}
	switch {
	case r.orderBy != "":
		var err error
		if q.OrderBy, err = where.ParseOrderBy(r.orderBy, scope); err != nil {
			bad["order_by"] = []string{err.Error()}
		}
	case r.limit != nil || r.offset != nil:
		bad["order_by"] = []string{"order_by is required when limit or offset is present"}
	}
	if len(bad) > 0 {
		return bad
	}
	r.query = q
	return nil
}

// subsetMistake says what is wrong with a where clause, under which parameter.
func subsetMistake(err error) (name string, message any) {
	var label *where.LabelError
	var told *where.Error
	switch {
	case errors.As(err, &label):
		return "where", label.Error() // as Postgres says it, and so no list
	case errors.Is(err, where.ErrSubquery):
		return "where", []string{"Subqueries are not allowed in subsets"}
	case errors.As(err, &told):
		return told.Field, []string{told.Error()}
	default:
		return "where", []string{err.Error()}
	}
}

// serveSubset answers with rows of the shape as they are now (protocol.md §10).
//
// The offset that it names is where the client goes on in the log. That is where it is, not the head: what lies between
// concerns also rows that are not of this subset, and the client has it still to come. A client that is nowhere yet
// (offset=now) goes on from what was the head before the snapshot was taken, which saw everything up to there.
func (s *server) serveSubset(w http.ResponseWriter, r *http.Request, req *request, t *target) *failure {
	result := "failed"
	defer func() { s.metrics.subsets.WithLabelValues(result).Inc() }()
	end := req.offset
	st, _ := t.Log.State()
	switch {
	case st.Err != nil:
		return fromError(st.Err, errInternal)
	case req.now:
		end = st.Last
	case req.first():
		end = shapelog.SnapshotChunk(0)
	}
	body := &subsetBody{
		w: w, silent: r.Method == http.MethodHead,
		mark: rand.Int32N(math.MaxInt32), //nolint:gosec // tells subsets apart, guards nothing
		head: func() error {
			if st, _ := t.Log.State(); st.Err != nil {
				return st.Err // the client would go on in a log that is gone
			}
			describeSubset(w.Header(), t, end)
			return nil
		},
	}
	body.buf = buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	defer func() {
		if body.buf.Cap() <= 2*subsetBuffer { // one huge row makes one huge buffer
			buffers.Put(body.buf)
		}
	}()

	err := s.backend.ReadSubset(r.Context(), t.Shape, req.subset.query, body)
	if errors.Is(err, snapshot.ErrSchemaChanged) && !body.begun {
		// The table that the query was checked on was one of some seconds ago.
		if now := s.tableNow(r.Context(), t.Definition, true); now != nil {
			if bad := req.subset.check(now, req.queryableNames); bad != nil {
				result = "refused"
				return invalidSubset(nil, bad)
			}
			err = s.backend.ReadSubset(r.Context(), t.Shape, req.subset.query, body)
		}
	}
	if err == nil {
		err = body.end()
	}
	switch {
	case err == nil:
		result = "complete"
		return nil
	case r.Context().Err() != nil:
		result = "aborted" // the client went away, or the server stops
	}
	if body.sent {
		s.cut(r.Context(), w, err)
	}
	var refused *snapshot.QueryError
	if errors.As(err, &refused) {
		result = "refused"
		if refused.Field == "where" {
			return invalidSubset(nil, map[string]any{"where": refused.Message})
		}
		return invalidSubset(nil, map[string]any{refused.Field: []string{refused.Message}})
	}
	return snapshotFailure(err, errInternal)
}

// describeSubset sets the headers of a subset (protocol.md §4.1 and §4.3).
func describeSubset(h http.Header, t *target, end shapelog.Offset) {
	h["Electric-Handle"] = []string{string(t.Handle)}
	h["Electric-Offset"] = []string{end.String()}
	h["Electric-Schema"] = []string{t.schema}
	h["Electric-Snapshot"] = trueText
	h["Cache-Control"] = noCache
}

// subsetBody writes {"metadata":…,"data":[…]}. It is a SubsetSink.
type subsetBody struct {
	w      http.ResponseWriter
	head   func() error // sets the headers, or says why there can be no answer
	silent bool         // HEAD: only the headers are sent
	mark   int32

	buf   *bytes.Buffer
	begun bool // the metadata is in buf
	rows  int64
	sent  bool // the header is sent
}

var _ SubsetSink = (*subsetBody)(nil)

// Begin implements SubsetSink.
func (b *subsetBody) Begin(snap changes.Snapshot, lsn changes.LSN) error {
	b.begun = true
	b.buf.Reset()
	b.buf.WriteString(`{"metadata":`)
	b.buf.Write(shapelog.AppendSubsetMetadata(b.buf.AvailableBuffer(), snap, lsn, b.mark))
	b.buf.WriteString(`,"data":[`)
	return nil
}

// Row implements SubsetSink.
func (b *subsetBody) Row(json []byte) error {
	if b.rows > 0 {
		b.buf.WriteByte(',')
	}
	b.rows++
	b.buf.Write(shapelog.MarkSubset(append(b.buf.AvailableBuffer(), json...), b.mark))
	if b.buf.Len() < subsetBuffer {
		return nil
	}
	return b.flush()
}

// flush sends what is in the buffer, after the header.
func (b *subsetBody) flush() error {
	if !b.sent {
		if err := b.head(); err != nil {
			return err
		}
		b.sent = true
		b.w.WriteHeader(http.StatusOK)
	}
	var err error
	if !b.silent {
		_, err = b.w.Write(b.buf.Bytes())
	}
	b.buf.Reset()
	return err
}

// end sends the rest.
func (b *subsetBody) end() error {
	b.buf.WriteString("]}")
	if !b.sent {
		b.w.Header()["Content-Length"] = []string{strconv.Itoa(b.buf.Len())}
	}
	return b.flush()
}
