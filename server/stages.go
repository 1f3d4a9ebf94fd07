package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// errStopping is the cause with which a stage's context ends in an orderly stop.
var errStopping = errors.New("server is stopping")

// runner is a service: it blocks until its context ends, and returns the cause, or fails before.
type runner struct {
	name string
	run  func(context.Context) error
}

// runStages starts every runner and returns when all have returned. When ctx ends, or any runner returns first, it stops
// the stages in order: stage i+1 is told to stop only once every runner of stage i has returned. It returns the errors
// of the runners that failed; an end with the stage's own cause is none.
func runStages(ctx context.Context, stages ...[]runner) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var errs []error
	groups := make([]sync.WaitGroup, len(stages))
	stops := make([]context.CancelCauseFunc, len(stages))
	for i, stage := range stages {
		stageCtx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
		stops[i] = stop
		for _, r := range stage {
			groups[i].Go(func() {
				defer cancel()
				err := r.run(stageCtx)
				if err == nil || errors.Is(err, errStopping) {
					return
				}
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s: %w", r.name, err))
				mu.Unlock()
			})
		}
	}
	<-ctx.Done()
	for i := range stages {
		stops[i](errStopping)
		groups[i].Wait()
	}
	return errors.Join(errs...)
}
