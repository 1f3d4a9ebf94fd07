package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shapeserver/shapeserver/cleaner"
)

// countRemovals registers what is counted from the start on.
func (s *Server) countRemovals() {
	s.found = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "shapeserver", Name: "reconciled_total",
		Help: "Records of shapes that nobody owned any more, by kind, found by comparing them and removed.",
	}, []string{"kind"})
	s.removed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "shapeserver", Name: "shapes_removed_total", Help: "Shapes removed, by reason.",
	}, []string{"reason"})
	s.opts.Registry.MustRegister(s.found, s.removed)
	s.countFindings(cleaner.Findings{}) // so that each kind is there from the beginning
}

func (s *Server) countFindings(f cleaner.Findings) {
	for kind, n := range map[string]int{
		"status_row": f.StatusRows, "route": f.Routes, "publication_hold": f.Publications, "log": f.Logs, "dead_consumer": f.Consumers,
	} {
		s.found.WithLabelValues(kind).Add(float64(n))
	}
}

// registerMetrics registers what the server as a whole can tell. The packages register their own.
func (s *Server) registerMetrics() {
	gauge := func(name, help string, value func(*core) float64) {
		s.opts.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "shapeserver", Name: name, Help: help}, func() float64 {
			c := s.core.Load()
			if c == nil {
				return 0
			}
			return value(c)
		}))
	}
	gauge("shapes", "Shapes that can be served.", func(c *core) float64 { return float64(c.cache.Len()) })
	gauge("shapes_awake", "Shapes with a running consumer.", func(c *core) float64 { return float64(c.cache.Awake()) })
	gauge("records_routes", "Shapes that the stream is routed to. As many as shapes, unless some are being made or removed.", func(c *core) float64 { return float64(len(c.collector.Handles())) })
	gauge("records_publication_holds", "Shapes that hold a table in the publication.", func(c *core) float64 { return float64(len(c.publication.Handles())) })
	gauge("records_logs", "Logs in the storage folder.", func(*core) float64 { return float64(len(s.store.Handles())) })
	gauge("storage_full", "1 while the disk has no room for new shapes.", func(*core) float64 {
		if s.store.Full() {
			return 1
		}
		return 0
	})
	gauge("shapes_removing", "Shapes being removed.", func(c *core) float64 { return float64(c.cleaner.Pending()) })
	gauge("transactions_waiting", "Transactions received and not yet applied by every affected shape.", func(c *core) float64 { return float64(c.collector.Waiting()) })
	counter := func(name, help string, value func() float64) {
		s.opts.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "shapeserver", Subsystem: "replication", Name: name, Help: help}, value))
	}
	counter("connections_total", "Replication connections that streamed.", func() float64 { return float64(s.stream.Stats().Connections) })
	counter("transactions_total", "Transactions received.", func() float64 { return float64(s.stream.Stats().Transactions) })
	counter("changes_total", "Row changes received, of all published tables.", func() float64 { return float64(s.stream.Stats().Changes) })
	counter("bytes_total", "Bytes of replication messages received.", func() float64 { return float64(s.stream.Stats().Bytes) })
}
