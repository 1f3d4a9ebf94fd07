package integration

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The runner's own pieces, so that a green transcript means something.

func TestParseTranscript(t *testing.T) {
	steps, err := parseTranscript("# title\nsql SELECT 1\nget a table=t&offset=-1\n  < 200\n  < etag: x\n    {\"a\":1}\n")
	require.NoError(t, err)
	require.Equal(t, []step{
		{line: 2, verb: "sql", rest: "SELECT 1"},
		{line: 3, verb: "get", rest: "a table=t&offset=-1", want: []string{"< 200", "< etag: x", `  {"a":1}`}},
	}, steps)
	_, err = parseTranscript("nonsense\n")
	require.ErrorContains(t, err, "line 1: unknown step")
	_, err = parseTranscript("  < 200\n")
	require.ErrorContains(t, err, "before the first step")
}

func TestNormaliser(t *testing.T) {
	n := newNormaliser(false)
	r := &response{status: 200, header: http.Header{
		"Electric-Handle": {"12-34"}, "Electric-Offset": {"77_2"}, "Electric-Cursor": {"5"}, "Electric-Up-To-Date": {""},
		"Etag": {`"12-34:0_inf:77_2:9"`}, "X-Other": {"no"},
	}, body: `[{"key":"b","value":{"lsn":"1","d":"true"},"headers":{"operation":"insert"}},` +
		`{"headers":{"operation":"insert"},"key":"a","value":{"ip":"10.0.0.1/32"}},` +
		`{"headers":{"txids":[900],"lsn":"77","operation":"insert","op_position":2},"key":"<c>"},` +
		`{"headers":{"control":"snapshot-end","xmin":"1","xmax":"2","xip_list":["1"]}},` +
		`{"headers":{"control":"up-to-date","global_last_seen_lsn":"78"}}]`}
	require.Equal(t, []string{
		"< 200", "< electric-handle: HANDLE1", "< electric-offset: LSN1_2", "< electric-cursor: CURSOR", "< electric-up-to-date: ",
		`< etag: "HANDLE1:0_inf:LSN1_2:CLOCK"`,
		`  {"headers":{"operation":"insert"},"key":"a","value":{"ip":"10.0.0.1"}}`,
		`  {"headers":{"operation":"insert"},"key":"b","value":{"d":"t","lsn":"1"}}`,
		`  {"headers":{"lsn":"LSN1","op_position":2,"operation":"insert","txids":[XID1]},"key":"<c>"}`,
		`  {"headers":{"control":"snapshot-end","xip_list":[…],"xmax":"XID","xmin":"XID"}}`,
		`  {"headers":{"control":"up-to-date","global_last_seen_lsn":"LSN2"}}`,
	}, n.lines(r))
}

// An expected number is given once, to a new handle only.
func TestNormaliserExpectsHandles(t *testing.T) {
	n := newNormaliser(false)
	want := []string{"< 200", "< electric-handle: HANDLE7"}
	n.expectHandle(want, "a")
	n.expectHandle(want, "b") // the number is taken
	require.Equal(t, "HANDLE7", n.number("HANDLE", "a"))
	require.Equal(t, "HANDLE?1", n.number("HANDLE", "b"))
	n.expectHandle([]string{"< electric-handle: HANDLE9"}, "a") // the handle has a number
	require.Equal(t, "HANDLE7", n.number("HANDLE", "a"))
}

func TestEncode(t *testing.T) {
	require.Equal(t, "table=t&where=n+%3D+%27a%25%26%27&params%5B1%5D=x%3Dy", encode("table=t&where=n = 'a%25%26'&params[1]=x=y"))
	require.Empty(t, encode(""))
}
