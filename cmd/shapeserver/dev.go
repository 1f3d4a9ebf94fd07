package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/shapeserver/shapeserver/config"
	"github.com/shapeserver/shapeserver/devserver"
)

const devHelp = `shapeserver dev [--data DIR] [--no-writer] [--port 3000] [--setting value ...]

Starts a Postgres of its own with a demo table in DIR (.dev by default), serves it on 127.0.0.1, and prints what to
try. Ctrl-C stops both; the data stays, and the next start takes it up again. Removing DIR removes all of it.

With DATABASE_URL set that database is served instead, and nothing is made in it but what the server itself needs.

  --data DIR    the folder of Postgres's data and of the shapes
  --no-writer   do not change the demo table in the background

All other settings: shapeserver help config.
`

// devFlags takes dev's own flags out of args.
func devFlags(args []string) (data string, writer bool, rest []string, err error) {
	data, writer = ".dev", true
	for i := 0; i < len(args); i++ {
		flag, value, has := strings.Cut(args[i], "=")
		switch strings.TrimPrefix(strings.TrimPrefix(flag, "-"), "-") {
		case "data":
			if !has && i+1 < len(args) {
				i++
				value = args[i]
			}
			if value == "" {
				return "", false, nil, fmt.Errorf("%s needs a folder", flag)
			}
			data = value
		case "no-writer":
			if has {
				return "", false, nil, fmt.Errorf("%s takes no value", flag)
			}
			writer = false
		default:
			rest = append(rest, args[i])
		}
	}
	return data, writer, rest, nil
}

// dev runs the server on a private Postgres, or on the database that is set, until ctx ends.
func (p program) dev(ctx context.Context, args []string) (err error) {
	data, writer, args, err := devFlags(args)
	if err != nil {
		return err
	}
	cfg, words, done, err := p.load(config.Dev, args, devHelp)
	if err != nil || done {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	if !cfg.Given("SHAPESERVER_LOG_LEVEL") {
		cfg.LogLevel = slog.LevelWarn // the screen is for what to try
	}
	// Before Postgres is started: the likeliest mistake shall cost no wait.
	if err := checkPort(ctx, cfg); err != nil {
		return err
	}
	log := p.logger(ctx, cfg)
	b := banner{out: p.stdout, data: data}
	storage := filepath.Join(data, "shapes-external")
	if cfg.DatabaseURL == "" {
		b.dev, err = devserver.Start(ctx, devserver.Options{Dir: data, Logger: log, Progress: func(s string) {
			say(p.stderr, "%s ...\n", s)
		}})
		if err != nil {
			if ctx.Err() != nil {
				return nil // Ctrl-C while starting
			}
			return err
		}
		defer func() { err = errors.Join(err, b.dev.Stop()) }()
		cfg.DatabaseURL = config.DatabaseURL(b.dev.URL())
		cfg.PooledDatabaseURL = cmp.Or(cfg.PooledDatabaseURL, cfg.DatabaseURL)
		storage = b.dev.StorageDir()
	}
	b.writes = writer && b.dev != nil
	if !cfg.Given("SHAPESERVER_STORAGE_DIR") {
		cfg.StorageDir = storage
	}
	srv, err := p.openWith(ctx, cfg, log)
	if err != nil {
		return err
	}
	b.cfg, b.address = cfg, srv.Addr()
	// Any of them that ends with an error ends the others; Postgres is stopped when all have.
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { return srv.Run(running) })
	g.Go(func() error { return b.show(running) })
	if b.writes {
		g.Go(func() error { return b.dev.RunWriter(running) })
	}
	g.Go(func() error {
		<-running.Done()
		if ctx.Err() != nil {
			say(p.stderr, "\nstopping ...\n")
		}
		return nil
	})
	return g.Wait()
}

// checkPort says whether the port can be had, in the words of someone who typed a command.
func checkPort(ctx context.Context, cfg config.Config) error {
	var lc net.ListenConfig
	network, address := cfg.ListenAddr()
	l, err := lc.Listen(ctx, network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d is in use by another program: stop that, or choose another port, such as --port %d", cfg.Port, cfg.Port+1)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen-host or another port with --port", address, err)
	}
	return l.Close()
}

// banner is what dev prints once the server serves.
type banner struct {
	out     io.Writer
	data    string
	dev     *devserver.Dev // nil if the database is the user's
	cfg     config.Config
	address string
	writes  bool
}
