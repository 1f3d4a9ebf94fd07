package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// get asks for /v1/shape with parameters in pairs and returns the answer, read whole.
func get(t *testing.T, base string, pairs ...string) *response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/shape?"+shape(pairs...).Encode(), http.NoBody)
	require.NoError(t, err)
	return do(req)
}

// A commit may be in the log before other transactions see it, for as long as it waits for a synchronous standby. A client
// that has it must not get the row of before from a subset, or it would keep that.
func TestSubsetSeesWhatTheLogHas(t *testing.T) {
	db := withStandby(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, title text); INSERT INTO items VALUES (1, 'old')")
	srv := startServer(t, db)
	first := get(t, srv.url, "table", "items", "log", "changes_only", "offset", "-1")
	require.NoError(t, first.err)
	handle := first.header.Get("electric-handle")

	db.Exec(t, "UPDATE items SET title = 'newer'") // a table's first change waits for the catalogue
	later := get(t, srv.url, "table", "items", "log", "changes_only", "offset", "0_inf", "handle", handle, "live", "true")
	require.Contains(t, later.body, `"title":"newer"`)

	release, written := heldCommit(t, db, "UPDATE items SET title = 'new'")
	live := get(t, srv.url, "table", "items", "log", "changes_only", "offset", later.header.Get("electric-offset"), "handle", handle, "live", "true")
	require.NoError(t, live.err)
	require.Contains(t, live.body, `"title":"new"`)

	asked := make(chan *response, 1)
	go func() {
		asked <- get(t, srv.url, "table", "items", "log", "changes_only", "offset", live.header.Get("electric-offset"), "handle", handle,
			"subset__where", "id = 1")
	}()
	select {
	case <-time.After(300 * time.Millisecond): // an answer from before the commit would be there by now
	case res := <-asked:
		require.NotContains(t, res.body, "old")
		t.Fatalf("answered while the commit waits: %d %s", res.status, res.body)
	case err := <-written:
		t.Fatalf("the commit does not wait: %v", err)
	}
	release()
	res := <-asked
	require.NoError(t, res.err)
	require.Equal(t, http.StatusOK, res.status, res.body)
	require.Contains(t, res.body, `"title":"new"`)
	require.Equal(t, live.header.Get("electric-offset"), res.header.Get("electric-offset"))
}

// The whole server's answers to what it cannot do, and that nothing stays behind: B186 with the database below.
func TestSubsetFailuresEndToEnd(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `CREATE TABLE oi (id int PRIMARY KEY, v text, j json, z int); INSERT INTO oi VALUES (1, 'a', '1', 0), (2, 'b', '2', 1);
		CREATE TABLE hidden (s text); INSERT INTO hidden VALUES ('topsecret')`)
	srv := startServer(t, db)
	ask := func(pairs ...string) *response {
		res := get(t, srv.url, append([]string{"table", "oi", "offset", "-1"}, pairs...)...)
		require.NoError(t, res.err, pairs)
		require.NotContains(t, res.body, "topsecret", pairs)
		return res
	}
	for _, order := range []string{"id", "id DESC NULLS LAST", "v, id desc", `"id"`, "(id)", "oi.id", "public.oi.id", `v COLLATE "C"`} {
		res := ask("subset__limit", "5", "subset__order_by", order)
		require.Equal(t, http.StatusOK, res.status, order+res.body)
		require.Equal(t, "true", res.header.Get("electric-snapshot"))
		var body struct {
			Metadata map[string]any
			Data     []any
		}
		require.NoError(t, json.Unmarshal([]byte(res.body), &body))
		require.Len(t, body.Data, 2)
		require.NotEmpty(t, body.Metadata["database_lsn"])
	}
	for _, order := range []string{
		"(SELECT 1)", "id, (SELECT s FROM hidden)", "CAST((SELECT s FROM hidden) AS int)", "pg_sleep(3)", "CASE WHEN 1=1 THEN id END",
		"id; DROP TABLE oi", "id -- x", "id /* x */", "1", "$1", "id USING >", "lower(v)", "random()", "id LIMIT 1", "id FOR UPDATE", "id, ctid",
		"xmin", "id::text", "id[1]", "(id).x", "*", "oi", "id OFFSET 1", "id) UNION SELECT (1", "nosuch", "j", `v COLLATE "nosuch"`,
		strings.Repeat("(", 5000) + "id" + strings.Repeat(")", 5000), strings.Repeat("id,", 10_000) + "nosuch",
	} {
		res := ask("subset__limit", "5", "subset__order_by", order)
		require.Equal(t, http.StatusBadRequest, res.status, order+res.body)
		require.Contains(t, res.body, `"errors":{"subset":{"order_by":[`, order)
		require.Less(t, res.took, 3*time.Second, order)
	}
	for _, clause := range []string{"1 / z = 1", "v::int = 1"} { // fail on a row
		res := ask("subset__where", clause)
		require.Equal(t, http.StatusBadRequest, res.status, clause+res.body)
		require.Contains(t, res.body, `"errors":{"subset":{"where":"The clause cannot be evaluated on every row: `)
	}
	res := ask("subset__order_by", "id", "subset__limit", "9223372036854775807", "subset__offset", "9223372036854775807")
	require.Equal(t, http.StatusOK, res.status, res.body)
	require.Contains(t, res.body, `"data":[]`)
	require.Equal(t, 2, query(t, db, "SELECT id FROM oi").rows)

	// A table that was changed since: the shape of all columns is another one now, and the client learns its handle.
	was := ask().header.Get("electric-handle")
	db.Exec(t, "ALTER TABLE oi ADD COLUMN extra int DEFAULT 7")
	res = get(t, srv.url, "table", "oi", "offset", "0_inf", "handle", was, "subset__where", "id = 1")
	for deadline := time.Now().Add(30 * time.Second); res.status == http.StatusConflict && time.Now().Before(deadline); {
		handle := res.header.Get("electric-handle")
		if handle == "" {
			handle = was
		}
		res = get(t, srv.url, "table", "oi", "offset", "0_inf", "handle", handle, "subset__where", "id = 1")
	}
	require.Equal(t, http.StatusOK, res.status, res.body)
	require.NotEqual(t, was, res.header.Get("electric-handle"))
	require.Contains(t, res.body, `"extra":"7"`)

	// A table that somebody locks is not waited for without end.
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "LOCK TABLE oi")
	require.NoError(t, err)
	res = ask("subset__where", "id = 1")
	require.Equal(t, http.StatusServiceUnavailable, res.status, res.body)
	require.JSONEq(t, `{"message":"Snapshot timed out while waiting for a table lock"}`, res.body)
	require.Equal(t, "10", res.header.Get("retry-after"))
	_, err = conn.Exec(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, ask("subset__where", "id = 1").status)
}
