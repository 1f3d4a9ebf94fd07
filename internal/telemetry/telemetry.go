package telemetry

import (
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Prefix begins the names of the server's own metrics.
const Prefix = "shapeserver_"

// NewLogger returns a logger that writes a line for each record of level or above to w: JSON if format is "json",
// else key=value text. Each line is one Write.
func NewLogger(w io.Writer, level slog.Level, format string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// NewRegistry returns a registry with the metrics of the Go runtime (go_) and of the process (process_), and
// shapeserver_build_info, which is 1 and carries the version.
func NewRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: Prefix + "build_info", Help: "1, labelled with the version of the program.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	return r
}

// Handler returns what serves a registry: GET /metrics, and 404 "Not found" for everything else (protocol.md §14.2).
func Handler(g prometheus.Gatherer) http.Handler {
	// A collector that fails must not take the others' figures with it.
	metrics := promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "Not found") //nolint:errcheck // the client is gone
			return
		}
		metrics.ServeHTTP(w, r)
	})
}
