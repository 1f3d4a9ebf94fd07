package replication

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shapeserver/shapeserver/internal/sqltext"
)

const publishAll = "publish = 'insert, update, delete, truncate'"

// ensurePublication makes the publication, without tables, if there is none, and checks that it publishes every kind of
// change. Its tables are the business of package publication.
func (s *Stream) ensurePublication(ctx context.Context, db *pgconn.PgConn, srv server) (oid uint32, created bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	name := sqltext.Ident(s.cfg.Publication)
	oid, complete, err := s.findPublication(ctx, db)
	if err != nil {
		return 0, false, err
	}
	if oid == 0 {
		create := fmt.Sprintf("CREATE PUBLICATION %s WITH (%s)", name, publishAll)
		missing := &ConfigError{
			Problem: fmt.Sprintf("publication %s does not exist", name),
			Fix: fmt.Sprintf("in database %[1]s run: %[2]s; or, so that the server can do it: GRANT CREATE ON DATABASE %[1]s TO %[3]s;",
				sqltext.Ident(srv.database), create, sqltext.Ident(s.cfg.ConnConfig.User)),
		}
		if s.cfg.ManualPublication {
			return 0, false, missing
		}
		switch _, err = query(ctx, db, create); sqlState(err) {
		case "":
			if err != nil {
				return 0, false, fmt.Errorf("create publication: %w", err)
			}
			created = true
			s.log.InfoContext(ctx, "publication created", "publication", s.cfg.Publication)
		case codeDuplicateObject: // somebody was quicker
		case codeInsufficientPrivilege:
			missing.Err = err
			return 0, false, missing
		default:
			return 0, false, fmt.Errorf("create publication: %w", err)
		}
		if oid, complete, err = s.findPublication(ctx, db); err != nil {
			return 0, false, err
		}
		if oid == 0 {
			return 0, false, errors.New("create publication: it was dropped again at once")
		}
	}
	// Otherwise package publication makes it complete, and ends the shapes that missed something.
	if !complete && s.cfg.ManualPublication {
		return 0, false, &ConfigError{
			Problem: fmt.Sprintf("publication %s does not publish all of insert, update, delete and truncate", name),
			Fix:     fmt.Sprintf("as its owner run: ALTER PUBLICATION %s SET (%s);", name, publishAll),
		}
	}
	return oid, created, nil
}

// findPublication returns the publication's OID, zero when there is none, and whether it publishes all four.
func (s *Stream) findPublication(ctx context.Context, db *pgconn.PgConn) (oid uint32, complete bool, err error) {
	rows, err := query(ctx, db, `SELECT oid, pubinsert AND pubupdate AND pubdelete AND pubtruncate
		FROM pg_catalog.pg_publication WHERE pubname = `+sqltext.Literal(s.cfg.Publication))
	if err != nil {
		return 0, false, fmt.Errorf("look up publication: %w", err)
	}
	if len(rows) == 0 {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(rows[0][0], 10, 32)
	if err != nil {
		return 0, false, fmt.Errorf("look up publication: %w", err)
	}
	return uint32(n), rows[0][1] == "t", nil
}
