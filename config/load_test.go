package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// base is the least environment that serve takes.
var base = []string{"DATABASE_URL=postgres://u:p@h/d", "SHAPESERVER_INSECURE=true"}

func load(t *testing.T, env ...string) Config {
	t.Helper()
	c, rest, err := Load(Serve, nil, append(slices.Clone(base), env...))
	require.NoError(t, err)
	require.Empty(t, rest)
	return c
}

func problems(t *testing.T, mode Mode, args, env []string) []Problem {
	t.Helper()
	_, _, err := Load(mode, args, env)
	var e *Error
	require.ErrorAs(t, err, &e)
	return e.Problems
}

func TestDefaultsAreThoseOfTheTable(t *testing.T) {
	for _, s := range settings {
		var c Config
		v := s.at(&c)
		if s.def != "" {
			require.NoError(t, v.Set(s.def), s.name)
			again := s.at(&Config{})
			if text := v.String(); text != "" {
				require.NoError(t, again.Set(text), "%s: %q is not read back", s.name, text)
				assert.Equal(t, text, again.String(), s.name)
			}
		}
		assert.NotEmpty(t, s.doc, s.name)
		assert.True(t, strings.HasPrefix(s.name, prefix), s.name)
	}
	c := load(t)
	assert.Equal(t, 3000, c.Port)
	assert.Equal(t, int64(10485760), c.ChunkBytes)
	assert.Equal(t, 20*time.Second, c.LongPollTimeout)
	assert.Equal(t, time.Minute, c.CacheMaxAge)
	assert.Equal(t, 5*time.Minute, c.CacheStaleAge)
	assert.Equal(t, RequestLimits{Initial: 300, Existing: 10000}, c.MaxConcurrentRequests)
	assert.Equal(t, "default", c.StreamID)
	assert.Equal(t, "shapeserver_slot_default", c.SlotName())
	assert.Equal(t, "./persistent", c.StorageDir)
	assert.Equal(t, c.DatabaseURL, c.PooledDatabaseURL)
	assert.Empty(t, c.Notes)
}

