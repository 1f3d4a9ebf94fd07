// Package integration tests the whole server: the real binary, as a process of its own, against a real PostgreSQL and
// the real npm packages (js, in Node and in Chromium), over HTTP.
//
// It owns Fold, a client that follows a shape and notices every breach of the protocol; the process harness; and the
// runner for the transcripts of testdata; the tests of reported faults, by entry (faults_test.go); the oracle soak. Databases come from internal/pgtest. It leaves the parts to their packages'
// tests.
//
// The binary is built once for a test run (with -race when the tests are); SHAPESERVER_TEST_BINARY names another to
// test instead. SHAPESERVER_SOAK_DURATION and SHAPESERVER_SOAK_SEED are of the oracle soak (TestSoak, `make soak`);
// SHAPESERVER_TEST_FAULTS=slow adds the faults that need a cluster of their own (`make test/faults`).
//
// Goroutines: those of its tests. Invariants tested here: I1, I2, I3, I4, I5 across restarts and SIGKILL. Start reading at
// startServer, then Fold.
package integration
