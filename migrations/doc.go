// Package migrations makes and unmakes what the server keeps in Postgres: the schema "shapeserver".
//
// It owns the migration files, which are embedded, and running them; the meaning of the tables is status's. The files are
// golang-migrate's, and the stock command takes them as well as we do: both note the version in the same table,
// shapeserver_schema_migrations in the connection's default schema, whose name cannot collide with an application that
// uses golang-migrate itself. Either may follow the other:
//
//	migrate -path migrations -database 'pgx5://user:pass@host:5432/db?x-migrations-table=shapeserver_schema_migrations' up
//	migrate -path migrations -database 'pgx5://user:pass@host:5432/db?x-migrations-table=shapeserver_schema_migrations' down
//
// (with postgres:// instead of pgx5:// where the command was built with that driver). Going all the way down removes the
// schema and everything in it, so that every shape starts over.
//
// It has no goroutine. Invariant: a run is guarded by golang-migrate's advisory lock, so any number of servers may start at
// once. Start reading at Up.
package migrations
