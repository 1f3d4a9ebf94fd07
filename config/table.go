package config

import (
	"math"
	"regexp"
	"strings"
	"time"
)

// prefix begins the name of every setting of ours.
const prefix = "SHAPESERVER_"

// setting is one row of the table: all there is to know about a setting.
type setting struct {
	section string
	// name is the environment variable, with the prefix.
	name string
	// aliases are other names of the same. A value under an alias that contradicts the one under name is an error,
	// except under a generic alias, which yields.
	aliases []string
	// generic names among the aliases are set by platforms for any program (DATABASE_URL).
	generic []string
	// def is the default, in the form that is typed; "" means unset.
	def string
	doc string
	// at returns the setting's place in c.
	at func(c *Config) value
}

// flag is the setting's name on the command line, without dashes.
func (s setting) flag() string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.name, prefix)), "_", "-")
}

// defaultString is the default in the form that value.String writes.
func (s setting) defaultString() string {
	var c Config
	v := s.at(&c)
	if s.def != "" {
		_ = v.Set(s.def) // Default reports what a default cannot be
	}
	return v.String()
}

func (s setting) isBool() bool {
	var c Config
	_, ok := s.at(&c).(boolValue)
	return ok
}

const (
	day     = 24 * time.Hour
	maxPort = math.MaxUint16
)

var (
	streamIDForm = regexp.MustCompile(`^[a-z0-9_]{1,39}$`)
	hostForm     = regexp.MustCompile(`^[0-9A-Za-z_.:%-]+$`)
	dirForm      = regexp.MustCompile(`^[^\x00]+$`)
)