// TestEveryReferenceName sets each name of protocol.md §13 to a value that is not its default, and looks for the effect.
func TestEveryReferenceName(t *testing.T) {
	for _, tc := range []struct {
		env  string
		want string // what Config.String then contains; "" for a name that only earns a note
	}{
		{"ELECTRIC_POOLED_DATABASE_URL=postgres://u:p@pool/d", "POOLED_DATABASE_URL=postgres://u:xxxxx@pool/d"},
		{"ELECTRIC_QUERY_DATABASE_URL=postgres://u:p@pool/d", "POOLED_DATABASE_URL=postgres://u:xxxxx@pool/d"},
		{"ELECTRIC_DATABASE_USE_IPV6=true", ""},
		{"ELECTRIC_DB_POOL_SIZE=7", "DB_POOL_SIZE=7"},
		{"ELECTRIC_DATABASE_TCP_KEEPALIVE_IDLE=30", "DATABASE_TCP_KEEPALIVE_IDLE=30s"},
		{"ELECTRIC_DATABASE_TCP_KEEPALIVE_INTERVAL=10s", "DATABASE_TCP_KEEPALIVE_INTERVAL=10s"},
		{"ELECTRIC_DATABASE_TCP_KEEPALIVE_COUNT=4", "DATABASE_TCP_KEEPALIVE_COUNT=4"},
		{"ELECTRIC_DATABASE_TCP_USER_TIMEOUT=5000", "DATABASE_TCP_USER_TIMEOUT=5s"},
		{"ELECTRIC_REPLICATION_STREAM_ID=ok_1", "REPLICATION_STREAM_ID=ok_1"},
		{"CLEANUP_REPLICATION_SLOTS_ON_SHUTDOWN=true", "CLEANUP_REPLICATION_SLOTS_ON_SHUTDOWN=true"},
		{"ELECTRIC_TEMPORARY_REPLICATION_SLOT_USE_RANDOM_NAME=true", ""},
		{"ELECTRIC_REPLICATION_IDLE_TIMEOUT=30s", ""},
		{"ELECTRIC_MANUAL_TABLE_PUBLISHING=1", "MANUAL_TABLE_PUBLISHING=true"},
		{"ELECTRIC_PORT=3001", "PORT=3001"},
		{"ELECTRIC_LISTEN_ON_IPV6=TRUE", "LISTEN_ON_IPV6=true"},
		{"ELECTRIC_TCP_SEND_TIMEOUT=10sec", "TCP_SEND_TIMEOUT=10s"},
		{"ELECTRIC_TCP_READ_TIMEOUT=2m", "TCP_READ_TIMEOUT=2min"},
		{"ELECTRIC_SHAPE_CHUNK_BYTES_THRESHOLD=20000", "SHAPE_CHUNK_BYTES_THRESHOLD=20000"},
		{"ELECTRIC_LONG_POLL_TIMEOUT=1000", "LONG_POLL_TIMEOUT=1s"},
		{"ELECTRIC_CACHE_MAX_AGE=7", "CACHE_MAX_AGE=7s"},
		{"ELECTRIC_CACHE_STALE_AGE=9", "CACHE_STALE_AGE=9s"},
		{`ELECTRIC_MAX_CONCURRENT_REQUESTS={"initial":5}`, `MAX_CONCURRENT_REQUESTS={"initial":5,"existing":10000}`},
		{"ELECTRIC_MAX_SHAPES=10", "MAX_SHAPES=10"},
		{"ELECTRIC_EXPERIMENTAL_MAX_SHAPES=10", "MAX_SHAPES=10"},
		{"ELECTRIC_PERSISTENT_STATE=MEMORY", ""},
		{"ELECTRIC_STORAGE=FAST_FILE", ""},
		{"ELECTRIC_STORAGE_DIR=/var/lib/x", "STORAGE_DIR=/var/lib/x"},
		{"ELECTRIC_SHAPE_DB_EXCLUSIVE_MODE=true", ""},
		{"ELECTRIC_SHAPE_DB_STORAGE_DIR=/x", ""},
		{"ELECTRIC_SHAPE_DB_SYNCHRONOUS=FULL", ""},
		{"ELECTRIC_SHAPE_DB_CACHE_SIZE=1MiB", ""},
		{"ELECTRIC_CLEANUP_INTERVAL_MS=1", ""},
		{"ELECTRIC_EXPERIMENTAL_MAX_TXN_SIZE=1", ""},
		{"ELECTRIC_EXPERIMENTAL_MAX_BATCH_SIZE=1", ""},
		{"ELECTRIC_SUBQUERY_BUFFER_MAX_TRANSACTIONS=1", ""},
		{"ELECTRIC_SHAPE_HIBERNATE_AFTER=30s", ""},
		{"ELECTRIC_SHAPE_SUSPEND_CONSUMER=false", "SHAPE_SUSPEND_CONSUMER=false"},
		{"ELECTRIC_SHAPE_SUSPEND_AFTER=1s", "SHAPE_SUSPEND_AFTER=1s"},
		{"ELECTRIC_CONSUMER_PARTITIONS=4", ""},
		{"ELECTRIC_FLUSH_STALL_GRACE_PERIOD=2min", "FLUSH_STALL_GRACE_PERIOD=2min"},
		{"ELECTRIC_PUBLICATION_ALTER_DEBOUNCE_TIME=50ms", ""},
		{"ELECTRIC_TWEAKS_PUBLICATION_REFRESH_PERIOD=5s", "PUBLICATION_REFRESH_PERIOD=5s"},
		{"ELECTRIC_TWEAKS_SCHEMA_RECONCILER_PERIOD=5s", "SCHEMA_RECONCILER_PERIOD=5s"},
		{"ELECTRIC_TWEAKS_HTTP_API_NUM_ACCEPTORS=1", ""},
		{"ELECTRIC_TWEAKS_CONN_MAX_REQUESTS=1", ""},
		{"ELECTRIC_INSTANCE_ID=i1", "INSTANCE_ID=i1"},
		{"ELECTRIC_SERVICE_NAME=x", ""},
		{"ELECTRIC_DATABASE_ID=d1", "DATABASE_ID=d1"},
		{"ELECTRIC_ENABLE_INTEGRATION_TESTING=true", "ENABLE_INTEGRATION_TESTING=true"},
		{"ELECTRIC_FEATURE_FLAGS=x", ""},
		{"ELECTRIC_PROMETHEUS_PORT=9090", "PROMETHEUS_PORT=9090"},
		{"ELECTRIC_LIVE_DASHBOARD_PORT=1", ""},
		{"ELECTRIC_STATSD_HOST=x", ""},
		{"ELECTRIC_OTLP_ENDPOINT=x", ""},
		{"ELECTRIC_OTEL_DEBUG=true", ""},
		{"ELECTRIC_OTEL_SAMPLING_RATIO=0.1", ""},
		{"ELECTRIC_METRICS_SAMPLING_RATIO=0.1", ""},
		{"ELECTRIC_DROP_EMPTY_RESPONSE_SPANS=true", ""},
		{"ELECTRIC_EXCLUDE_SPANS=x", ""},
		{"ELECTRIC_HNY_API_KEY=x", ""},
		{"ELECTRIC_HNY_DATASET=x", ""},
		{"SENTRY_DSN=x", ""},
		{"ELECTRIC_SYSTEM_METRICS_POLL_INTERVAL=5s", ""},
		{"ELECTRIC_LOG_LEVEL=warning", "LOG_LEVEL=warn"},
		{"ELECTRIC_LOG_COLORS=false", ""},
		{"ELECTRIC_LOG_OTP_REPORTS=false", ""},
	} {
		t.Run(tc.env, func(t *testing.T) {
			c := load(t, tc.env)
			if tc.want != "" {
				assert.Contains(t, c.String(), "SHAPESERVER_"+tc.want)
				assert.Empty(t, c.Notes)
				return
			}
			assert.Equal(t, load(t).String(), c.String(), "changes nothing")
			name, _, _ := strings.Cut(tc.env, "=")
			require.Len(t, c.Notes, 1)
			assert.True(t, strings.HasPrefix(c.Notes[0], name+" has no meaning here"), c.Notes[0])
		})
	}
	c, _, err := Load(Serve, nil, []string{"DATABASE_URL=postgres://u:p@h/d", "ELECTRIC_SECRET=s3cret"})
	require.NoError(t, err)
	assert.Equal(t, "s3cret", c.Secret.Reveal())
	c, _, err = Load(Serve, nil, []string{"DATABASE_URL=postgres://u:p@h/d", "ELECTRIC_INSECURE=yes"})
	require.NoError(t, err)
	assert.True(t, c.Insecure)
}

