package api

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/inspector"
)

// served is the document as a client gets it, read and checked by a library.
func served(t *testing.T) *openapi3.T {
	t.Helper()
	w := newFront(t, Options{Secret: "x"}).do(t, http.MethodGet, "/openapi.json", "")
	require.Equal(t, http.StatusOK, w.Code)
	doc, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	require.NoError(t, err)
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.NoError(t, doc.Validate(t.Context(), openapi3.IsOpenAPI31OrLater()))
	return doc
}

// The document has every route and method of the router, and no other.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	doc := served(t)
	var want, got []string
	err := chi.Walk(newServer(newFakeBackend(), Options{}).router(), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		want = append(want, method+" "+route)
		return nil
	})
	require.NoError(t, err)
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+path)
		}
	}
	require.ElementsMatch(t, want, got)
}

// source parses this package without its tests.
func source(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		files = append(files, f)
	}
	return files
}

func literal(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		s, _ := strconv.Unquote(lit.Value) // it was parsed
		return s
	}
	return ""
}

// The document has every parameter that the parsers of queries know, and no other; and each of its operations has those that it
// reads.
func TestOpenAPIHasTheParameters(t *testing.T) {
	doc := served(t)
	want := []string{"params"}
	for _, file := range source(t) {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Name.Name != "byName" {
				continue
			}
			prefix := ""
			if f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name == "subsetParams" {
				prefix = "subset__"
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if c, ok := n.(*ast.CaseClause); ok {
					for _, e := range c.List {
						want = append(want, prefix+literal(e))
					}
				}
				return true
			})
		}
	}
	require.Greater(t, len(want), 15, "the parsers' names were not found")
	shape := doc.Paths.Value("/v1/shape")
	for method, operation := range shape.Operations() {
		var got []string
		for _, p := range operation.Parameters {
			if p.Value.In == "query" {
				got = append(got, p.Value.Name)
			}
		}
		switch method {
		case http.MethodOptions:
			require.Empty(t, got)
		case http.MethodDelete: // of a shape, not of a subset
			require.ElementsMatch(t, slices.DeleteFunc(slices.Clone(want), func(s string) bool { return strings.HasPrefix(s, "subset__") }), got)
		default:
			require.ElementsMatch(t, want, got, method)
		}
	}
	body := shape.Post.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties
	for _, name := range want {
		sub, isSubset := strings.CutPrefix(name, "subset__")
		switch {
		case name == "secret" || name == "api_secret":
			require.NotContains(t, body, name, "a secret counts in the query only")
		case isSubset:
			require.Contains(t, body, sub)
			require.Contains(t, body["subset"].Value.Properties, sub)
		default:
			require.Contains(t, body, name)
		}
	}
}

// The document has every header that the code sets, and no other, and every status.
func TestOpenAPIHasTheHeadersAndStatuses(t *testing.T) {
	doc := served(t)
	headers, statuses := map[string]bool{}, map[string]bool{}
	for _, file := range source(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IndexExpr:
				if name := literal(n.Index); name != "" && isResponseHeader(n.X) {
					headers[strings.ToLower(name)] = true
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok && id.Name == "status" {
					addStatus(statuses, n.Value)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "WriteHeader" {
					addStatus(statuses, n.Args[0])
				}
			}
			return true
		})
	}
	require.Greater(t, len(headers), 20, "the headers were not found")
	inDoc, statusesInDoc := map[string]bool{}, map[string]bool{"404": true} // the 404 of no route at all
	for _, item := range doc.Paths.Map() {
		for _, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				statusesInDoc[status] = true
				for name := range response.Value.Headers {
					inDoc[strings.ToLower(name)] = true
				}
			}
		}
	}
	require.Equal(t, headers, inDoc)
	require.Equal(t, statuses, statusesInDoc)
}

// isResponseHeader tells w.Header()[…] and h[…] from other maps.
func isResponseHeader(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "h" || e.Name == "head"
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Header"
	}
	return false
}

func addStatus(all map[string]bool, e ast.Expr) {
	f, ok := e.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(f.Sel.Name, "Status") {
		return
	}
	for code := 100; code < 600; code++ {
		if "Status"+strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(code)) == f.Sel.Name || code == http.StatusOK && f.Sel.Name == "StatusOK" {
			all[strconv.Itoa(code)] = true
		}
	}
}

