package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func acceptFirst(t *testing.T, a *acceptor) {
	r := a.get(t, "offset=-1&table="+a.table(t))
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, "0_0", r.header.Get("electric-offset"))
	require.NotEmpty(t, r.header.Get("electric-schema"))
	require.NotContains(t, r.header, "Electric-Up-To-Date")
	items := r.items(t)
	require.Len(t, items, 3)
	require.Equal(t, "snapshot-end", headersOf(items[2])["control"])
	require.IsType(t, "", headersOf(items[2])["xmin"])
	require.IsType(t, "", headersOf(items[2])["xmax"])
	require.NotContains(t, headersOf(items[0]), "lsn")
}

func acceptSecond(t *testing.T, a *acceptor) {
	table := a.table(t)
	r := a.get(t, "offset=-1&table="+table)
	r = a.get(t, next("table="+table, r))
	require.Equal(t, "0_inf", r.header.Get("electric-offset"))
	require.Equal(t, []string{""}, r.header["Electric-Up-To-Date"])
	require.Equal(t, "true", r.header.Get("electric-has-data"))
	items := r.items(t)
	require.Len(t, items, 1)
	require.Equal(t, "up-to-date", headersOf(items[0])["control"])
}

func acceptLive(t *testing.T, a *acceptor) {
	table := a.table(t)
	at := a.head(t, "table="+table)
	answer := make(chan reply, 1)
	go func() { answer <- a.get(t, at+"&live=true") }()
	a.db.Exec(t, "INSERT INTO "+table+" VALUES (3,'c',null)")
	r := <-answer
	require.Less(t, r.took, acceptedPatience, "before the time is over")
	items := r.items(t)
	require.Len(t, items, 2)
	require.NotEmpty(t, r.header.Get("electric-cursor"))
	require.NotContains(t, r.header, "Electric-Schema")
	h := headersOf(items[0])
	require.Equal(t, fmt.Sprintf("%s_0", h["lsn"]), r.header.Get("electric-offset"))
	require.Equal(t, json.Number("0"), h["op_position"])
	require.Equal(t, true, h["last"])
}

func acceptIdle(t *testing.T, a *acceptor) {
	at := a.head(t, "table="+a.table(t))
	one := a.get(t, at+"&live=true")
	require.GreaterOrEqual(t, one.took, acceptedPatience)
	two := a.get(t, at+"&live=true")
	for _, r := range []reply{one, two} {
		require.Equal(t, http.StatusOK, r.status)
		require.Len(t, r.items(t), 1)
		require.Equal(t, "false", r.header.Get("electric-has-data"))
		require.Equal(t, "0_inf", r.header.Get("electric-offset"))
	}
	require.NotEqual(t, one.header.Get("etag"), two.header.Get("etag"))
}

func acceptPosition(t *testing.T, a *acceptor) {
	table, other := a.table(t), a.table(t)
	a.head(t, "table="+other) // published
	items := a.live(t, "table="+table, fmt.Sprintf("BEGIN; INSERT INTO %s VALUES (9,'x',true); INSERT INTO %s VALUES (9,'x',true); COMMIT", other, table))
	require.Equal(t, json.Number("2"), headersOf(items[0])["op_position"])
}

func acceptUpdate(t *testing.T, a *acceptor) {
	table := a.table(t)
	items := a.live(t, "table="+table, "UPDATE "+table+" SET title='x' WHERE id=1")
	requireValue(t, items[0], "update", map[string]any{"id": "1", "title": "x"})
	items = a.live(t, "replica=full&table="+table, "UPDATE "+table+" SET title='y' WHERE id=1")
	require.Equal(t, "y", items[0]["value"].(map[string]any)["title"])
	require.Len(t, items[0]["value"], 3)
	require.Equal(t, map[string]any{"title": "x"}, items[0]["old_value"])
}

func acceptKeyChange(t *testing.T, a *acceptor) {
	table := a.table(t)
	items := a.live(t, "table="+table, "UPDATE "+table+" SET id=10 WHERE id=1")
	require.Len(t, items, 2)
	require.Equal(t, "delete", headersOf(items[0])["operation"])
	require.Equal(t, "insert", headersOf(items[1])["operation"])
	require.Equal(t, items[1]["key"], headersOf(items[0])["key_change_to"])
	require.Equal(t, items[0]["key"], headersOf(items[1])["key_change_from"])
	require.Equal(t, json.Number("0"), headersOf(items[0])["op_position"])
	require.Equal(t, json.Number("1"), headersOf(items[1])["op_position"])
	require.NotContains(t, headersOf(items[0]), "last")
	require.Equal(t, true, headersOf(items[1])["last"])
}

