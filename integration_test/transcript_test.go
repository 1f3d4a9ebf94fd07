package integration

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// A transcript is a scenario: steps, and indented under each step what a correct server answers.
//
//	# comment
//	sql STATEMENT                          run on the database, as one simple query
//	get NAME QUERY                         GET /v1/shape?QUERY; $X.offset, $X.handle, $X.cursor and $X.etag are those of
//	                                       the answer named X; QUERY is written unencoded but for %25 and %26
//	bg NAME QUERY … wait NAME              the same in the background; wait prints its answer
//	req NAME METHOD PATH | Header: v <BODY any request
//	sleep MS                               wait, so that a change has passed through
//
// Answers are normalised by normaliser. A step's expected lines are a status, headers and body lines:
//
//	< 200 (after about 20 s)
//	< electric-offset: LSN1_0
//	  {"headers":{…}}
type step struct {
	line int      // in the file, from 1
	verb string   // sql, get, bg, wait, req or sleep
	rest string   // what follows the verb
	want []string // expected lines, headers as "< name: value", body lines indented by two
}

// transcripts are the files of testdata/transcripts.
var transcripts = []string{
	"01-basic", "02-transactions", "03-replica-full", "04-where-moves", "05-errors", "06-rotation", "07-types", "08-identifiers",
	"09-where-errors-and-forms", "10-sse-and-caching", "11-subset-and-changes-only",
}

// deviation is a place where we answer otherwise, and better, than the transcript says.
type deviation struct {
	file     string
	step     string // the answer's name; empty means all
	old, new string // replaced in every expected line
	like     string // or: the answer is that of the step of this name, but for its handle,
	sameAs   string // which is that of this step, if set, else one of its own
	reason   string
}

// evaluated is the reason of deviations where the reference refuses a clause. In 09 every such clause is true for the
// table's only row.
const evaluated = "Postgres takes this clause, and we evaluate it as Postgres does"

var deviations = []deviation{
	{
		file: "08-identifiers", step: "c", old: `\"My Schema\".\"T\"q\"/`, new: `\"My Schema\".\"T\"\"q\"/`,
		reason: `a key must be the same in snapshot and log, so the quote in T"q is doubled in both`,
	},
	{
		file: "08-identifiers", step: "j", old: `\"public\".\"s08p1\"/`, new: `\"public\".\"s08p\"/`,
		reason: "a key must be the same in snapshot and log, so rows of a partition have the key of the table asked for",
	},
	{
		file: "08-identifiers", step: "j", old: `\"public\".\"s08p2\"/`, new: `\"public\".\"s08p\"/`,
		reason: "as above",
	},
	{
		file: "05-errors", step: "ai", old: `unexpected byte at position 0: 0x6E (\"n\")`, new: `invalid character 'o' in literal null (expecting 'u')`,
		reason: "details are the words of the JSON decoder, which is another one",
	},
	{file: "09-where-errors-and-forms", step: "d", like: "a", reason: evaluated}, // a date without a zone, which is UTC's
	{file: "09-where-errors-and-forms", step: "f", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "h", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "j", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "k", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "x", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "n", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "o", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "p", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "q", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "v", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "w", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "aa", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "ab", like: "a", reason: evaluated},
	{file: "09-where-errors-and-forms", step: "ac", like: "a", sameAs: "ab", reason: evaluated},
	{
		file: "09-where-errors-and-forms", step: "y", like: "z",
		reason: "subqueries come after the core (design.md §7) and are refused as protocol.md §9.1 allows",
	},
	{
		file: "09-where-errors-and-forms", step: "y", old: "At location 30: Expected a plain column reference", new: "At location 3: subqueries are not supported in where clauses",
		reason: "as above",
	},
	{
		file: "09-where-errors-and-forms", step: "z", old: "At location 30: Expected a plain column reference", new: "At location 0: subqueries are not supported in where clauses",
		reason: "the message must not say that another subquery would do",
	},
	{
		file: "09-where-errors-and-forms", step: "ag", old: "HANDLE15", new: "HANDLE14",
		reason: "equivalent texts give one shape: what depends on no column is folded, so 1 = 1 is true",
	},
}

func TestTranscripts(t *testing.T) {
	db := pgtest.New(t)
	srv := startServer(t, db, "SHAPESERVER_ENABLE_INTEGRATION_TESTING=true")
	for _, name := range transcripts {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "transcripts", name+".txt"))
			require.NoError(t, err)
			steps, err := parseTranscript(string(text))
			require.NoError(t, err)
			r := &runner{db: db, steps: steps, base: srv.url, named: map[string]*response{}, norm: newNormaliser(strings.Contains(string(text), "< access-control-"))}
			for _, s := range steps {
				r.run(t, name, s)
			}
		})
	}
}

// Every deviation must have something to deviate from, or it has outlived its reason.
func TestDeviationsApply(t *testing.T) {
	for _, d := range deviations {
		text, err := os.ReadFile(filepath.Join("testdata", "transcripts", d.file+".txt"))
		require.NoError(t, err)
		if d.like != "" {
			assert.Regexp(t, `(?m)^get `+d.step+` `, string(text), d.reason)
			assert.Regexp(t, `(?m)^get `+d.like+` `, string(text), d.reason)
		}
		assert.Contains(t, string(text), d.old, d.reason)
	}
}

