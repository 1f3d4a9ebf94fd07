package api

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"time"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

var keepAlive = []byte(": keep-alive\n\n")

// serveEvents serves a live request as a stream of events (protocol.md §5.6): what there is now, then every change,
// each batch ended by an up-to-date; a comment when it is quiet for long; and the end after a fixed time, or when the shape
// is removed, in which case the client learns of it by its next request.
//
// A client takes over the offset of the headers when the stream opens, but drops the items of a batch that is not ended by
// an up-to-date. So the headers name the end of the first batch only when that batch is the whole rest of the log and small
// enough to arrive together with them; otherwise they name the client's own offset, from which nothing can be lost. For the
// same reason a batch always runs to the head of the log, over any number of chunks.
func (s *server) serveEvents(w http.ResponseWriter, r *http.Request, req *request, t *target, v view) *failure {
	ctx := r.Context()
	tag := newTag(t.Handle, req, v.end)
	h := w.Header()
	if c, ok := matches(r, tag, s.accepted(r, req)); ok && v.hasData {
		return s.notModified(w, r, req, t, v, quoted(tag, c))
	}
	var first storage.Body
	opened, upToDate := v.end, v.upToDate
	if v.hasData {
		var err error
		if first, err = t.Log.Read(ctx, req.offset, v.end); err != nil {
			return s.unreadable(t.Handle, err)
		}
		if size := first.Size(); !v.upToDate || size < 0 || size > smallBody {
			opened, upToDate = req.offset, false
			tag = newTag(t.Handle, req, opened)
		}
	}
	s.describe(h, r, req, t, http.StatusOK, opened, upToDate, true)
	h["Etag"] = []string{quoted(tag, identity)}
	h["Content-Type"] = eventContent
	h["Connection"] = []string{"keep-alive"}
	h["X-Accel-Buffering"] = []string{"no"} // or nginx holds events back until it has a buffer full
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		if first != nil {
			_ = first.Close()
		}
		return nil
	}
	s.metrics.streaming.Inc()
	defer s.metrics.streaming.Dec()
	e := &eventStream{server: s, w: w, flush: flusher(w), handle: t.Handle, log: t.Log, at: req.offset}
	if err := e.run(ctx, v, first); err != nil {
		s.cut(ctx, w, err)
	}
	return nil
}

// eventStream is one open stream.
type eventStream struct {
	server *server
	w      http.ResponseWriter
	flush  func() error
	handle shape.Handle
	log    storage.Log
	at     shapelog.Offset // everything up to here was sent
	batch  bool            // items were sent after the last up-to-date
}

// run sends events until the stream's time is over, ctx ends or the log is removed; all of these are a clean end. An error
// means that a batch was begun that could not be completed, or that the client is gone. v is the look that opened the
// stream, first the part it found, nil when it found none; run closes it.
func (e *eventStream) run(ctx context.Context, v view, first storage.Body) error {
	opts := &e.server.opts
	end := time.NewTimer(opts.SSETimeout)
	defer end.Stop()
	quiet := time.NewTimer(opts.SSEKeepAlive)
	defer quiet.Stop()
	if err := e.flush(); err != nil { // the headers, at once: clients give up on a stream that does not open
		return errors.Join(err, closeBody(first))
	}
	for ; ; v = e.server.look(e.handle, e.log, e.at) {
		data := v.hasData && !v.unbegun
		switch {
		case v.state.Err != nil || v.leaving:
			return closeBody(first)
		case v.moved || v.unbegun && v.state.Phase == storage.SnapshotComplete:
			runtime.Gosched() // to whoever is about to publish the head, or the end of the snapshot
			continue
		case data || e.batch && v.upToDate:
			if err := e.send(ctx, v, first); err != nil {
				return err
			}
			first = nil
			quiet.Reset(opts.SSEKeepAlive)
			if e.batch || ctx.Err() == nil && !fired(end.C) {
				continue
			}
			return nil
		}
		select {
		case <-v.changed:
		case <-quiet.C:
			if _, err := e.w.Write(keepAlive); err != nil {
				return err
			}
			if err := e.flush(); err != nil {
				return err
			}
			quiet.Reset(opts.SSEKeepAlive)
		case <-end.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// fired reports whether a timer has run out.
func fired(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func closeBody(b storage.Body) error {
	if b == nil {
		return nil
	}
	return b.Close()
}

// send sends the part that v found, if it found one, and an up-to-date when that reaches the head of the log.
func (e *eventStream) send(ctx context.Context, v view, part storage.Body) (err error) {
	events := newEventWriter(e.w)
	defer events.release()
	if v.hasData && !v.unbegun {
		if part == nil {
			if part, err = e.log.Read(ctx, e.at, v.end); err != nil {
				return err
			}
		}
		defer func() { _ = part.Close() }() // it was only read
		flush := func() error { return errors.Join(events.out.Flush(), e.flush()) }
		if _, err := part.WriteTo(events, flush); err != nil {
			return err
		}
		e.at, e.batch = v.end, true
	}
	if e.batch && v.upToDate {
		// The transaction of the shape's own last entry, not of the database's: the client asks from there next time, and
		// further on would be out of bounds (protocol.md §15.1).
		item := shapelog.AppendUpToDate(nil, changes.LSN(v.end.Tx()))
		if _, err := events.Write(item); err != nil {
			return err
		}
		e.batch = false
	}
	if err := events.out.Flush(); err != nil {
		return err
	}
	return e.flush()
}
