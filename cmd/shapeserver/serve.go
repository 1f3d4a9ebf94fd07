package main

import (
	"context"
	"log/slog"

	"github.com/shapeserver/shapeserver/config"
	"github.com/shapeserver/shapeserver/internal/telemetry"
	"github.com/shapeserver/shapeserver/server"
)

// serve runs the server until ctx ends.
func (p program) serve(ctx context.Context, args []string) error {
	cfg, words, done, err := p.load(config.Serve, args, config.Help())
	if err != nil || done {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	log := p.logger(ctx, cfg)
	srv, err := p.openWith(ctx, cfg, log)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "listening", "address", srv.Addr(), "version", buildVersion(), "config", cfg)
	if cfg.Insecure {
		log.WarnContext(ctx, "answering anyone who can reach the port: SHAPESERVER_INSECURE is set")
	}
	if err := srv.Run(ctx); err != nil {
		return err
	}
	log.InfoContext(ctx, "stopped")
	return nil
}

// logger makes the logger, and logs the remarks about the settings.
func (p program) logger(ctx context.Context, cfg config.Config) *slog.Logger {
	log := telemetry.NewLogger(p.stderr, cfg.LogLevel, cfg.LogFormat)
	if cfg.InstanceID != "" {
		log = log.With("instance_id", cfg.InstanceID)
	}
	for _, note := range cfg.Notes {
		log.InfoContext(ctx, "about a setting", "note", note)
	}
	return log
}

func (p program) openWith(ctx context.Context, cfg config.Config, log *slog.Logger) (running, error) {
	return p.open(ctx, cfg, server.Options{Version: buildVersion(), Logger: log, Registry: telemetry.NewRegistry(buildVersion())})
}
