package api

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

// view is one look at a log from a client's position.
type view struct {
	seen    changes.LSN     // LastSeen before the look at the log
	end     shapelog.Offset // the response covers (offset, end]
	state   storage.State
	changed <-chan struct{} // closed when state is not true any more

	closed   bool // the part is a closed chunk, which never changes
	hasData  bool // there are entries in (offset, end]
	upToDate bool // end is the head of the log
	unbegun  bool // end is a snapshot chunk of which nothing is there yet
	ahead    bool // the client's offset is beyond the log
	leaving  bool // end is the head of the log, but the shape is being removed and may not have all that there was
	moved    bool // the log grew between the halves of the look: another look tells more
}

// look reads, in this order, the position up to which all shapes are complete, the part after the client's offset, and
// the head of the log. So an up-to-date never claims more than the part has (I1). Only a part that ends exactly at the
// head that was read after it counts as up to date: a chunk may end inside a transaction, and in the moment of a commit
// it may be seen before the head is (I2). Of a shape that is being removed nothing counts: the stream goes on without it.
func (s *server) look(h shape.Handle, log storage.Log, after shapelog.Offset) view {
	v := view{seen: s.backend.LastSeen()}
	v.end, v.closed = log.Range(after)
	v.state, v.changed = log.State()
	last := v.state.Last
	if v.end.IsSnapshot() {
		v.hasData = true
		v.unbegun = v.end.Op() >= uint64(max(v.state.Chunks, 0)) //nolint:gosec // not negative
		return v
	}
	v.hasData = v.end.Compare(after) > 0 && v.end != shapelog.SnapshotEnd
	v.ahead = after.Compare(last) > 0 && !after.IsSnapshot()
	v.upToDate = v.end == last && !v.ahead
	v.leaving = v.upToDate && s.backend.Leaving(h)
	switch v.end.Compare(last) {
	case 1:
		v.moved = true // a commit of which the head is not to be seen yet
	case 0:
	default:
		v.moved = !v.hasData && !v.ahead
	}
	return v
}

// serveLog serves the part of the log after the request's offset (protocol.md §6.9). It waits for a snapshot chunk to
// begin, for the log to reach an offset beyond it, and, when the request is live, for a change; all together no longer
// than the long-poll's timeout. Look and wait come from the same State call, so that no change falls between.
func (s *server) serveLog(w http.ResponseWriter, r *http.Request, req *request, t *target) *failure {
	ctx := r.Context()
	var timer *time.Timer
	var expired, looked bool
	for {
		v := s.look(t.Handle, t.Log, req.offset)
		patience := s.opts.LongPollTimeout
		switch {
		case v.state.Err != nil:
			return s.unreadable(t.Handle, v.state.Err)
		case v.leaving:
			return s.awaitGone(ctx, t.Handle, &errMustRefetch)
		case v.moved:
			runtime.Gosched() // to whoever is about to publish the head
			continue
		case v.unbegun && v.state.Phase == storage.SnapshotComplete && !looked:
			looked = true // the snapshot ended between the two halves of the look: the log is next
			continue
		case v.unbegun && !expired:
			// Not begun: an empty answer would have to say where to go on, and there is nothing to go on with.
		case v.ahead && expired && ctx.Err() != nil:
			return &errNotReady // the server stops; the client did nothing wrong
		case v.ahead && expired && !s.backend.CaughtUp():
			return &errCatchingUp
		case v.ahead && expired:
			return &errOutOfBounds
		case v.ahead:
			patience /= 2
		case req.sse:
			return s.serveEvents(w, r, req, t, v)
		case v.hasData || !req.live:
			return s.respond(w, r, req, t, v, timer == nil)
		case expired:
			return s.serveIdle(w, r, req, t, v)
		}
		if timer == nil {
			timer = time.NewTimer(patience)
			defer timer.Stop()
		}
		expired = s.wait(ctx, v.changed, timer.C)
	}
}

// wait returns false when changed is closed, true when it is time to give up: for lack of patience, or because the
// client went away or the server stops.
func (s *server) wait(ctx context.Context, changed <-chan struct{}, timeout <-chan time.Time) (giveUp bool) {
	s.metrics.polling.Inc()
	defer s.metrics.polling.Dec()
	select {
	case <-changed:
		return false
	case <-timeout:
		return true
	case <-ctx.Done():
		return true
	}
}

// describe sets the headers of a response that succeeds (protocol.md §4.1), the entity tag and the content length apart.
func (s *server) describe(h http.Header, r *http.Request, req *request, t *target, status int, end shapelog.Offset, upToDate, hasData bool) {
	h["Electric-Handle"] = []string{string(t.Handle)}
	h["Electric-Offset"] = []string{end.String()}
	if req.live {
		h["Electric-Cursor"] = []string{cursor(req.cursor, s.opts.LongPollTimeout, time.Now())}
	} else if status == http.StatusOK {
		h["Electric-Schema"] = []string{t.schema}
	}
	if upToDate {
		h["Electric-Up-To-Date"] = present
	}
	h["Electric-Has-Data"] = falseText
	if hasData {
		h["Electric-Has-Data"] = trueText
	}
	s.cacheControl(h, r.Method, status, false, req)
	if !s.opts.NoCompression && !req.sse {
		h["Vary"] = varyEncoding
	}
}

