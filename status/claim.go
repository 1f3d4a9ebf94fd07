package status

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// History is what the logs of shapes belong to: a cluster, and one line of its life (IDENTIFY_SYSTEM).
type History struct {
	SystemID string
	Timeline int32
}

// Claim is the ownership of a stream.
type Claim struct {
	StreamID string
	Owner    string
	Epoch    int64 // counts from 1
}

// Take makes owner the owner of the stream and counts its epoch up, which ends every earlier ownership. continues is asked
// whether shapes of an earlier history can go on in this one, and says why not in its error; then their rows are deleted
// in the same transaction, so that no crash can bring them back (I5), and the error is returned as lost. On the first start
// on a database, continues is not asked.
func Take(ctx context.Context, pool *pgxpool.Pool, streamID, owner string, now History, continues func(was History) error) (claim Claim, lost, err error) {
	claim = Claim{StreamID: streamID, Owner: owner}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var was History
		err := tx.QueryRow(ctx, `SELECT system_identifier, timeline FROM shapeserver.streams WHERE stream_id = $1 FOR UPDATE`, streamID).
			Scan(&was.SystemID, &was.Timeline)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			lost = errors.New("this is the first start on this database")
		case err != nil:
			return fmt.Errorf("read the stream's owner: %w", err)
		default:
			lost = continues(was)
		}
		err = tx.QueryRow(ctx, `INSERT INTO shapeserver.streams AS s (stream_id, epoch, owner, system_identifier, timeline)
			VALUES ($1, 1, $2, $3, $4)
			ON CONFLICT (stream_id) DO UPDATE SET epoch = s.epoch + 1, owner = excluded.owner, claimed_at = now(),
				system_identifier = excluded.system_identifier, timeline = excluded.timeline
			RETURNING epoch`, streamID, owner, now.SystemID, now.Timeline).Scan(&claim.Epoch)
		if err != nil {
			return fmt.Errorf("count the stream's epoch up: %w", err)
		}
		if lost == nil {
			return nil
		}
		if _, err := tx.Exec(ctx, `DELETE FROM shapeserver.shapes WHERE stream_id = $1`, streamID); err != nil {
			return fmt.Errorf("delete the rows of an earlier history: %w", err)
		}
		return nil
	})
	if err != nil {
		return Claim{}, nil, err
	}
	return claim, lost, nil
}