func TestBadValues(t *testing.T) {
	for _, tc := range []struct{ env, want string }{
		{"ELECTRIC_PORT=70000", "ELECTRIC_PORT=70000: want a whole number from 0 to 65535, 0 means any free one"},
		{"ELECTRIC_PORT=-1", "want a whole number"},
		{"ELECTRIC_PORT=abc", "ELECTRIC_PORT=abc: want a whole number"},
		{"ELECTRIC_REPLICATION_STREAM_ID=Bad-Id", "ELECTRIC_REPLICATION_STREAM_ID=Bad-Id: want 1 to 39 of the characters a-z, 0-9 and _"},
		{"ELECTRIC_REPLICATION_STREAM_ID=" + strings.Repeat("a", 80), "want 1 to 39"},
		{"ELECTRIC_MANUAL_TABLE_PUBLISHING=perhaps", "ELECTRIC_MANUAL_TABLE_PUBLISHING=perhaps: want true or false"},
		{"ELECTRIC_LOG_LEVEL=loud", "ELECTRIC_LOG_LEVEL=loud: want one of debug, info, warn, error"},
		{"ELECTRIC_DB_POOL_SIZE=0", "want a whole number from 1"},
		{"ELECTRIC_DB_POOL_SIZE=-1", "want a whole number from 1"},
		{"ELECTRIC_MAX_CONCURRENT_REQUESTS={", "want JSON such as"},
		{`ELECTRIC_MAX_CONCURRENT_REQUESTS={"initial":0}`, "want JSON such as"},
		{`ELECTRIC_MAX_CONCURRENT_REQUESTS={"initail":1}`, "want JSON such as"},
		{`ELECTRIC_MAX_CONCURRENT_REQUESTS={"initial":1} x`, "want JSON such as"},
		{"ELECTRIC_MAX_SHAPES=abc", "ELECTRIC_MAX_SHAPES=abc: want a whole number"},
		{"ELECTRIC_SHAPE_HIBERNATE_AFTER=5parsecs", "ELECTRIC_SHAPE_HIBERNATE_AFTER=5parsecs: want a duration"},
		{"ELECTRIC_SHAPE_SUSPEND_AFTER=5parsecs", "want a duration"},
		{"ELECTRIC_CACHE_STALE_AGE=-1", "ELECTRIC_CACHE_STALE_AGE=-1: want a duration from 0"},
		{"ELECTRIC_LONG_POLL_TIMEOUT=1", "want a duration from 100ms to 60min, in ms, s or min; a bare number is milliseconds"},
		{"ELECTRIC_LONG_POLL_TIMEOUT=99999999999999999999999s", "want a duration"},
		{"ELECTRIC_SHAPE_CHUNK_BYTES_THRESHOLD=99999999999999999999", "want a size from 1 to 1GiB"},
		{"ELECTRIC_SHAPE_CHUNK_BYTES_THRESHOLD=9000000000GiB", "want a size"},
		{"ELECTRIC_SHAPE_CHUNK_BYTES_THRESHOLD=ten", "want a size"},
		{"ELECTRIC_STORAGE=FILE", "ELECTRIC_STORAGE=FILE: want FAST_FILE or MEMORY"},
		{"ELECTRIC_PERSISTENT_STATE=disk", "want FILE or MEMORY"},
		{"SHAPESERVER_LOG_FORMAT=xml", "want one of text, json"},
		{"SHAPESERVER_LISTEN_HOST=localhost/x", "want an address or a host name"},
		{"SHAPESERVER_PROT=3000", "SHAPESERVER_PROT: unknown; did you mean SHAPESERVER_PORT?"},
		{"SHAPESERVER_TWEAKS_PUBLICATION_REFRESH_PERIOD=1s", "did you mean SHAPESERVER_PUBLICATION_REFRESH_PERIOD?"},
		{"SHAPESERVER_QWERTYUIOPASDFGHJKL=1", "unknown; run shapeserver help config"},
		{"SHAPESERVER_PROMETHEUS_PORT=3000", "is the port of the API too"},
		{"ELECTRIC_SECRET=s3cret", "ELECTRIC_SECRET and SHAPESERVER_INSECURE: exclude each other"},
		{"ELECTRIC_DATABASE_CA_CERTIFICATE_FILE=/nowhere.pem", "cannot be read"},
	} {
		t.Run(tc.env, func(t *testing.T) {
			ps := problems(t, Serve, nil, append(slices.Clone(base), tc.env))
			require.Len(t, ps, 1)
			assert.Contains(t, ps[0].String(), tc.want)
			assert.NotContains(t, ps[0].String(), "\n")
		})
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	_, _, err := Load(Serve, []string{"--prot", "1", "--cache-max-age=never"}, []string{
		"SHAPESERVER_PORT=x", "ELECTRIC_LOG_LEVEL=loud", "SHAPESERVER_FOO_BAR_BAZ_QUX=1",
	})
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 8, err.Error())
	assert.Equal(t, "7 settings need attention", lines[0])
	for _, name := range []string{
		"SHAPESERVER_PORT=x", "ELECTRIC_LOG_LEVEL=loud", "SHAPESERVER_FOO_BAR_BAZ_QUX", "--prot: unknown; did you mean --port?",
		"--cache-max-age=never", "DATABASE_URL: is required", "SHAPESERVER_SECRET: is required",
	} {
		assert.Contains(t, err.Error(), name)
	}
}

