package devserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// oldestMajor is the oldest Postgres that the server works with.
const oldestMajor = 14

// ErrNoPostgres reports that Postgres's programs were neither found nor could be fetched. The text says what to
// install; trying again helps if only the network was missing.
var ErrNoPostgres = errors.New("found no Postgres 14 or newer, and could not fetch one")

// binaries is a folder with initdb, pg_ctl and postgres of one version.
type binaries struct {
	dir   string
	major int
	// version is as Postgres prints it, such as "15.19 (Debian 15.19-1.pgdg12+1)".
	version string
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// usualPlaces are where packages put the server's programs, which Debian and others keep off PATH.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu, and the Docker image built on them
	"/usr/local/bin",                                     // the Alpine Docker image
	"/usr/libexec/postgresql*",                           // Alpine's packages
	"/usr/pgsql-*/bin",                                   // the PostgreSQL project's RPMs
	"/usr/lib/postgresql*/bin",                           // openSUSE
	"/usr/bin",                                           // Fedora, Arch
	"/usr/local/pgsql/bin",                               // built from source
	"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",     // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/opt/local/lib/postgresql*/bin",                     // MacPorts
	"/opt/bitnami/postgresql/bin",                        // Bitnami's image
}

// findBinaries returns every usable folder, the newest major version first; of one major, those on PATH first.
func findBinaries(ctx context.Context, pathList string, places []string) []binaries {
	dirs := filepath.SplitList(pathList)
	for _, place := range places {
		found, err := filepath.Glob(place)
		if err == nil { // only a malformed pattern is an error
			dirs = append(dirs, found...)
		}
	}
	var all []binaries
	seen := map[string]bool{}
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		if b, err := inspectBinaries(ctx, dir); err == nil && b.major >= oldestMajor {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
	return all
}

var versionForm = regexp.MustCompile(`\(PostgreSQL\) ((\d+).*)`)

// inspectBinaries checks that dir holds the three programs, and asks for their version.
func inspectBinaries(ctx context.Context, dir string) (binaries, error) {
	for _, program := range []string{"initdb", "pg_ctl", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, program))
		if err != nil {
			return binaries{}, fmt.Errorf("look for %s: %w", program, err)
		}
		if info.IsDir() || info.Mode()&0o111 == 0 {
			return binaries{}, fmt.Errorf("%s in %s is not a program", program, dir)
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("ask postgres for its version: %w", err)
	}
	m := versionForm.FindSubmatch(out)
	if m == nil {
		return binaries{}, fmt.Errorf("postgres in %s printed no version: %q", dir, out)
	}
	major, err := strconv.Atoi(string(m[2]))
	if err != nil {
		return binaries{}, fmt.Errorf("read version %q: %w", m[1], err)
	}
	return binaries{dir: dir, major: major, version: string(m[1])}, nil
}

// fetchBinaries has Postgres's programs downloaded into dir, unless an earlier call left them there. repository is
// where from; "" is the library's own choice.
func fetchBinaries(ctx context.Context, dir, repository string) (binaries, error) {
	bin := filepath.Join(dir, "bin")
	if b, err := inspectBinaries(ctx, bin); err == nil {
		return b, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return binaries{}, fmt.Errorf("make folder for Postgres: %w", err)
	}
	scratch, err := os.MkdirTemp("", "shapeserver-fetch-")
	if err != nil {
		return binaries{}, fmt.Errorf("make folder for the download: %w", err)
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // best effort: it is in the system's temporary folder
	port, err := freePort(ctx, 0)
	if err != nil {
		return binaries{}, err
	}
	cfg := embeddedpostgres.DefaultConfig().Version(embeddedpostgres.V17).Port(uint32(port)).Logger(io.Discard).
		CachePath(scratch).BinariesPath(dir).RuntimePath(filepath.Join(scratch, "run")).DataPath(filepath.Join(scratch, "data"))
	if repository != "" {
		cfg = cfg.BinaryRepositoryURL(repository)
	}
	// The library has no call that only fetches. Its server is stopped again at once; as root it does not even
	// start, but then the programs are there already.
	db := embeddedpostgres.NewDatabase(cfg)
	startErr := db.Start()
	if startErr == nil {
		if err := db.Stop(); err != nil {
			return binaries{}, fmt.Errorf("stop the fetched Postgres: %w", err)
		}
	}
	b, err := inspectBinaries(ctx, bin)
	if err != nil {
		return binaries{}, fmt.Errorf("%w: %w; install it (Debian, Ubuntu: apt install postgresql; Fedora: dnf install "+
			"postgresql-server; Alpine: apk add postgresql; macOS: brew install postgresql@17), or set DATABASE_URL to a "+
			"database you have", ErrNoPostgres, errors.Join(startErr, ctx.Err()))
	}
	return b, nil
}
