package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// DatabaseURL is a checked postgres:// URL in the normal form that ParseDatabaseURL gives it, password included.
// It prints without the password.
type DatabaseURL string

// ConnString returns the URL with the password, in the form that pgx.ParseConfig takes.
func (u DatabaseURL) ConnString() string { return string(u) }

// String returns the URL with asterisks in place of the passwords.
func (u DatabaseURL) String() string {
	p, err := url.Parse(string(u))
	if err != nil || u == "" {
		return Secret(u).String() // several hosts, for one, are beyond net/url
	}
	if _, has := p.User.Password(); has {
		p.User = url.UserPassword(p.User.Username(), "xxxxx")
	}
	query := p.Query()
	for _, name := range []string{"password", "sslpassword"} {
		if query.Has(name) {
			query.Set(name, "xxxxx")
		}
	}
	p.RawQuery = encodeQuery(query)
	return p.String()
}

// GoString does for %#v what String does for %v.
func (u DatabaseURL) GoString() string { return u.String() }

// LogValue does for slog what String does for fmt.
func (u DatabaseURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText does for encoding/json what String does for fmt.
func (u DatabaseURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// connectTimeoutSeconds bounds each attempt to connect, unless the URL says otherwise. It is short enough to try a
// host's IPv4 address soon after an IPv6 address that swallows packets, and long enough for a database that has to
// be woken first.
const connectTimeoutSeconds = "8"

// urlParameters are the parameters handed on to the driver. Everything else is another driver's, or would change the
// session settings that the server pins for itself (options, timezone, search_path), and is ignored.
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
var urlParameters = []string{
	"application_name", "channel_binding", "connect_timeout", "krbspn", "krbsrvname", "max_protocol_version",
	"min_protocol_version", "passfile", "require_auth", "sslcert", "sslcertmode", "sslkey", "sslmode",
	"sslnegotiation", "sslpassword", "sslrootcert", "sslsni", "target_session_attrs",
}

var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// ParseDatabaseURL checks a connection URL and brings it to one form: user, password and database as written
// (percent-decoded and encoded again), the port if one was given, and only parameters the driver knows. ignored names the other ones,
// sorted. As in libpq, host, port, user, password and dbname may also be given as parameters, a host that starts with
// a slash is the folder of a Unix socket, and several hosts are separated by commas.
//
// The error never contains any part of the URL that could be a password.
func ParseDatabaseURL(s string) (u DatabaseURL, ignored []string, err error) {
	var p parsedURL
	if err := p.split(strings.TrimSpace(s)); err != nil {
		return "", nil, err
	}
	if ignored, err = p.takeParameters(); err != nil {
		return "", nil, err
	}
	if err := p.check(); err != nil {
		return "", nil, err
	}
	return p.normal(), ignored, nil
}

// parsedURL is a URL in parts, decoded.
type parsedURL struct {
	user, password string
	hasPassword    bool
	hosts          []hostPort
	database       string
	params         url.Values
}

type hostPort struct{ host, port string }

// split cuts the URL by hand rather than with net/url, whose errors quote the URL, whose hosts cannot be several, and
// which mistakes an unescaped character of a password for the end of the host.
func (p *parsedURL) split(s string) error {
	scheme, rest, found := strings.Cut(s, "://")
	if !found || (scheme != "postgres" && scheme != "postgresql") {
		return errors.New("want a URL postgres://user:password@host:port/database")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(rest, "#") || strings.Contains(query, "#") {
		return errors.New("contains a #, which in a URL must be written %23")
	}
	// The last @ ends the credentials: a password may hold others, and a slash or question mark must be encoded.
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path, "@") && !strings.Contains(authority, "@") {
		return errors.New("contains a / before the @: in a user or password write it %2F")
	}
	path = strings.TrimSuffix(path, "/")
	if strings.Contains(path, "/") {
		return errors.New("contains a second / after the host: in a user, password or database name write it %2F")
	}
	if strings.Contains(query, "@") && !strings.Contains(authority, "@") && path == "" {
		return errors.New("contains a ? before the @: in a user or password write it %3F")
	}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		credentials := authority[:at]
		authority = authority[at+1:]
		var user, password string
		user, password, p.hasPassword = strings.Cut(credentials, ":")
		var errUser, errPassword error
		p.user, errUser = url.PathUnescape(user)
		p.password, errPassword = url.PathUnescape(password)
		if errUser != nil || errPassword != nil {
			return errors.New("contains a % in the user or password that is not an escape: write it %25")
		}
	}
	if authority != "" {
		for host := range strings.SplitSeq(authority, ",") {
			hp, err := splitHostPort(host)
			if err != nil {
				return err
			}
			p.hosts = append(p.hosts, hp)
		}
	}
	var err error
	if p.database, err = url.PathUnescape(path); err != nil {
		return errors.New("contains a % in the database name that is not an escape: write it %25")
	}
	if p.params, err = parseQuery(query); err != nil {
		return errors.New("has parameters after the ? that are not percent-encoded")
	}
	return nil
}

func splitHostPort(s string) (hostPort, error) {
	host, port := s, ""
	if i := strings.LastIndex(s, ":"); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		address, _, _ := strings.Cut(inner, "%")
		if !ok || net.ParseIP(address) == nil {
			return hostPort{}, errors.New("has an IPv6 address that is not of the form [::1]")
		}
		host = inner
	} else if strings.Contains(host, ":") {
		return hostPort{}, errors.New("has more than one : in the host: write an IPv6 address in brackets, and a : in a password %3A")
	}
	host, err := url.PathUnescape(host)
	if err != nil {
		return hostPort{}, errors.New("contains a % in the host that is not an escape")
	}
	if err := checkPort(port); err != nil {
		return hostPort{}, err
	}
	return hostPort{host, port}, nil
}

