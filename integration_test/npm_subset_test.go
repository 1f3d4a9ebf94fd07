package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// subset asks for a subset as an application does, waits for it, and returns the rows of the shape after it.
func (c *npmClient) subset(t *testing.T, params map[string]any) map[string]string {
	t.Helper()
	c.send(t, params)
	e := c.await(t, fmt.Sprintf("subset %v", params), func(e npmEvent) bool { return e.Event == "subset" })
	return titles(e.Rows)
}

// titles returns rows as title by id.
func titles(rows []map[string]any) map[string]string {
	m := make(map[string]string, len(rows))
	for _, r := range rows {
		m[fmt.Sprint(r["id"])] = fmt.Sprint(r["title"])
	}
	return m
}

// The npm client in the mode changes_only asks for pages and other subsets, by GET and by POST, and follows the rows that
// it has.
func TestNpmSubsets(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TYPE mood AS ENUM ('sad', 'ok');
		CREATE TABLE items (id int PRIMARY KEY, title text, n int, m mood);
		INSERT INTO items SELECT i, 'title ' || i, i % 3, CASE WHEN i > 90 THEN 'sad'::mood ELSE 'ok' END FROM generate_series(1, 100) i`)
	srv := startServer(t, db)
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			c := followWithNpm(t, srv.url, map[string]any{"table": "items", "where": "id < 1000"},
				map[string]any{"log": "changes_only", "offset": "now", "subsetMethod": method})
			got := c.subset(t, map[string]any{"where": "n = $1", "params": map[string]any{"1": "2"}, "orderBy": "id", "limit": 3})
			require.Equal(t, map[string]string{"2": "title 2", "5": "title 5", "8": "title 8"}, got)
			got = c.subset(t, map[string]any{"where": "n = $1", "params": map[string]any{"1": 2}, "orderBy": "id", "limit": 2, "offset": 3})
			require.Equal(t, []string{"11", "14", "2", "5", "8"}, slices.Sorted(maps.Keys(got)))
			got = c.subset(t, map[string]any{"where": "m = 'sad' AND title ILIKE $1", "params": map[string]any{"1": "%9"}, "orderBy": "id DESC NULLS LAST"})
			require.Equal(t, []string{"11", "14", "2", "5", "8", "99"}, slices.Sorted(maps.Keys(got)))
			// The client's own form of a clause, which it sends beside the text that it makes of it.
			ref := func(column string) map[string]any { return map[string]any{"type": "ref", "column": column} }
			got = c.subset(t, map[string]any{
				"whereExpr": map[string]any{"type": "func", "name": "eq", "args": []any{ref("id"), map[string]any{"type": "val", "paramIndex": 1}}},
				"params":    map[string]any{"1": "50"}, "orderByExpr": []any{map[string]any{"column": "id", "direction": "desc"}}, "limit": 1,
			})
			require.Contains(t, got, "50")

			db.Exec(t, "UPDATE items SET title = 'new' WHERE id IN (5, 6); DELETE FROM items WHERE id = 8; INSERT INTO items VALUES (200, 'late', 2, 'ok')")
			c.await(t, "the changes of rows that it has, and the new row", func(e npmEvent) bool {
				rows := titles(e.Rows)
				return e.Event == "rows" && rows["5"] == "new" && rows["200"] == "late" && !slices.Contains(slices.Collect(maps.Keys(rows)), "8")
			})
			got = c.subset(t, map[string]any{"where": "id = 6"})
			require.Equal(t, "new", got["6"], "a row that it did not have comes as it is now")
			db.Exec(t, "UPDATE items SET title = 'title ' || id WHERE id IN (5, 6); INSERT INTO items VALUES (8, 'title 8', 2, 'ok'); DELETE FROM items WHERE id = 200")
		})
	}
}

// subsetWriter writes random transactions, some of which stay open for a while, until stop is closed.
func subsetWriter(t *testing.T, db *pgtest.DB, seed uint64, stop <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
	conn, err := pgx.Connect(ctx, db.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		var b strings.Builder
		b.WriteString("BEGIN;")
		ids := make([]int, 1+r.IntN(4))
		for j := range ids {
			ids[j] = 1 + r.IntN(subsetRows)
		}
		slices.Sort(ids) // so that writers do not wait for each other in a circle
		for _, id := range ids {
			title := fmt.Sprintf("w%d.%d", seed, i)
			switch r.IntN(4) {
			case 0:
				fmt.Fprintf(&b, "DELETE FROM items WHERE id = %d;", id)
			case 1:
				fmt.Fprintf(&b, "UPDATE items SET title = '%s', n = %d WHERE id = %d;", title, r.IntN(5), id)
			default:
				fmt.Fprintf(&b, "INSERT INTO items VALUES (%d, '%s', %d) ON CONFLICT (id) DO UPDATE SET title = excluded.title;", id, title, r.IntN(5))
			}
		}
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, "SELECT pg_sleep(%f);", r.Float64()/30)
		}
		b.WriteString("COMMIT;SELECT pg_sleep(0.02)")
		if _, err := conn.PgConn().Exec(ctx, b.String()).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", b.String(), err)
		}
	}
}

const subsetRows = 240

// Subsets that together are the whole table, asked for while it is written to, and the changes that come between and
// after, make the table: nothing is lost at any seam, and no old row replaces a newer one.
func TestNpmSubsetsConverge(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, fmt.Sprintf(`CREATE TABLE items (id int PRIMARY KEY, title text, n int);
		INSERT INTO items SELECT i, 'first', i %% 5 FROM generate_series(1, %d) i`, subsetRows))
	srv := startServer(t, db)
	for i, options := range []map[string]any{
		{"log": "changes_only"},
		{"log": "changes_only", "offset": "now", "subsetMethod": "POST"},
		{"log": "changes_only", "liveSse": true},
	} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for w := range uint64(3) {
				wg.Go(func() { assert.NoError(t, subsetWriter(t, db, uint64(i)*10+w, stop)) }) //nolint:gosec // small
			}
			c := followWithNpm(t, srv.url, map[string]any{"table": "items"}, options)
			const page = 20
			var got map[string]string
			for range 2 { // the second time the client has the rows, and more than it knows of changes before them
				for first := 1; first <= subsetRows; first += page {
					got = c.subset(t, map[string]any{
						"where": "id >= $1 AND id < $2", "params": map[string]any{"1": strconv.Itoa(first), "2": strconv.Itoa(first + page)},
						"orderBy": "n, title DESC",
					})
				}
			}
			close(stop)
			wg.Wait()
			// Whatever the last answer was, the next change is seen after all of them.
			last := strconv.Itoa(1000 + i)
			db.Exec(t, "INSERT INTO items VALUES ("+last+", 'last', 0)")
			if got[last] == "" {
				e := c.await(t, "the last row", func(e npmEvent) bool { return e.Event == "rows" && titles(e.Rows)[last] != "" })
				got = titles(e.Rows)
			}
			maps.DeleteFunc(got, func(id, _ string) bool { return len(id) == len(last) })
			want := map[string]string{}
			for line := range query(t, db, "SELECT id, title FROM items WHERE id < 1000").lines {
				var id, title string
				_, err := fmt.Sscanf(line, "%q %q", &id, &title)
				require.NoError(t, err, line)
				want[id] = title
			}
			require.Equal(t, want, got)
		})
	}
}
