package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/shapeserver/shapeserver/changes"
)

const (
	// confirmDelay is the least time between a status and one that is sent because the confirmed position rose, so that
	// confirming each transaction does not send a status for each.
	confirmDelay = 100 * time.Millisecond
	// walEndDelay is the least time between two events that only tell how far the server is.
	walEndDelay = time.Second
	// sendTimeout bounds sending a status.
	sendTimeout = 10 * time.Second
)

// link is a connection in its streaming phase. Only Run's goroutine uses it, but for hastenLocked and interrupt.
//
// Everything that depends on time happens in tick, which runs when the connection's read deadline passes, be it because
// nothing came or in the midst of a busy stream: a read with a passed deadline fails before it looks at the data, and the
// protocol's reader goes on later from where it was. So messages cost no look at the clock.
type link struct {
	s       *Stream
	conn    net.Conn
	fe      *pgproto3.Frontend
	meter   *meter
	decoder *decoder

	statusInterval time.Duration
	sendTimeout    time.Duration
	statusBuf      []byte
	timer          *time.Timer // for deliver

	received   changes.LSN // the server has sent everything up to here
	walEnd     changes.LSN // from a keepalive, to be told to out; zero when there is nothing to tell
	toldWALEnd changes.LSN // highest position that out knows of
	toldAt     time.Time   // when it was last told by an event of its own
	heardBytes int64       // meter's count when it last rose
	heardAt    time.Time
	asked      bool      // for a reply, in this silence
	statusAt   time.Time // when the last status was sent

	// Guarded by s.mu.
	wakeAt      time.Time // the read deadline in force
	interrupted bool
	considered  changes.LSN // s.confirmed when the last status was made
}

// newLink takes the connection over from pgconn, whose own reading costs a context look-up for each message.
func (s *Stream) newLink(db *pgconn.PgConn, m *meter, info Info, senderTimeout time.Duration) (*link, error) {
	hijacked, err := db.Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over connection: %w", err)
	}
	return s.makeLink(hijacked.Conn, hijacked.Frontend, m, info.ConfirmedLSN, senderTimeout), nil
}

func (s *Stream) makeLink(conn net.Conn, fe *pgproto3.Frontend, m *meter, start changes.LSN, senderTimeout time.Duration) *link {
	interval := s.opts.StatusInterval
	if senderTimeout > 0 {
		interval = min(interval, senderTimeout/3)
	}
	return &link{
		s:              s,
		conn:           conn,
		fe:             fe,
		meter:          m,
		decoder:        newDecoder(s.opts),
		statusInterval: interval,
		sendTimeout:    sendTimeout,
		received:       start,
		toldWALEnd:     start,
	}
}

// run streams until ctx ends or the connection does, and closes it. It never returns nil.
func (l *link) run(ctx context.Context, out chan<- changes.Event) error {
	l.heardAt = time.Now()
	l.timer = time.NewTimer(time.Hour)
	defer l.timer.Stop()
	l.s.mu.Lock()
	l.s.link = l
	l.s.mu.Unlock()
	stop := context.AfterFunc(ctx, l.interrupt)

	err := l.stream(ctx, out)

	stop()
	l.s.mu.Lock()
	l.s.link = nil
	l.s.mu.Unlock()
	l.close(ctx.Err() != nil)
	return err
}

func (l *link) stream(ctx context.Context, out chan<- changes.Event) error {
	if err := l.sendStatus(time.Now(), false); err != nil {
		return err
	}
	l.rearm()
	for {
		msg, err := l.fe.Receive()
		if err != nil {
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case !isTimeout(err):
				return fmt.Errorf("read stream: %w", err)
			}
			if err := l.tick(time.Now()); err != nil {
				return err
			}
			if err := l.tellWALEnd(ctx, out); err != nil {
				return err
			}
			l.rearm()
			continue
		}
		switch m := msg.(type) {
		case *pgproto3.CopyData:
			if err := l.copyData(ctx, m.Data, out); err != nil {
				return err
			}
		case *pgproto3.ErrorResponse:
			return fmt.Errorf("stream ended by the server: %w", pgconn.ErrorResponseToPgError(m))
		case *pgproto3.CopyDone, *pgproto3.CommandComplete, *pgproto3.ReadyForQuery:
			return errors.New("stream ended by the server")
		case *pgproto3.NoticeResponse:
			l.s.log.WarnContext(ctx, "notice from the replication stream", "severity", m.Severity, "sqlstate", m.Code, "notice", m.Message)
		default: // ParameterStatus, as after a reload of the server's settings
		}
	}
}

