package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapecache"
)

// remove serves DELETE (protocol.md §1.5). The secret has been checked.
func (s *server) remove(w http.ResponseWriter, r *http.Request, q *params) *failure {
	ctx := r.Context()
	if f := s.awaitReady(ctx); f != nil {
		return f
	}
	if !s.opts.AllowDelete {
		return &errDeleteDisabled
	}
	req, bad := newRemoval(q)
	if bad != nil {
		return invalidFields(bad)
	}
	h, f := s.removable(ctx, req)
	if f != nil {
		return f
	}
	if err := s.backend.Delete(ctx, h); err != nil {
		if errors.Is(err, shapecache.ErrGone) {
			return &errNoShape
		}
		return fromError(err, errInternal)
	}
	head := w.Header()
	s.cacheControl(head, r.Method, http.StatusAccepted, false, req)
	head["Electric-Has-Data"] = trueText
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// newRemoval checks the parameters of a DELETE; those that say where to read are only checked for their type.
func newRemoval(q *params) (*request, shape.FieldErrors) {
	req := &request{handle: shape.Handle(q.handle.text())}
	bad := shape.FieldErrors{}
	req.castDefinition(q, bad)
	boolean(bad, "live", q.live)
	boolean(bad, "live_sse", q.liveSSE)
	boolean(bad, "experimental_live_sse", q.experimentalSSE)
	if q.handle.bad {
		bad["handle"] = []string{isInvalid}
	}
	if q.offset.bad {
		bad["offset"] = []string{isInvalid}
	}
	for name, messages := range q.errors {
		bad[name] = messages
	}
	if len(bad) > 0 {
		return nil, bad
	}
	if strings.TrimSpace(req.table) == "" {
		if req.handle == "" {
			return nil, shape.FieldErrors{"handle": {"can't be blank when shape definition is missing"}}
		}
		return req, nil
	}
	if bad := req.nameTable(); bad != nil {
		return nil, bad
	}
	return req, nil
}

// removable finds the shape that a DELETE means.
func (s *server) removable(ctx context.Context, req *request) (shape.Handle, *failure) {
	if req.table == "" {
		if _, ok := s.lookup(req.handle); !ok {
			return "", &errNoShape
		}
		return req.handle, nil
	}
	d, f := s.check(ctx, req)
	if f != nil {
		return "", f
	}
	sh, ok := s.backend.Find(d)
	switch {
	case !ok:
		return "", &errNoShape
	case req.handle != "" && req.handle != sh.Handle:
		return "", &errHandleMismatch
	}
	return sh.Handle, nil
}