func acceptNoChange(t *testing.T, a *acceptor) {
	table := a.table(t)
	at := a.head(t, "table="+table)
	answer := make(chan reply, 1)
	go func() { answer <- a.get(t, at+"&live=true") }()
	a.db.Exec(t, "UPDATE "+table+" SET title=title")
	r := <-answer
	require.GreaterOrEqual(t, r.took, acceptedPatience, "it goes on waiting")
	require.Len(t, r.items(t), 1)
}

func acceptMoves(t *testing.T, a *acceptor) {
	table := a.table(t)
	where := "where=" + url.QueryEscape("done = true") + "&table=" + table
	items := a.live(t, where, "UPDATE "+table+" SET done=false WHERE id=2")
	require.Equal(t, "delete", headersOf(items[0])["operation"])
	at := a.head(t, where)
	a.db.Exec(t, "UPDATE "+table+" SET done=true WHERE id=1")
	all := a.get(t, at+"&live=true").items(t)
	last := all[len(all)-2]
	require.Equal(t, "insert", headersOf(last)["operation"])
	require.Len(t, last["value"], 3)
}

func acceptDelete(t *testing.T, a *acceptor) {
	table := a.table(t)
	items := a.live(t, "table="+table, "DELETE FROM "+table+" WHERE id=1")
	requireValue(t, items[0], "delete", map[string]any{"id": "1"})
}

func acceptTruncate(t *testing.T, a *acceptor) {
	table := a.table(t)
	at := a.head(t, "table="+table)
	answer := make(chan reply, 1)
	go func() { answer <- a.get(t, at+"&live=true") }()
	a.db.Exec(t, "TRUNCATE "+table)
	r := <-answer
	require.Equal(t, http.StatusConflict, r.status, r.body)
	require.Equal(t, mustRefetch, r.body)
	r = a.get(t, at)
	require.Equal(t, http.StatusConflict, r.status)
	require.NotEmpty(t, r.header.Get("electric-handle"))
	require.NotContains(t, at, r.header.Get("electric-handle"))
}

func acceptUnknownHandle(t *testing.T, a *acceptor) {
	table := a.table(t)
	r := a.get(t, "offset=0_0&handle=nope&table="+table)
	require.Equal(t, http.StatusConflict, r.status)
	handle := r.header.Get("electric-handle")
	require.NotEmpty(t, handle)
	r = a.get(t, "offset=-1&table="+table+"&handle="+handle)
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, handle, r.header.Get("electric-handle"))
}

func acceptNoHandle(t *testing.T, a *acceptor) {
	r := a.get(t, "offset=0_0&table="+a.table(t))
	require.Equal(t, http.StatusBadRequest, r.status)
	require.Equal(t, `{"message":"Invalid request","errors":{"handle":["can't be blank when offset != -1"]}}`, r.body)
}

func acceptLiveFirst(t *testing.T, a *acceptor) {
	table := a.table(t)
	for _, name := range []string{"live", "live_sse"} {
		r := a.get(t, "offset=-1&table="+table+"&"+name+"=true")
		require.Equal(t, http.StatusBadRequest, r.status)
		require.Contains(t, r.body, `"errors":{"`+name+`":[`)
	}
}

func acceptHandleIgnored(t *testing.T, a *acceptor) {
	require.Equal(t, http.StatusOK, a.get(t, "offset=-1&handle=whatever&table="+a.table(t)).status)
}

func acceptAhead(t *testing.T, a *acceptor) {
	definition := "table=" + a.table(t)
	handle := a.get(t, definition+"&offset=-1").header.Get("electric-handle")
	for _, live := range []string{"", "&live=true"} {
		r := a.get(t, definition+"&offset=9999999999999_0&handle="+handle+live)
		require.Equal(t, http.StatusBadRequest, r.status)
		require.Contains(t, r.body, "out of bounds for this shape")
		require.GreaterOrEqual(t, r.took, acceptedPatience/2, "not at once")
	}
}

func acceptNow(t *testing.T, a *acceptor) {
	table := a.table(t)
	at := a.head(t, "table="+table)
	a.db.Exec(t, "INSERT INTO "+table+" VALUES (3,'c',null)")
	last := a.get(t, at+"&live=true").header.Get("electric-offset")
	r := a.get(t, "offset=now&table="+table)
	require.Len(t, r.items(t), 1)
	require.Equal(t, last, r.header.Get("electric-offset"))
	require.Equal(t, "false", r.header.Get("electric-has-data"))
	require.NotEmpty(t, r.header.Get("electric-schema"))
}

