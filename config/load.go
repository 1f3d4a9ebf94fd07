package config

import (
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Mode is what a Config is wanted for, which decides what must be set.
type Mode int

const (
	// Serve needs a database, and exactly one of secret and insecure.
	Serve Mode = iota
	// Dev needs nothing: without a database it brings one, and without a secret it is insecure.
	Dev
	// Migrate needs a database.
	Migrate
	// Probe needs nothing; it asks a server that runs with the same environment.
	Probe
)

// Load reads the flags in args and the environment (as of os.Environ) and returns the settings, checked. Flags win
// over the environment, the environment over the defaults; an empty variable is as good as an unset one. rest is what
// in args is not a flag of a setting: words, and -h, --help.
//
// The error is an *Error with every mistake there is. The Config is then not to be used.
func Load(mode Mode, args, environ []string) (c Config, rest []string, err error) {
	l := loader{c: Default(), env: map[string]string{}}
	for _, kv := range environ {
		name, v, _ := strings.Cut(kv, "=")
		// A value pasted with its line end is a mistake that nobody sees.
		if v = strings.TrimSpace(v); v != "" {
			l.env[name] = v
		}
	}
	for _, s := range settings {
		l.fromEnvironment(s)
	}
	l.otherNames()
	rest = l.fromFlags(args)
	l.checkTogether(mode)
	if len(l.problems) > 0 {
		return Config{}, rest, &Error{Problems: l.problems}
	}
	return l.c, rest, nil
}

type loader struct {
	c        Config
	env      map[string]string
	problems []Problem
}

func (l *loader) problem(name, value, want string) {
	l.problems = append(l.problems, Problem{name, value, want})
}

// shown is a value as an error may print it.
func shown(s setting, raw string) string {
	var c Config
	switch s.at(&c).(type) {
	case secretValue, urlValue:
		return masked
	}
	if len(raw) > 60 {
		raw = raw[:57] + "..."
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == '"' }) {
		return fmt.Sprintf("%q", raw)
	}
	return raw
}

// set gives a setting a value found under a name.
func (l *loader) set(s setting, name, raw string) bool {
	if err := s.at(&l.c).Set(raw); err != nil {
		l.problem(name, shown(s, raw), err.Error())
		return false
	}
	l.c.from[s.name] = name
	return true
}

// fromEnvironment takes a setting's value from the first of its names that is set, and compares the others with it.
func (l *loader) fromEnvironment(s setting) {
	first, firstForm := "", ""
	for _, name := range append([]string{s.name}, s.aliases...) {
		raw, ok := l.env[name]
		if !ok || l.skipServiceLink(name, raw) {
			continue
		}
		if first == "" {
			if !l.set(s, name, raw) {
				return
			}
			first, firstForm = name, l.exact(s, raw)
			continue
		}
		if slices.Contains(s.generic, name) {
			continue
		}
		if l.exact(s, raw) != firstForm {
			l.problem(first+" and "+name, "", "are two names of one setting and have different values: remove one")
		}
	}
}

// exact is a value in its normal form, secrets included: two texts of one value are equal in it. It leaves l.c alone.
func (l *loader) exact(s setting, raw string) string {
	scratch := Default()
	v := s.at(&scratch)
	if v.Set(raw) != nil {
		return "\x00" + raw
	}
	switch v := v.(type) {
	case secretValue:
		return v.p.Reveal()
	case urlValue:
		return v.p.ConnString()
	}
	return v.String()
}

func (l *loader) skipServiceLink(name, raw string) bool {
	if !isServiceLink(name, raw) {
		return false
	}
	l.c.Notes = append(l.c.Notes, name+" was set by Kubernetes to describe a service and was ignored; enableServiceLinks: false in the pod avoids it")
	return true
}

// otherNames looks at the variables that are nobody's setting: accepted ones, and misspelt ones.
func (l *loader) otherNames() {
	var known []string
	for _, s := range settings {
		known = append(append(known, s.name), s.aliases...)
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		raw := l.env[name]
		switch reason, isAccepted := accepted[name]; {
		case slices.Contains(known, name), isServiceLink(name, raw):
		case isAccepted:
			if check := acceptedChecks[name]; check != nil {
				if err := check(raw); err != nil {
					l.problem(name, raw, err.Error())
					continue
				}
			}
			l.c.Notes = append(l.c.Notes, name+" has no meaning here and was ignored: "+reason)
		case strings.HasPrefix(name, prefix+"TEST_"): // read by the project's own tests
		case strings.HasPrefix(name, prefix):
			l.problem(name, "", didYouMean(name, known, "run shapeserver help config for all settings"))
		case strings.HasPrefix(name, "ELECTRIC_"):
			// Not an error: a newer reference server may know it, and what runs today shall run on.
			l.c.Notes = append(l.c.Notes, name+" was ignored: "+didYouMean(name, slices.Concat(known, slices.Collect(maps.Keys(accepted))), "it is no setting of this server"))
		}
	}
}

