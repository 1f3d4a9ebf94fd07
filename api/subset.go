package api

import (
	"bytes"
	"context"
	"errors"
	"io"
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
		w: w, encoders: s.encoders, silent: r.Method == http.MethodHead,
		mark: rand.Int32N(math.MaxInt32), //nolint:gosec // tells subsets apart, guards nothing
		head: func(c coding) error {
			if st, _ := t.Log.State(); st.Err != nil {
				return st.Err // the client would go on in a log that is gone
			}
			s.describeSubset(w.Header(), t, end, c)
			return nil
		},
	}
	if !s.opts.NoCompression {
		body.coding = negotiate(r.Header["Accept-Encoding"]).best
	}
	defer body.release()
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
func (s *server) describeSubset(h http.Header, t *target, end shapelog.Offset, c coding) {
	h["Electric-Handle"] = []string{string(t.Handle)}
	h["Electric-Offset"] = []string{end.String()}
	h["Electric-Schema"] = []string{t.schema}
	h["Electric-Snapshot"] = trueText
	h["Cache-Control"] = noCache
	if !s.opts.NoCompression {
		h["Vary"] = varyEncoding
	}
	if c != identity {
		h["Content-Encoding"] = contentEncodings[c]
	}
}

// subsetBody writes {"metadata":…,"data":[…]}. It is a SubsetSink.
type subsetBody struct {
	w        http.ResponseWriter
	head     func(coding) error // sets the headers, or says why there can be no answer
	silent   bool               // HEAD: only the headers are sent
	mark     int32
	encoders *encoders
	coding   coding  // what the client takes; from sent on, what it gets
	enc      encoder // of a response that is sent as it comes, nil when that is not compressed

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
	if !b.sent {
		if err := b.stream(); err != nil {
			return err
		}
	}
	return b.flush()
}

// stream begins a response that is sent as it comes, compressed if an encoder is free.
func (b *subsetBody) stream() error {
	if b.coding != identity {
		if b.enc = b.encoders.stream(b.coding, b.w); b.enc == nil {
			b.coding = identity
		}
	}
	return b.begin()
}

// begin sends the header.
func (b *subsetBody) begin() error {
	if err := b.head(b.coding); err != nil {
		return err
	}
	b.sent = true
	b.w.WriteHeader(http.StatusOK)
	return nil
}

// flush sends what is in the buffer.
func (b *subsetBody) flush() error {
	to := io.Writer(b.w)
	if b.enc != nil {
		to = b.enc
	}
	var err error
	if !b.silent {
		_, err = to.Write(b.buf.Bytes())
	}
	b.buf.Reset()
	return err
}

// end sends the rest, which may be all of it.
func (b *subsetBody) end() error {
	b.buf.WriteString("]}")
	if b.sent {
		err := b.flush()
		if err == nil && b.enc != nil && !b.silent {
			err = b.enc.Close()
		}
		return err
	}
	body := b.buf.Bytes()
	if b.coding == identity || len(body) < minCompressed {
		b.coding = identity
	} else {
		var out bytes.Buffer
		if err := b.encoders.whole(b.coding, &out, func(w io.Writer) error { _, err := w.Write(body); return err }); err != nil {
			return err
		}
		body = out.Bytes()
	}
	b.w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	if err := b.begin(); err != nil {
		delete(b.w.Header(), "Content-Length")
		return err
	}
	if b.silent {
		return nil
	}
	_, err := b.w.Write(body)
	return err
}

// release gives the encoder back.
func (b *subsetBody) release() {
	if b.enc != nil {
		b.encoders.endStream(b.coding, b.enc)
	}
}
