package api

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A database that is away for a minute, with a thousand requests a second, takes some eighty lines, which tell of all.
func TestFailureLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		l := newFailureLog()
		f := errUnreachable
		f.cause = errors.New("connection refused")
		const requests = 60_000
		for range requests {
			l.log(t.Context(), logger, &f, "r1")
			time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's time
		}
		lines := strings.Count(out.String(), "\n")
		require.InDelta(t, 80, lines, 2)
		require.Equal(t, lines, strings.Count(out.String(), "level=WARN"))
		require.Contains(t, out.String(), "not_logged=999")
		f.status = http.StatusInternalServerError
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		l.log(t.Context(), logger, &f, "r2")
		require.Contains(t, out.String(), "level=ERROR")
	})
}