func checkPort(port string) error {
	if port == "" {
		return nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		// Not quoted: an unescaped @ or : in a password makes a part of it look like the port.
		return errors.New("has a port that is not a number from 1 to 65535")
	}
	return nil
}

// takeParameters moves the parameters that stand for a part of the URL to that part, and drops the unknown ones.
func (p *parsedURL) takeParameters() (ignored []string, err error) {
	if p.params.Has("replication") {
		return nil, errors.New("has the parameter replication, which the server sets itself: leave it out")
	}
	take := func(name string, to *string) bool {
		if !p.params.Has(name) {
			return false
		}
		*to = p.params.Get(name)
		p.params.Del(name)
		return true
	}
	take("user", &p.user)
	if take("password", &p.password) {
		p.hasPassword = true
	}
	take("dbname", &p.database)
	take("database", &p.database)
	var hosts, ports string
	if take("host", &hosts) {
		p.hosts = nil
		for host := range strings.SplitSeq(hosts, ",") {
			p.hosts = append(p.hosts, hostPort{host: host})
		}
	}
	if take("port", &ports) {
		list := strings.Split(ports, ",")
		for i := range p.hosts {
			p.hosts[i].port = list[min(i, len(list)-1)]
			if err := checkPort(p.hosts[i].port); err != nil {
				return nil, err
			}
		}
	}
	// JDBC and node-postgres spell it ssl=true; libpq takes that too.
	if ssl := strings.ToLower(p.params.Get("ssl")); ssl == "true" && !p.params.Has("sslmode") {
		p.params.Set("sslmode", "require")
		p.params.Del("ssl")
	}
	for name := range p.params {
		if !slices.Contains(urlParameters, name) {
			ignored = append(ignored, name)
			p.params.Del(name)
		}
	}
	slices.Sort(ignored)
	return ignored, nil
}

// notInHosts are the characters that separate a host from what is beside it in a URL; some stand in addresses of IPv6.
const notInHosts = "[]:@/?#,%\\ \"<>|^`{}\x00\t\r\n"

