package devserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Options says where and how. The zero Options is ready to use.
type Options struct {
	// Dir is the data folder; it is made if need be. Empty means ".dev" in the present folder.
	Dir string
	// BinDir is a folder with initdb, pg_ctl and postgres to use; empty means to look for one.
	BinDir string
	// Progress is told in a few words what takes a while. Nil means nobody is.
	Progress func(string)
	// Logger takes what the writer has to say. Nil means nobody does.
	Logger *slog.Logger

	// places and repository replace the usual places, and where programs are fetched from; for tests.
	places     []string
	noPath     bool
	repository string
}

func (o Options) withDefaults() Options {
	o.Dir = cmp.Or(o.Dir, ".dev")
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.places == nil {
		o.places = usualPlaces
	}
	return o
}

// Dev is a running private Postgres. Its methods may be called from any goroutine.
type Dev struct {
	opts    Options
	cluster cluster
	lock    *os.File
	// wrote is called after each write of the demo writer; tests wait for it.
	wrote func()
}

const database = "dev"

// Start makes the data folder if it is the first time, starts Postgres on it, and makes the demo table. A Postgres
// that a killed process left running on the folder is stopped first. The caller must Stop the Dev.
//
// Errors: ErrInUse, ErrNoPostgres, and others whose text says what Postgres objected to. After an error nothing runs.
func Start(ctx context.Context, opts Options) (_ *Dev, err error) {
	opts = opts.withDefaults()
	if opts.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	lock, err := lockFolder(filepath.Join(opts.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	dev := &Dev{opts: opts, lock: lock, wrote: func() {}}
	if err := dev.place(); err != nil {
		return nil, err
	}
	if err := dev.chooseBinaries(ctx); err != nil {
		return nil, err
	}
	c := &dev.cluster
	if pid, err := c.runningPid(); err != nil {
		return nil, err
	} else if pid != 0 {
		opts.Progress("stopping the Postgres that an earlier run left behind")
		if err := c.stop(); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(c.dir); err != nil {
		opts.Progress("making a database in " + filepath.Dir(c.dir))
	}
	if err := c.initialise(ctx); err != nil {
		return nil, err
	}
	if err := c.start(ctx, dev.lastPort()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if err := os.WriteFile(dev.portPath(), []byte(strconv.Itoa(c.port)+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("note the port: %w", err)
	}
	if err := dev.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	return dev, nil
}

// Stop stops Postgres and gives the folder free. It may be called again.
func (d *Dev) Stop() error {
	if err := d.cluster.stop(); err != nil {
		return err
	}
	if err := d.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("unlock the data folder: %w", err)
	}
	return nil
}

// URL returns the database, as its superuser, who needs no password.
func (d *Dev) URL() string { return d.urlOf(database) }

func (d *Dev) urlOf(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", d.cluster.port, database)
}

// Version is Postgres's own, such as "15.19 (Debian 15.19-1.pgdg12+1)".
func (d *Dev) Version() string { return d.cluster.bin.version }

// StorageDir is a folder in the data folder for the shapes' logs.
func (d *Dev) StorageDir() string { return filepath.Join(d.opts.Dir, "shapes") }

// DataDir is where Postgres keeps the data, in a folder of its own: usually in the data folder, but elsewhere if the
// user that Postgres runs as cannot enter that.
func (d *Dev) DataDir() string { return d.cluster.dir }

// Folders returns the folders that hold everything there is, the data folder first: removing them removes it all.
func (d *Dev) Folders() []string {
	all := []string{d.opts.Dir}
	if parent := filepath.Dir(d.cluster.dir); filepath.Dir(parent) != d.opts.Dir {
		all = append(all, parent)
	}
	return all
}

// Psql returns a command line that runs a statement without single quotes, double quotes or dollar signs in a shell;
// "" if there is no psql on the machine.
func (d *Dev) Psql(statement string) string {
	psql := d.cluster.bin.path("psql")
	if _, err := exec.LookPath("psql"); err == nil {
		psql = "psql"
	} else if _, err := os.Stat(psql); err != nil {
		return ""
	}
	return fmt.Sprintf(`%s -h 127.0.0.1 -p %d -U postgres %s -c "%s"`, psql, d.cluster.port, database, statement)
}

// place decides as whom and where Postgres runs.
func (d *Dev) place() error {
	o, err := findOwner()
	if err != nil {
		return err
	}
	d.cluster.owner = o
	parent := filepath.Join(d.opts.Dir, "postgres")
	if !o.mayEnter(d.opts.Dir) {
		// As root in /root, most often: the user that Postgres runs as cannot go there.
		sum := sha256.Sum256([]byte(d.opts.Dir))
		parent = fmt.Sprintf("/var/tmp/shapeserver-dev-%x", sum[:6])
		d.opts.Progress(fmt.Sprintf("Postgres runs as user %s, who may not enter %s: its data goes to %s", o.name, d.opts.Dir, parent))
	}
	if err := o.makeFolder(parent); err != nil {
		return err
	}
	d.cluster.dir = filepath.Join(parent, "data")
	return nil
}

// chooseBinaries takes the newest programs there are, or those of the version that made the data folder.
func (d *Dev) chooseBinaries(ctx context.Context) error {
	made, err := d.madeBy()
	if err != nil {
		return err
	}
	if d.opts.BinDir != "" {
		b, err := inspectBinaries(ctx, d.opts.BinDir)
		if err != nil {
			return err
		}
		d.cluster.bin = b
	} else {
		path := os.Getenv("PATH")
		if d.opts.noPath {
			path = ""
		}
		all := findBinaries(ctx, path, d.opts.places)
		all = slices.DeleteFunc(all, func(b binaries) bool { return !d.cluster.owner.mayEnter(b.dir) })
		if i := slices.IndexFunc(all, func(b binaries) bool { return made == 0 || b.major == made }); i >= 0 {
			d.cluster.bin = all[i]
			return nil
		}
		fetched := filepath.Join(filepath.Dir(filepath.Dir(d.cluster.dir)), "postgres-programs")
		if filepath.Dir(fetched) == "/var/tmp" {
			fetched = filepath.Dir(d.cluster.dir) + "-programs"
		}
		d.opts.Progress("no Postgres on this machine: fetching one into " + fetched)
		if d.cluster.bin, err = fetchBinaries(ctx, fetched, d.opts.repository); err != nil {
			return err
		}
	}
	if made != 0 && d.cluster.bin.major != made {
		return fmt.Errorf("the data in %s was made by Postgres %d, and only %d is here: install that version, or remove the folder", d.cluster.dir, made, d.cluster.bin.major)
	}
	return nil
}

// madeBy returns the major version that made the data folder, 0 if there is none yet.
func (d *Dev) madeBy() (int, error) {
	text, err := os.ReadFile(filepath.Join(d.cluster.dir, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the data folder: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read PG_VERSION in %s: %w", d.cluster.dir, err)
	}
	return major, nil
}

func (d *Dev) portPath() string { return filepath.Join(d.opts.Dir, "port") }

// lastPort is the port of the last run, so that a command line in the user's history still works; 0 if unknown.
func (d *Dev) lastPort() int {
	text, err := os.ReadFile(d.portPath())
	if err != nil {
		return 0
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil {
		return 0 // a wish, not a record: another port does as well
	}
	return int(port)
}
