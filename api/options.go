package api

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options tunes the HTTP front. The zero Options is ready to use: without a secret, with the protocol's times.
type Options struct {
	// Secret must come with every request for shapes, as the query parameter "secret"; empty asks for none.
	Secret string
	// AllowDelete switches DELETE /v1/shape on.
	AllowDelete bool
	// Version is what the header electric-server says. Empty means "dev".
	Version string

	// LongPollTimeout is how long a live request waits for a change; half of it is how long a request ahead of the
	// log waits for the log to catch up. In whole seconds it is also the interval of cursors. Zero means 20 s.
	LongPollTimeout time.Duration
	// SSETimeout is how long an event stream lasts. Zero means 60 s.
	SSETimeout time.Duration
	// SSEKeepAlive is after how much silence a comment is sent on an event stream. Zero means 21 s.
	SSEKeepAlive time.Duration
	// ReadyTimeout is how long a request waits for the server to become ready. Zero means 5 s.
	ReadyTimeout time.Duration
	// SnapshotTimeout is how long a request waits for the first data of a snapshot. Zero means 45 s.
	SnapshotTimeout time.Duration
	// WriteTimeout is how long a client may take to accept 256 KiB, or a whole response that is smaller. Zero means
	// 30 s.
	WriteTimeout time.Duration
	// BodyTimeout is how long a client may take to send the body of a POST. Zero means 30 s.
	BodyTimeout time.Duration

	// CacheMaxAge and CacheStaleAge are max-age and stale-while-revalidate of what is neither a first response nor
	// live, in whole seconds. Zero means 60 s and 300 s.
	CacheMaxAge   time.Duration
	CacheStaleAge time.Duration

	// MaxInitial and MaxExisting limit how many requests are served at once without, and with, the handle of a
	// live shape. Zero means 300 and 10 000.
	MaxInitial  int
	MaxExisting int

	// KnownDefinitions is how many texts of definitions are remembered together with the shape that they were
	// proven to name, about 150 bytes each and the schema header. Zero means 32 768.
	KnownDefinitions int

	// NoCompression sends every body as it is, whatever the client accepts.
	NoCompression bool
	// BodyCacheBytes is how much memory bodies take that are kept because several clients want the same: compressed
	// chunks, and the newest ends of logs. Zero means 32 MiB.
	BodyCacheBytes int64

	// Logger takes the access log (at debug) and failures that are the server's own; nil discards both.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	o.Version = cmp.Or(o.Version, "dev")
	o.LongPollTimeout = cmp.Or(o.LongPollTimeout, 20*time.Second)
	o.SSETimeout = cmp.Or(o.SSETimeout, time.Minute)
	o.SSEKeepAlive = cmp.Or(o.SSEKeepAlive, 21*time.Second)
	o.ReadyTimeout = cmp.Or(o.ReadyTimeout, 5*time.Second)
	o.SnapshotTimeout = cmp.Or(o.SnapshotTimeout, 45*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 30*time.Second)
	o.CacheMaxAge = cmp.Or(o.CacheMaxAge, time.Minute)
	o.CacheStaleAge = cmp.Or(o.CacheStaleAge, 5*time.Minute)
	o.MaxInitial = cmp.Or(o.MaxInitial, 300)
	o.MaxExisting = cmp.Or(o.MaxExisting, 10_000)
	o.KnownDefinitions = cmp.Or(o.KnownDefinitions, 32_768)
	o.BodyCacheBytes = cmp.Or(o.BodyCacheBytes, 32<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