// settings is every setting, in the order in which they are documented. The aliases of protocol.md §13 that are not
// here are in accepted.
var settings = []setting{
	{
		section: "Database", name: prefix + "DATABASE_URL", aliases: []string{"DATABASE_URL"}, generic: []string{"DATABASE_URL"},
		doc: "Required. The database, as a URL. User and password are percent-encoded; sslmode may be any of libpq's, prefer by default. It must lead to Postgres itself: a pooler cannot carry replication.",
		at:  func(c *Config) value { return urlValue{&c.DatabaseURL, c.noteFor(prefix + "DATABASE_URL")} },
	},
	{
		section: "Database", name: prefix + "POOLED_DATABASE_URL", aliases: []string{"ELECTRIC_POOLED_DATABASE_URL", "ELECTRIC_QUERY_DATABASE_URL"},
		doc: "The same database for queries, perhaps through a pooler. The database URL by default.",
		at: func(c *Config) value {
			return urlValue{&c.PooledDatabaseURL, c.noteFor(prefix + "POOLED_DATABASE_URL")}
		},
	},
	{
		section: "Database", name: prefix + "DATABASE_CA_CERTIFICATE_FILE", aliases: []string{"ELECTRIC_DATABASE_CA_CERTIFICATE_FILE"},
		doc: "A PEM file of the authorities that may have signed the database's certificate. Where the URL names no sslmode it then is verify-full.",
		at:  func(c *Config) value { return textValue{&c.DatabaseCAFile, dirForm, "the path of a PEM file"} },
	},
	{
		section: "Database", name: prefix + "DB_POOL_SIZE", aliases: []string{"ELECTRIC_DB_POOL_SIZE"}, def: "20",
		doc: "Connections for queries: a quarter of them, 2 to 4, for the catalogue, the others, at least 1, for snapshots. Replication has one more.",
		at:  func(c *Config) value { return intValue{p: &c.DBPoolSize, lo: 1, hi: 10_000} },
	},
	{
		section: "Database", name: prefix + "DATABASE_TCP_KEEPALIVE_IDLE", aliases: []string{"ELECTRIC_DATABASE_TCP_KEEPALIVE_IDLE"},
		doc: "Idle time before a keepalive probe on connections to the database; the system's by default.",
		at: func(c *Config) value {
			return durationValue{p: &c.DatabaseTCPKeepaliveIdle, lo: time.Second, hi: day, bare: time.Second, zero: "leaves it to the system"}
		},
	},
	{
		section: "Database", name: prefix + "DATABASE_TCP_KEEPALIVE_INTERVAL", aliases: []string{"ELECTRIC_DATABASE_TCP_KEEPALIVE_INTERVAL"},
		doc: "Time between keepalive probes.",
		at: func(c *Config) value {
			return durationValue{p: &c.DatabaseTCPKeepaliveInterval, lo: time.Second, hi: day, bare: time.Second, zero: "leaves it to the system"}
		},
	},
	{
		section: "Database", name: prefix + "DATABASE_TCP_KEEPALIVE_COUNT", aliases: []string{"ELECTRIC_DATABASE_TCP_KEEPALIVE_COUNT"},
		doc: "Unanswered probes after which a connection is given up.",
		at: func(c *Config) value {
			return intValue{p: &c.DatabaseTCPKeepaliveCount, hi: 127, zero: "leaves it to the system"}
		},
	},
	{
		section: "Database", name: prefix + "DATABASE_TCP_USER_TIMEOUT", aliases: []string{"ELECTRIC_DATABASE_TCP_USER_TIMEOUT"},
		doc: "How long sent data may stay unacknowledged before a connection is given up (Linux only).",
		at: func(c *Config) value {
			return durationValue{p: &c.DatabaseTCPUserTimeout, lo: time.Millisecond, hi: day, zero: "leaves it to the system"}
		},
	},

	{
		section: "Replication", name: prefix + "REPLICATION_STREAM_ID", aliases: []string{"ELECTRIC_REPLICATION_STREAM_ID"}, def: "default",
		doc: "Ends the names of the replication slot and the publication. Servers with different ids may share a database; with the same id the second waits for the first to stop.",
		at: func(c *Config) value {
			return textValue{&c.StreamID, streamIDForm, "1 to 39 of the characters a-z, 0-9 and _"}
		},
	},
	{
		section: "Replication", name: prefix + "CLEANUP_REPLICATION_SLOTS_ON_SHUTDOWN", aliases: []string{"CLEANUP_REPLICATION_SLOTS_ON_SHUTDOWN"}, def: "false",
		doc: "Drop the slot at a clean stop. Every shape then starts anew at the next start.",
		at:  func(c *Config) value { return boolValue{&c.CleanupSlotOnShutdown} },
	},
	{
		section: "Replication", name: prefix + "MANUAL_TABLE_PUBLISHING", aliases: []string{"ELECTRIC_MANUAL_TABLE_PUBLISHING"}, def: "false",
		doc: "Never alter the publication or a table. Whoever administers the database adds the tables and sets REPLICA IDENTITY FULL.",
		at:  func(c *Config) value { return boolValue{&c.ManualTablePublishing} },
	},
	{
		section: "Replication", name: prefix + "PUBLICATION_REFRESH_PERIOD", aliases: []string{"ELECTRIC_TWEAKS_PUBLICATION_REFRESH_PERIOD"}, def: "60s",
		doc: "How often the publication is read and repaired.",
		at: func(c *Config) value {
			return durationValue{p: &c.PublicationRefreshPeriod, lo: 100 * time.Millisecond, hi: day}
		},
	},
	{
		section: "Replication", name: prefix + "PUBLICATION_LINGER", def: "10s",
		doc: "How long a table stays in the publication after its last shape went, in case another comes.",
		at: func(c *Config) value {
			return durationValue{p: &c.PublicationLinger, lo: time.Millisecond, hi: day}
		},
	},
	{
		section: "Replication", name: prefix + "SCHEMA_RECONCILER_PERIOD", aliases: []string{"ELECTRIC_TWEAKS_SCHEMA_RECONCILER_PERIOD"}, def: "60s",
		doc: "How often the tables of shapes are looked up again, to notice what the replication stream does not tell.",
		at: func(c *Config) value {
			return durationValue{p: &c.SchemaReconcilePeriod, lo: 100 * time.Millisecond, hi: day}
		},
	},

	{
		section: "Access", name: prefix + "SECRET", aliases: []string{"ELECTRIC_SECRET"},
		doc: "What requests must carry as the parameter secret. Prefer the environment to the flag: other users of the machine can see a command line.",
		at:  func(c *Config) value { return secretValue{&c.Secret} },
	},
	{
		section: "Access", name: prefix + "INSECURE", aliases: []string{"ELECTRIC_INSECURE"}, def: "false",
		doc: "Answer anyone. serve needs either this or a secret; dev is insecure unless a secret is set.",
		at:  func(c *Config) value { return boolValue{&c.Insecure} },
	},
	{
		section: "Access", name: prefix + "ENABLE_INTEGRATION_TESTING", aliases: []string{"ELECTRIC_ENABLE_INTEGRATION_TESTING"}, def: "false",
		doc: "Allow DELETE /v1/shape.",
		at:  func(c *Config) value { return boolValue{&c.EnableIntegrationTesting} },
	},

	{
		section: "HTTP", name: prefix + "PORT", aliases: []string{"ELECTRIC_PORT"}, def: "3000",
		doc: "The port of the API.",
		at: func(c *Config) value {
			return intValue{p: &c.Port, hi: maxPort, zero: "means any free one"}
		},
	},
	{
		section: "HTTP", name: prefix + "LISTEN_HOST",
		doc: "The address or host name to listen on. All addresses by default (127.0.0.1 with dev).",
		at: func(c *Config) value {
			return textValue{&c.ListenHost, hostForm, "an address or a host name, without a port"}
		},
	},
	{
		section: "HTTP", name: prefix + "LISTEN_ON_IPV6", aliases: []string{"ELECTRIC_LISTEN_ON_IPV6"}, def: "false",
		doc: "Listen on IPv6 as well as IPv4.",
		at:  func(c *Config) value { return boolValue{&c.ListenOnIPv6} },
	},
	{
		section: "HTTP", name: prefix + "TCP_SEND_TIMEOUT", aliases: []string{"ELECTRIC_TCP_SEND_TIMEOUT"}, def: "30s",
		doc: "Cut a connection whose client has taken nothing for so long.",
		at:  func(c *Config) value { return durationValue{p: &c.TCPSendTimeout, lo: time.Second, hi: day} },
	},
	{
		section: "HTTP", name: prefix + "TCP_READ_TIMEOUT", aliases: []string{"ELECTRIC_TCP_READ_TIMEOUT"}, def: "60s",
		doc: "Close a connection on which no request has come for so long. Make it longer than the idle time of a proxy in front.",
		at:  func(c *Config) value { return durationValue{p: &c.TCPReadTimeout, lo: time.Second, hi: day} },
	},
	{
		section: "HTTP", name: prefix + "LONG_POLL_TIMEOUT", aliases: []string{"ELECTRIC_LONG_POLL_TIMEOUT"}, def: "20s",
		doc: "Answer a live request after so long without a change.",
		at: func(c *Config) value {
			return durationValue{p: &c.LongPollTimeout, lo: 100 * time.Millisecond, hi: time.Hour}
		},
	},
	{
		section: "HTTP", name: prefix + "SSE_LIFETIME", def: "60s",
		doc: "End a stream of server-sent events after so long; the client connects again.",
		at:  func(c *Config) value { return durationValue{p: &c.SSELifetime, lo: time.Second, hi: day} },
	},
	{
		section: "HTTP", name: prefix + "SSE_KEEPALIVE", def: "21s",
		doc: "Send a comment on a silent stream of server-sent events so often.",
		at:  func(c *Config) value { return durationValue{p: &c.SSEKeepalive, lo: time.Second, hi: day} },
	},
	{
		section: "HTTP", name: prefix + "CACHE_MAX_AGE", aliases: []string{"ELECTRIC_CACHE_MAX_AGE"}, def: "60s",
		doc: "How long caches may keep a response.",
		at: func(c *Config) value {
			return durationValue{p: &c.CacheMaxAge, hi: 365 * day, bare: time.Second}
		},
	},
	{
		section: "HTTP", name: prefix + "CACHE_STALE_AGE", aliases: []string{"ELECTRIC_CACHE_STALE_AGE"}, def: "300s",
		doc: "How long after that they may serve it while asking anew.",
		at: func(c *Config) value {
			return durationValue{p: &c.CacheStaleAge, hi: 365 * day, bare: time.Second}
		},
	},
	{
		section: "HTTP", name: prefix + "HTTP2_CLEARTEXT", def: "false",
		doc: "Take HTTP/2 without TLS (h2c, by prior knowledge) beside HTTP/1.1 on the same port, for proxies that speak it: all their requests on one connection.",
		at:  func(c *Config) value { return boolValue{&c.HTTP2Cleartext} },
	},
	{
		section: "HTTP", name: prefix + "COMPRESSION", def: "true",
		doc: "Compress bodies with zstd or gzip for clients that accept it. Event streams, and what is below 1 KiB, are never compressed.",
		at:  func(c *Config) value { return boolValue{&c.Compression} },
	},
	{
		section: "HTTP", name: prefix + "BODY_CACHE_SIZE", def: "32MiB",
		doc: "Memory for bodies that several clients want: compressed chunks, each compressed once, and the newest ends of logs.",
		at:  func(c *Config) value { return sizeValue{&c.BodyCacheBytes, 1 << 20, 1 << 40} },
	},
	{
		section: "HTTP", name: prefix + "MAX_CONCURRENT_REQUESTS", aliases: []string{"ELECTRIC_MAX_CONCURRENT_REQUESTS"}, def: `{"initial":300,"existing":10000}`,
		doc: "Requests answered at one time, those that may create a shape and the others. More get 503 and retry-after.",
		at:  func(c *Config) value { return limitsValue{&c.MaxConcurrentRequests} },
	},
	{
		section: "HTTP", name: prefix + "SHUTDOWN_TIMEOUT", def: "8s",
		doc: "How long a stop waits for responses being sent before it cuts them.",
		at: func(c *Config) value {
			return durationValue{p: &c.ShutdownTimeout, lo: 100 * time.Millisecond, hi: time.Hour}
		},
	},

	{
		section: "Shapes and storage", name: prefix + "STORAGE_DIR", aliases: []string{"ELECTRIC_STORAGE_DIR"}, def: "./persistent",
		doc: "The folder of the shapes' logs. One server at a time uses it.",
		at:  func(c *Config) value { return textValue{&c.StorageDir, dirForm, "a path"} },
	},
	{
		section: "Shapes and storage", name: prefix + "SHAPE_CHUNK_BYTES_THRESHOLD", aliases: []string{"ELECTRIC_SHAPE_CHUNK_BYTES_THRESHOLD"}, def: "10MiB",
		doc: "The size at which a chunk of a log is closed: about the size of the largest responses.",
		at:  func(c *Config) value { return sizeValue{&c.ChunkBytes, 1, 1 << 30} },
	},
	{
		section: "Shapes and storage", name: prefix + "MAX_SHAPES", aliases: []string{"ELECTRIC_MAX_SHAPES", "ELECTRIC_EXPERIMENTAL_MAX_SHAPES"}, def: "0",
		doc: "Above this number the least recently used shapes are removed, every minute.",
		at: func(c *Config) value {
			return intValue{p: &c.MaxShapes, hi: 1_000_000_000, zero: "means no bound"}
		},
	},
	{
		section: "Shapes and storage", name: prefix + "SHAPE_SUSPEND_CONSUMER", aliases: []string{"ELECTRIC_SHAPE_SUSPEND_CONSUMER"}, def: "true",
		doc: "Free the memory of shapes that have seen no change for a while. Clients notice nothing.",
		at:  func(c *Config) value { return boolValue{&c.SuspendConsumers} },
	},
	{
		section: "Shapes and storage", name: prefix + "SHAPE_SUSPEND_AFTER", aliases: []string{"ELECTRIC_SHAPE_SUSPEND_AFTER"}, def: "1min",
		doc: "How long that while is.",
		at: func(c *Config) value {
			return durationValue{p: &c.SuspendAfter, lo: 10 * time.Millisecond, hi: 30 * day}
		},
	},
	{
		section: "Shapes and storage", name: prefix + "FLUSH_STALL_GRACE_PERIOD", aliases: []string{"ELECTRIC_FLUSH_STALL_GRACE_PERIOD"}, def: "1min",
		doc: "Remove a shape that has not stored what it was sent for so long, before it holds up the others.",
		at:  func(c *Config) value { return durationValue{p: &c.StallLimit, lo: time.Second, hi: day} },
	},
	{
		section: "Shapes and storage", name: prefix + "RECONCILE_PERIOD", def: "5min",
		doc: "How often what is recorded of each shape is compared and repaired.",
		at: func(c *Config) value {
			return durationValue{p: &c.ReconcilePeriod, lo: 100 * time.Millisecond, hi: day}
		},
	},

	{
		section: "Logs, metrics, names", name: prefix + "LOG_LEVEL", aliases: []string{"ELECTRIC_LOG_LEVEL"}, def: "info",
		doc: "The least level that is logged.",
		at:  func(c *Config) value { return levelValue{&c.LogLevel} },
	},
	{
		section: "Logs, metrics, names", name: prefix + "LOG_FORMAT", def: "text",
		doc: "The form of the log on standard error.",
		at:  func(c *Config) value { return enumValue{&c.LogFormat, []string{"text", "json"}} },
	},
	{
		section: "Logs, metrics, names", name: prefix + "PROMETHEUS_PORT", aliases: []string{"ELECTRIC_PROMETHEUS_PORT"}, def: "0",
		doc: "Serve GET /metrics on this port.",
		at:  func(c *Config) value { return intValue{p: &c.PrometheusPort, hi: maxPort, zero: "means not at all"} },
	},
	{
		section: "Logs, metrics, names", name: prefix + "INSTANCE_ID", aliases: []string{"ELECTRIC_INSTANCE_ID"},
		doc: "Names this process in logs and in the database; random by default.",
		at:  func(c *Config) value { return textValue{p: &c.InstanceID, want: "any text"} },
	},
	{
		section: "Logs, metrics, names", name: prefix + "DATABASE_ID", aliases: []string{"ELECTRIC_DATABASE_ID"}, def: "single_stack",
		doc: "Goes into the tags of rows of shapes with subqueries.",
		at:  func(c *Config) value { return textValue{p: &c.DatabaseID, want: "any text"} },
	},
}
