// Package migrations makes the schema shapeserver, in which status keeps the catalogue of shapes.
//
// It owns the SQL files and how they are applied. It leaves what stands in the tables to status.
//
// The files are golang-migrate's, and the stock CLI applies them as well as Up does; either may follow the other:
//
//	migrate -path migrations -database 'postgres://user:pass@host:5432/db?x-migrations-table=shapeserver_schema_migrations' up
//	migrate -path migrations -database 'postgres://user:pass@host:5432/db?x-migrations-table=shapeserver_schema_migrations' down -all
//
// (with pgx5:// where the command was built with that driver only). The parameter keeps our version apart from that
// of the application, which may use golang-migrate itself. Going all the way down removes the schema and everything in
// it, so that every shape starts over; the CLI leaves its empty version table behind, Down removes that too.
//
// What version the schema has is written in the comment on the schema, by the migrations themselves, and everybody may
// read it. So a server whose role may not create anything starts on a schema that its administrator made, a version
// table in another place or under another name does no harm, and the look at start is one query.
//
// Rules for a new migration: it can run again without harm (IF NOT EXISTS), it is one implicit transaction (no BEGIN),
// its last statement sets the comment to its number, and its down file undoes all of it, the comment too. A test
// checks them.
//
// Goroutines: none of its own. Invariants: of servers that start together one migrates and the others wait, under
// golang-migrate's own advisory lock; a migration that was killed in the middle is done again at the next start.
//
// Start reading at Up.
package migrations
