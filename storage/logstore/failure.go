package logstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// health is whether the store as a whole still works. Pebble has no way on from a failed write of its write-ahead log
// or its manifest: it calls its logger's Fatalf, or panics, and what it does after is undefined. Both end here. The
// first failure is kept, everything that would write gives it, and the pebble store is not touched again, not even to
// close it: its goroutines may hold its locks for ever.
type health struct {
	once   sync.Once
	err    atomic.Pointer[error]
	broken chan struct{}
}

func (h *health) fail(err error) {
	h.once.Do(func() {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
		h.err.Store(&err)
		close(h.broken)
	})
}

func (h *health) check() error {
	if p := h.err.Load(); p != nil {
		return *p
	}
	return nil
}

// Err returns nil while the store works, and otherwise ErrBroken with its cause. A full disk, or a failure that
// touches only one log, does not break the store.
func (s *Store) Err() error { return s.health.check() }

// Done is closed when the store breaks. The process should end then; nothing that Sync has reported is lost.
func (s *Store) Done() <-chan struct{} { return s.health.broken }

// gate lets Close wait for whatever is in the pebble store.
type gate struct {
	mu      sync.Mutex
	users   int
	closing bool
	idle    chan struct{} // made by close; closed when the last user leaves
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return false
	}
	g.users++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if g.closing && g.users == 0 {
		close(g.idle)
	}
}

// close lets nobody in any more; first is false when it was called before.
func (g *gate) close() (idle <-chan struct{}, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return g.idle, false
	}
	g.closing = true
	g.idle = make(chan struct{})
	if g.users == 0 {
		close(g.idle)
	}
	return g.idle, true
}

// enter must come before any use of the pebble store, and leave after it. They do not nest.
func (s *Store) enter() error {
	if !s.gate.enter() {
		return ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.gate.leave() }

// apply writes a batch and closes it. The caller has entered.
func (s *Store) apply(b *pebble.Batch, o *pebble.WriteOptions) (err error) {
	if err := s.health.check(); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			// Rotating the write-ahead log panics when the disk fails (pebble, DB.makeRoomForWrite).
			s.health.fail(fmt.Errorf("write: %v", r))
			s.opts.Logger.Error("storage is broken", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			err = s.health.check()
		}
	}()
	if err := s.db.Apply(b, o); err != nil {
		s.health.fail(err)
		return s.health.check()
	}
	if err := s.health.check(); err != nil {
		return err // Fatalf has returned, and so did Apply, as if nothing had been
	}
	if err := b.Close(); err != nil {
		return fmt.Errorf("close batch: %w", err)
	}
	return nil
}

// pebbleLogger takes pebble's words and keeps it from ending the process.
type pebbleLogger struct {
	log    *slog.Logger
	health *health
}

// Infof implements pebble.Logger. Pebble's notices are about each flush and compaction; they are left out.
func (l pebbleLogger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Warn("pebble reports an error", "error", fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. It returns: see health.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.log.Error("storage is broken", "error", err)
	l.health.fail(err)
}

// events makes corruption that pebble finds in its files known. Left alone, the listener's default is Fatalf.
func (s *Store) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, context.Canceled) {
				s.opts.Logger.Warn("pebble will try again", "error", err.Error()) // a value of pebble prints its stack
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { s.noteDamage(info.Path, info.Details) },
	}
}

// noteDamage leaves word for the next Open that a file of the pebble store is damaged. The logs in that file give
// CorruptError and are removed one by one, but compactions that meet it fail for ever, so the store cannot go on with
// it for good.
func (s *Store) noteDamage(path string, err error) {
	s.damaged.Do(func() {
		s.opts.Logger.Error("storage has a damaged file; the next start begins with an empty store", "path", path, "error", fmt.Sprint(err))
		f, err := s.fs.Create(s.path(damageMark), writeCategory)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close(), syncDir(s.fs, s.dir))
		}
		if err != nil {
			s.opts.Logger.Warn("leave word of the damage", "error", err)
		}
	})
}