func TestWhatEachModeRequires(t *testing.T) {
	ps := problems(t, Serve, nil, nil)
	require.Len(t, ps, 2)
	assert.Contains(t, ps[0].String(), "or run shapeserver dev", "who has no database is told what to do")
	assert.Len(t, problems(t, Migrate, nil, nil), 1)
	c, _, err := Load(Dev, nil, nil)
	require.NoError(t, err)
	assert.True(t, c.Insecure)
	assert.Equal(t, "127.0.0.1", c.ListenHost, "dev is insecure, so it stays on this machine")
	c, _, err = Load(Dev, []string{"--secret", "s"}, nil)
	require.NoError(t, err)
	assert.False(t, c.Insecure)
	_, _, err = Load(Probe, nil, nil)
	require.NoError(t, err)
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	env := append(slices.Clone(base), "ELECTRIC_PORT=1", "SHAPESERVER_STORAGE_DIR=/env")
	for _, args := range [][]string{{"--port=2", "word"}, {"--port", "2", "word"}, {"-port=2", "word"}, {"word", "-port", "2"}} {
		c, rest, err := Load(Serve, args, env)
		require.NoError(t, err)
		assert.Equal(t, 2, c.Port)
		assert.Equal(t, "/env", c.StorageDir)
		assert.Equal(t, []string{"word"}, rest)
	}
	c, rest, err := Load(Serve, []string{"--listen-on-ipv6", "--help", "--", "--port"}, env)
	require.NoError(t, err)
	assert.True(t, c.ListenOnIPv6)
	assert.Equal(t, []string{"--help", "--port"}, rest)

	for _, args := range [][]string{{"--port"}, {"--port="}} {
		ps := problems(t, Serve, args, env)
		require.Len(t, ps, 1)
		assert.Contains(t, ps[0].String(), "--port: needs a value: want a whole number")
	}
}

