// Package cluster starts and stops PostgreSQL servers for tests: a container where a Docker engine answers, else a
// local cluster made from the binaries of this machine.
//
// It owns the server's data (a temporary folder, or the container) until Close. It leaves databases to pgtest and
// outliving the test process to cmd/pgserver, the only program that links it.
//
// Goroutines: none of its own. Invariants: a port is fixed for the life of a cluster, so a URL stays true across Stop,
// Kill and Start; after Close nothing is left, and what a killed owner left is removed by the next Start.
// Start reading at Start.
package cluster
