package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// compare requires that every client has what Postgres answers to its shape's query. Nothing writes meanwhile.
func (s *soak) compare(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, s.url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.PgConn().Exec(ctx, pinned).ReadAll()
	require.NoError(t, err)
	s.events.add("compare")
	began := time.Now()
	slowest, of := time.Duration(0), ""
	for _, c := range s.clients {
		start := time.Now()
		if err := s.compareOne(ctx, conn, c); err != nil {
			s.keepLog(t, c)
			t.Fatalf("seed %d, round %d: %v\nthe shape: %s, %v, handle %s, offset %s, last tolerated answer: %s\nlatest events:\n%s",
				s.seed, s.rounds, err, c.shape.sql(), c.shape.params(), c.Handle, c.Offset, c.lastTolerated(), s.events.tail())
		}
		s.answers, s.refetched = s.answers+c.Requests, s.refetched+c.Refetched
		c.Requests, c.Refetched = 0, 0
		if took := time.Since(start); took > slowest {
			slowest, of = took, fmt.Sprint(c.shape.params())
		}
	}
	t.Logf("round %d: compared in %s, slowest %s: %s", s.rounds, time.Since(began).Round(time.Millisecond), slowest.Round(time.Millisecond), of)
}

func (c *soakClient) lastTolerated() string {
	if body := c.tolerated.Load(); body != nil {
		return *body
	}
	return "none"
}

func (s *soak) compareOne(ctx context.Context, conn *pgx.Conn, c *soakClient) error {
	ctx, cancel := context.WithTimeout(ctx, soakSettle)
	defer cancel()
	if err := c.Err(); err != nil {
		return err
	}
	want, err := queryOn(ctx, conn, c.shape.sql())
	if err != nil {
		return err
	}
	if c.shape.changes {
		return s.compareChanges(ctx, conn, c)
	}
	err = c.Follow(ctx, func() bool { return c.Err() != nil || (want.matches(c.Fold) && sameColumns(want, c.Fold)) })
	if err := c.Err(); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("the client does not become what Postgres has (%w): %s", err, want.differences(c.Fold))
	}
	return nil
}

// sameColumns says whether no row has a column that the query does not select.
func sameColumns(want selected, f *Fold) bool {
	for _, row := range f.Rows {
		if len(row) != len(want.columns) {
			return false
		}
	}
	return true
}

// compareChanges compares a client that sees changes only. Of the rows it knows, each must be in Postgres with the
// values it knows, and what it knows to be deleted must not be.
func (s *soak) compareChanges(ctx context.Context, conn *pgx.Conn, c *soakClient) error {
	// A client of the whole shape says which keys there are.
	whole := c.shape
	whole.changes = false
	full := s.clientOf(whole)
	full.Retry, full.Tolerate = true, c.Tolerate
	want, err := queryOn(ctx, conn, whole.sql())
	if err != nil {
		return err
	}
	if err := full.Follow(ctx, func() bool { return full.Err() != nil || want.matches(full.Fold) }); err != nil {
		return fmt.Errorf("the whole shape does not become what Postgres has (%w): %s", err, want.differences(full.Fold))
	}
	var differs error
	err = c.Follow(ctx, func() bool {
		differs = errors.Join(c.Err(), full.Err(), known(c.Fold, full.Fold))
		return differs == nil || c.Err() != nil
	})
	return errors.Join(err, differs)
}

// known compares what a client of changes knows with all rows.
func known(c, full *Fold) error {
	for key, row := range c.Rows {
		there, ok := full.Rows[key]
		if !ok {
			return fmt.Errorf("row %s is known to the client of changes and is not in Postgres", key)
		}
		for column, v := range row {
			w, ok := there[column]
			if !ok || (v == nil) != (w == nil) || (v != nil && *v != *w && !sameBool(*v, *w)) {
				return fmt.Errorf("row %s, column %s differs from what Postgres has", key, column)
			}
		}
	}
	for key := range c.Deleted {
		if _, ok := full.Rows[key]; ok {
			return fmt.Errorf("row %s was deleted, says the log of changes, and is in Postgres", key)
		}
	}
	return nil
}

// sameBool compares a boolean of the stream, t or f, with one of a snapshot.
func sameBool(a, b string) bool {
	return (a == "t" && b == "true") || (a == "f" && b == "false") || (b == "t" && a == "true") || (b == "f" && a == "false")
}

// soakEvents is the recent history of a run, for the report of a failure.
type soakEvents struct {
	mu    sync.Mutex
	lines []string
	kinds map[string]int
}

func (e *soakEvents) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	line := time.Now().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	if e.lines = append(e.lines, line); len(e.lines) > 60 {
		e.lines = e.lines[1:]
	}
}

// count notes that a disturbance was carried out.
func (e *soakEvents) count(kind string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kinds == nil {
		e.kinds = map[string]int{}
	}
	e.kinds[kind]++
}

func (e *soakEvents) tail() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.lines, "\n")
}

func (e *soakEvents) counts() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for kind, n := range e.kinds {
		all = append(all, fmt.Sprintf("%s %d", kind, n))
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

// keepLog writes the whole log of a client's shape, a message a line, to a file that the failure names.
func (s *soak) keepLog(t *testing.T, c *soakClient) {
	t.Helper()
	var lines []string
	q := shape(c.shape.params()...)
	for offset := "-1"; len(lines) < 1_000_000; {
		q.Set("handle", c.Handle)
		q.Set("offset", offset)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.srv.url+"/v1/shape?"+q.Encode(), http.NoBody)
		require.NoError(t, err)
		res, err := s.http.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Logf("the log of %s cannot be read: %v %v", c.Handle, res, err)
			return
		}
		var messages []json.RawMessage
		err = json.NewDecoder(res.Body).Decode(&messages)
		res.Body.Close()
		if err != nil {
			t.Logf("the log of %s cannot be read: %v", c.Handle, err)
			return
		}
		lines = append(lines, "-- from "+offset)
		for _, m := range messages {
			lines = append(lines, string(m))
		}
		if offset = res.Header.Get("electric-offset"); res.Header["Electric-Up-To-Date"] != nil {
			break
		}
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("soak-%d.log", s.seed))
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err == nil {
		t.Logf("the log of the shape is in %s", path)
	}
}
