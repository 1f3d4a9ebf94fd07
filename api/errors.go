package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/shapeserver/shapeserver/inspector"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
)

// failure is a response that is not a success (protocol.md §3). A failure is a value: it is copied, never changed.
type failure struct {
	status     int
	body       any          // encoded as JSON, or sent as it is when it is a rawJSON
	retryAfter int          // seconds; 0 sends no header
	known      bool         // electric-internal-known-error: expected, so that alerts can leave it out
	handle     shape.Handle // of a 409: where to go, empty when that is not known
	plainCache bool         // keeps the default cache-control, as 401 and unreadable bodies do
	cause      error        // for the log, never for the client
}

type rawJSON string

type message struct {
	Message string `json:"message"`
}

type errorText struct {
	Error   string `json:"error"`
	Details string `json:"details,omitempty"`
}

type codedMessage struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type invalidRequest struct {
	Message string         `json:"message"`
	Errors  map[string]any `json:"errors"`
}

// The failures that need nothing of the request.
var (
	errUnauthorized    = failure{status: http.StatusUnauthorized, body: message{"Unauthorized - Invalid API secret"}, plainCache: true}
	errDeleteDisabled  = failure{status: http.StatusMethodNotAllowed, body: message{"DELETE not allowed"}}
	errNoShape         = failure{status: http.StatusNotFound, body: message{"No existing shape found"}}
	errHandleMismatch  = failure{status: http.StatusBadRequest, body: message{"The specified shape definition and handle do not match. Please ensure the shape definition is correct or omit the shape handle from the request to obtain a new one."}}
	errBodyNotObject   = failure{status: http.StatusBadRequest, body: errorText{Error: "Request body must be a JSON object"}, plainCache: true}
	errBodyTooLarge    = failure{status: http.StatusRequestEntityTooLarge, body: errorText{Error: "Request body too large"}, plainCache: true}
	errBodyUnreadable  = failure{status: http.StatusBadRequest, body: errorText{Error: "Failed to read request body"}, plainCache: true}
	errMustRefetch     = failure{status: http.StatusConflict, body: rawJSON(shapelog.MustRefetchBody)}
	errNotReady        = failure{status: http.StatusServiceUnavailable, body: message{"Timeout waiting for the server to be ready"}, retryAfter: 5}
	errUnreachable     = failure{status: http.StatusServiceUnavailable, body: message{"Cannot connect to the database to verify the shape. Please try again later."}, retryAfter: 1}
	errCreate          = failure{status: http.StatusServiceUnavailable, body: message{"Failed to create shape, please retry"}, retryAfter: 1}
	errSnapshotTimeout = failure{status: http.StatusServiceUnavailable, body: message{"Timed out while waiting for snapshot to start"}, retryAfter: 10, known: true}
	errStackDown       = failure{status: http.StatusServiceUnavailable, body: message{"Timeout waiting for the server to be ready"}, retryAfter: 10}
	errInternal        = failure{status: http.StatusInternalServerError, body: errorText{Error: "Internal server error"}}
	errPostRoom        = failure{status: http.StatusServiceUnavailable, body: message{"Too many request bodies at once, please retry"}, retryAfter: 2, known: true}
	errCatchingUp      = failure{status: http.StatusServiceUnavailable, body: message{"The server is catching up with the database, please retry"}, retryAfter: 1, known: true}
	errOutOfBounds     = invalid("offset", "out of bounds for this shape")
)

// failureOf is the one table that turns errors of the packages below into responses: the first row whose error is in
// err's chain counts, and what is in no row is a 500 that keeps the text to the log.
var failureOf = []struct {
	err     error
	failure failure
}{
	{shapecache.ErrGone, errMustRefetch},
	{storage.ErrRemoved, errMustRefetch},
	{storage.ErrNotFound, errMustRefetch},
	{storage.ErrSnapshotFailed, errMustRefetch},
	{snapshot.ErrSchemaChanged, errMustRefetch},
	{shapecache.ErrNotReady, errNotReady},
	{inspector.ErrUnreachable, errUnreachable},
	{context.DeadlineExceeded, errSnapshotTimeout},
	{context.Canceled, errNotReady}, // the server stops, or the client went away
}

// clientError is an error whose text is meant for clients.
type clientError interface {
	error
	ClientMessage() string
}

