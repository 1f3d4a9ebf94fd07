// Package pgtest gives each test a PostgreSQL database of its own.
//
//	db := pgtest.New(t)                     // a fresh database on a server shared by the whole process
//	db.Exec(t, "CREATE TABLE items (…)")
//	pool := db.Pool(t)
//	srv := pgtest.NewServer(t, pgtest.ServerOptions{})   // a server of the test's own, to stop and kill
//
// The shared server is the one that SHAPESERVER_TEST_DATABASE_URL names (make test sets it); else the package starts
// cmd/pgserver, which starts a container where a Docker engine answers, else a local cluster. SHAPESERVER_TEST_POSTGRES
// (auto, container, local) and SHAPESERVER_TEST_POSTGRES_IMAGE (postgres:17-alpine) choose. Which was used is printed
// once.
//
// It owns the databases it makes, with their slots, prepared transactions and sessions, and removes them when their
// test ends. It leaves the server's life to cmd/pgserver and cluster, so that nothing stays when a test is killed.
//
// Goroutines: none, so it disturbs no leak check. Invariants: two tests never share a database; databases have
// encoding UTF8 and, where the server knows it, locale C.UTF-8. Start reading at New.
package pgtest
