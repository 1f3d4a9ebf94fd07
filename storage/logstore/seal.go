package logstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/shapeserver/shapeserver/shapelog"
)

// work is what Run has to do.
type work struct {
	mu      sync.Mutex
	seals   []sealJob
	garbage []uint64
	wake    chan struct{}
}

// sealJob names a complete log chunk that is still in pebble.
type sealJob struct {
	log *log
	end shapelog.Offset
}

func (w *work) addSeal(l *log, end shapelog.Offset) {
	w.mu.Lock()
	w.seals = append(w.seals, sealJob{log: l, end: end})
	w.mu.Unlock()
	w.poke()
}

func (w *work) addGarbage(ids ...uint64) {
	w.mu.Lock()
	w.garbage = append(w.garbage, ids...)
	w.mu.Unlock()
	w.poke()
}

func (w *work) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *work) take() ([]sealJob, []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seals, garbage := w.seals, w.garbage
	w.seals, w.garbage = nil, nil
	return seals, garbage
}

const workRetry = 10 * time.Second // after a failure, of a disk without room for example

// Run seals complete log chunks into files and deletes the bytes of removed logs until ctx ends, and returns its
// cause, or the store's error when it breaks. Failures are logged and tried again. Nothing waits for it.
func (s *Store) Run(ctx context.Context) error {
	if err := s.findUnsealed(); err != nil {
		s.opts.Logger.WarnContext(ctx, "look for chunks to seal", "error", err) // they stay in pebble, as good
	}
	if err := s.forgetTombstones(); err != nil {
		s.opts.Logger.WarnContext(ctx, "forget tombstones", "error", err)
	}
	retry := time.NewTimer(workRetry)
	defer retry.Stop()
	for {
		if !s.doWork(ctx) {
			retry.Reset(workRetry)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.health.broken:
			return s.Err()
		case <-s.work.wake:
		case <-retry.C:
		}
	}
}

// doWork does what there is to do; what fails is put back, and ok is false.
func (s *Store) doWork(ctx context.Context) (ok bool) {
	seals, garbage := s.work.take()
	ok = true
	if len(garbage) > 0 {
		if err := s.deleteGarbage(ctx, garbage); err != nil {
			ok = false
			s.work.mu.Lock()
			s.work.garbage = append(s.work.garbage, garbage...)
			s.work.mu.Unlock()
			s.logFailure(ctx, "delete removed logs", err)
		}
	}
	for i, job := range seals {
		if ctx.Err() != nil {
			return ok // the next start finds the rest
		}
		if err := s.seal(job); err != nil {
			ok = false
			s.work.mu.Lock()
			s.work.seals = append(s.work.seals, seals[i])
			s.work.mu.Unlock()
			s.logFailure(ctx, "seal log chunk", err, "handle", job.log.handle, "end", job.end.String())
		}
	}
	return ok
}

func (s *Store) logFailure(ctx context.Context, msg string, err error, args ...any) {
	if errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) {
		return
	}
	s.opts.Logger.WarnContext(ctx, msg, append(args, "error", err)...) //nolint:sloglint // callers give constants
}

// findUnsealed queues the chunks that were complete and not sealed when the server ended.
func (s *Store) findUnsealed() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	s.mu.Lock()
	byID := make(map[uint64]*log, len(s.logs))
	for _, l := range s.logs {
		byID[l.id] = l
	}
	s.mu.Unlock()
	return s.scanKind(keyUnsealed, func(key, _ []byte) error {
		if len(key) != 25 {
			return fmt.Errorf("unsealed chunk: %w", errBadRecord)
		}
		if l := byID[idOf(key)]; l != nil && !l.loaded.Load() { // a loaded one has queued its own
			s.work.addSeal(l, readOffset(key[9:]))
		}
		return nil
	})
}

// seal copies one chunk to a file and lets the log read it from there.
func (s *Store) seal(job sealJob) error {
	l := job.log
	l.load()
	if l.ended() != nil {
		return nil //nolint:nilerr // there is nothing to seal any more
	}
	l.mu.Lock()
	i := l.chunkBehind(job.end) - 1
	if i < 0 || l.chunks[i].end != job.end || l.chunks[i].sealed {
		l.mu.Unlock()
		return nil
	}
	start, c := l.startLocked(i), l.chunks[i]
	l.mu.Unlock()
	if err := s.space.snapshots(int(c.pos - start.pos)); err != nil {
		return err
	}
	if err := s.writeSealed(l, start, c); err != nil {
		if l.ended() != nil {
			return nil //nolint:nilerr // removed meanwhile
		}
		return err
	}
	return s.switchToFile(l, start, i)
}

// writeSealed makes the file, durable under its name.
func (s *Store) writeSealed(l *log, start mark, c chunk) (err error) {
	name := chunkName(c.end)
	temp := l.filePath(name + ".tmp")
	f, err := l.createFile(name + ".tmp")
	if err != nil {
		return err
	}
	open := true
	defer func() {
		if err != nil {
			if open {
				err = errors.Join(err, f.Close())
			}
			_ = s.fs.Remove(temp) // best effort: a next try makes it anew, removing the log deletes it
		}
	}()
	if err := s.copySealed(l, f, start, c); err != nil {
		return err
	}
	open = false
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync chunk: %w", err)
	}
	if err := s.fs.Rename(temp, l.filePath(name)); err != nil {
		return fmt.Errorf("name chunk: %w", err)
	}
	if err := syncDir(s.fs, l.filePath()); err != nil {
		return err
	}
	return syncDir(s.fs, s.path(filesName))
}

func (s *Store) copySealed(l *log, f vfs.File, start mark, c chunk) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	it, err := l.entries(start.off, c.end)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	buf := getBuffer()
	defer func() { putBuffer(buf) }()
	w := sealedWriter{w: f}
	pos := start.pos
	for ok := it.First(); ok; ok = it.Next() {
		off, end, json, err := readEntry(it)
		if err != nil {
			return l.corrupt(err)
		}
		if end != pos+int64(len(json))+1 {
			return l.corrupt(fmt.Errorf("seal: entries before %s are missing", off))
		}
		if pos > start.pos {
			*buf = append(*buf, ',')
		}
		pos = end
		w.add(off, json)
		if *buf = append(*buf, json...); len(*buf) >= ioBytes {
			if err := w.write(*buf); err != nil {
				return err
			}
			*buf = (*buf)[:0]
		}
	}
	if pos != c.pos {
		return l.corrupt(fmt.Errorf("seal: entries up to %s are missing", c.end))
	}
	if err := w.write(*buf); err != nil {
		return err
	}
	return w.finish()
}

// switchToFile lets readers use the file of chunk i, then deletes its entries from pebble.
func (s *Store) switchToFile(l *log, start mark, i int) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if l.removed {
		return nil
	}
	l.mu.Lock()
	l.chunks[i].sealed, l.chunks[i].intact = true, true
	c := l.chunks[i]
	l.mu.Unlock()
	from := logKey(l.id, kindEntry)
	if i > 0 {
		from = next(offsetKey(l.id, kindEntry, start.off))
	}
	b := s.db.NewBatch()
	err := errors.Join(
		b.Set(offsetKey(l.id, kindBound, c.end), encodeBound(c.pos, true), nil),
		b.DeleteRange(from, next(offsetKey(l.id, kindEntry, c.end)), nil),
		b.Delete(unsealedKey(l.id, c.end), nil))
	if err == nil {
		err = s.apply(b, pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("switch to file: %w", err)
	}
	return nil
}
