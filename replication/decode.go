package replication

import (
	"context"
	"encoding/binary"
	"log/slog"
	"time"

	"github.com/shapeserver/shapeserver/changes"
)

// Message types of pgoutput, protocol version 1 (section 55.9 of the manual, "Logical Replication Message Formats").
const (
	msgBegin    = 'B'
	msgCommit   = 'C'
	msgOrigin   = 'O'
	msgRelation = 'R'
	msgType     = 'Y'
	msgInsert   = 'I'
	msgUpdate   = 'U'
	msgDelete   = 'D'
	msgTruncate = 'T'
	msgMessage  = 'M'
)

// postgresEpoch is 2000-01-01 UTC in microseconds of Unix time; the stream's timestamps count from it.
const postgresEpoch = 946_684_800_000_000

// decoder turns the messages of one connection into Fragments. It belongs to the goroutine of Stream.Run.
//
// Rows point into a copy of their message, which is made once; messages themselves may be overwritten after decode.
type decoder struct {
	fragmentBytes   int
	fragmentChanges int
	log             *slog.Logger

	relations map[uint32]*changes.Relation
	last      *changes.Relation // of the last row, as most rows follow one of the same table

	txn     *changes.Txn     // nil between transactions
	index   uint64           // Change.Index of the next change
	first   bool             // no fragment of txn has left yet
	pending []changes.Change // of the next fragment
	held    int              // bytes of memory that pending holds, about

	bytes  byteArena
	values valueArena
}

func newDecoder(o Options) *decoder {
	return &decoder{
		fragmentBytes:   o.FragmentBytes,
		fragmentChanges: o.FragmentChanges,
		log:             o.Logger,
		relations:       make(map[uint32]*changes.Relation),
	}
}

// inTransaction reports whether a Begin has come and its Commit has not.
func (d *decoder) inTransaction() bool { return d.txn != nil }

// decode reads one message and returns the Fragment that it completes, or nil. An error is a *DecodeError; after one
// the decoder is of no more use.
func (d *decoder) decode(ctx context.Context, msg []byte) (*changes.Fragment, error) {
	c := cursor{msg: msg}
	switch kind := c.u8(); kind {
	case msgInsert, msgUpdate, msgDelete:
		c.msg = d.bytes.copy(msg)
		return d.row(&c, changes.Op(kind))
	case msgTruncate:
		return d.truncate(&c)
	case msgBegin:
		return nil, d.begin(&c)
	case msgCommit:
		return d.commit(&c)
	case msgRelation:
		return nil, d.relation(&c)
	case msgOrigin, msgType, msgMessage:
		return nil, nil // says nothing about rows
	default:
		if len(msg) == 0 {
			return nil, c.end()
		}
		d.log.DebugContext(ctx, "unknown pgoutput message skipped", "type", string(rune(kind)), "bytes", len(msg))
		return nil, nil
	}
}

func (d *decoder) begin(c *cursor) error {
	if d.inTransaction() {
		c.fail("transaction begins inside another")
		return c.end()
	}
	txn := &changes.Txn{
		CommitLSN:  changes.LSN(c.u64()),
		CommitTime: time.UnixMicro(int64(c.u64()) + postgresEpoch).UTC(), //nolint:gosec // signed on the wire
		Xid:        changes.Xid(c.u32()),
	}
	if err := c.end(); err != nil {
		return err
	}
	d.txn, d.index, d.first, d.held = txn, 0, true, 0
	return nil
}

