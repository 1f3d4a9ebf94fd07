package shapecache

import (
	"errors"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/storage"
)

var (
	// ErrGone reports that a shape was removed, or is being removed. The caller answers must-refetch.
	ErrGone = errors.New("shape is gone")
	// ErrNotReady reports that the server cannot create shapes now: it is starting, waits for the lock, or has lost
	// its database. The caller answers 503; trying again later helps.
	ErrNotReady = errors.New("server is not ready")
)

// Shape is a live shape as the front door hands it out. Its fields do not change.
type Shape struct {
	Handle     shape.Handle
	Definition *shape.Definition
	Log        storage.Log

	entry *entry // nil in tests of the callers
}
