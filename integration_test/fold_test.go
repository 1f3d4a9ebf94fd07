package integration

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// answer is what a scripted server says to one request.
type answer struct {
	offset, body string
	status       int
	live         bool
	noUpToDate   bool
}

// script serves answers in turn, the headers as a correct server sets them.
func script(t *testing.T, answers ...answer) *Fold {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if len(answers) == 0 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		a := answers[0]
		answers = answers[1:]
		w.Header().Set("electric-handle", "1-1")
		w.Header().Set("electric-offset", a.offset)
		if a.live {
			w.Header().Set("electric-cursor", "7")
		} else {
			w.Header().Set("electric-schema", "{}")
		}
		if len(a.body) > 10 && !a.noUpToDate {
			w.Header()["electric-up-to-date"] = []string{""}
		}
		if a.status != 0 {
			w.WriteHeader(a.status)
		}
		w.Write([]byte(a.body))
	}))
	t.Cleanup(srv.Close)
	return NewFold(srv.URL, url.Values{"table": {"t"}})
}

const (
	insert1  = `{"key":"1","value":{"id":"1"},"headers":{"operation":"insert"}}`
	upToDate = `{"headers":{"control":"up-to-date","global_last_seen_lsn":"9"}}`
)

func logged(op, key, lsn string) string {
	return `{"key":"` + key + `","value":{"id":"` + key + `"},"headers":{"operation":"` + op + `","lsn":"` + lsn + `","op_position":0}}`
}

func TestFoldFollows(t *testing.T) {
	f := script(t,
		answer{offset: "0_0", body: "[" + insert1 + "]", noUpToDate: true},
		answer{offset: "5_0", body: "[" + logged("insert", "2", "5") + "," + upToDate + "]"},
		answer{offset: "8_0", body: "[" + logged("delete", "1", "8") + "," + upToDate + "]", live: true})
	require.NoError(t, f.Follow(t.Context(), func() bool { return len(f.Rows) == 1 && f.SeenLSN == 9 }))
	require.NoError(t, f.Err())
	require.Equal(t, "8_0", f.Offset)
	require.Contains(t, f.Rows, "2")
	require.Equal(t, 1, f.Chunks)
}

func TestFoldRefetches(t *testing.T) {
	f := script(t,
		answer{offset: "0_0", body: "[" + insert1 + "]", noUpToDate: true},
		answer{status: http.StatusConflict, body: `[{"headers":{"control":"must-refetch"}}]`},
		answer{offset: "0_0", body: "[" + insert1 + "]", noUpToDate: true},
		answer{offset: "0_inf", body: "[" + upToDate + "]"})
	require.NoError(t, f.CatchUp(t.Context()))
	require.ErrorContains(t, f.Err(), "names the handle 1-1 that it refuses")
	require.Equal(t, 1, f.Refetched)
	require.Len(t, f.Rows, 1)
}

// Each breach of the protocol is seen, or the tests that rely on Fold could not fail.
func TestFoldSeesViolations(t *testing.T) {
	snapshot := answer{offset: "0_0", body: "[" + insert1 + "]", noUpToDate: true}
	for name, c := range map[string]struct {
		second answer
		want   string
	}{
		"insert twice":     {answer{offset: "5_0", body: "[" + logged("insert", "1", "5") + "," + upToDate + "]"}, "insert of the existing key 1"},
		"unknown update":   {answer{offset: "5_0", body: "[" + logged("update", "2", "5") + "," + upToDate + "]"}, "update of the unknown key 2"},
		"unknown delete":   {answer{offset: "5_0", body: "[" + logged("delete", "2", "5") + "," + upToDate + "]"}, "delete of the unknown key 2"},
		"disorder":         {answer{offset: "6_0", body: "[" + logged("update", "1", "6") + "," + logged("update", "1", "5") + "," + upToDate + "]"}, "position {5 0} after {6 0}"},
		"offset too small": {answer{offset: "4_0", body: "[" + logged("update", "1", "5") + "," + upToDate + "]"}, "offset 4_0 is before the last message"},
		"not last":         {answer{offset: "5_0", body: "[" + upToDate + "," + logged("update", "1", "5") + "]"}, "up-to-date is message 1 of 2"},
		"missing header":   {answer{offset: "5_0", body: "[" + upToDate + "]", noUpToDate: true}, "header electric-up-to-date is false"},
		"backwards":        {answer{offset: "-1", body: "[" + upToDate + "]"}, "offset went back from 0_0 to -1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := script(t, snapshot, c.second)
			require.NoError(t, f.CatchUp(t.Context()))
			require.ErrorContains(t, f.Err(), c.want)
		})
	}
}

func TestFoldStopsAtErrors(t *testing.T) {
	f := script(t)
	require.ErrorContains(t, f.CatchUp(t.Context()), "HTTP 418")
}
