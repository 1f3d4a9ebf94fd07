package api

import (
	"math/big"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
)

// fixedHeaders are header values that do not depend on the request. They are shared by all responses and must not be
// changed.
type fixedHeaders struct {
	server       []string
	defaultCache []string
	shapeMethods []string
	otherMethods []string
	cacheLive    []string
	cacheSSE     []string
	cacheRest    []string
}

var (
	jsonContent  = []string{"application/json; charset=utf-8"}
	eventContent = []string{"text/event-stream"}
	anyOrigin    = []string{"*"}
	exposed      = []string{"electric-cursor,electric-handle,electric-has-data,electric-offset,electric-schema," +
		"electric-up-to-date,electric-internal-known-error,retry-after"}

	noStore     = []string{"no-store"}
	noCache     = []string{"no-cache"}
	cacheFirst  = []string{"public, max-age=604800, s-maxage=3600, stale-while-revalidate=2629746"}
	cacheMoved  = []string{"public, max-age=60, must-revalidate"}
	cacheNoMove = []string{"public, max-age=1, must-revalidate"}

	varyEncoding     = []string{"accept-encoding"}
	contentEncodings = [codings][]string{gzipped: {names[gzipped]}, zstandard: {names[zstandard]}}

	present   = []string{""}
	trueText  = []string{"true"}
	falseText = []string{"false"}
)

func newFixedHeaders(o Options) fixedHeaders {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
	return fixedHeaders{
		server:       []string{"shapeserver/" + o.Version},
		defaultCache: []string{"max-age=0, private, must-revalidate"},
		shapeMethods: []string{"GET, POST, HEAD, DELETE, OPTIONS"},
		otherMethods: []string{"GET, HEAD"},
		cacheLive:    []string{"public, max-age=5, stale-while-revalidate=5"},
		cacheSSE:     []string{"public, max-age=" + seconds(max(time.Second, o.SSETimeout-time.Second))},
		cacheRest:    []string{"public, max-age=" + seconds(o.CacheMaxAge) + ", stale-while-revalidate=" + seconds(o.CacheStaleAge)},
	}
}

// allowOrigin sets the headers that let a browser read a response (protocol.md §1.4). Every origin gets "*", not its own
// name: a shared cache would hand the name of the first reader's origin to all others, and requests carry no
// credentials, so that "*" is as good.
func (s *server) allowOrigin(h http.Header, methods []string) {
	h["Access-Control-Allow-Origin"] = anyOrigin
	h["Access-Control-Expose-Headers"] = exposed
	h["Access-Control-Allow-Methods"] = methods
}

// cacheControl sets the cache headers of a response by the table of protocol.md §4.3, whose first matching row counts.
// moved tells of a 409 whether it names a new handle; req may be nil when status is 400 or more.
func (s *server) cacheControl(h http.Header, method string, status int, moved bool, req *request) {
	readOnly := method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
	value := s.headers.cacheRest
	switch {
	case !readOnly:
		value = noCache
	case status == http.StatusConflict && moved:
		value = cacheMoved
	case status == http.StatusConflict:
		value = cacheNoMove
	case status >= http.StatusBadRequest:
		value = noStore
		h["Surrogate-Control"] = noStore
	case req.first():
		value = cacheFirst
	case req.live && req.sse:
		value = s.headers.cacheSSE
	case req.live:
		value = s.headers.cacheLive
	}
	h["Cache-Control"] = value
}

// clock makes the suffixes of entity tags that must match nothing.
type clock struct{ last atomic.Int64 }

func (c *clock) next() int64 {
	for {
		last := c.last.Load()
		now := max(last+1, time.Now().UnixNano())
		if c.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// newTag returns an entity tag without its quotes: handle, requested offset, end of the response (protocol.md §4.2).
func newTag(h shape.Handle, req *request, end shapelog.Offset) []byte {
	dst := make([]byte, 0, 96)
	dst = append(dst, h...)
	dst = append(dst, ':')
	dst = req.appendOffset(dst)
	dst = append(dst, ':')
	return end.Append(dst)
}

// quoted is an entity tag as it goes into a header. Each coding of a body has a tag of its own: a cache must not take bytes
// of one for those of another (RFC 9110 §8.8.3).
func quoted(tag []byte, c coding) string { return `"` + string(tag) + tagSuffixes[c] + `"` }

var tagSuffixes = [codings]string{gzipped: "-gzip", zstandard: "-zstd"}

// matches reports whether an If-None-Match header names the tag, in a coding that the client takes, and in which. Weak tags
// (W/) are not understood.
func matches(r *http.Request, tag []byte, takes accepted) (coding, bool) {
	for _, line := range r.Header["If-None-Match"] {
		for one := range strings.SplitSeq(line, ",") {
			rest, ok := strings.CutPrefix(strings.Trim(strings.TrimSpace(one), `"`), string(tag))
			if !ok {
				continue
			}
			for c, suffix := range tagSuffixes {
				if takes.takes[c] && rest == suffix {
					return coding(c), true //nolint:gosec // an index of the array
				}
			}
		}
	}
	return identity, false
}

// cursorEpoch is where cursors count from (protocol.md §4.4).
var cursorEpoch = time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)

// maxCursorDigits bounds the cursors that are taken for numbers.
const maxCursorDigits = 100

// cursor returns the electric-cursor of a live response: the end of the current interval or, when the client is there
// already, some number above its own. It is always more than the client's, or caches would replay a stale answer to a
// client that loops (B150).
func cursor(sent string, interval time.Duration, now time.Time) string {
	step := int64(interval / time.Second)
	if step == 0 {
		return "0"
	}
	seconds := int64(now.Sub(cursorEpoch) / time.Second)
	next := (seconds + step - 1) / step * step
	if !isDigits(sent) || len(sent) > maxCursorDigits {
		return strconv.FormatInt(next, 10) // also for negative numbers, which are below
	}
	jump := 1 + rand.Int64N(3600) //nolint:gosec // spreads clients, guards nothing
	if len(sent) <= 18 {          // fits with room to spare
		if n, err := strconv.ParseInt(sent, 10, 64); err == nil {
			if n < next {
				return strconv.FormatInt(next, 10)
			}
			return strconv.FormatInt(n+jump, 10)
		}
	}
	n, _ := new(big.Int).SetString(sent, 10) // digits only, so it is a number
	if n.Cmp(big.NewInt(next)) < 0 {
		return strconv.FormatInt(next, 10)
	}
	return n.Add(n, big.NewInt(jump)).String()
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