func TestTwoNamesOfOneSetting(t *testing.T) {
	c := load(t, "SHAPESERVER_LONG_POLL_TIMEOUT=20s", "ELECTRIC_LONG_POLL_TIMEOUT=20000")
	assert.Equal(t, 20*time.Second, c.LongPollTimeout, "one value in two spellings is no contradiction")

	ps := problems(t, Serve, nil, append(slices.Clone(base), "SHAPESERVER_PORT=1", "ELECTRIC_PORT=2"))
	require.Len(t, ps, 1)
	assert.Equal(t, "SHAPESERVER_PORT and ELECTRIC_PORT: are two names of one setting and have different values: remove one", ps[0].String())

	ps = problems(t, Serve, nil, []string{base[0], "SHAPESERVER_SECRET=alpha", "ELECTRIC_SECRET=beta"})
	require.Len(t, ps, 1)
	assert.NotContains(t, ps[0].String(), "alpha")
	assert.NotContains(t, ps[0].String(), "beta")

	// DATABASE_URL is set by platforms for whoever reads it, so the name of our own wins without a word.
	c = load(t, "SHAPESERVER_DATABASE_URL=postgres://u:p@own/d")
	assert.Contains(t, c.DatabaseURL.String(), "@own/")
}

func TestEmptyMeansUnset(t *testing.T) {
	c := load(t, "ELECTRIC_PORT=", "ELECTRIC_SECRET=", "SHAPESERVER_MAX_SHAPES= ")
	assert.Equal(t, 3000, c.Port)
	c = load(t, "ELECTRIC_PORT=3005\n")
	assert.Equal(t, 3005, c.Port)
}

func TestKubernetesServiceLinksAreNotSettings(t *testing.T) {
	c := load(t,
		"SHAPESERVER_SERVICE_HOST=10.0.0.1", "SHAPESERVER_SERVICE_PORT=3000", "SHAPESERVER_SERVICE_PORT_HTTP=3000",
		"SHAPESERVER_PORT=tcp://10.0.0.1:3000", "SHAPESERVER_PORT_3000_TCP=tcp://10.0.0.1:3000",
		"SHAPESERVER_PORT_3000_TCP_PROTO=tcp", "SHAPESERVER_PORT_3000_TCP_PORT=3000", "SHAPESERVER_PORT_3000_TCP_ADDR=10.0.0.1",
		"SHAPESERVER_METRICS_PORT=tcp://10.0.0.2:9090", "ELECTRIC_SERVICE_HOST=10.0.0.3",
		"ELECTRIC_PORT=3007", "SHAPESERVER_TEST_DATABASE_URL=x")
	assert.Equal(t, 3007, c.Port)
	require.Len(t, c.Notes, 1)
	assert.Contains(t, c.Notes[0], "SHAPESERVER_PORT was set by Kubernetes")
}

func TestUnknownReferenceNamesAreNoted(t *testing.T) {
	c := load(t, "ELECTRIC_MAX_SHAPE=3", "ELECTRIC_SOMETHING_OF_NEXT_YEAR=1")
	require.Len(t, c.Notes, 2)
	assert.Contains(t, c.Notes[0], "ELECTRIC_MAX_SHAPE was ignored: unknown; did you mean ELECTRIC_MAX_SHAPES?")
}