// copyData handles the two messages that a walsender sends, XLogData and Primary keepalive (section 55.4 of the manual,
// "Streaming Replication Protocol").
func (l *link) copyData(ctx context.Context, data []byte, out chan<- changes.Event) error {
	const (
		xlogHeader = 1 + 8 + 8 + 8 // 'w', start, end of WAL, clock
		keepalive  = 1 + 8 + 8 + 1 // 'k', end of WAL, clock, reply requested
	)
	switch {
	case len(data) >= xlogHeader && data[0] == 'w':
		msg := data[xlogHeader:]
		l.received = max(l.received, changes.LSN(binary.BigEndian.Uint64(data[1:])))
		l.s.stats.bytes.Add(uint64(len(msg)))
		f, err := l.decoder.decode(ctx, msg)
		if err != nil {
			return fmt.Errorf("decode stream at %s: %w", l.received, err)
		}
		if f == nil {
			return nil
		}
		return l.deliverFragment(ctx, f, out)
	case len(data) == keepalive && data[0] == 'k':
		end := changes.LSN(binary.BigEndian.Uint64(data[1:]))
		l.received = max(l.received, end)
		l.s.stats.received.Store(uint64(l.received))
		if !l.decoder.inTransaction() && end > l.toldWALEnd {
			l.walEnd = end
		}
		if data[17] != 0 {
			// The server fears that we are gone, or shuts down and waits until we have confirmed all it has: no delay.
			if err := l.sendStatus(time.Now(), false); err != nil {
				return err
			}
			l.toldAt = time.Time{}
		}
		if err := l.tellWALEnd(ctx, out); err != nil {
			return err
		}
		l.rearm() // what was put off needs a time
		return nil
	default:
		return &DecodeError{Size: len(data), Problem: "neither XLogData nor Primary keepalive"}
	}
}

func (l *link) deliverFragment(ctx context.Context, f *changes.Fragment, out chan<- changes.Event) error {
	if err := l.deliver(ctx, changes.Event{Fragment: f}, out); err != nil {
		return err
	}
	l.s.stats.changes.Add(uint64(len(f.Changes)))
	if f.Last {
		l.received = max(l.received, f.EndLSN)
		l.s.stats.received.Store(uint64(l.received))
		l.s.stats.transactions.Add(1)
		l.told(f.EndLSN)
	}
	return nil
}

// told notes that out knows of everything up to lsn.
func (l *link) told(lsn changes.LSN) {
	l.toldWALEnd = max(l.toldWALEnd, lsn)
	l.s.progress = max(l.s.progress, lsn)
	if l.walEnd <= l.toldWALEnd {
		l.walEnd = 0
	}
}

// tellWALEnd sends the position of the last keepalive as an event, unless a transaction is open, whose end will say
// more, or the last such event is too recent; then tick's deadline brings it back here.
func (l *link) tellWALEnd(ctx context.Context, out chan<- changes.Event) error {
	if l.walEnd == 0 || l.decoder.inTransaction() {
		return nil
	}
	now := time.Now()
	if now.Sub(l.toldAt) < walEndDelay {
		return nil
	}
	lsn := l.walEnd
	if err := l.deliver(ctx, changes.Event{WALEnd: lsn}, out); err != nil {
		return err
	}
	l.toldAt = now
	l.told(lsn)
	return nil
}

