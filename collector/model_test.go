package collector_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/collector"
	"github.com/shapeserver/shapeserver/shape"
)

// modelRuns is how many interleavings TestModel takes.
const modelRuns = 1000

// TestModel is the model of sender, consumer, suspension and crash (I4, I8) over random interleavings: transactions of one
// or several fragments, consumers that are slow, refuse, close, or die at any step and are cleaned up some time later,
// shapes that come while traffic runs. Whatever the order: a shape that lives has every transaction since it came,
// whole, once, in order; of one that died, what came before is a beginning of that; and in the end nothing is owed.
//
// SHAPESERVER_TEST_SEED repeats the run with that seed.
func TestModel(t *testing.T) {
	first, runs := rand.Uint64(), uint64(modelRuns)
	if v := os.Getenv("SHAPESERVER_TEST_SEED"); v != "" {
		var err error
		first, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err, "SHAPESERVER_TEST_SEED")
		runs = 1
	}
	var total modelCounts
	for i := range runs {
		seed := first + i
		synctest.Test(t, func(t *testing.T) { total.add(runModel(t, seed)) })
		if t.Failed() {
			t.Fatalf("run again with SHAPESERVER_TEST_SEED=%d", seed)
		}
	}
	t.Logf("seeds %d to %d: %+v", first, first+runs-1, total)
	if runs > 1 {
		require.Positive(t, total.Closed)
		require.Positive(t, total.Refused)
		require.Positive(t, total.Died)
		require.Positive(t, total.MidTransaction)
	}
}

// modelCounts says what the runs of the model went through.
type modelCounts struct{ Closed, Refused, Died, MidTransaction, Shapes int }

func (c *modelCounts) add(o modelCounts) {
	c.Closed += o.Closed
	c.Refused += o.Refused
	c.Died += o.Died
	c.MidTransaction += o.MidTransaction
	c.Shapes += o.Shapes
}

// model is everything around a collector in one run.
type model struct {
	c    *collector.Collector
	wg   sync.WaitGroup
	quit chan struct{}

	mu     sync.Mutex
	rng    *rand.Rand
	shapes map[shape.Handle]*modelShape
	counts modelCounts
}

// modelShape is one shape's history. log holds the transactions that are visible.
type modelShape struct {
	table    string
	log      []uint64
	since    int // how many transactions of its table had been sent when its registration returned; 0 for a restored one
	restored bool
	dead     bool
}

// roll returns a random number below n, from any goroutine.
func (m *model) roll(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rng.IntN(n)
}

// modelConsumer applies deliveries as the real one does: what it has of an open transaction is its own and is lost with
// it, and it dies at random.
type modelConsumer struct {
	handle  shape.Handle
	m       *model
	mailbox chan changes.Delivery
	done    chan struct{}
	owed    []changes.Receipt
}

func (c *modelConsumer) Mailbox() chan<- changes.Delivery { return c.mailbox }
func (c *modelConsumer) Done() <-chan struct{}            { return c.done }

func (m *model) start(h shape.Handle) *modelConsumer {
	c := &modelConsumer{handle: h, m: m, mailbox: make(chan changes.Delivery, 1+m.roll(3)), done: make(chan struct{})}
	m.wg.Go(c.run)
	return c
}

func (c *modelConsumer) pause() {
	if c.m.roll(3) == 0 {
		time.Sleep(time.Duration(c.m.roll(30)) * time.Millisecond) //nolint:forbidigo // virtual time
	}
}

func (c *modelConsumer) run() {
	var open []uint64 // of the transaction that is delivered in part
	for {
		var d changes.Delivery
		select {
		case <-c.m.quit:
			close(c.done)
			return
		case d = <-c.mailbox:
		}
		c.pause()
		if d.Close != 0 {
			if len(open) > 0 || c.m.roll(6) == 0 {
				c.m.count(func(n *modelCounts) { n.Refused++ })
				c.m.c.Refused(c.handle, d.Close)
				continue
			}
			if c.m.roll(40) > 0 {
				c.m.count(func(n *modelCounts) { n.Closed++ })
				c.m.c.Closed(c.handle, d.Close)
				c.pause() // the sender may have started a successor before this one has ended
				close(c.done)
				return
			}
			c.die() // instead of an answer
			return
		}
		c.owed = append(c.owed, d.Receipt)
		if c.m.roll(60) == 0 {
			c.die()
			return
		}
		for _, ch := range d.Changes {
			n, err := strconv.ParseUint(string(ch.New[0].Bytes), 10, 64)
			if err != nil {
				panic(err)
			}
			open = append(open, n)
		}
		if d.Commit {
			c.m.mu.Lock()
			s := c.m.shapes[c.handle]
			s.log = append(s.log, open...)
			c.m.mu.Unlock()
			open = nil
		}
		if c.m.roll(60) == 0 {
			c.die()
			return
		}
		d.Receipt.Applied()
		c.owed = c.owed[:len(c.owed)-1]
	}
}

