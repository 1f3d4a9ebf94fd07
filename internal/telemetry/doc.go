// Package telemetry makes what the packages log to and count in: a logger and a Prometheus registry.
//
// It owns the choice of the log's form, and the collectors of the Go runtime and the process. It leaves the metrics
// themselves to the packages they measure, each of which takes a prometheus.Registerer, and the listener to server.
//
// It owns no goroutine and no global: two servers in one process count apart.
//
// Invariants: a metric of ours is named shapeserver_<package>_<what>_<unit>, and no handle and no where clause is a
// label, as their number has no bound. Start reading at NewLogger and NewRegistry.
package telemetry
