package api

import (
	"strings"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
)

// request is a request for a part of a shape's log, checked as far as that is possible without a table.
type request struct {
	offset shapelog.Offset // meaningless when now is set
	now    bool            // offset=now: from the end of the log on
	handle shape.Handle    // "" where none is needed: with offset -1 and now
	live   bool
	sse    bool
	cursor string
	subset *subsetRequest // nil when the log is asked for

	// The definition, as the client wrote it.
	table, where, columns, queryable string
	params                           map[string]string
	replica                          shape.Replica
	log                              shape.LogMode
	schemaName, tableName            string
	columnNames, queryableNames      []string
}

// first reports whether the request is for the beginning of the log.
func (r *request) first() bool { return !r.now && r.offset == shapelog.Before }

// appendOffset appends the requested offset in its canonical form.
func (r *request) appendOffset(dst []byte) []byte {
	if r.now {
		return append(dst, "now"...)
	}
	return r.offset.Append(dst)
}

// definition is the request in the form that shape.NewDefinition takes.
func (r *request) definition() shape.Request {
	return shape.Request{
		Where: r.where, Params: r.params, Columns: r.columnNames, QueryableColumns: r.queryableNames,
		Replica: r.replica, Log: r.log,
	}
}

const (
	isInvalid  = "is invalid"
	cantBlank  = "can't be blank"
	notFormat  = "has invalid format"
	blankTable = cantBlank
)

// newRequest checks parameters in stages; the first stage with a mistake ends it, and reports all of its mistakes
// (protocol.md §3.2).
func newRequest(q *params) (*request, *failure) {
	req := &request{}
	bad := req.cast(q)
	var badSubset map[string]any
	req.subset, badSubset = q.subset.cast()
	if len(bad) > 0 || len(badSubset) > 0 {
		return nil, invalidSubset(bad, badSubset)
	}
	refuse := func(name, message string) (*request, *failure) {
		return nil, invalidFields(shape.FieldErrors{name: {message}})
	}
	offset, err := shapelog.Parse(q.offset.value)
	if req.now = q.offset.value == "now"; err != nil && !req.now {
		return refuse("offset", notFormat)
	}
	req.offset = offset
	if !req.now && !req.first() {
		if req.handle = shape.Handle(q.handle.text()); req.handle == "" {
			return refuse("handle", "can't be blank when offset != -1")
		}
	}
	switch {
	case req.live && req.first():
		return refuse("live", "can't be true when offset == -1")
	case req.live && req.now:
		return refuse("live", "can't be true when offset is 'now'")
	case req.sse && !req.live:
		return refuse("live_sse", "can't be true unless live is also true")
	case req.table == "":
		return refuse("table", blankTable)
	}
	if bad := req.nameTable(); bad != nil {
		return nil, invalidFields(bad)
	}
	return req, nil
}

// nameTable is the beginning of the last stage, the definition: the only part of it that needs no table.
func (r *request) nameTable() shape.FieldErrors {
	var err error
	if r.schemaName, r.tableName, err = shape.ParseRelation(r.table); err != nil {
		return shape.FieldErrors{"table": {err.Error()}}
	}
	return nil
}

// cast is the first stage: every parameter must be of its type, and the offset there.
func (r *request) cast(q *params) shape.FieldErrors {
	bad := shape.FieldErrors{}
	if q.offset.blank() {
		bad["offset"] = []string{cantBlank}
	}
	for _, p := range []struct {
		name string
		f    field
	}{
		{"offset", q.offset}, {"handle", q.handle}, {"live", q.live}, {"live_sse", q.liveSSE}, {"cursor", q.cursor},
	} {
		if p.f.bad {
			bad[p.name] = []string{isInvalid}
		}
	}
	r.live = q.live.set && q.live.value != "false"
	if r.sse = q.liveSSE.set && q.liveSSE.value != "false"; !q.liveSSE.set {
		r.sse = boolean(bad, "experimental_live_sse", q.experimentalSSE)
	}
	r.cursor = q.cursor.text()
	r.castDefinition(q, bad)
	for name, messages := range q.errors {
		bad[name] = messages
	}
	return bad
}

// castDefinition is the part of cast that DELETE shares.
func (r *request) castDefinition(q *params, bad shape.FieldErrors) {
	for _, p := range []struct {
		name string
		f    field
		into *string
	}{
		{"table", q.table, &r.table},
		{"where", q.where, &r.where},
		{"columns", q.columns, &r.columns},
		{"queryable_columns", q.queryable, &r.queryable},
		{"replica", q.replica, (*string)(&r.replica)},
		{"log", q.log, (*string)(&r.log)},
	} {
		if p.f.bad {
			bad[p.name] = []string{isInvalid}
		}
		*p.into = p.f.text()
	}
	switch r.replica {
	case "", shape.ReplicaDefault, shape.ReplicaFull:
	default:
		bad["replica"] = []string{isInvalid}
	}
	switch r.log {
	case "", shape.LogFull, shape.LogChangesOnly:
	default:
		bad["log"] = []string{isInvalid}
	}
	// Compaction is the server's own business here; the parameter is checked and otherwise has no effect.
	boolean(bad, "experimental_compaction", q.compaction)
	r.columnNames = identifiers(bad, "columns", r.columns)
	r.queryableNames = identifiers(bad, "queryable_columns", r.queryable)
	if q.badParams {
		bad["params"] = []string{isInvalid}
	}
	if len(q.params) > 0 {
		r.params = make(map[string]string, len(q.params))
		for name, f := range q.params {
			if f.bad {
				bad["params"] = []string{isInvalid}
			}
			r.params[name] = f.value
		}
	}
}

func identifiers(bad shape.FieldErrors, name, list string) []string {
	if list == "" {
		return nil
	}
	names, err := shape.ParseColumns(list)
	if err != nil {
		bad[name] = []string{err.Error()}
	}
	return names
}

// boolean reads a parameter that is strictly true or false; one that counts as absent is false.
func boolean(bad shape.FieldErrors, name string, f field) bool {
	switch strings.TrimSpace(f.text()) {
	case "true", "1":
		return true
	case "false", "0":
		return false
	case "":
		if !f.bad {
			return false
		}
	}
	bad[name] = []string{isInvalid}
	return false
}