// fromError returns the failure for an error; otherwise is the one for an error that is in no table.
func fromError(err error, otherwise failure) *failure {
	f := otherwise
	if msg, ok := clientMessage(err); ok && errors.Is(err, snapshot.ErrWhere) {
		f = invalid("where", msg)
		f.cause = err
		return &f
	}
	for _, row := range failureOf {
		if errors.Is(err, row.err) {
			f = row.failure
			break
		}
	}
	f.cause = err
	if msg, ok := clientMessage(err); ok && f.status >= http.StatusInternalServerError {
		f.status, f.body = http.StatusServiceUnavailable, message{msg}
	}
	return &f
}

func clientMessage(err error) (string, bool) {
	var told clientError
	if errors.As(err, &told) {
		return told.ClientMessage(), true
	}
	return "", false
}

// invalid is a 400 about one parameter.
func invalid(field string, messages ...string) failure {
	return failure{status: http.StatusBadRequest, body: invalidRequest{"Invalid request", map[string]any{field: messages}}}
}

// invalidFields is a 400 about any number of parameters.
func invalidFields(fields shape.FieldErrors) *failure {
	all := make(map[string]any, len(fields))
	for field, messages := range fields {
		all[field] = messages
	}
	return &failure{status: http.StatusBadRequest, body: invalidRequest{"Invalid request", all}}
}

// invalidSubset is a 400 about parameters of a subset, beside mistakes of others: of each a list of messages or, for what
// Postgres itself said, one message (protocol.md §10).
func invalidSubset(fields shape.FieldErrors, subset map[string]any) *failure {
	f := invalidFields(fields)
	if len(subset) > 0 {
		f.body.(invalidRequest).Errors["subset"] = subset //nolint:forcetypeassert // invalidFields has just made it
	}
	return f
}

// snapshotFailure is the answer to a snapshot that could not be taken (protocol.md §3.3 and §3.4); otherwise is the one for an
// error that is in no table.
func snapshotFailure(err error, otherwise failure) *failure {
	f := fromError(err, otherwise)
	if _, ok := clientMessage(err); ok && f.status >= http.StatusInternalServerError {
		if errors.Is(err, snapshot.ErrUnexpected) {
			f.status = http.StatusInternalServerError // its text stays
			return f
		}
		f.retryAfter, f.known = 10, true
	}
	return f
}

// moved is the 409 that names the handle to go on with.
func moved(h shape.Handle) *failure {
	f := errMustRefetch
	f.handle = h
	return &f
}

// overloaded is the rejection by admission control (protocol.md §3.1). Its delay is spread, so that those who are
// turned away together do not come back together.
func overloaded(kind string, limit int) *failure {
	return &failure{
		status: http.StatusServiceUnavailable,
		body: codedMessage{
			"concurrent_request_limit_exceeded",
			"Concurrent " + kind + " request limit exceeded (limit: " + strconv.Itoa(limit) + "), please retry",
		},
		retryAfter: 6 + rand.IntN(5), //nolint:gosec // spreads clients, guards nothing
		known:      true,
	}
}

// failing lets a handler return its failure.
func (s *server) failing(handle func(http.ResponseWriter, *http.Request) *failure) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if f := handle(w, r); f != nil {
			s.fail(w, r, *f)
		}
	}
}

// fail sends a failure. Nothing of the body may have been sent before.
func (s *server) fail(w http.ResponseWriter, r *http.Request, f failure) {
	if f.status >= http.StatusInternalServerError && !f.known && f.cause != nil && r.Context().Err() == nil {
		s.failures.log(r.Context(), s.opts.Logger, &f, w.Header().Get("X-Request-Id"))
	}
	body, ok := f.body.(rawJSON)
	if !ok {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(f.body); err != nil { // the types above always encode
			panic(err)
		}
		body = rawJSON(bytes.TrimRight(buf.Bytes(), "\n"))
	}
	h := w.Header()
	s.allowOrigin(h, s.headers.shapeMethods)
	h["Content-Type"] = jsonContent
	if !f.plainCache {
		s.cacheControl(h, r.Method, f.status, f.handle != "", nil)
	}
	if f.retryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(f.retryAfter)}
	}
	if f.known {
		h["Electric-Internal-Known-Error"] = trueText
	}
	if f.handle != "" {
		h["Electric-Handle"] = []string{string(f.handle)}
		h["Etag"] = []string{`"` + string(f.handle) + `::"`}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(f.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(body)) // a client that is gone needs no answer
	}
}
