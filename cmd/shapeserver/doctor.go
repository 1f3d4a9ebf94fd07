package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shapeserver/shapeserver/config"
	"github.com/shapeserver/shapeserver/doctor"
	"github.com/shapeserver/shapeserver/storage/logstore"
)

const doctorHelp = `shapeserver doctor [--fix] [--database-url URL] [--storage-dir DIR] [--replication-stream-id ID]

Prints what is recorded of every shape side by side (the row in Postgres, the log in the storage directory, the publication)
and what disagrees. Exit code 0: nothing does, or --fix has repaired all of it; 1: something does.

  --fix     repair it: remove what no shape owns, and shapes that cannot be served; their clients fetch anew. Refused while a
            server runs, which repairs its records by itself.
`

// doctor examines the records of all shapes.
func (p program) doctor(ctx context.Context, args []string) (err error) {
	fix := slices.Contains(args, "--fix")
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--fix" })
	cfg, words, done, err := p.load(config.Migrate, args, doctorHelp)
	if err != nil || done {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, cfg.DatabaseURL.ConnString())
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // best effort: everything is done
	opts := doctor.Options{StreamID: cfg.StreamID, Publication: cfg.PublicationName(), Slot: cfg.SlotName(), Manual: cfg.ManualTablePublishing}
	if !logstore.Exists(cfg.StorageDir) {
		// Every shape would look as if its log were gone. A directory that is really lost is the next start's to deal with.
		return fmt.Errorf("the storage directory %s (SHAPESERVER_STORAGE_DIR) holds no logs: name the directory of the server whose shapes these are", cfg.StorageDir)
	}
	store, err := logstore.Open(cfg.StorageDir, logstore.Options{ChunkBytes: cfg.ChunkBytes, Logger: p.logger(ctx, cfg)})
	switch {
	case err == nil:
		opts.Store = store
		defer func() { err = errors.Join(err, store.Close()) }()
	case !errors.Is(err, logstore.ErrInUse):
		return fmt.Errorf("open the storage directory %s (SHAPESERVER_STORAGE_DIR): %w", cfg.StorageDir, err)
	case fix:
		return doctor.ErrServed
	}
	report, err := doctor.Examine(ctx, conn, opts)
	if err != nil {
		return err
	}
	if err := report.Print(p.stdout); err != nil {
		return err
	}
	switch {
	case len(report.Problems) == 0:
		return nil
	case !fix:
		return errors.New("records disagree: stop the server, then shapeserver doctor --fix repairs them")
	}
	if err := report.Fix(ctx, conn); err != nil {
		return err
	}
	if left := report.Left(); left > 0 {
		return fmt.Errorf("%d of %d problems are left to the next start of the server, the others are repaired", left, len(report.Problems))
	}
	say(p.stdout, "repaired\n")
	return nil
}
