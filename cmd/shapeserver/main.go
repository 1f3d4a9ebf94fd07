package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/shapeserver/shapeserver/config"
	"github.com/shapeserver/shapeserver/server"
)

// version is set when the program is built (-ldflags "-X main.version=…").
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // main's
	context.AfterFunc(ctx, stop)                                                           // a second signal kills at once
	p := program{environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, open: openServer, migrator: realMigrator}
	if err := p.run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shapeserver:", message(err))
		os.Exit(1)
	}
}

// message is an error as one line; only mistakes in the settings have one each.
func message(err error) string {
	var settings *config.Error
	if errors.As(err, &settings) {
		return err.Error()
	}
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\t' }), " ")
}

// program is the command with its surroundings, so that tests can give it others.
type program struct {
	environ        []string
	stdout, stderr io.Writer
	// open makes the server; migrator the migrations.
	open     func(context.Context, config.Config, server.Options) (running, error)
	migrator migrator
}

// running is what this command needs of a server.
type running interface {
	Run(ctx context.Context) error
	Addr() string
}

func openServer(ctx context.Context, cfg config.Config, opts server.Options) (running, error) {
	return server.Open(ctx, cfg, opts)
}

// command is one word of the command line.
type command struct {
	name, summary string
	run           func(p program, ctx context.Context, args []string) error
}

func commands() []command {
	return []command{
		{"serve", "serve a database: needs DATABASE_URL and SHAPESERVER_SECRET", program.serve},
		{"dev", "start a private Postgres with a demo table, and serve it", program.dev},
		{"migrate", "up, down or version: the schema that the server keeps in the database", program.migrate},
		{"doctor", "compare what is recorded of every shape, and repair it with --fix", program.doctor},
		{"config", "check the settings for serve, and print them and where each came from", program.config},
		{"healthcheck", "ask the server on this machine for its health; exit code 0 if it is well", program.healthcheck},
		{"version", "print the version", program.version},
		{"help", "print this, or with config every setting", program.help},
	}
}

// run runs one command and returns when it has ended. Nil is exit code 0.
func (p program) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		p.usage(p.stderr)
		return errors.New("name a command, such as shapeserver dev")
	}
	name := args[0]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-v", "-version", "--version":
		name = "version"
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return fmt.Errorf("unknown command %q: shapeserver help lists them", name)
	}
	return all[i].run(p, ctx, args[1:])
}

// say prints for a person. Best effort: whoever closed the terminal does not want to hear of it.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

func (p program) usage(w io.Writer) {
	say(w, "shapeserver serves shapes of a Postgres database over HTTP.\n\nUsage: shapeserver <command> [--setting value ...]\n\n")
	for _, c := range commands() {
		say(w, "  %-12s %s\n", c.name, c.summary)
	}
	say(w, "\nSettings come from the environment and from flags: shapeserver help config.\n")
}

func (p program) help(_ context.Context, args []string) error {
	switch {
	case len(args) == 0:
		p.usage(p.stdout)
	case args[0] == "config" || args[0] == "serve":
		say(p.stdout, "%s", config.Help())
	case args[0] == "dev":
		say(p.stdout, "%s", devHelp)
	case args[0] == "migrate":
		say(p.stdout, "%s", migrateHelp)
	case args[0] == "doctor":
		say(p.stdout, "%s", doctorHelp)
	default:
		p.usage(p.stdout)
	}
	return nil
}

func (p program) version(context.Context, []string) error {
	_, err := fmt.Fprintf(p.stdout, "shapeserver %s (%s %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// buildVersion is the version given at the build, or what Go noted about the source, or "devel".
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

// load reads the settings. done is true if the arguments asked for help, which then is printed.
func (p program) load(mode config.Mode, args []string, help string) (cfg config.Config, words []string, done bool, err error) {
	cfg, rest, err := config.Load(mode, args, p.environ)
	if slices.ContainsFunc(rest, func(s string) bool { return s == "-h" || s == "-help" || s == "--help" }) {
		_, err := io.WriteString(p.stdout, help)
		return config.Config{}, nil, true, err
	}
	return cfg, rest, false, err
}

func noWords(words []string) error {
	if len(words) == 0 {
		return nil
	}
	return fmt.Errorf("unexpected argument %s", strings.Join(words, " "))
}

func (p program) config(_ context.Context, args []string) error {
	cfg, words, done, err := p.load(config.Serve, args, config.Help())
	if err != nil || done {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	_, err = fmt.Fprint(p.stdout, cfg.Effective())
	for _, note := range cfg.Notes {
		say(p.stdout, "note: %s\n", note)
	}
	return err
}