func acceptChangesOnly(t *testing.T, a *acceptor) {
	table := a.table(t)
	full := a.get(t, "offset=-1&table="+table)
	r := a.get(t, "offset=-1&log=changes_only&table="+table)
	items := r.items(t)
	require.Len(t, items, 1)
	require.Equal(t, "snapshot-end", headersOf(items[0])["control"])
	require.NotEqual(t, full.header.Get("electric-handle"), r.header.Get("electric-handle"))
}

func acceptSameShape(t *testing.T, a *acceptor) {
	table := a.table(t)
	for _, same := range [][]string{
		{"where=id+%3D+1", "where=(id%3D1)", "where=((ID))%0A=+1"},
		// Not the same as the first ones: the reference keeps them apart too (transcript 04).
		{"where=id+%3D+%241&params%5B1%5D=1", "where=(id%3D%241)&params[1]=1"},
	} {
		handles := map[string]bool{}
		for _, where := range same {
			handles[a.get(t, "offset=-1&table="+table+"&"+where).header.Get("electric-handle")] = true
		}
		require.Len(t, handles, 1, same)
	}
}

func acceptMistakes(t *testing.T, a *acceptor) {
	table := a.table(t)
	a.db.Exec(t, "CREATE VIEW acceptance_view AS SELECT 1 AS id")
	const exist = `does not exist. If the table name contains capitals or special characters you must quote it.`
	for query, want := range map[string]string{
		"table=nosuch":                                   `{"table":["Table \"public\".\"nosuch\" ` + exist + `"]}`,
		"table=acceptance_view":                          `{"table":["Table \"public\".\"acceptance_view\" ` + exist + `"]}`,
		"table=" + table + "&columns=title":              `{"columns":["The list of columns must include all primary key columns, missing: id"]}`,
		"table=" + table + "&columns=id,nope":            `{"columns":["The following columns are not found on the table: nope"]}`,
		"table=" + table + "&where=id+%3D+%241":          `{"where":["At location`,
		"table=" + table + "&where=nope+%3D+1":           `{"where":["At location`,
		"table=" + table + "&where=id+%3D+1&params[x]=1": `{"params":["Parameters can only use numbers as keys"]}`,
	} {
		r := a.get(t, "offset=-1&"+query)
		require.Equal(t, http.StatusBadRequest, r.status, query)
		require.Contains(t, r.body, `{"message":"Invalid request","errors":`+want, query)
	}
}

func acceptNotModified(t *testing.T, a *acceptor) {
	definition := "offset=-1&table=" + a.table(t)
	first := a.get(t, definition)
	r := a.get(t, definition, "If-None-Match", first.header.Get("etag"))
	require.Equal(t, http.StatusNotModified, r.status)
	require.Empty(t, r.body)
	require.Equal(t, first.header.Get("cache-control"), r.header.Get("cache-control"))
	require.Contains(t, r.header.Get("cache-control"), "max-age=604800")
}

func acceptSubset(t *testing.T, a *acceptor) {
	r := a.do(t, http.MethodPost, "offset=now&log=changes_only&table="+a.table(t), `{"subset":{"where":"id = 2"}}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	for _, name := range []string{"electric-offset", "electric-handle", "electric-schema"} {
		require.NotEmpty(t, r.header.Get(name), name)
	}
	require.Equal(t, "true", r.header.Get("electric-snapshot"))
	var body struct {
		Metadata map[string]any
		Data     []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &body))
	require.NotEmpty(t, body.Metadata)
	require.Len(t, body.Data, 1)
}

func acceptEvents(t *testing.T, a *acceptor) {
	table := a.table(t)
	at := a.head(t, "table="+table)
	answer := make(chan reply, 1)
	go func() { answer <- a.get(t, at+"&live=true&live_sse=true") }()
	a.db.Exec(t, "INSERT INTO "+table+" VALUES (3,'c',null)")
	r := <-answer
	require.GreaterOrEqual(t, r.took, 3*time.Second, "the stream lasts")
	require.Equal(t, "text/event-stream", r.header.Get("content-type"))
	events := strings.Split(strings.TrimSuffix(r.body, "\n\n"), "\n\n")
	require.GreaterOrEqual(t, len(events), 3)
	require.Contains(t, events[0], `data: {"key":`)
	require.Contains(t, events[1], `data: {"headers":{"control":"up-to-date"`)
	require.Equal(t, ": keep-alive", events[2])
}

func acceptToast(t *testing.T, a *acceptor) {
	a.db.Exec(t, "CREATE TABLE toasted (id int primary key, n int, big text); ALTER TABLE toasted ALTER big SET STORAGE EXTERNAL; "+
		"INSERT INTO toasted VALUES (1, 0, repeat('x', 1000000))")
	items := a.live(t, "replica=full&table=toasted", "UPDATE toasted SET n=1")
	require.Equal(t, strings.Repeat("x", 1_000_000), items[0]["value"].(map[string]any)["big"])
}
