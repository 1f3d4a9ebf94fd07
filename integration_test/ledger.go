package integration

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// HandleLedger notes, for all clients of a server, which handles were refused with 409 and when, so that a handle that
// comes back is noticed (I5). Its zero value is ready to use, from any goroutine.
type HandleLedger struct {
	mu   sync.Mutex
	over map[string]time.Time
}

// note enters the answer to a request that carried handle and was sent at a time. It returns an error when the answer
// serves a handle that was over before the request was sent.
func (l *HandleLedger) note(handle, offset string, res *http.Response, sent time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch res.StatusCode {
	case http.StatusConflict:
		if l.over == nil {
			l.over = map[string]time.Time{}
		}
		if _, ok := l.over[handle]; !ok && handle != "" && offset != "-1" {
			l.over[handle] = time.Now()
		}
	case http.StatusOK:
		served := res.Header.Get("electric-handle")
		if at, ok := l.over[served]; ok && at.Before(sent) {
			return fmt.Errorf("handle %s was refused with 409 %s before this request, and is served again", served, sent.Sub(at))
		}
	}
	return nil
}
