package api

import (
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the HTTP front's series. No label holds anything that a client chose.
type metrics struct {
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
	permits  *prometheus.GaugeVec
	rejected *prometheus.CounterVec
	subsets  *prometheus.CounterVec

	polling, streaming prometheus.Gauge // live requests: waiting long-polls, open event streams
}

func newMetrics(r prometheus.Registerer) *metrics {
	auto := promauto.With(r)
	live := auto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "shapeserver_http_live_requests", Help: "Live requests open now: long-polls that wait, and event streams.",
	}, []string{"kind"})
	return &metrics{
		polling:   live.WithLabelValues("long_poll"),
		streaming: live.WithLabelValues("sse"),
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "shapeserver_http_requests_total", Help: "Requests answered, by method and status.",
		}, []string{"method", "status"}),
		bytes: auto.NewCounter(prometheus.CounterOpts{
			Name: "shapeserver_http_response_bytes_total", Help: "Bytes of response bodies sent.",
		}),
		permits: auto.NewGaugeVec(prometheus.GaugeOpts{
			Name: "shapeserver_http_admission_permits", Help: "Requests being served now, by kind of permit.",
		}, []string{"kind"}),
		rejected: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "shapeserver_http_admission_rejected_total", Help: "Requests turned away by admission control.",
		}, []string{"kind"}),
		subsets: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "shapeserver_http_subsets_total",
			Help: "Subset queries, by result: complete, refused (the client's clause), aborted (the client went away), failed.",
		}, []string{"result"}),
	}
}

// finished counts a request and writes the access log.
func (s *server) finished(w *responseWriter, r *http.Request, id string, took time.Duration, aborted bool) {
	s.metrics.requests.WithLabelValues(methodLabel(r.Method), strconv.Itoa(w.status)).Inc()
	s.metrics.bytes.Add(float64(w.bytes))
	if ctx := r.Context(); s.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		s.opts.Logger.DebugContext(ctx, "request", "request_id", id, "method", r.Method, "path", r.URL.Path,
			"query", redact(r.URL.RawQuery), "status", w.status, "bytes", w.bytes, "took", took, "aborted", aborted,
			"remote", r.RemoteAddr)
	}
}

// methodLabel keeps made-up methods out of the label.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}

// secrets are the parameters whose values stay out of logs (protocol.md §1.3).
var secrets = map[string]bool{
	"secret": true, "api_secret": true, "token": true, "access_token": true, "api_key": true, "password": true,
}

// redact returns a raw query without the values of secrets.
func redact(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		key, _, ok := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		if ok && (err != nil || secrets[strings.ToLower(strings.TrimSpace(name))]) {
			pairs[i] = key + "=[redacted]"
		}
	}
	return strings.Join(pairs, "&")
}
