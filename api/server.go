package api

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
)

// server holds what all requests share. It is immutable but for the counters and caches it points to.
type server struct {
	backend   Backend
	opts      Options
	secret    [sha256.Size]byte // of Options.Secret
	headers   fixedHeaders
	admission admission
	postRoom  postRoom
	known     *knownDefinitions
	bodies    *bodies
	encoders  *encoders
	metrics   *metrics
	clock     clock
	failures  *failureLog
}

// New returns the handler of the whole HTTP port: /, /openapi.json, /v1/health and /v1/shape in all its path forms;
// everything else is 404. The handler streams, waits and sets write deadlines itself, so its http.Server should have no
// WriteTimeout, but a ReadHeaderTimeout and an IdleTimeout. It expects request contexts to end when the server stops: live
// requests then end as at their timeout.
func New(backend Backend, opts Options) http.Handler { return newServer(backend, opts).routes() }

func newServer(backend Backend, opts Options) *server {
	opts = opts.withDefaults()
	m := newMetrics(opts.Registerer)
	return &server{
		backend:   backend,
		opts:      opts,
		secret:    sha256.Sum256([]byte(opts.Secret)),
		headers:   newFixedHeaders(opts),
		admission: newAdmission(opts.MaxInitial, opts.MaxExisting, m),
		postRoom:  newPostRoom(),
		known:     newKnownDefinitions(opts.KnownDefinitions),
		bodies:    newBodies(opts.BodyCacheBytes),
		encoders:  newEncoders(),
		metrics:   m,
		failures:  newFailureLog(),
	}
}

// routes returns the handler of the whole port.
func (s *server) routes() http.Handler { return s.outermost(s.router()) }

func (s *server) router() chi.Router {
	router := chi.NewRouter()
	router.Use(canonicalPath)
	router.NotFound(s.notFound)
	router.MethodNotAllowed(s.notFound)
	router.Get("/", s.root)
	router.Head("/", s.root)
	router.Get("/v1/health", s.health)
	router.Head("/v1/health", s.health)
	router.Get("/openapi.json", s.openapi)
	router.Head("/openapi.json", s.openapi)
	router.Options("/v1/shape", s.preflight)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		router.Method(method, "/v1/shape", s.failing(s.shape))
	}
	return router
}

// canonicalPath lets chi route on the decoded segments of the path, empty ones left out, so that /v1/shape/, //v1/shape
// and /v1/%73hape are one route and pass the same checks. "." and ".." are segments like any other, and an encoded
// slash does not part segments (protocol.md §1.1).
func canonicalPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.EscapedPath(); path != "/v1/shape" {
			var b strings.Builder
			for segment := range strings.SplitSeq(path, "/") {
				if segment == "" {
					continue
				}
				if plain, err := url.PathUnescape(segment); err == nil && !strings.Contains(plain, "/") {
					segment = plain
				}
				b.WriteByte('/')
				b.WriteString(segment)
			}
			chi.RouteContext(r.Context()).RoutePath = cmp.Or(b.String(), "/")
		}
		next.ServeHTTP(w, r)
	})
}

// outermost sets the headers of every response, bounds writes, and turns a panic into a 500, or into a cut connection
// once the response has begun.
func (s *server) outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		began := time.Now()
		w := newResponseWriter(inner, s.opts.WriteTimeout)
		h := w.Header()
		id := requestID(r)
		h["X-Request-Id"] = []string{id}
		h["Electric-Server"] = s.headers.server
		h["Cache-Control"] = s.headers.defaultCache
		if len(r.TransferEncoding) > 0 {
			// net/http has dropped a Content-Length beside it; nobody in front of us may take what follows for another
			// request (RFC 9112 §6.1).
			h["Connection"] = []string{"close"}
		}
		defer func() { //nolint:contextcheck // the request carries its context
			cause := recover()
			if cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // the value itself is what net/http compares
				s.opts.Logger.ErrorContext(r.Context(), "panic while serving a request", "request_id", id,
					"path", r.URL.Path, "cause", cause, "stack", string(debug.Stack()))
				if w.status == 0 {
					s.fail(w, r, errInternal)
					cause = nil
				} else {
					cause = http.ErrAbortHandler
				}
			}
			s.finished(w, r, id, time.Since(began), cause != nil)
			if cause != nil {
				panic(cause)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// requestID takes over the client's id when it has a sensible length (protocol.md §1.2), else makes one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); len(id) >= 20 && len(id) <= 200 {
		return id
	}
	return rand.Text()
}

// authorized reports whether the query carries the secret. The comparison takes the same time for any wrong secret of
// any length.
func (s *server) authorized(q *params) bool {
	if s.opts.Secret == "" {
		return true
	}
	given := q.secret
	if !given.set {
		given = q.apiSecret
	}
	sum := sha256.Sum256([]byte(given.value))
	return given.set && !given.bad && subtle.ConstantTimeCompare(sum[:], s.secret[:]) == 1
}

func (s *server) notFound(w http.ResponseWriter, r *http.Request) {
	s.allowOrigin(w.Header(), s.headers.otherMethods)
	w.Header()["Content-Type"] = nil // the protocol has none here, and net/http would guess one
	w.WriteHeader(http.StatusNotFound)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte("Not found"))
	}
}

func (s *server) root(w http.ResponseWriter, _ *http.Request) {
	s.allowOrigin(w.Header(), s.headers.otherMethods)
	w.WriteHeader(http.StatusOK)
}

// health never fails while the process lives (protocol.md §14.1).
func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	s.allowOrigin(h, s.headers.otherMethods)
	h["Content-Type"] = jsonContent
	h["Cache-Control"] = []string{"no-cache, no-store, must-revalidate"}
	state := s.backend.Health()
	status := http.StatusAccepted
	if state == HealthActive {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	body := `{"status":"` + string(state) + `"`
	if s.backend.StorageFull() {
		body += `,"storage":"full"` // not the status: what is there is served on
	}
	_, _ = w.Write([]byte(body + "}"))
}

// preflight answers OPTIONS (protocol.md §1.4). Any list of headers is allowed: a request without credentials gains
// nothing by a header, and POST with a JSON body needs content-type.
func (s *server) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	s.allowOrigin(h, s.headers.shapeMethods)
	if origin := r.Header.Get("Origin"); origin != "" {
		h["Access-Control-Allow-Origin"] = []string{origin}
		h["Vary"] = []string{"Origin, Access-Control-Request-Headers"}
	}
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h["Access-Control-Allow-Headers"] = []string{asked}
	}
	h["Access-Control-Max-Age"] = []string{"86400"}
	h["Connection"] = []string{"keep-alive"}
	delete(h, "Cache-Control")
	w.WriteHeader(http.StatusNoContent)
}
