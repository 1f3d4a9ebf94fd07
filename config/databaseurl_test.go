package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheDriverReadsWhatWeWrite parses each form (B135), and lets the driver say what it understood.
func TestTheDriverReadsWhatWeWrite(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSSLMODE", "PGSERVICE", "PGOPTIONS"} {
		t.Setenv(name, "")
	}
	type want struct {
		user, password, database, hosts string
		tls                             bool
		ignored                         string
	}
	for in, w := range map[string]want{
		"postgres://u:p@h/d":    {user: "u", password: "p", database: "d", hosts: "h:5432 h:5432", tls: true},
		"postgresql://u:p@h/d/": {user: "u", password: "p", database: "d", hosts: "h:5432 h:5432", tls: true},
		"postgres://u@h:6543/d": {user: "u", database: "d", hosts: "h:6543 h:6543", tls: true},
		"postgres://we%20ird%40u%2Fser:p%40ss%3Aw%2Frd%3F%23%2525%20%C3%A9@h/d?sslmode=disable": {user: "we ird@u/ser", password: "p@ss:w/rd?#%25 é", database: "d", hosts: "h:5432"},
		"postgres://u:p@ss@h/d?sslmode=disable":                                                 {user: "u", password: "p@ss", database: "d", hosts: "h:5432"},
		"postgres://u:a+b:c@h/d?sslmode=disable":                                                {user: "u", password: "a+b:c", database: "d", hosts: "h:5432"},
		"postgres://u:p@[::1]:5433/d?sslmode=disable":                                           {user: "u", password: "p", database: "d", hosts: "::1:5433"},
		"postgres://u:p@[::1]/d?sslmode=disable":                                                {user: "u", password: "p", database: "d", hosts: "::1:5432"},
		"postgres://u:p@my_db_host/d?sslmode=disable":                                           {user: "u", password: "p", database: "d", hosts: "my_db_host:5432"},
		"postgres://u:p@h/my-d%25b%2Fx%3Fy?sslmode=disable":                                     {user: "u", password: "p", database: "my-d%b/x?y", hosts: "h:5432"},
		"postgres://u:p@h/d?sslmode=allow":                                                      {user: "u", password: "p", database: "d", hosts: "h:5432 h:5432"},
		"postgres://u:p@h/d?sslmode=require":                                                    {user: "u", password: "p", database: "d", hosts: "h:5432", tls: true},
		"postgres://u:p@h/d?sslmode=verify-full":                                                {user: "u", password: "p", database: "d", hosts: "h:5432", tls: true},
		"postgres://u:p@h/d?ssl=true":                                                           {user: "u", password: "p", database: "d", hosts: "h:5432", tls: true},
		"postgres://u:p@a:1,b:2/d?sslmode=disable&target_session_attrs=read-write":              {user: "u", password: "p", database: "d", hosts: "a:1 b:2"},
		"postgres://u:p@a,b/d?sslmode=disable":                                                  {user: "u", password: "p", database: "d", hosts: "a:5432 b:5432"},
		"postgres:///d?host=/var/run/postgresql&user=u":                                         {user: "u", database: "d", hosts: "/var/run/postgresql:5432"},
		"postgres://u:p@%2Ftmp/d":                                                               {user: "u", password: "p", database: "d", hosts: "/tmp:5432"},
		"postgres:///?dbname=d&host=h&port=6&user=u&password=p%2Bq+r&sslmode=disable":           {user: "u", password: "p+q+r", database: "d", hosts: "h:6"},
		"postgres://u:p@h/d?sslmode=disable&uselibpqcompat=true&application_name=a%20b&channel_binding=require&options=-c%20search_path%3Dfoo&connect_timeout=5&pool_max_conns=3&statement_cache_capacity=0": {
			user: "u", password: "p", database: "d", hosts: "h:5432", ignored: "options,pool_max_conns,statement_cache_capacity,uselibpqcompat",
		},
	} {
		t.Run(in, func(t *testing.T) {
			u, ignored, err := ParseDatabaseURL(in)
			require.NoError(t, err)
			assert.Equal(t, w.ignored, strings.Join(ignored, ","))
			c, err := pgconn.ParseConfig(u.ConnString())
			require.NoError(t, err)
			assert.Equal(t, w.user, c.User)
			assert.Equal(t, w.password, c.Password)
			assert.Equal(t, w.database, c.Database)
			hosts := []string{hostOf(c.Host, c.Port)}
			for _, f := range c.Fallbacks {
				hosts = append(hosts, hostOf(f.Host, f.Port))
			}
			assert.Equal(t, w.hosts, strings.Join(hosts, " "))
			assert.Equal(t, w.tls, c.TLSConfig != nil)
			assert.NotZero(t, c.ConnectTimeout)
			for name, v := range c.RuntimeParams {
				assert.Equal(t, "application_name", name)
				assert.Equal(t, "a b", v)
			}
			again, _, err := ParseDatabaseURL(u.ConnString())
			require.NoError(t, err)
			assert.Equal(t, u, again, "the normal form is normal")
			if w.password != "" && len(w.password) > 1 {
				assert.NotContains(t, u.String(), w.password)
			}
		})
	}
}

