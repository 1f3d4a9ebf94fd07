package migrations

import (
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/internal/sqltext"
)

// explain names the GRANT for an error about missing rights; other errors stay as they are.
func explain(err error, role, db string) error {
	var wrapped database.Error
	if errors.As(err, &wrapped) && wrapped.OrigErr != nil {
		err = errors.Join(err, wrapped.OrigErr) // it does not unwrap by itself
	}
	var pointer *database.Error
	if errors.As(err, &pointer) && pointer.OrigErr != nil {
		err = errors.Join(err, pointer.OrigErr)
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		return err
	}
	return fmt.Errorf("%w: %s. Run: GRANT CREATE ON DATABASE %s TO %s (or, to keep that right: CREATE SCHEMA %s AUTHORIZATION %s): %w",
		ErrPrivilege, pgErr.Message, sqltext.Ident(db), sqltext.Ident(role), Schema, sqltext.Ident(role), pgErr)
}

// errUse is for a schema that somebody else made and that the role may not use.
func errUse(role string) error {
	role = sqltext.Ident(role)
	return fmt.Errorf("%w: the schema is there, but not for this role. Run: GRANT USAGE ON SCHEMA %s TO %s; "+
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %s", ErrPrivilege, Schema, role, Schema, role)
}
