package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/shapeserver/shapeserver/changes"
	"github.com/shapeserver/shapeserver/internal/failpoint"
	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/snapshot"
	"github.com/shapeserver/shapeserver/storage"
)

// SnapshotReader reads the rows of a definition; snapshot.Reader is the real one.
type SnapshotReader interface {
	Read(ctx context.Context, d *shape.Definition, enc *shapelog.Encoder, sink snapshot.Sink) error
}

// Registrar is the collector's side of the seam.
type Registrar interface {
	// Register makes the stream deliver to the consumer from the next transaction on. Doing it again is no error.
	Register(h shape.Handle) error
	// Missed reports whether a transaction that the snapshot did not see went through the stream before the shape was
	// registered, so that the shape would get it from neither.
	Missed(h shape.Handle, s changes.Snapshot) bool
}

// RunSnapshot reads the shape's first rows into its log, beside Run, and returns when they are all there or have
// failed; Run then ends with the same error. It is the one place where the order of the seam's steps stands:
// register with the stream, take the snapshot, check that nothing fell between, write.
func (c *Consumer) RunSnapshot(ctx context.Context, reader SnapshotReader, reg Registrar) (err error) {
	err = errors.New("snapshot writer died") // stands if a panic comes through
	s := &snapshotSink{c: c, reg: reg}
	defer func() {
		if err != nil {
			s.abort()
		}
		c.EndSnapshot(err)
	}()
	if err := reader.Read(ctx, c.def, c.encoder, s); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	if err := s.finish(); err != nil {
		return fmt.Errorf("finish snapshot: %w", err)
	}
	return nil
}

// EndSnapshot tells Run that the snapshot is over: complete when err is nil. RunSnapshot calls it; who does not get as
// far as RunSnapshot calls it with what went wrong. Only the first call counts.
func (c *Consumer) EndSnapshot(err error) {
	c.snapshotOnce.Do(func() {
		c.snapshotErr = err
		close(c.snapshotOver)
	})
}

// snapshotSink takes the rows. The log's snapshot begins with the first row, or at the end of an empty one, so that a
// query that fails at once can still be answered with an error instead of a body that breaks off.
type snapshotSink struct {
	c     *Consumer
	reg   Registrar
	begun bool
	w     storage.SnapshotWriter
}

var _ snapshot.Sink = (*snapshotSink)(nil)

// Register implements snapshot.Sink.
func (s *snapshotSink) Register() error {
	if err := s.reg.Register(s.c.handle); err != nil {
		return err
	}
	return failpoint.Err(failpoint.SnapshotRoute)
}

// Begin implements snapshot.Sink.
func (s *snapshotSink) Begin(snap changes.Snapshot, lsn changes.LSN) error {
	if s.begun {
		return errors.New("snapshot begun twice")
	}
	if s.reg.Missed(s.c.handle, snap) {
		return snapshot.ErrAgain
	}
	s.begun = true
	s.c.seam = seam{snapshot: snap, lsn: lsn}
	close(s.c.begun)
	return failpoint.Err(failpoint.SnapshotBegun)
}

// Row implements snapshot.Sink.
func (s *snapshotSink) Row(json []byte) error {
	if err := s.open(); err != nil {
		return err
	}
	if err := failpoint.Err(failpoint.SnapshotRow); err != nil {
		return err
	}
	return s.w.Write(json)
}

func (s *snapshotSink) open() error {
	if s.w != nil {
		return nil
	}
	if !s.begun {
		return errors.New("snapshot without coordinates")
	}
	w, err := s.c.log.NewSnapshot(s.c.seam.snapshot, s.c.seam.lsn)
	if err != nil {
		return err
	}
	s.w = w
	return failpoint.Err(failpoint.SnapshotOpened)
}

func (s *snapshotSink) finish() error {
	if err := s.open(); err != nil {
		return err
	}
	if err := failpoint.Err(failpoint.SnapshotEnding); err != nil {
		return err
	}
	if err := s.w.Finish(shapelog.AppendSnapshotEnd(nil, s.c.seam.snapshot)); err != nil {
		return err
	}
	return failpoint.Err(failpoint.SnapshotEnded)
}

func (s *snapshotSink) abort() {
	if s.w != nil {
		s.w.Abort()
	}
}