func parseTranscript(text string) ([]step, error) {
	var steps []step
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "  < ") || strings.HasPrefix(line, "    "):
			if len(steps) == 0 {
				return nil, fmt.Errorf("line %d: an answer before the first step", i+1)
			}
			s := &steps[len(steps)-1]
			s.want = append(s.want, strings.TrimPrefix(line, "  "))
		default:
			verb, rest, _ := strings.Cut(line, " ")
			switch verb {
			case "sql", "get", "bg", "wait", "req", "sleep":
			default:
				return nil, fmt.Errorf("line %d: unknown step %q", i+1, verb)
			}
			steps = append(steps, step{line: i + 1, verb: verb, rest: rest})
		}
	}
	return steps, nil
}

// runner runs one transcript.
type runner struct {
	db      *pgtest.DB
	base    string
	norm    *normaliser
	steps   []step
	named   map[string]*response      // answers by name
	waiting map[string]chan *response // requests in the background
}

// settle is how long a step waits for what the last one did to pass through, where the transcript does not say:
// shapes are independent of each other, so one may be a moment behind another that has answered.
const settle = 100 * time.Millisecond

func (r *runner) run(t *testing.T, file string, s step) {
	t.Helper()
	name, rest, _ := strings.Cut(s.rest, " ")
	switch s.verb {
	case "sql":
		r.db.Exec(t, s.rest)
		<-time.After(settle)
	case "sleep":
		ms, err := strconv.Atoi(s.rest)
		require.NoError(t, err)
		<-time.After(2 * time.Duration(ms) * time.Millisecond)
	case "get":
		r.check(t, file, s, name, do(r.request(t, "GET", "/v1/shape?"+rest, "")))
	case "req":
		method, rest, _ := strings.Cut(rest, " ")
		r.check(t, file, s, name, do(r.request(t, method, rest, "")))
	case "bg":
		req := r.request(t, "GET", "/v1/shape?"+rest, "")
		answer := make(chan *response, 1)
		go func() { answer <- do(req) }()
		if r.waiting == nil {
			r.waiting = map[string]chan *response{}
		}
		r.waiting[name] = answer
		<-time.After(150 * time.Millisecond)
	case "wait":
		require.Contains(t, r.waiting, s.rest, "line %d", s.line)
		r.check(t, file, s, s.rest, <-r.waiting[s.rest])
		<-time.After(settle)
	}
}

// check compares an answer with what the step wants and remembers it by name.
func (r *runner) check(t *testing.T, file string, s step, name string, res *response) {
	t.Helper()
	require.NoError(t, res.err, "line %d: %s %s", s.line, s.verb, s.rest)
	r.named[name] = res
	want := slices.Clone(s.want)
	for _, d := range deviations {
		if d.file != file || d.step != "" && d.step != name {
			continue
		}
		if d.like != "" {
			want = r.wantLike(t, d)
		}
		for i := range want {
			if d.old != "" {
				want[i] = strings.ReplaceAll(want[i], d.old, d.new)
			}
		}
	}
	for i := range want {
		want[i] = unifyText(want[i])
	}
	sortSnapshotRows(want)
	r.norm.expectHandle(want, res.header.Get("electric-handle"))
	got := r.norm.lines(res)
	if len(want) > 0 && len(got) > 0 {
		got[0] += slowness(want[0], res.took)
	}
	assert.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "line %d: %s %s", s.line, s.verb, s.rest)
}

// wantLike returns what the step that d.like names wants, with a handle of its own.
func (r *runner) wantLike(t *testing.T, d deviation) []string {
	t.Helper()
	for _, s := range r.steps {
		if name, _, _ := strings.Cut(s.rest, " "); name != d.like || s.want == nil {
			continue
		}
		want := slices.Clone(s.want)
		for i := range want {
			want[i] = anyHandle.ReplaceAllString(want[i], "HANDLE-"+cmp.Or(d.sameAs, d.step))
		}
		return want
	}
	t.Fatalf("%s has no step %s to be like", d.file, d.like)
	return nil
}

var anyHandle = regexp.MustCompile(`HANDLE\d+`)

// slowness returns the note that a slow answer has, such as " (after about 20 s)": the expected one when the time is
// near it.
func slowness(wantStatus string, took time.Duration) string {
	var seconds int
	if _, note, ok := strings.Cut(wantStatus, " (after about "); ok {
		seconds, _ = strconv.Atoi(strings.TrimSuffix(note, " s)"))
	}
	expected := time.Duration(seconds) * time.Second
	switch {
	case seconds > 0 && took > expected-time.Second && took < expected+5*time.Second:
		return fmt.Sprintf(" (after about %d s)", seconds)
	case took > 5*time.Second:
		return fmt.Sprintf(" (after about %.0f s)", took.Seconds())
	}
	return ""
}
