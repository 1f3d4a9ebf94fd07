package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// getBody makes one request and returns the body and headers of its 200 answer.
func getBody(t testing.TB, base string, params url.Values) (string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/shape?"+params.Encode(), http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	return string(body), res.Header
}

// A snapshot larger than a chunk comes as chunks 0_0, 0_1, … of about the threshold; snapshot-end is there once, last
// in the last; asking again gives the same bytes (protocol.md §6, checklist 26).
func TestBigSnapshotIsChunked(t *testing.T) {
	for _, c := range []struct {
		name           string
		rows, rowBytes int
		threshold      int // 0 means the default, 10 MiB
	}{
		{"small threshold", 2000, 300, 50_000},
		{"default threshold", 24_000, 1000, 0},
		{"rows larger than the threshold", 5, 100_000, 50_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, fmt.Sprintf(`CREATE TABLE big (id int PRIMARY KEY, v text);
				INSERT INTO big SELECT i, repeat(chr(97 + i %% 26), %d) FROM generate_series(1, %d) i`, c.rowBytes, c.rows))
			var settings []string
			threshold := 10 << 20
			if c.threshold > 0 {
				settings, threshold = []string{fmt.Sprintf("SHAPESERVER_SHAPE_CHUNK_BYTES_THRESHOLD=%d", c.threshold)}, c.threshold
			}
			srv := startServer(t, db, settings...)
			params := shape("table", "big")
			var bodies []string
			rows, ends := 0, 0
			for offset, handle := "-1", ""; ; {
				params.Set("offset", offset)
				if handle != "" {
					params.Set("handle", handle)
				}
				body, h := getBody(t, srv.url, params)
				handle = h.Get("electric-handle")
				var items []struct {
					Headers struct{ Operation, Control string }
				}
				require.NoError(t, json.Unmarshal([]byte(body), &items))
				if _, upToDate := h["Electric-Up-To-Date"]; upToDate {
					require.Equal(t, "0_inf", h.Get("electric-offset"))
					require.Len(t, items, 1, "the tail has only the up-to-date")
					break
				}
				for i, item := range items {
					if item.Headers.Operation == "insert" {
						rows++
					}
					if item.Headers.Control == "snapshot-end" {
						ends++
						assert.Equal(t, len(items)-1, i, "snapshot-end is last in its chunk")
					}
				}
				require.Equal(t, fmt.Sprintf("0_%d", len(bodies)), h.Get("electric-offset"))
				assert.Less(t, len(body), threshold+c.rowBytes+1000, "chunk %d", len(bodies))
				bodies = append(bodies, body)
				offset = h.Get("electric-offset")
				require.LessOrEqual(t, len(bodies), c.rows+1)
			}
			require.Equal(t, c.rows, rows)
			require.Equal(t, 1, ends)
			require.Contains(t, bodies[len(bodies)-1], "snapshot-end")
			least := c.rows * c.rowBytes / threshold
			require.GreaterOrEqual(t, len(bodies), min(least, c.rows), "chunks")

			offset := "-1"
			for i, want := range bodies {
				params.Set("offset", offset)
				body, _ := getBody(t, srv.url, params)
				if body != want { // not require.Equal, which would print megabytes
					t.Errorf("chunk %d differs when asked again", i)
				}
				offset = fmt.Sprintf("0_%d", i)
			}
			f := NewFold(srv.url, shape("table", "big"))
			requireSame(t, f, db, "SELECT * FROM big")
		})
	}
}

// A value with every character that JSON or COPY must escape arrives as it is.
func TestEveryCharacterArrives(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE c (id int PRIMARY KEY, v text); INSERT INTO c SELECT i, chr(i) || '\N' || chr(i) FROM generate_series(1, 700) i;
		INSERT INTO c VALUES (10001, '\N'), (10002, NULL), (10003, ''), (10004, E'\u2028\u2029\ufeff'), (10005, '\.')`)
	srv := startServer(t, db)
	f := NewFold(srv.url, shape("table", "c"))
	requireSame(t, f, db, "SELECT * FROM c")
	db.Exec(t, "UPDATE c SET id = id + 100000")
	requireSame(t, f, db, "SELECT * FROM c")
}