func (p *parsedURL) check() error {
	switch {
	case len(p.hosts) == 0 || slices.ContainsFunc(p.hosts, func(h hostPort) bool { return h.host == "" }):
		return errors.New("names no host: want postgres://user:password@host:port/database")
	case p.user == "":
		return errors.New("names no user: want postgres://user:password@host:port/database")
	case p.database == "":
		return errors.New("names no database: want postgres://user:password@host:port/database")
	case strings.ContainsRune(p.user+p.password+p.database, 0):
		return errors.New("contains a zero byte (%00), which Postgres cannot take")
	}
	for _, h := range p.hosts {
		address, zone, _ := strings.Cut(h.host, "%")
		if strings.HasPrefix(h.host, "/") { // the folder of a socket
			if strings.ContainsRune(h.host, ',') {
				return errors.New("has a socket's folder with a comma, which the driver takes for two hosts")
			}
		} else if strings.ContainsAny(zone, notInHosts) || strings.ContainsAny(h.host, notInHosts) && net.ParseIP(address) == nil {
			return errors.New("has a host with a character that no host has: want a name, an address, or the folder of a socket")
		}
	}
	if !p.params.Has("sslmode") {
		p.params.Set("sslmode", "prefer")
	}
	if mode := p.params.Get("sslmode"); !slices.Contains(sslModes, mode) {
		return fmt.Errorf("has sslmode=%q: want one of %s", mode, strings.Join(sslModes, ", "))
	}
	if !p.params.Has("connect_timeout") {
		p.params.Set("connect_timeout", connectTimeoutSeconds)
	}
	if _, err := strconv.ParseUint(p.params.Get("connect_timeout"), 10, 16); err != nil {
		return errors.New("has a connect_timeout that is not a number of seconds")
	}
	return nil
}

// normal writes the URL for the driver. Hosts go into parameters when the authority of a URL cannot hold them.
func (p *parsedURL) normal() DatabaseURL {
	u := url.URL{Scheme: "postgres", Path: "/" + p.database, User: url.User(p.user)}
	if strings.Contains(p.database, "/") {
		u.RawPath = "/" + url.PathEscape(p.database)
	}
	if p.hasPassword {
		u.User = url.UserPassword(p.user, p.password)
	}
	query := url.Values{}
	for name, values := range p.params {
		query[name] = values[:1]
	}
	if h := p.hosts[0]; len(p.hosts) == 1 && !strings.HasPrefix(h.host, "/") {
		u.Host = h.host
		if strings.Contains(h.host, ":") {
			u.Host = "[" + h.host + "]"
		}
		if h.port != "" {
			u.Host = net.JoinHostPort(h.host, h.port)
		}
	} else {
		var hosts, ports []string
		for _, h := range p.hosts {
			hosts = append(hosts, h.host)
			ports = append(ports, h.port)
		}
		query.Set("host", strings.Join(hosts, ","))
		if strings.Trim(strings.Join(ports, ""), ",") != "" {
			query.Set("port", strings.Join(ports, ","))
		}
	}
	u.RawQuery = encodeQuery(query)
	return DatabaseURL(u.String())
}

// parseQuery and encodeQuery are libpq's percent-encoding, in which a plus sign is a plus sign and not a space.
func parseQuery(s string) (url.Values, error) {
	return url.ParseQuery(strings.ReplaceAll(s, "+", "%2B"))
}
func encodeQuery(v url.Values) string { return strings.ReplaceAll(v.Encode(), "+", "%20") }

// with returns the URL with a parameter set.
func (u DatabaseURL) with(name, value string) DatabaseURL {
	base, query, _ := strings.Cut(string(u), "?")
	params, _ := parseQuery(query) // written by normal, so it parses
	params.Set(name, value)
	return DatabaseURL(base + "?" + encodeQuery(params))
}

// param returns a parameter's value, or "".
func (u DatabaseURL) param(name string) string {
	_, query, _ := strings.Cut(string(u), "?")
	params, _ := parseQuery(query) // written by normal, so it parses
	return params.Get(name)
}