// die ends without an answer. Cleaner's steps follow some time later.
func (c *modelConsumer) die() {
	c.m.count(func(n *modelCounts) { n.Died++ })
	c.m.mu.Lock()
	c.m.shapes[c.handle].dead = true
	c.m.mu.Unlock()
	close(c.done)
	c.pause()
	c.m.c.Unregister(c.handle)
	for _, r := range c.owed {
		r.Applied()
	}
	for {
		select {
		case d := <-c.mailbox:
			if d.Receipt != nil {
				d.Receipt.Applied()
			}
		default:
			return
		}
	}
}

func (m *model) count(f func(*modelCounts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.counts)
}

// Resume implements collector.Consumers.
func (m *model) Resume(h shape.Handle) (collector.Inbox, error) { return m.start(h), nil }

// ComparePartitions implements collector.Catalog.
func (m *model) ComparePartitions(context.Context, []uint32) (changes.Snapshot, error) {
	return everything, nil
}

// Awaited implements collector.Catalog.
func (m *model) Awaited(context.Context) (bool, error) { return false, nil }

// Ancestors implements collector.Catalog.
func (m *model) Ancestors(context.Context, uint32) ([]uint32, changes.Snapshot, error) {
	return nil, everything, nil
}

// Layouts implements collector.Catalog.
func (m *model) Layouts(context.Context, []uint32) (map[uint32]changes.Layout, changes.Snapshot, error) {
	return nil, everything, nil
}

func runModel(t *testing.T, seed uint64) modelCounts {
	m := &model{quit: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, 0)), shapes: map[shape.Handle]*modelShape{}}
	m.c = collector.New(m, m, collector.Options{SuspendAfter: time.Duration(4+m.roll(40)) * time.Millisecond})
	tables := []string{"a", "b"}
	add := func(table string, sent int, restored bool) {
		h := shape.Handle(table + strconv.Itoa(len(m.shapes)))
		m.mu.Lock()
		m.shapes[h] = &modelShape{table: table, since: sent, restored: restored}
		m.mu.Unlock()
		def := definition(table1(table))
		if restored {
			m.c.Restore(h, def)
		} else {
			m.c.Register(h, def, m.start(h))
		}
	}
	for i := range 4 {
		add(tables[i%2], 0, true)
	}
	in := make(chan changes.Event)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.c.Run(ctx, in) })

	sent := map[string][]uint64{}
	lsn := uint64(0)
	for range 40 {
		table := tables[m.roll(2)]
		lsn += 10
		n := 1 + m.roll(3)
		ids := make([]uint64, n)
		for i := range ids {
			ids[i] = lsn + uint64(i)
		}
		m.sendTransaction(in, lsn, relation(table1(table).OID, table), ids)
		sent[table] = append(sent[table], ids...)
		if m.roll(12) == 0 {
			add(table, len(sent[table]), false)
		}
		if m.roll(2) == 0 {
			time.Sleep(time.Duration(m.roll(80)) * time.Millisecond) //nolint:forbidigo // virtual time
		}
	}
	time.Sleep(time.Second) //nolint:forbidigo // virtual time: everything settles, and everybody goes to sleep
	synctest.Wait()
	require.Zero(t, m.c.Waiting(), "seed %d: receipts are owed", seed)
	require.EqualValues(t, lsn, m.c.LastSeen(), "seed %d", seed)
	for h, s := range m.shapes {
		all := sent[s.table]
		at := slices.Index(all, first(s.log))
		switch {
		case len(s.log) == 0 && s.dead:
		case len(s.log) == 0:
			require.GreaterOrEqual(t, s.since, len(all), "seed %d: %s got nothing", seed, h)
		case s.dead:
			require.LessOrEqual(t, at, s.since, "seed %d: %s missed its first", seed, h)
			require.Equal(t, all[at:at+len(s.log)], s.log, "seed %d: %s", seed, h)
		default:
			require.LessOrEqual(t, at, s.since, "seed %d: %s missed its first", seed, h)
			require.Equal(t, all[at:], s.log, "seed %d: %s", seed, h)
		}
	}
	m.counts.Shapes = len(m.shapes)
	cancel()
	running.Wait()
	close(m.quit)
	m.wg.Wait()
	return m.counts
}

func first(log []uint64) uint64 {
	if len(log) == 0 {
		return 0
	}
	return log[0]
}

func table1(name string) *shape.Table { return table(uint32(name[0]), name) }

// sendTransaction sends a transaction in one or several fragments, with pauses that are longer than shapes stay awake.
// Sometimes the connection breaks in between, and Postgres sends it again from its beginning.
func (m *model) sendTransaction(in chan<- changes.Event, lsn uint64, r *changes.Relation, ids []uint64) {
	whole := txn(lsn, r, ids...).Fragment
	for from := 0; from < len(ids); {
		to := from + 1 + m.roll(len(ids)-from)
		part := *whole
		part.First, part.Last, part.Changes = from == 0, to == len(ids), whole.Changes[from:to]
		in <- changes.Event{Fragment: &part}
		if !part.Last {
			m.count(func(n *modelCounts) { n.MidTransaction++ })
			if m.roll(2) == 0 {
				time.Sleep(time.Duration(m.roll(150)) * time.Millisecond) //nolint:forbidigo // virtual time
			}
			if m.roll(6) == 0 {
				in <- changes.Event{Fragment: whole}
				return
			}
		}
		from = to
	}
}
