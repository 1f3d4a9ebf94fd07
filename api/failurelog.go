package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// failureLog writes of requests that failed: the first ones, and then one a second with the number of those between, so that a
// database that is away does not fill the log with what all clients get to hear. The metrics count every one.
type failureLog struct {
	often  rate.Sometimes
	silent atomic.Int64
}

func newFailureLog() *failureLog {
	return &failureLog{often: rate.Sometimes{First: 20, Interval: time.Second}}
}

func (l *failureLog) log(ctx context.Context, logger *slog.Logger, f *failure, requestID string) {
	l.silent.Add(1)
	l.often.Do(func() {
		level := slog.LevelError
		if f.status == http.StatusServiceUnavailable {
			level = slog.LevelWarn // the client comes again
		}
		logger.Log(ctx, level, "request failed", "request_id", requestID, "status", f.status, "error", f.cause, "not_logged", l.silent.Swap(0)-1)
	})
}