func hostOf(host string, port uint16) string { return fmt.Sprintf("%s:%d", host, port) }

func TestBadDatabaseURLs(t *testing.T) {
	for in, want := range map[string]string{
		"mysql://u:p@h/d":                      "want a URL postgres://",
		"host=h user=u":                        "want a URL postgres://",
		`"postgres://u:p@h/d"`:                 "want a URL postgres://",
		"postgres://u:p@/d":                    "names no host",
		"postgres://":                          "names no host",
		"postgres://u:p@h":                     "names no database",
		"postgres://u:p@h/":                    "names no database",
		"postgres://h/d":                       "names no user",
		"postgres://u:p@h:abc/d":               "has a port that is not a number from 1 to 65535",
		"postgres://u:p@h:70000/d":             "has a port that is not",
		"postgres://u:p@h:0/d":                 "has a port that is not",
		"postgres://u:p@h/d?port=abc":          "has a port that is not",
		"postgres://u:p@::1/d":                 "IPv6 address in brackets",
		"postgres://u:p@[::g]/d":               "has an IPv6 address that is not of the form [::1]",
		"postgres://u:p@h/d?sslmode=foo":       `has sslmode="foo": want one of disable, allow, prefer, require, verify-ca, verify-full`,
		"postgres://u:p@h/d?replication=true":  "replication, which the server sets itself",
		"postgres://u:p#x@h/d":                 "must be written %23",
		"postgres://u:p/x@h/d":                 "write it %2F",
		"postgres://u:p@x/y@h/d":               "write it %2F",
		"postgres://u:p?x@h/d":                 "%3F",
		"postgres://u:p%x@h/d":                 "write it %25",
		"postgres://u:p@h/d%x":                 "write it %25",
		"postgres://u:p@h/d%00":                "zero byte",
		"postgres://u:p@a,,b/d":                "names no host",
		"postgres://u:p@h/d?connect_timeout=x": "connect_timeout",
		"postgres://u:p@h/d?host=[":            "a character that no host has",
		"postgres://u:p@%5B/d":                 "a character that no host has",
		"postgres://u:p@h/d?host=a:b":          "a character that no host has",
		"postgres://u:p@h/d?host=::1%25%2F":    "a character that no host has",
		"postgres://u:p@%2Ftmp%2Ca/d":          "a comma",
	} {
		_, _, err := ParseDatabaseURL(in)
		require.Error(t, err, in)
		assert.Contains(t, err.Error(), want, in)
	}
}

func FuzzParseDatabaseURL(f *testing.F) {
	f.Add("postgres://u:p@[::1]:1,b:2/d%20?sslmode=disable&host=/tmp&port=1,2")
	f.Add("postgresql://we%20ird:p%40@h/d/?ssl=true&password=x+y")
	f.Add("postgres://0@000000/0?000000000000000&host=[")
	f.Fuzz(func(t *testing.T, s string) {
		u, _, err := ParseDatabaseURL(s)
		if err != nil {
			return
		}
		again, ignored, err := ParseDatabaseURL(u.ConnString())
		if err != nil {
			t.Fatalf("%q became %q: %v", s, u.ConnString(), err)
		}
		if again != u || len(ignored) > 0 {
			t.Fatalf("%q became %q, then %q", s, u.ConnString(), again.ConnString())
		}
		_ = u.String()
	})
}

// testCA returns a certificate in PEM form; it signs nothing.
func testCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