// fromFlags takes --name=value, --name value, and for a switch --name alone. One dash is as good as two.
func (l *loader) fromFlags(args []string) (rest []string) {
	byFlag := map[string]setting{}
	for _, s := range settings {
		byFlag[s.flag()] = s
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(rest, args[i+1:]...)
		}
		if !strings.HasPrefix(arg, "-") || arg == "-h" || arg == "-help" || arg == "--help" {
			rest = append(rest, arg)
			continue
		}
		flag, raw, has := strings.Cut(arg, "=")
		s, ok := byFlag[strings.TrimPrefix(strings.TrimPrefix(flag, "-"), "-")]
		switch {
		case !ok:
			var names []string
			for name := range byFlag {
				names = append(names, "--"+name)
			}
			l.problem(flag, "", didYouMean(flag, names, "run shapeserver help config for all settings"))
			continue
		case has:
		case s.isBool():
			raw = "true"
		case i+1 < len(args):
			i++
			raw = args[i]
		}
		if raw == "" {
			var c Config
			l.problem(flag, "", "needs a value: want "+s.at(&c).Want())
			continue
		}
		l.set(s, flag, raw)
	}
	return rest
}

// checkTogether looks at what single values cannot show.
func (l *loader) checkTogether(mode Mode) {
	c := &l.c
	bad := func(name string) bool { // already reported, so nothing follows from its absence
		return slices.ContainsFunc(l.problems, func(p Problem) bool { return strings.Contains(p.Setting, name) })
	}
	if c.DatabaseURL == "" && (mode == Serve || mode == Migrate) && !bad("DATABASE_URL") && !bad("--database-url") {
		l.problem("DATABASE_URL", "", "is required: set it to postgres://user:password@host:port/database (or run shapeserver dev, which brings its own Postgres)")
	}
	secretName, insecureName := l.nameOf(prefix+"SECRET"), l.nameOf(prefix+"INSECURE")
	switch {
	case c.Secret != "" && c.Insecure:
		l.problem(secretName+" and "+insecureName, "", "exclude each other: remove one")
	case c.Secret == "" && !c.Insecure && mode == Serve && !bad("SECRET") && !bad("INSECURE"):
		l.problem(prefix+"SECRET", "", "is required: set it to a long random text that requests then carry, or set "+prefix+"INSECURE=true to answer anyone")
	case c.Secret == "" && mode == Dev:
		c.Insecure = true
	}
	if c.PrometheusPort != 0 && c.PrometheusPort == c.Port {
		l.problem(l.nameOf(prefix+"PROMETHEUS_PORT"), fmt.Sprint(c.PrometheusPort), "is the port of the API too: want another")
	}
	if mode == Dev && c.ListenHost == "" && !c.ListenOnIPv6 {
		c.ListenHost = "127.0.0.1"
	}
	l.applyCA()
	if c.PooledDatabaseURL == "" {
		c.PooledDatabaseURL = c.DatabaseURL
	}
}

// applyCA writes the CA file into the URLs, where the driver looks for it. A URL that already names one keeps it.
func (l *loader) applyCA() {
	c := &l.c
	if c.DatabaseCAFile == "" {
		return
	}
	name := l.nameOf(prefix + "DATABASE_CA_CERTIFICATE_FILE")
	pem, err := os.ReadFile(c.DatabaseCAFile)
	if err != nil {
		l.problem(name, c.DatabaseCAFile, "cannot be read: "+err.Error())
		return
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		l.problem(name, c.DatabaseCAFile, "contains no certificate in PEM form")
		return
	}
	for _, u := range []*DatabaseURL{&c.DatabaseURL, &c.PooledDatabaseURL} {
		if *u == "" || u.param("sslrootcert") != "" {
			continue
		}
		switch u.param("sslmode") {
		case "disable":
			l.problem(name, c.DatabaseCAFile, "contradicts sslmode=disable in the database URL: remove one")
		case "prefer", "allow":
			// These fall back to no encryption at all, and whoever names an authority wants it asked. "prefer" is
			// also what a URL without sslmode has become.
			*u = u.with("sslmode", "verify-full")
		}
		*u = u.with("sslrootcert", c.DatabaseCAFile)
	}
}

// nameOf is the name under which a setting was given, or its own.
func (l *loader) nameOf(name string) string {
	if from := l.c.from[name]; from != "" {
		return from
	}
	return name
}

// noteFor returns a function that adds a note about the named setting.
func (c *Config) noteFor(name string) func(string) {
	return func(s string) { c.Notes = append(c.Notes, name+": "+s) }
}
