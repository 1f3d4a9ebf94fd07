package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Bodies that do not come keep a bounded room, and no permit: other clients are served meanwhile (I9).
func TestStalledBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, Options{MaxInitial: 1, MaxExisting: 1})
		f.shape(t)
		const url = "/v1/shape?table=items&offset=-1"
		const fit = postRoomBytes / maxBody
		var codes [3 * fit]int
		var stalled sync.WaitGroup
		reader, writer := io.Pipe()
		for i := range codes {
			stalled.Go(func() {
				r := newRequestTo(t, http.MethodPost, url, "")
				r.ContentLength, r.Body = maxBody, io.NopCloser(reader)
				w := httptest.NewRecorder()
				f.ServeHTTP(w, r)
				codes[i] = w.Code
			})
		}
		synctest.Wait()
		turnedAway := 0
		for _, code := range codes {
			if code != 0 {
				require.Equal(t, http.StatusServiceUnavailable, code)
				turnedAway++
			}
		}
		require.Equal(t, len(codes)-fit, turnedAway)
		require.Equal(t, http.StatusOK, f.do(t, http.MethodGet, url, "").Code)
		require.Equal(t, http.StatusOK, f.do(t, http.MethodPost, url, "{}").Code, "a small one still fits")
		w := f.do(t, http.MethodPost, url, strings.Repeat(" ", maxBody-10)+"{}")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "2", w.Header().Get("retry-after"))

		require.NoError(t, writer.CloseWithError(io.ErrUnexpectedEOF))
		stalled.Wait()
		require.Equal(t, http.StatusOK, f.do(t, http.MethodPost, url, strings.Repeat(" ", maxBody-10)+"{}").Code)
	})
}
