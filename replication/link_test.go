package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
)

// walsender is the other end of a link, in virtual time.
type walsender struct {
	t     *testing.T
	conn  net.Conn
	start time.Time

	mu      sync.Mutex
	got     []standbyStatus
	goodbye bool // Terminate came; look at it when the link has stopped
}

type standbyStatus struct {
	at           time.Duration // since the start
	write, flush changes.LSN
	reply        bool
}

// startLink runs a link of a new Stream against a walsender until the test ends or stop is called, which gives run's error.
func startLink(t *testing.T, senderTimeout time.Duration, confirmed changes.LSN, out chan<- changes.Event) (s *Stream, w *walsender, stop func(cause error) error) {
	cfg, err := pgconn.ParseConfig("postgres://u@localhost/d")
	require.NoError(t, err)
	s, err = New(Config{ConnConfig: cfg, Slot: "slot", Publication: "p"}, Options{})
	require.NoError(t, err)
	ours, theirs := net.Pipe()
	m := &meter{Conn: ours}
	s.confirmed = confirmed
	l := s.makeLink(m, pgproto3.NewFrontend(m, m), m, confirmed, senderTimeout)
	w = &walsender{t: t, conn: theirs, start: time.Now()}
	ctx, cancel := context.WithCancelCause(t.Context())
	done, read := make(chan error, 1), make(chan struct{})
	go func() { done <- l.run(ctx, out) }()
	go func() { defer close(read); w.read() }()
	stop = func(cause error) error {
		cancel(cause)
		err := <-done
		theirs.Close()
		<-read
		return err
	}
	t.Cleanup(func() { cancel(nil); theirs.Close() })
	return s, w, stop
}

// read takes what the link sends until the connection ends.
func (w *walsender) read() {
	for {
		var head [5]byte
		if _, err := io.ReadFull(w.conn, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(w.conn, body); err != nil {
			return
		}
		switch head[0] {
		case 'X':
			w.goodbye = true
		case 'd':
			if len(body) != 34 || body[0] != 'r' {
				w.t.Errorf("not a standby status: %x", body)
				return
			}
			if string(body[9:17]) != string(body[17:25]) {
				w.t.Errorf("flush and apply differ: %x", body)
			}
			w.mu.Lock()
			w.got = append(w.got, standbyStatus{
				at:    time.Since(w.start),
				write: changes.LSN(binary.BigEndian.Uint64(body[1:])), flush: changes.LSN(binary.BigEndian.Uint64(body[9:])),
				reply: body[33] == 1,
			})
			w.mu.Unlock()
		default:
			w.t.Errorf("unexpected message %q", head[0])
		}
	}
}

func (w *walsender) send(data message) {
	_, err := w.conn.Write(copyData(data))
	require.NoError(w.t, err)
}

func copyData(data message) message {
	return append(message{'d'}.u32(uint32(len(data)+4)), data...)
}

func (w *walsender) xlog(lsn changes.LSN, msg message) {
	w.send(append(message{'w'}.u64(uint64(lsn)).u64(uint64(lsn)).u64(0), msg...))
}

func (w *walsender) keepalive(end changes.LSN, reply byte) {
	w.send(message{'k'}.u64(uint64(end)).u64(0).u8(reply))
}

// transaction sends an empty one.
func (w *walsender) transaction(commit, end changes.LSN) {
	w.xlog(commit, beginMessage(commit, 1))
	w.xlog(end, commitMessage(commit, end))
}

// statuses returns all that came, once all is quiet.
func (w *walsender) statuses() []standbyStatus {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

// last returns the newest status once all is quiet.
func (w *walsender) last() standbyStatus {
	all := w.statuses()
	return all[len(all)-1]
}

var errStopping = errors.New("stopping")

func TestStatusIsSentRegularly(t *testing.T) {
	for _, tc := range []struct {
		senderTimeout, interval time.Duration
	}{
		{time.Minute, 10 * time.Second},
		{0, 10 * time.Second},
		{1500 * time.Millisecond, 500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, w, stop := startLink(t, tc.senderTimeout, 100, nil)
			sleep(2*tc.interval + tc.interval/2)
			require.Equal(t, []standbyStatus{
				{at: 0, write: 100, flush: 100}, {at: tc.interval, write: 100, flush: 100}, {at: 2 * tc.interval, write: 100, flush: 100},
			}, w.statuses())
			require.ErrorIs(t, stop(errStopping), errStopping)
			require.True(t, w.goodbye)
		})
	}
}

func TestReplyIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event, 1)
		_, w, stop := startLink(t, time.Minute, 100, out)
		sleep(3 * time.Second)
		w.keepalive(200, 1)
		require.Equal(t, standbyStatus{at: 3 * time.Second, write: 200, flush: 100}, w.last())
		require.Equal(t, changes.Event{WALEnd: 200}, <-out)
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestNothingIsFlushedBeforeConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event, 10)
		s, w, stop := startLink(t, time.Minute, 0, out)
		w.transaction(150, 160)
		w.keepalive(200, 1)
		require.Equal(t, changes.LSN(0), w.last().flush, "zero must stay zero")
		require.Equal(t, changes.LSN(200), w.last().write)

		s.Confirm(160)
		sleep(confirmDelay)
		require.Equal(t, changes.LSN(160), w.last().flush)
		s.Confirm(150)
		w.keepalive(200, 1)
		require.Equal(t, changes.LSN(160), w.last().flush, "never backwards")
		s.Confirm(1 << 40)
		w.keepalive(200, 1)
		require.Equal(t, changes.LSN(200), w.last().flush, "never beyond what was received")
		sent := len(w.statuses())
		sleep(time.Second)
		require.Len(t, w.statuses(), sent, "a confirmation that cannot be reported yet is no reason for haste")
		w.keepalive(1<<40, 1)
		require.Equal(t, changes.LSN(1<<40), w.last().flush)
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestConfirmIsReportedSoonAndNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event, 10)
		s, w, stop := startLink(t, time.Minute, 100, out)
		w.keepalive(5000, 0)
		sleep(time.Second)
		s.Confirm(1000)
		require.Equal(t, standbyStatus{at: time.Second, write: 5000, flush: 1000}, w.last(), "at once after a pause")
		before := len(w.statuses())
		for i := range 1000 {
			s.Confirm(changes.LSN(1001 + i))
			sleep(time.Millisecond)
		}
		sleep(confirmDelay)
		require.Equal(t, changes.LSN(2000), w.last().flush)
		require.InDelta(t, 10, len(w.statuses())-before, 1)
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestLastConfirmationIsReportedAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, stop := startLink(t, time.Minute, 100, make(chan changes.Event, 1))
		w.keepalive(200, 0)
		synctest.Wait()
		s.Confirm(200)
		require.ErrorIs(t, stop(errStopping), errStopping)
		require.Equal(t, changes.LSN(200), w.last().flush)
	})
}

func TestStatusGoesOnWhileTheReaderIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event)
		s, w, stop := startLink(t, 3*time.Second, 100, out)
		w.transaction(150, 160)
		sleep(10*time.Second + time.Millisecond)
		require.Len(t, w.statuses(), 11, "one at the start, then one a second")
		s.Confirm(150)
		sleep(confirmDelay)
		require.Equal(t, standbyStatus{at: 10*time.Second + confirmDelay, write: 160, flush: 150}, w.last())
		require.Equal(t, changes.LSN(160), (<-out).Fragment.EndLSN)
		sleep(20 * time.Second)
		require.InDelta(t, 32, len(w.statuses()), 1)
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestStopWhileTheReaderIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, stop := startLink(t, 0, 100, nil)
		w.transaction(150, 160)
		synctest.Wait()
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestStatusGoesOnInABusyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event, 100_000)
		s, w, stop := startLink(t, 3*time.Second, 100, out)
		for i := range 5000 { // 10 s with never 2 ms of rest
			lsn := changes.LSN(1000 + 10*i)
			w.transaction(lsn, lsn+5)
			s.Confirm(lsn + 5)
			sleep(2 * time.Millisecond)
		}
		require.InDelta(t, 100, len(w.statuses()), 5)
		sleep(confirmDelay)
		require.Equal(t, changes.LSN(1000+10*4999+5), w.last().flush)
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestWALEndIsToldAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event, 100)
		_, w, stop := startLink(t, time.Minute, 100, out)
		for i := range 35 { // 3.5 s
			w.keepalive(changes.LSN(200+i), 0)
			sleep(100 * time.Millisecond)
		}
		sleep(time.Second)
		var got []changes.LSN
		for len(out) > 0 {
			ev := <-out
			require.Nil(t, ev.Fragment)
			got = append(got, ev.WALEnd)
		}
		require.Len(t, got, 5, "one at once, then one a second, the last of them without another keepalive")
		require.Equal(t, changes.LSN(234), got[4])
		require.IsIncreasing(t, got)
		w.keepalive(234, 0)
		sleep(5 * time.Second)
		require.Empty(t, out, "nothing new")
		require.Equal(t, changes.LSN(100), w.last().flush, "telling is not confirming")
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestWALEndIsNotToldInsideATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event, 100)
		_, w, stop := startLink(t, time.Minute, 100, out)
		w.keepalive(110, 0)
		w.keepalive(120, 0) // put off
		w.xlog(125, beginMessage(150, 1))
		w.keepalive(140, 1)
		sleep(10 * time.Second)
		require.Equal(t, changes.LSN(140), w.last().write)
		w.xlog(160, commitMessage(150, 160))
		sleep(10 * time.Second)
		require.Equal(t, changes.Event{WALEnd: 110}, <-out)
		require.Equal(t, changes.LSN(160), (<-out).Fragment.EndLSN)
		require.Empty(t, out, "the transaction's end says more than the keepalives before it")
		w.keepalive(170, 0)
		require.Equal(t, changes.Event{WALEnd: 170}, <-out)
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cfg, err := pgconn.ParseConfig("postgres://u@localhost/d")
		require.NoError(t, err)
		s, err := New(Config{ConnConfig: cfg, Slot: "slot", Publication: "p"}, Options{})
		require.NoError(t, err)
		ours, theirs := net.Pipe()
		defer theirs.Close()
		m := &meter{Conn: ours}
		l := s.makeLink(m, pgproto3.NewFrontend(m, m), m, 100, 0)
		w := &walsender{t: t, conn: theirs, start: started}
		done := make(chan struct{})
		go func() { defer close(done); w.read() }()
		require.ErrorIs(t, l.run(ctx, nil), ErrSilent)
		require.Equal(t, time.Minute, time.Since(started))
		<-done
		asked := 0
		for _, st := range w.statuses() {
			if st.reply {
				asked++
				require.Equal(t, 30*time.Second, st.at)
			}
		}
		require.Equal(t, 1, asked)
		require.False(t, w.goodbye)
	})
}

func TestAnsweringServerIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event, 100)
		_, w, stop := startLink(t, 0, 100, out)
		for asked := 0; asked < 5; {
			sleep(time.Second)
			if w.last().reply {
				w.keepalive(100, 0)
				asked++
				sleep(10 * time.Second)
			}
		}
		require.InDelta(t, 150, time.Since(w.start).Seconds(), 60)
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestSlowBigMessageIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan changes.Event, 100)
		_, w, stop := startLink(t, time.Minute, 100, out)
		w.xlog(150, beginMessage(150, 1))
		w.xlog(0, relationMessage(11, "public", "items", 'f', "*id"))
		big := make([]byte, 1<<20)
		for i := range big {
			big[i] = 'x'
		}
		row := copyData(append(message{'w'}.u64(150).u64(150).u64(0), insertMessage(11, string(big))...))
		for len(row) > 0 { // ten minutes
			n := min(len(row), 2000)
			_, err := w.conn.Write(row[:n])
			require.NoError(t, err)
			row = row[n:]
			sleep(1100 * time.Millisecond)
		}
		w.xlog(160, commitMessage(150, 160))
		f := (<-out).Fragment
		require.Equal(t, string(big), string(f.Changes[0].New[0].Bytes))
		require.Greater(t, len(w.statuses()), 50)
		require.ErrorIs(t, stop(errStopping), errStopping)
	})
}

func TestServerEndsTheStream(t *testing.T) {
	for name, tc := range map[string]struct {
		send message
		want string
	}{
		"copy done":   {message{'c'}.u32(4), "ended by the server"},
		"error":       {errorResponse("57P01"), "terminating connection"},
		"other data":  {copyData(message{'x', 1, 2}), "neither XLogData nor Primary keepalive"},
		"bad message": {copyData(append(message{'w'}.u64(7).u64(7).u64(0), commitMessage(1, 2)...)), "decode stream at 0/7"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, w, stop := startLink(t, 0, 0, nil)
				_, err := w.conn.Write(tc.send)
				require.NoError(t, err)
				synctest.Wait()
				err = stop(errStopping)
				require.ErrorContains(t, err, tc.want)
				if name == "error" {
					require.Equal(t, "57P01", sqlState(err))
				}
			})
		})
	}
}

func errorResponse(code string) message {
	body := message{'S'}.text("FATAL").u8('C').text(code).u8('M').text("terminating connection").u8(0)
	return append(message{'E'}.u32(uint32(len(body)+4)), body...)
}

// sleep lets virtual time pass, and everything that is due in it happen.
func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
	synctest.Wait()
}