func (d *decoder) commit(c *cursor) (*changes.Fragment, error) {
	if !d.inTransaction() {
		c.fail("commit outside a transaction")
		return nil, c.end()
	}
	c.u8() // flags, unused
	commitLSN := changes.LSN(c.u64())
	endLSN := changes.LSN(c.u64())
	c.u64() // commit time, which Begin had too
	if c.problem == "" && commitLSN != d.txn.CommitLSN {
		c.fail("commit of another transaction than the one that began")
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	f := d.cut()
	f.Last, f.EndLSN = true, endLSN
	d.txn = nil
	return f, nil
}

// cut makes a Fragment of what is pending.
func (d *decoder) cut() *changes.Fragment {
	n := len(d.pending)
	f := &changes.Fragment{Txn: d.txn, First: d.first}
	if n > 0 {
		f.Changes = d.pending[:n:n]
	}
	d.pending = d.pending[n:] // small transactions share a block
	d.first, d.held = false, 0
	return f
}

// full reports whether what is pending must leave before another change joins it.
func (d *decoder) full() bool {
	return len(d.pending) >= d.fragmentChanges || d.held >= d.fragmentBytes
}

// add appends a change that holds size bytes of memory, about, and returns the Fragment that had to leave before.
// Cutting before a change, not after one, keeps a Commit from needing an empty Fragment.
func (d *decoder) add(ch changes.Change, size int) (f *changes.Fragment) {
	if len(d.pending) > 0 && d.full() {
		n := len(d.pending)
		f = d.cut()
		d.pending = make([]changes.Change, 0, n) // the next is likely to be as long
	}
	if cap(d.pending) == 0 {
		d.pending = make([]changes.Change, 0, changeBlock)
	}
	ch.Index = d.index
	d.index++
	d.held += size
	d.pending = append(d.pending, ch)
	return f
}

// find returns the relation of a row message.
func (d *decoder) find(c *cursor, oid uint32) *changes.Relation {
	if !d.inTransaction() {
		c.fail("change outside a transaction")
		return nil
	}
	if d.last != nil && d.last.OID == oid {
		return d.last
	}
	rel, ok := d.relations[oid]
	if !ok {
		c.fail("relation was not announced")
		return nil
	}
	d.last = rel
	return rel
}

func (d *decoder) row(c *cursor, op changes.Op) (*changes.Fragment, error) {
	rel := d.find(c, c.u32())
	if rel == nil {
		return nil, c.end()
	}
	ch := changes.Change{Op: op, Relation: rel}
	part := c.u8()
	if op != changes.Insert && (part == 'O' || part == 'K') {
		ch.Old, ch.OldKeyOnly = d.tuple(c, rel), part == 'K'
		if op == changes.Update {
			part = c.u8()
		}
	} else if op == changes.Delete {
		c.fail("delete without an old row")
	}
	if op != changes.Delete {
		if part != 'N' {
			c.fail("no new row")
		}
		ch.New = d.tuple(c, rel)
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	if op == changes.Update && ch.Old != nil {
		fillUnchanged(&ch)
	}
	const valueSize = 32
	return d.add(ch, len(c.msg)+valueSize*(len(ch.Old)+len(ch.New))), nil
}

// tuple reads TupleData. It returns nil after a failure.
func (d *decoder) tuple(c *cursor, rel *changes.Relation) changes.Row {
	n := int(c.u16())
	if c.problem == "" && n != len(rel.Columns) {
		c.fail("row has another number of columns than its relation")
	}
	if c.problem != "" {
		return nil
	}
	row := d.values.take(n)
	// Written out, not with the cursor's methods, because it runs for every value of the stream.
	msg, pos := c.msg, c.pos
	for i := range row {
		if pos >= len(msg) {
			c.pos = pos
			c.fail("message ends too early")
			return nil
		}
		kind := changes.Kind(msg[pos])
		pos++
		switch kind {
		case changes.Text:
			if len(msg)-pos < 4 {
				c.pos = pos
				c.fail("message ends too early")
				return nil
			}
			size := binary.BigEndian.Uint32(msg[pos:])
			pos += 4
			if uint64(size) > uint64(len(msg)-pos) { //nolint:gosec // not negative
				c.pos = pos
				c.fail("message ends too early")
				return nil
			}
			end := pos + int(size)
			row[i] = changes.Value{Kind: changes.Text, Bytes: msg[pos:end:end]}
			pos = end
		case changes.Null, changes.Unchanged:
			row[i].Kind = kind
		default:
			c.pos = pos - 1
			c.fail("unknown kind of column") // also binary, which is never asked for
			return nil
		}
	}
	c.pos = pos
	return row
}

// fillUnchanged gives the new row the TOASTed values that the update did not touch and Postgres therefore left out. An
// old row that is only a key (full is false) has Null where it knows nothing, so only its key columns count.
func fillUnchanged(ch *changes.Change) {
	for i := range ch.New {
		if ch.New[i].Kind != changes.Unchanged || ch.Old[i].Kind == changes.Unchanged {
			continue
		}
		if !ch.OldKeyOnly || (ch.Relation.Columns[i].Key && ch.Old[i].Kind == changes.Text) {
			ch.New[i] = ch.Old[i]
		}
	}
}

func (d *decoder) truncate(c *cursor) (*changes.Fragment, error) {
	n := int(c.u32())
	c.u8() // CASCADE and RESTART IDENTITY: the tables that a cascade reaches are listed too
	if c.problem == "" && n != (len(c.msg)-c.pos)/4 {
		c.fail("message is not as long as its number of relations says")
	}
	if c.problem != "" {
		return nil, c.end()
	}
	rels := make([]*changes.Relation, 0, n)
	for range n {
		rel := d.find(c, c.u32())
		if rel == nil {
			return nil, c.end()
		}
		rels = append(rels, rel)
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	// A fragment can leave before the first relation only, so that there is at most one: the rest may exceed its limit.
	var f *changes.Fragment
	for i, rel := range rels {
		if i == 0 {
			f = d.add(changes.Change{Op: changes.Truncate, Relation: rel}, 0)
			continue
		}
		d.pending = append(d.pending, changes.Change{Op: changes.Truncate, Relation: rel, Index: d.index})
		d.index++
	}
	return f, nil
}

// relation remembers a table's description. Each announcement gets a pointer of its own, also one that says nothing new:
// Postgres announces a partition again when it is attached or detached, and that the columns do not show.
func (d *decoder) relation(c *cursor) error {
	rel := &changes.Relation{OID: c.u32(), Schema: c.text(), Name: c.text(), Identity: changes.ReplicaIdentity(c.u8())}
	if rel.Schema == "" {
		rel.Schema = "pg_catalog" // which the stream writes as an empty string
	}
	n := int(c.u16())
	const minColumn = 1 + 1 + 4 + 4
	if n > (len(c.msg)-c.pos)/minColumn {
		c.fail("message is too short for its number of columns")
	}
	if c.problem != "" {
		return c.end()
	}
	rel.Columns = make([]changes.Column, n)
	for i := range rel.Columns {
		key := c.u8()&1 != 0
		rel.Columns[i] = changes.Column{
			Key:     key,
			Name:    c.text(),
			TypeOID: c.u32(),
			TypeMod: int32(c.u32()), //nolint:gosec // signed on the wire
		}
	}
	if err := c.end(); err != nil {
		return err
	}
	d.relations[rel.OID] = rel
	d.last = nil
	return nil
}