// What the handler answers is what the document says of that operation and status: headers, type and body.
func TestAnswersAreAsInOpenAPI(t *testing.T) {
	doc := served(t)
	opts := Options{AllowDelete: true, LongPollTimeout: time.Millisecond, SSETimeout: time.Millisecond, ReadyTimeout: time.Millisecond}
	f := newFront(t, opts)
	f.backend.create = func(l *fakeLog) {
		l.snapshot(true, `{"key":"1","value":{"id":"1","title":null},"headers":{"operation":"insert","relation":["public","items"]}}`, snapshotEnd)
	}
	h, _ := f.shape(t)
	handle := "&handle=" + string(h)
	first := "/v1/shape?table=items&offset=-1"
	etag := f.get(t, "table=items&offset=-1").Header().Get("Etag")
	full := newFront(t, Options{MaxInitial: 1})
	_, rejected := full.server.admission.acquire(false)
	require.Nil(t, rejected)
	away := newFront(t, opts)
	away.backend.ready = func(ctx context.Context) error { <-ctx.Done(); return told("no database") }
	unreachable := newFront(t, opts)
	unreachable.backend.tableErr = inspector.ErrUnreachable
	broken := newFront(t, opts)
	broken.backend.getErr = http.ErrBodyNotAllowed // no error that the table of failures knows
	opts.BodyCacheBytes = 1                        // nothing is remembered
	brokenLog := newFront(t, opts)
	_, log := brokenLog.shape(t)
	log.readErr = http.ErrBodyNotAllowed
	seen := map[string]bool{}
	for _, c := range []struct {
		front        *front
		method, path string
		body         string
		header       []string
	}{
		{f, "GET", "/", "", nil},
		{f, "HEAD", "/", "", nil},
		{f, "GET", "/openapi.json", "", nil},
		{f, "HEAD", "/openapi.json", "", nil},
		{f, "GET", "/v1/health", "", nil},
		{f, "HEAD", "/v1/health", "", nil},
		{f, "OPTIONS", "/v1/shape", "", []string{"Origin", "https://a.example", "Access-Control-Request-Headers", "content-type"}},
		{f, "GET", first, "", []string{"Accept-Encoding", "gzip"}},
		{f, "HEAD", first, "", nil},
		{f, "GET", first, "", []string{"If-None-Match", etag}},
		{f, "GET", "/v1/shape?table=items&offset=0_0" + handle, "", nil},
		{f, "GET", "/v1/shape?table=items&offset=0_inf&live=true" + handle, "", nil},
		{f, "GET", "/v1/shape?table=items&offset=0_inf&live=true&live_sse=true" + handle, "", nil},
		{f, "GET", "/v1/shape?table=items&offset=now", "", nil},
		{f, "GET", "/v1/shape?table=items&offset=0_0&handle=x", "", nil},
		{f, "GET", "/v1/shape?table=items", "", nil},
		{f, "GET", "/v1/shape?table=nosuch&offset=-1", "", nil},
		{f, "POST", first, `{"unknown":"1"}`, nil},
		{f, "POST", first, `{`, nil},
		{f, "POST", first, `[]`, nil},
		{f, "POST", first, strings.Repeat(" ", maxBody+1), nil},
		{newFront(t, Options{Secret: "x"}), "GET", first, "", nil},
		{full, "GET", first, "", nil},
		{away, "GET", first, "", nil},
		{unreachable, "GET", first, "", nil},
		{broken, "GET", first, "", nil},
		{brokenLog, "GET", first, "", nil},
		{newFront(t, Options{}), "DELETE", "/v1/shape?table=items", "", nil},
		{f, "DELETE", "/v1/shape", "", nil},
		{f, "DELETE", "/v1/shape?handle=1-1", "", nil},
		{f, "DELETE", "/v1/shape?table=items", "", nil},
	} {
		w := c.front.do(t, c.method, c.path, c.body, c.header...)
		path, _, _ := strings.Cut(c.path, "?")
		name := c.method + " " + c.path + " " + strconv.Itoa(w.Code)
		response := doc.Paths.Value(path).GetOperation(c.method).Responses.Status(w.Code)
		require.NotNil(t, response, name)
		seen[strconv.Itoa(w.Code)] = true
		requireDocumented(t, name, response.Value, w, c.method)
	}
	for _, status := range []string{"200", "202", "204", "304", "400", "401", "404", "405", "409", "413", "500", "503"} {
		require.True(t, seen[status], "no case ends with %s", status)
	}
}

func requireDocumented(t *testing.T, name string, response *openapi3.Response, w *httptest.ResponseRecorder, method string) {
	t.Helper()
	headers := map[string]*openapi3.HeaderRef{}
	for key, h := range response.Headers {
		headers[http.CanonicalHeaderKey(key)] = h
		if h.Value.Required {
			require.NotEmpty(t, w.Header().Get(key), "%s: header %s", name, key)
		}
	}
	for key, values := range w.Header() {
		h, ok := headers[http.CanonicalHeaderKey(key)]
		require.True(t, ok, "%s: header %s is not in the document", name, key)
		for _, value := range values {
			require.NoError(t, h.Value.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()), "%s: %s: %s", name, key, value)
		}
	}
	if method == http.MethodHead || w.Body.Len() == 0 {
		return
	}
	content := response.Content.Get(w.Header().Get("Content-Type"))
	require.NotNil(t, content, "%s: content type %s", name, w.Header().Get("Content-Type"))
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		var body any
		require.NoError(t, json.Unmarshal(decoded(t, w.Header(), w.Body.Bytes()), &body))
		require.NoError(t, content.Schema.Value.VisitJSON(body, openapi3.EnableJSONSchema2020()), "%s: %s", name, w.Body)
	}
}
