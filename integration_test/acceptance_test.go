package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// The acceptance list of protocol.md §16, by its numbers: lines that TestAcceptance runs are functions here, the others
// name the tests that show them.
var acceptance = map[int]struct {
	run   func(t *testing.T, a *acceptor)
	tests []string // folder and name
}{
	1: {run: acceptFirst}, 2: {run: acceptSecond}, 3: {run: acceptLive}, 4: {run: acceptIdle}, 5: {run: acceptPosition},
	6: {run: acceptUpdate}, 7: {run: acceptKeyChange}, 8: {run: acceptNoChange}, 9: {run: acceptMoves}, 10: {run: acceptDelete},
	11: {run: acceptTruncate}, 12: {run: acceptUnknownHandle}, 13: {run: acceptNoHandle}, 14: {run: acceptLiveFirst},
	15: {run: acceptHandleIgnored}, 16: {run: acceptAhead}, 17: {run: acceptNow}, 18: {run: acceptChangesOnly},
	19: {run: acceptSameShape, tests: []string{"integration_test TestConcurrentFirstRequests"}},
	20: {run: acceptMistakes}, 21: {run: acceptNotModified},
	22: {run: acceptSubset, tests: []string{"api TestSubsetAnswer"}},
	23: {run: acceptEvents, tests: []string{"api TestEventStream"}},
	24: {tests: []string{"integration_test TestRestartKeepsHandlesAndOffsets", "integration_test TestKillUnderLoad"}},
	25: {tests: []string{"integration_test TestWritesRacingCreation"}},
	26: {tests: []string{"integration_test TestBigSnapshotIsChunked", "api TestSnapshotInChunks"}},
	27: {run: acceptToast},
	28: {tests: []string{"api TestEveryFormOfThePathIsAuthenticated", "api TestPreflight"}},
	29: {tests: []string{"integration_test TestDatabaseDownAtStart", "api TestNotReady"}},
	30: {tests: []string{"api TestAdmission"}},
}

func TestAcceptance(t *testing.T) {
	a := newAcceptor(t)
	for line := 1; line <= 30; line++ {
		entry, ok := acceptance[line]
		require.True(t, ok && (entry.run != nil || len(entry.tests) > 0), "line %d has no test", line)
		for _, name := range entry.tests {
			folder, test, _ := strings.Cut(name, " ")
			require.True(t, testExists(t, folder, test), "line %d: there is no %s", line, name)
		}
		if entry.run != nil {
			t.Run(fmt.Sprintf("%02d", line), func(t *testing.T) { entry.run(t, a) })
		}
	}
}

// testExists reports whether a folder of the module has a test of that name.
func testExists(t *testing.T, folder, name string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	require.NoError(t, err)
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// acceptor is the server that the list is run on. Its times are shorter than the protocol's.
type acceptor struct {
	db     *pgtest.DB
	url    string
	tables int
}

const acceptedPatience = 2 * time.Second // for the list's 20 s

func newAcceptor(t *testing.T) *acceptor {
	t.Helper()
	a := &acceptor{db: pgtest.New(t)}
	a.url = startServer(t, a.db, "SHAPESERVER_LONG_POLL_TIMEOUT=2s", "SHAPESERVER_SSE_KEEPALIVE=1s", "SHAPESERVER_SSE_LIFETIME=3s").url
	return a
}

// table makes a table T with two rows.
func (a *acceptor) table(t *testing.T) string {
	t.Helper()
	a.tables++
	name := fmt.Sprintf("items%d", a.tables)
	a.db.Exec(t, "CREATE TABLE "+name+"(id int primary key, title text, done bool); INSERT INTO "+name+" VALUES (1,'a',false),(2,'b',true)")
	return name
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

func (a *acceptor) do(t *testing.T, method, query, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, a.url+"/v1/shape?"+query, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return reply{res.StatusCode, res.Header, string(b), time.Since(began)}
}

func (a *acceptor) get(t *testing.T, query string, header ...string) reply {
	t.Helper()
	return a.do(t, http.MethodGet, query, "", header...)
}

// head returns the query of the head of a new shape, which the next live request goes on from.
func (a *acceptor) head(t *testing.T, definition string) string {
	t.Helper()
	r := a.get(t, definition+"&offset=-1")
	require.Equal(t, http.StatusOK, r.status, r.body)
	r = a.get(t, definition+"&offset=0_0&handle="+r.header.Get("electric-handle"))
	require.Equal(t, http.StatusOK, r.status, r.body)
	return next(definition, r)
}

func next(definition string, r reply) string {
	return definition + "&offset=" + r.header.Get("electric-offset") + "&handle=" + r.header.Get("electric-handle")
}

// live asks at the head of a new shape while sql is run.
func (a *acceptor) live(t *testing.T, definition, sql string) []map[string]any {
	t.Helper()
	at := a.head(t, definition)
	a.db.Exec(t, sql) // before the request or while it waits comes to the same
	r := a.get(t, at+"&live=true")
	require.Equal(t, http.StatusOK, r.status, r.body)
	items := r.items(t)
	require.Equal(t, "up-to-date", items[len(items)-1]["headers"].(map[string]any)["control"])
	return items[:len(items)-1]
}

func (r reply) items(t *testing.T) (items []map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(r.body)))
	d.UseNumber()
	require.NoError(t, d.Decode(&items), r.body)
	return items
}

func headersOf(item map[string]any) map[string]any { return item["headers"].(map[string]any) }

func requireValue(t *testing.T, item map[string]any, operation string, value map[string]any) {
	t.Helper()
	require.Equal(t, operation, headersOf(item)["operation"])
	require.Equal(t, value, item["value"])
}

const mustRefetch = `[{"headers":{"control":"must-refetch"}}]`
