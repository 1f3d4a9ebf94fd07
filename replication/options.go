package replication

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Config names what the stream works on. All but Manual and Temporary are required.
type Config struct {
	// ConnConfig says where the server is and who we are there, as pgconn.ParseConfig makes it. It must reach Postgres
	// itself: a transaction pooler can carry neither replication nor a session lock. New copies it.
	ConnConfig *pgconn.Config
	// Slot is the replication slot, at most 63 of the characters a-z, 0-9 and _ . It also names the advisory lock,
	// pg_advisory_lock(hashtext(Slot)), that lets only one process stream (protocol.md §11.2).
	Slot string
	// Publication is the publication that the stream reads, at most 63 bytes.
	Publication string
	// ManualPublication says that somebody else makes the publication: it is checked and never created.
	ManualPublication bool
	// Temporary makes a slot that Postgres drops with the connection. Every reconnect then makes a new one, and with it
	// every shape starts over.
	Temporary bool
}

// Options tunes a Stream. The zero Options is ready to use.
type Options struct {
	// FragmentBytes and FragmentChanges bound the pieces in which a transaction is delivered: a piece is sent off before
	// the change that would follow once it holds that many bytes of memory (about) or that many changes. Zero means
	// 1 MiB and 1000. One change is never divided, however big.
	FragmentBytes   int
	FragmentChanges int
	// MinBackoff and MaxBackoff bound the wait between attempts to connect. Zero means 1 s and 10 s. The first attempt
	// after a connection that made progress follows within 200 ms.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	// StatusInterval is the longest time between two standby statuses; a third of the server's wal_sender_timeout is
	// used when that is shorter. Zero means 10 s.
	StatusInterval time.Duration
	// SilenceTimeout is how long the server may send nothing at all, although asked for a reply after half of it, before
	// the connection is given up. Zero means 60 s.
	SilenceTimeout time.Duration
	// LockPoll is how often a Stream that waits tries to take the advisory lock. Zero means 250 ms.
	LockPoll time.Duration
	// Logger gets one line per connection and per loss of one. Nil means none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.FragmentBytes = cmp.Or(o.FragmentBytes, 1<<20)
	o.FragmentChanges = cmp.Or(o.FragmentChanges, 1000)
	o.MinBackoff = cmp.Or(o.MinBackoff, time.Second)
	o.MaxBackoff = max(cmp.Or(o.MaxBackoff, 10*time.Second), o.MinBackoff)
	o.StatusInterval = cmp.Or(o.StatusInterval, 10*time.Second)
	o.SilenceTimeout = cmp.Or(o.SilenceTimeout, time.Minute)
	o.LockPoll = cmp.Or(o.LockPoll, 250*time.Millisecond)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// slotName is what Postgres allows (section 27.2.6 of the manual, "Replication Slots"). Because nothing else passes, a
// slot's name needs no quoting in SQL or in replication commands.
var slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

func (c Config) validate() error {
	var errs []error
	if c.ConnConfig == nil {
		errs = append(errs, errors.New("no connection configured"))
	}
	if !slotName.MatchString(c.Slot) {
		errs = append(errs, fmt.Errorf("replication slot name %q: want 1 to 63 of a-z, 0-9 and _", c.Slot))
	}
	if c.Publication == "" || len(c.Publication) > 63 || strings.ContainsRune(c.Publication, 0) {
		errs = append(errs, fmt.Errorf("publication name %q: want 1 to 63 bytes", c.Publication))
	}
	return errors.Join(errs...)
}

func (o Options) validate() error {
	var errs []error
	for _, n := range []struct {
		name string
		neg  bool
	}{
		{"FragmentBytes", o.FragmentBytes < 0},
		{"FragmentChanges", o.FragmentChanges < 0},
		{"MinBackoff", o.MinBackoff < 0},
		{"MaxBackoff", o.MaxBackoff < 0},
		{"StatusInterval", o.StatusInterval < 0},
		{"SilenceTimeout", o.SilenceTimeout < 0},
		{"LockPoll", o.LockPoll < 0},
	} {
		if n.neg {
			errs = append(errs, fmt.Errorf("%s is negative", n.name))
		}
	}
	return errors.Join(errs...)
}
