package collector

import (
	"sync"
	"sync/atomic"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/shape"
)

// state is where a route stands in the close protocol (I8).
//
//	            change comes              idle: close request sent
//	asleep ─────────────────► awake ──────────────────────────────► closing
//	  ▲                         ▲                                      │
//	  │                         ├── Refused: the buffer goes first ────┤
//	  │                         └── Closed, something buffered: ───────┤
//	  │                             a successor gets it first          │
//	  └──────────────────────────── Closed, nothing buffered ──────────┘
//	awake, asleep, closing ── cut off, or its consumer died, stalled or cannot start ──► ended
//	any ── Unregister ──► gone
type state byte

const (
	asleep  state = iota // no consumer; the routing entry is all there is
	awake                // deliveries go to inbox
	closing              // a close request is out; deliveries wait in buffer
	ended                // no consumer will come; receipts wait for Unregister, when the shape is durably gone
	gone                 // unregistered: nothing is sent, receipts are given at once
)

// Inbox is the receiving side of a running consumer.
type Inbox interface {
	Mailbox() chan<- changes.Delivery
	Done() <-chan struct{}
}

// route is the collector's entry of one shape.
type route struct {
	handle shape.Handle
	def    *shape.Definition

	// Guarded by Collector.mu.
	since    uint64   // ordinal of the first transaction that it gets
	keys     []string // the values under which the index has it, in column keyColumn; nil when it has no key
	keyCol   string
	position int // in its table's list of routes without key

	// Used by the goroutine of Collector.Run alone.
	batch   []*changes.Change // changes of the current fragment
	touched bool              // listed among the touched routes of the current transaction
	fresh   bool              // listed among the routes with changes in the current fragment

	cut atomic.Bool // the shape is being removed: nothing more is sent

	// mu is held while a delivery is being sent, which may block; Unregister waits for it, but only after the
	// consumer has ended, which unblocks the sender. It is never taken under Collector.mu.
	mu    sync.Mutex
	state state
	inbox Inbox
	token changes.Token
	// answered is closed when the close request has been answered; nil unless closing.
	answered chan struct{}
	// buffer holds, in order, what came while closing. Whatever is sent next goes behind it.
	buffer []changes.Delivery
	owed   changes.Receipt // of the first delivery that came when the route had ended
	used   int64           // number of the sweep before the last delivery
}