// respond answers with the part that v found, which may be empty at the head of the log. conditional is whether the
// client may be told that it has the part already: not after a wait, since then the tag is new.
func (s *server) respond(w http.ResponseWriter, r *http.Request, req *request, t *target, v view, conditional bool) *failure {
	takes := s.accepted(r, req)
	tag := newTag(t.Handle, req, v.end)
	if c, ok := matches(r, tag, takes); ok && conditional {
		return s.notModified(w, r, req, t, v, quoted(tag, c))
	}
	key := bodyKey{handle: t.Handle, from: req.offset, end: v.end, upToDate: v.upToDate, coding: takes.best}
	var tail []byte
	if v.upToDate {
		key.seen = changes.LSN(v.end.Tx())
		if !req.live {
			key.seen = max(key.seen, v.seen)
		}
		tail = shapelog.AppendUpToDate(nil, key.seen)
	}
	head := func(c coding) {
		h := w.Header()
		s.describe(h, r, req, t, http.StatusOK, v.end, v.upToDate, true)
		h["Etag"] = []string{quoted(tag, c)}
		if c != identity {
			h["Content-Encoding"] = contentEncodings[c]
		}
	}
	if !v.hasData {
		head(identity)
		return sendArray(w, r, tail)
	}
	return s.sendPart(w, r, t.Log, key, v.closed, tail, head)
}

// sendPart sends the part that key names, with tail behind it. A closed chunk goes out compressed from memory or as it is
// from its file; the newest end of the log, if it is small, from memory, because everyone who follows the log wants it
// now; what is growing, or large and still open, as it is read.
func (s *server) sendPart(w http.ResponseWriter, r *http.Request, log storage.Log, key bodyKey, closed bool, tail []byte, head func(coding)) *failure {
	ctx := r.Context()
	var part storage.Body
	if !closed || key.coding != identity {
		largest := int64(smallBody)
		if closed {
			largest = s.bodies.largest()
		}
		shared, err := s.bodies.get(ctx, key, func() (b []byte, c coding, err error) {
			if part, err = log.Read(ctx, key.from, key.end); err != nil {
				return nil, identity, err
			}
			if size := part.Size(); size < 0 || size > largest {
				return nil, identity, errNotShared // part stays open, to be sent otherwise
			}
			defer func() { err, part = errors.Join(err, part.Close()), nil }()
			return s.whole(part, tail, key.coding)
		})
		switch {
		case err == nil:
			defer shared.release()
			head(shared.coding)
			return sendWhole(w, r, shared.bytes)
		case errors.Is(err, errNotShared):
		case errors.Is(err, context.Canceled) && ctx.Err() == nil:
			// Somebody else's request, which was to make the body for all, has ended.
		default:
			return s.unreadable(key.handle, err)
		}
	}
	if part == nil {
		var err error
		if part, err = log.Read(ctx, key.from, key.end); err != nil {
			return s.unreadable(key.handle, err)
		}
	}
	defer func() { _ = part.Close() }() // it was only read
	if size := part.Size(); 0 <= size && size <= smallBody {
		return sendSmall(w, r, part, tail, head)
	}
	s.stream(w, r, part, tail, key.coding, head)
	return nil
}

// notModified answers that the client, or the cache that asks for it, has the part that v found. tag is the part's entity
// tag with its quotes.
func (s *server) notModified(w http.ResponseWriter, r *http.Request, req *request, t *target, v view, tag string) *failure {
	h := w.Header()
	s.describe(h, r, req, t, http.StatusNotModified, v.end, v.upToDate, true)
	h["Etag"] = []string{tag}
	if !req.sse {
		// The protocol has a content type here (transcript 10), which net/http takes out under its usual spelling. For a
		// stream there is none: a cache would put it in place of text/event-stream.
		h["content-type"] = jsonContent
	}
	w.WriteHeader(http.StatusNotModified)
	return nil
}

// serveNow answers offset=now: nothing, and where to go on (protocol.md §6.7).
func (s *server) serveNow(w http.ResponseWriter, r *http.Request, req *request, t *target) *failure {
	seen := s.backend.LastSeen()
	st, _ := t.Log.State()
	if st.Err != nil {
		return s.unreadable(t.Handle, st.Err)
	}
	if s.backend.Leaving(t.Handle) {
		return s.awaitGone(r.Context(), t.Handle, &errMustRefetch)
	}
	return s.serveNothing(w, r, req, t, st.Last, seen)
}

// serveIdle answers a live request for which nothing came.
func (s *server) serveIdle(w http.ResponseWriter, r *http.Request, req *request, t *target, v view) *failure {
	if ctx := r.Context(); ctx.Err() == nil && s.backend.Health() == HealthStarting {
		// Nothing could have come: that must not look like "nothing has changed".
		now, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		if err := s.backend.Ready(now); err != nil {
			return notReady(err, errStackDown)
		}
		return &errStackDown // it was ready once, and lost the database
	}
	return s.serveNothing(w, r, req, t, v.end, v.seen)
}

// serveNothing answers with an up-to-date alone. Its tag matches no other, since the same question may be answered
// otherwise the next moment.
func (s *server) serveNothing(w http.ResponseWriter, r *http.Request, req *request, t *target, end shapelog.Offset, seen changes.LSN) *failure {
	h := w.Header()
	s.describe(h, r, req, t, http.StatusOK, end, true, false)
	tag := append(newTag(t.Handle, req, end), ':')
	h["Etag"] = []string{quoted(strconv.AppendInt(tag, s.clock.next(), 10), identity)}
	return sendArray(w, r, shapelog.AppendUpToDate(nil, max(seen, changes.LSN(end.Tx()))))
}
