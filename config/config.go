package config

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config is every setting of the server, checked. Load makes it; Default is the one with no setting given.
//
// A Config may be copied, printed and logged: its secrets mask themselves.
type Config struct {
	// DatabaseURL is used for replication, which no connection pooler can carry. It is set unless the Mode is Dev
	// or Probe.
	DatabaseURL DatabaseURL
	// PooledDatabaseURL is used for everything else. It is DatabaseURL unless set.
	PooledDatabaseURL DatabaseURL
	// DatabaseCAFile is already part of both URLs (sslrootcert); it stands here to be shown.
	DatabaseCAFile string
	// DBPoolSize is how many connections queries may use in all, at least 1, which counts as 3: see PoolSizes.
	DBPoolSize int
	// The next four are the TCP options of connections to the database; zero means the system's own. Use Dialer.
	DatabaseTCPKeepaliveIdle     time.Duration
	DatabaseTCPKeepaliveInterval time.Duration
	DatabaseTCPKeepaliveCount    int
	DatabaseTCPUserTimeout       time.Duration

	// StreamID, [a-z0-9_]{1,39}, is the end of the names of the slot and the publication.
	StreamID string
	// CleanupSlotOnShutdown drops the replication slot at a clean stop.
	CleanupSlotOnShutdown bool
	// ManualTablePublishing leaves the publication and replica identities to the database's administrator.
	ManualTablePublishing bool
	// PublicationRefreshPeriod is how often the publication is compared with what it should hold.
	PublicationRefreshPeriod time.Duration
	// PublicationLinger is how long a table without shapes stays published.
	PublicationLinger time.Duration
	// SchemaReconcilePeriod is how often the tables of shapes are compared with the catalogue.
	SchemaReconcilePeriod time.Duration

	// Exactly one of Secret and Insecure is set when the Mode is Serve.
	Secret   Secret
	Insecure bool

	// Port is the API's, 0 for any free one; ListenHost the address to listen on. Use ListenAddr.
	Port         int
	ListenHost   string
	ListenOnIPv6 bool
	// TCPSendTimeout bounds each write to a client that does not read. TCPReadTimeout bounds the reading of a
	// request and the idle time of a kept connection.
	TCPSendTimeout, TCPReadTimeout time.Duration
	// LongPollTimeout ends a live request without news; it is also the interval of electric-cursor.
	LongPollTimeout time.Duration
	// SSELifetime ends a live_sse response; SSEKeepalive is the time between its comments.
	SSELifetime, SSEKeepalive time.Duration
	// CacheMaxAge and CacheStaleAge are whole seconds.
	CacheMaxAge, CacheStaleAge time.Duration
	// HTTP2Cleartext is whether HTTP/2 without TLS is taken beside HTTP/1.1.
	HTTP2Cleartext bool
	// Compression is whether bodies are compressed for clients that accept it.
	Compression bool
	// BodyCacheBytes is how much memory bodies take that are kept because several clients want the same.
	BodyCacheBytes        int64
	MaxConcurrentRequests RequestLimits
	// EnableIntegrationTesting switches DELETE /v1/shape on.
	EnableIntegrationTesting bool
	// ShutdownTimeout bounds a clean stop: what has not ended by then is cut.
	ShutdownTimeout time.Duration

	StorageDir string
	// ChunkBytes is the size at which a chunk of a shape's log is closed, and so about that of a response.
	ChunkBytes int64
	// MaxShapes is the number above which the least recently used shapes are removed; 0 means no bound.
	MaxShapes int
	// SuspendConsumers frees the memory of a shape's consumer after SuspendAfter without a change.
	SuspendConsumers bool
	SuspendAfter     time.Duration
	// StallLimit is how long one shape may fail to store what it was sent before it is removed, so that it cannot
	// hold up the others.
	StallLimit time.Duration
	// ReconcilePeriod is how often the four records of each shape are compared and repaired.
	ReconcilePeriod time.Duration

	// InstanceID names this process in logs; empty means a random one. DatabaseID is part of the tags of rows
	// (protocol.md §9.2).
	InstanceID, DatabaseID string
	// PrometheusPort serves GET /metrics; 0 means not at all.
	PrometheusPort int
	LogLevel       slog.Level
	// LogFormat is "text" or "json".
	LogFormat string

	// Notes are remarks for the operator, one line each and free of secrets: settings that were accepted without
	// having a meaning here, and the like. The caller logs them once.
	Notes []string

	// from holds where each setting came from, by its name: an environment variable, a flag, or nothing (default).
	from map[string]string
}

// RequestLimits bounds the requests being answered at one time: those that may create a shape (offset=-1, now), and
// all others.
type RequestLimits struct {
	Initial  int `json:"initial"`
	Existing int `json:"existing"`
}

// Default returns a Config with every default and neither a database nor a secret.
func Default() Config {
	c := Config{from: map[string]string{}}
	for _, s := range settings {
		if s.def == "" {
			continue
		}
		if err := s.at(&c).Set(s.def); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", s.name, err)) // a test sets them all
		}
	}
	return c
}

// ListenAddr returns the arguments of net.Listen for the API: IPv4 alone by default, both families with ListenOnIPv6.
// An explicit ListenHost decides by itself.
func (c Config) ListenAddr() (network, address string) {
	port := strconv.Itoa(c.Port)
	switch {
	case c.ListenHost != "":
		return "tcp", net.JoinHostPort(c.ListenHost, port)
	case c.ListenOnIPv6:
		return "tcp", net.JoinHostPort("::", port) // on a wildcard, package net clears IPV6_V6ONLY
	default:
		return "tcp4", net.JoinHostPort("0.0.0.0", port)
	}
}

// PoolSizes divides DBPoolSize: metadata connections for catalogue and status, a quarter, 2 to 4 since the publication
// holds one while it asks for another; and the rest, at least 1, for snapshots. So there are never fewer than 3.
func (c Config) PoolSizes() (metadata, snapshots int) {
	metadata = min(max(c.DBPoolSize/4, 2), 4)
	return metadata, max(c.DBPoolSize-metadata, 1)
}

// SlotName is the replication slot that the server makes in the database, at most 56 bytes long.
func (c Config) SlotName() string { return "shapeserver_slot_" + c.StreamID }

// PublicationName is the publication that the server makes in the database, at most 63 bytes long: longer
// names are cut by Postgres.
func (c Config) PublicationName() string { return "shapeserver_publication_" + c.StreamID }

// String returns the settings that differ from the default, secrets masked.
func (c Config) String() string {
	var parts []string
	for _, s := range settings {
		if v := s.at(&c).String(); v != s.defaultString() {
			parts = append(parts, s.name+"="+v)
		}
	}
	return strings.Join(parts, " ")
}

// GoString does for %#v what String does for %v.
func (c Config) GoString() string { return c.String() }

// LogValue groups the settings that differ from the default, secrets masked.
func (c Config) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, s := range settings {
		if v := s.at(&c).String(); v != s.defaultString() {
			attrs = append(attrs, slog.String(strings.ToLower(strings.TrimPrefix(s.name, prefix)), v))
		}
	}
	return slog.GroupValue(attrs...)
}

// Given reports whether a setting, by its SHAPESERVER_ name, was set by a flag or in the environment.
func (c Config) Given(name string) bool { return c.from[name] != "" }