// deliver hands an event over, and sends standby status for as long as that takes: a busy collector is no reason for the
// server to think that we are dead (wal_sender_timeout).
func (l *link) deliver(ctx context.Context, ev changes.Event, out chan<- changes.Event) error {
	select {
	case out <- ev:
		return nil
	default:
	}
	for {
		now := time.Now()
		l.timer.Reset(l.nextStatus().Sub(now))
		select {
		case out <- ev:
			// What has not been read in the meantime was not silence.
			l.heardAt, l.asked = time.Now(), false
			return nil
		case <-l.s.kick: // the confirmed position rose: nextStatus comes sooner
		case <-l.timer.C:
			if err := l.sendStatus(time.Now(), false); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// nextStatus returns when the next status is due.
func (l *link) nextStatus() time.Time {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.nextStatusLocked()
}

func (l *link) nextStatusLocked() time.Time {
	if l.s.confirmed > l.considered {
		return l.statusAt.Add(min(confirmDelay, l.statusInterval))
	}
	return l.statusAt.Add(l.statusInterval)
}

// tick does what is due: it notices silence, and sends status.
func (l *link) tick(now time.Time) error {
	if n := l.meter.received.Load(); n != l.heardBytes {
		l.heardBytes, l.heardAt, l.asked = n, now, false
	}
	quiet := now.Sub(l.heardAt)
	if quiet >= l.s.opts.SilenceTimeout {
		return fmt.Errorf("%w for %s", ErrSilent, quiet.Round(time.Millisecond))
	}
	// An idle server sends nothing by itself while our statuses keep its own timeout from running, so ask.
	ask := !l.asked && quiet >= l.s.opts.SilenceTimeout/2
	if ask || !now.Before(l.nextStatus()) {
		if err := l.sendStatus(now, ask); err != nil {
			return err
		}
		l.asked = l.asked || ask
	}
	return nil
}

// sendStatus sends a Standby status update: everything received counts as written, everything confirmed as flushed and
// applied. A position of zero stays zero, which Postgres takes for "nothing yet": it must not become what is received
// (I4, psycopg/psycopg2#940). Nor is anything flushed here that this server has not sent on this connection.
func (l *link) sendStatus(now time.Time, askReply bool) error {
	l.s.mu.Lock()
	confirmed := l.s.confirmed
	l.considered = confirmed
	l.statusAt = now
	l.s.mu.Unlock()
	flushed := min(confirmed, l.received)
	l.statusBuf = appendStatus(l.statusBuf[:0], l.received, flushed, now, askReply)
	if err := l.conn.SetWriteDeadline(now.Add(l.sendTimeout)); err != nil {
		return fmt.Errorf("send standby status: %w", err)
	}
	if err := l.fe.SendUnbufferedEncodedCopyData(l.statusBuf); err != nil {
		return fmt.Errorf("send standby status: %w", err)
	}

	return nil
}

// appendStatus appends a CopyData message with a Standby status update:
//
//	+-----+---------+-----+-----------+-----------+-----------+-----------+---------------+
//	| 'd' | len u32 | 'r' | write u64 | flush u64 | apply u64 | clock i64 | reply, 1 byte |
//	+-----+---------+-----+-----------+-----------+-----------+-----------+---------------+
func appendStatus(b []byte, written, flushed changes.LSN, now time.Time, askReply bool) []byte {
	const body = 1 + 8 + 8 + 8 + 8 + 1
	b = append(b, 'd')
	b = binary.BigEndian.AppendUint32(b, 4+body)
	b = append(b, 'r')
	b = binary.BigEndian.AppendUint64(b, uint64(written))
	b = binary.BigEndian.AppendUint64(b, uint64(flushed))
	b = binary.BigEndian.AppendUint64(b, uint64(flushed))
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixMicro()-postgresEpoch)) //nolint:gosec // signed on the wire
	if askReply {
		return append(b, 1)
	}
	return append(b, 0)
}

// rearm sets the read deadline to the next time that something is due. It looks at the confirmed position and sets the
// deadline in one critical section, so that no Confirm falls between.
func (l *link) rearm() {
	silence := l.heardAt.Add(l.s.opts.SilenceTimeout / 2)
	if l.asked {
		silence = l.heardAt.Add(l.s.opts.SilenceTimeout)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	due := l.nextStatusLocked()
	if silence.Before(due) {
		due = silence
	}
	if tell := l.toldAt.Add(walEndDelay); l.walEnd != 0 && !l.decoder.inTransaction() && tell.Before(due) {
		due = tell
	}
	l.wakeLocked(due)
}

// hastenLocked makes the next status come soon. Confirm calls it, with s.mu held.
func (l *link) hastenLocked() {
	if due := l.nextStatusLocked(); due.Before(l.wakeAt) {
		l.wakeLocked(due)
	}
}

// wakeLocked sets the read deadline; s.mu is held.
func (l *link) wakeLocked(at time.Time) {
	if l.interrupted {
		return
	}
	l.wakeAt = at
	_ = l.conn.SetReadDeadline(at) // it fails on a closed connection, where the next read fails too
}

// interrupt ends a read at once and for good.
func (l *link) interrupt() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.wakeLocked(time.Unix(1, 0))
	l.interrupted = true
}

// close ends the connection. At a stop in good order it first reports what was confirmed since the last status, which
// saves the next start from reading it again; the server then ends the walsender at once and frees lock and slot.
func (l *link) close(orderly bool) {
	if orderly {
		// best effort, all of it: the server notices a closed connection by itself
		l.sendTimeout = closeTimeout
		_ = l.sendStatus(time.Now(), false)
		l.fe.Send(&pgproto3.Terminate{})
		_ = l.fe.Flush()
	}
	_ = l.conn.Close()
}
