package integration

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// pinned are the session settings that fix the text of values (protocol.md §7.1).
const pinned = `SET bytea_output = 'hex'; SET DateStyle = 'ISO, DMY'; SET TimeZone = 'UTC';
	SET extra_float_digits = 1; SET IntervalStyle = 'iso_8601'`

// selected is what Postgres answers to a query, in the form of Fold.Canonical: a line a row, with its count.
type selected struct {
	columns []string
	lines   map[string]int
	rows    int
}

// query asks Postgres, the oracle of these tests, for rows as text.
func query(t testing.TB, db *pgtest.DB, sql string) selected {
	t.Helper()
	return queries(t, db, sql)[0]
}

// queries is query for several questions, on one connection.
func queries(t testing.TB, db *pgtest.DB, sql ...string) []selected {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.URL)
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, pinned).ReadAll()
	require.NoError(t, err)
	all := make([]selected, len(sql))
	for i := range sql {
		all[i], err = queryOn(ctx, conn, sql[i])
		require.NoError(t, err, sql[i])
	}
	return all
}

// queryOn asks on a connection whose settings are pinned.
func queryOn(ctx context.Context, conn *pgx.Conn, sql string) (selected, error) {
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll() // the simple protocol answers in text
	if err != nil {
		return selected{}, err
	}
	if len(results) != 1 {
		return selected{}, fmt.Errorf("%d results of one query", len(results))
	}
	s := selected{rows: len(results[0].Rows)}
	for _, f := range results[0].FieldDescriptions {
		s.columns = append(s.columns, f.Name)
	}
	rows := make(map[string]Row, len(results[0].Rows))
	for i, values := range results[0].Rows {
		row := Row{}
		for j, v := range values {
			row[s.columns[j]] = nil
			if v != nil {
				text := string(v)
				row[s.columns[j]] = &text
			}
		}
		rows[fmt.Sprint(i)] = row
	}
	s.lines = (&Fold{Rows: rows}).Canonical(s.columns)
	return s, nil
}

// matches says whether the fold has exactly these rows.
func (s selected) matches(f *Fold) bool {
	return s.rows == len(f.Rows) && maps.Equal(s.lines, f.Canonical(s.columns))
}

// differences lists up to ten rows that only one of the two has.
func (s selected) differences(f *Fold) string {
	got := f.Canonical(s.columns)
	var diff []string
	for _, line := range slices.Sorted(maps.Keys(s.lines)) {
		if got[line] != s.lines[line] {
			diff = append(diff, fmt.Sprintf("  Postgres has it %d times, the shape %d times: %s", s.lines[line], got[line], line))
		}
	}
	for _, line := range slices.Sorted(maps.Keys(got)) {
		if _, ok := s.lines[line]; !ok {
			diff = append(diff, fmt.Sprintf("  only the shape has it: %s", line))
		}
	}
	return fmt.Sprintf("columns %v; Postgres has %d rows, the shape %d:\n%s", s.columns, s.rows, len(f.Rows), strings.Join(diff[:min(len(diff), 10)], "\n"))
}

// requireSame follows the shape until its rows are those of the query, and fails the test, with what differs, if they
// are not within a minute or if the protocol was violated on the way. Nothing may write meanwhile.
func requireSame(t testing.TB, f *Fold, db *pgtest.DB, sql string) {
	t.Helper()
	requireBecomes(t, f, query(t, db, sql))
}

// requireBecomes is requireSame for rows that Postgres has been asked for.
func requireBecomes(t testing.TB, f *Fold, want selected) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := f.Follow(ctx, func() bool { return f.Err() != nil || want.matches(f) })
	require.NoError(t, f.Err())
	if err != nil {
		t.Fatalf("the shape does not become what Postgres has (%v): %s", err, want.differences(f))
	}
}

// shape returns the parameters of a shape from pairs: shape("table", "items", "where", "n > 1").
func shape(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}