// TestSecretsNeverPrint prints everything in every way.
func TestSecretsNeverPrint(t *testing.T) {
	c, _, err := Load(Serve, nil, []string{
		"DATABASE_URL=postgres://u:hunter2@h/d?sslpassword=hunter3&x=1", "SHAPESERVER_SECRET=hunter4",
		"ELECTRIC_POOLED_DATABASE_URL=postgres://u@a,b/d?password=hunter5",
	})
	require.NoError(t, err)
	var log strings.Builder
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("x", "config", c, "url", c.DatabaseURL, "secret", c.Secret)
	js, err := json.Marshal(struct {
		A Secret
		B DatabaseURL
		C Config
	}{c.Secret, c.DatabaseURL, c})
	require.NoError(t, err)
	all := fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c) + fmt.Sprintf("%v %#v %s %x", c.Secret, c.Secret, c.Secret, c.Secret.String()) +
		fmt.Sprintf("%v %#v %s", c.DatabaseURL, c.PooledDatabaseURL, []DatabaseURL{c.DatabaseURL}) +
		log.String() + string(js) + c.Effective() + strings.Join(c.Notes, "")
	assert.NotContains(t, all, "hunter")
	assert.Contains(t, c.DatabaseURL.ConnString(), "hunter2")
	assert.Contains(t, c.PooledDatabaseURL.ConnString(), "hunter5")

	for _, bad := range []string{
		"postgres://u:hunter2#@h/d", "postgres://u:hunter2/x@h/d", "postgres://u:hunter2?@h/d", "postgres://u:hunter2%zz@h/d",
		"postgres://u:hunter2:3@", "hunter2", "postgres://hunter2:hunter2", "postgres://u@h:hunter2/d", "postgres://u:a@hunter2@:hunter2/d",
		"postgres://u:p@h/d?sslmode=x&password=hunter2", "postgres://u:p@h/d?%zz=hunter2", "postgres://[hunter2]/d", "postgres://u:p@h/d?host=&password=hunter2",
	} {
		_, _, err := Load(Serve, nil, []string{"DATABASE_URL=" + bad, base[1]})
		var e *Error
		require.ErrorAs(t, err, &e, bad)
		require.Len(t, e.Problems, 1)
		assert.NotContains(t, err.Error(), "hunter", bad)
		assert.Contains(t, err.Error(), "DATABASE_URL=********: ")
	}
}

func TestCAFileGoesIntoTheURLs(t *testing.T) {
	pem := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(pem, testCA(t), 0o600))
	for _, tc := range []struct{ query, mode string }{
		{"", "verify-full"},
		{"?sslmode=require", "require"},
		{"?sslmode=verify-ca", "verify-ca"},
	} {
		c, _, err := Load(Serve, nil, []string{"DATABASE_URL=postgres://u:p@h/d" + tc.query, base[1], "ELECTRIC_DATABASE_CA_CERTIFICATE_FILE=" + pem})
		require.NoError(t, err)
		assert.Equal(t, tc.mode, c.DatabaseURL.param("sslmode"))
		assert.Equal(t, pem, c.DatabaseURL.param("sslrootcert"))
		assert.Equal(t, c.DatabaseURL, c.PooledDatabaseURL)
	}
	ps := problems(t, Serve, nil, []string{"DATABASE_URL=postgres://u:p@h/d?sslmode=disable", base[1], "ELECTRIC_DATABASE_CA_CERTIFICATE_FILE=" + pem})
	assert.Contains(t, ps[0].String(), "contradicts sslmode=disable")
	require.NoError(t, os.WriteFile(pem, []byte("nonsense"), 0o600))
	ps = problems(t, Serve, nil, append(slices.Clone(base), "ELECTRIC_DATABASE_CA_CERTIFICATE_FILE="+pem))
	assert.Contains(t, ps[0].String(), "contains no certificate")
}

func TestDerived(t *testing.T) {
	longest := load(t, "ELECTRIC_REPLICATION_STREAM_ID="+strings.Repeat("x", 39))
	assert.Len(t, longest.PublicationName(), 63, "Postgres cuts longer names")
	assert.Less(t, len(longest.SlotName()), 63)

	c := load(t)
	network, address := c.ListenAddr()
	assert.Equal(t, "tcp4 0.0.0.0:3000", network+" "+address)
	c.ListenOnIPv6 = true
	network, address = c.ListenAddr()
	assert.Equal(t, "tcp [::]:3000", network+" "+address)
	c.ListenHost = "::1"
	network, address = c.ListenAddr()
	assert.Equal(t, "tcp [::1]:3000", network+" "+address)

	for _, tc := range [][3]int{{1, 2, 1}, {2, 2, 1}, {6, 2, 4}, {8, 2, 6}, {20, 4, 16}, {100, 4, 96}} {
		c.DBPoolSize = tc[0]
		m, s := c.PoolSizes()
		assert.Equal(t, [2]int{tc[1], tc[2]}, [2]int{m, s})
	}
	d := c.Dialer()
	assert.Equal(t, -1, d.KeepAliveConfig.Count)
	assert.Nil(t, d.Control)
	c.DatabaseTCPUserTimeout, c.DatabaseTCPKeepaliveIdle = time.Second, 3*time.Second
	d = c.Dialer()
	assert.Equal(t, 3*time.Second, d.KeepAliveConfig.Idle)
	assert.NotNil(t, d.Control)
}
