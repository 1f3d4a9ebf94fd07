package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/shapeserver/shapeserver/config"
	"github.com/shapeserver/shapeserver/migrations"
)

const migrateHelp = `shapeserver migrate up|down|version [--database-url URL]

  up        make the schema that the server keeps in the database, or bring it up to date; serve does so by itself
  down      remove it, and with it the list of shapes; stop the server first
  version   print the version of the schema in the database
`

// migrator is what the migrate command needs of package migrations.
type migrator struct {
	up, down func(ctx context.Context, url string, logger *slog.Logger) error
	// version returns 0 for a database without the schema; dirty if a migration failed half-way.
	version func(ctx context.Context, url string) (version uint, dirty bool, err error)
}

var realMigrator = migrator{up: migrations.Up, down: migrations.Down, version: migrations.Version}

func (p program) migrate(ctx context.Context, args []string) error {
	cfg, words, done, err := p.load(config.Migrate, args, migrateHelp)
	if done {
		return err
	}
	// The words first: who mistypes one wants to hear of that, not of DATABASE_URL.
	if len(words) != 1 || !slices.Contains([]string{"up", "down", "version"}, words[0]) {
		return fmt.Errorf("migrate takes one of up, down, version; it got %q", strings.Join(words, " "))
	}
	if err != nil {
		return err
	}
	log := p.logger(ctx, cfg)
	database := cfg.DatabaseURL.ConnString()
	switch words[0] {
	case "up":
		err = p.migrator.up(ctx, database, log)
	case "down":
		err = p.migrator.down(ctx, database, log)
	}
	if err != nil {
		return fmt.Errorf("migrate %s: %w", words[0], err)
	}
	version, dirty, err := p.migrator.version(ctx, database)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	state := fmt.Sprintf("version %d", version)
	switch {
	case dirty:
		state += ", whose migration did not finish: shapeserver migrate up says what to do"
	case version == 0:
		state = "no schema"
	}
	_, err = fmt.Fprintln(p.stdout, state)
	return err
}
