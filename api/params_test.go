package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/shape"
)

// The texts and the stages of protocol.md §2.2, §2.3 and §3.2.
func TestInvalidParameters(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	f.backend.tables["public.gen"] = &shape.Table{
		Schema: "public", Name: "gen", Kind: 'r', Key: []int{0},
		Columns: []shape.Column{column("id", "int4"), {Column: column("g", "int4").Column, Generated: true}},
	}
	f.backend.tables["public.nokey"] = &shape.Table{
		Schema: "public", Name: "nokey", Kind: 'r', Columns: []shape.Column{column("a", "text"), column("b", "text")},
	}
	created := f.backend.created
	for _, tc := range []struct{ query, errors string }{
		{"", `{"offset":["can't be blank"]}`},
		{"table=items", `{"offset":["can't be blank"]}`},
		{"table=items&offset=", `{"offset":["can't be blank"]}`},
		{"table=items&offset=  ", `{"offset":["can't be blank"]}`},
		{"offset=-1", `{"table":["can't be blank"]}`},
		{"offset=-1&table= ", `{"table":["can't be blank"]}`},
		{"table=items&offset=10", `{"offset":["has invalid format"]}`},
		{"table=items&offset=1_2_3", `{"offset":["has invalid format"]}`},
		{"table=items&offset=1_2 ", `{"offset":["has invalid format"]}`},
		{"table=items&offset=-2_0", `{"offset":["has invalid format"]}`},
		{"table=items&offset=-1_1", `{"offset":["has invalid format"]}`},
		{"table=items&offset=-1_inf", `{"offset":["has invalid format"]}`},
		{"table=items&offset=x", `{"offset":["has invalid format"]}`},
		{"table=items&offset=99999999999999999999_0", `{"offset":["has invalid format"]}`},
		{"table=items&offset=0_0", `{"handle":["can't be blank when offset != -1"]}`},
		{"table=items&offset=0_0&handle= ", `{"handle":["can't be blank when offset != -1"]}`},
		{"table=items&offset=-1&live=true", `{"live":["can't be true when offset == -1"]}`},
		{"table=items&offset=-1&live=", `{"live":["can't be true when offset == -1"]}`},
		{"table=items&offset=-1&live", `{"live":["can't be true when offset == -1"]}`},
		{"table=items&offset=-1&live=0", `{"live":["can't be true when offset == -1"]}`},
		{"table=items&offset=now&live=maybe", `{"live":["can't be true when offset is 'now'"]}`},
		{"table=items&offset=-1&live_sse=true", `{"live_sse":["can't be true unless live is also true"]}`},
		{"table=items&offset=-1&live_sse", `{"live_sse":["can't be true unless live is also true"]}`},
		{"table=items&offset=0_0&handle=1-1&experimental_live_sse=1", `{"live_sse":["can't be true unless live is also true"]}`},
		{"table=items&offset=-1&experimental_live_sse=maybe", `{"experimental_live_sse":["is invalid"]}`},
		{"table=items&offset=-1&experimental_compaction=maybe", `{"experimental_compaction":["is invalid"]}`},
		{"table=items&offset=-1&replica=both", `{"replica":["is invalid"]}`},
		{"table=items&offset=x&replica=both&log=some", `{"log":["is invalid"],"replica":["is invalid"]}`},
		{"table=items&replica=both", `{"offset":["can't be blank"],"replica":["is invalid"]}`},
		{"table[]=items&offset=-1", `{"table":["is invalid"]}`},
		{"table=items&offset=-1&params[1][x]=1", `{"params":["is invalid"]}`},
		{"table=items&offset=-1&params=x", `{"params":["is invalid"]}`},
		{"table=items&offset=-1&params[]=x", `{"params":["is invalid"]}`},
		{"table=items&offset=-1&columns=id, title", `{"columns":["Invalid unquoted identifier contains special characters:  title"]}`},
		{"table=items&offset=-1&columns=id,&queryable_columns=a-b", `{"columns":["Invalid zero-length delimited identifier"],"queryable_columns":["Invalid unquoted identifier contains special characters: a-b"]}`},
		{"table=foo-bar&offset=-1", `{"table":["Invalid unquoted identifier contains special characters: foo-bar"]}`},
		{"table=a.b.c&offset=-1", `{"table":["Invalid relation identifier, too many delimiters: a.b.c"]}`},
		{`table="&offset=-1`, `{"table":["Invalid zero-length delimited identifier"]}`},
		{"table=nope&offset=-1", `{"table":["Table \"public\".\"nope\" does not exist."]}`},
		{"table=items&offset=-1&columns=title", `{"columns":["The list of columns must include all primary key columns, missing: id"]}`},
		{"table=items&offset=-1&columns=id,x,y", `{"columns":["The following columns are not found on the table: x, y"]}`},
		{"table=items&offset=-1&queryable_columns=title", `{"queryable_columns":["The list of queryable columns must include all primary key columns, missing: id"]}`},
		{"table=items&offset=-1&queryable_columns=id,x", `{"queryable_columns":["The following queryable columns are not found on the table: x"]}`},
		{"table=items&offset=-1&queryable_columns=id,title&columns=id,done", `{"columns":["The following columns are not found on the table: done"]}`},
		{"table=gen&offset=-1&columns=id,g", `{"columns":["The following columns are generated and cannot be included in the shape: g"]}`},
		{"table=gen&offset=-1", `{"columns":["The following columns are generated and cannot be included in the shape: g. You can exclude them from the shape by explicitly listing which columns to fetch in the 'columns' query param"]}`},
		{"table=nokey&offset=-1&columns=a", `{"columns":["The list of columns must include all primary key columns, missing: b"]}`},
		{"table=items&offset=-1&where=nope = 1", `{"where":["At location 0: unknown reference nope"]}`},
		{"table=items&offset=-1&where=id = $1&params[2]=1", `{"params":["Parameters must be numbered sequentially, starting from 1"]}`},
		{"table=items&offset=-1&where=id = $1&params[a]=1", `{"params":["Parameters can only use numbers as keys"]}`},
		{"table=items&offset=-1&%zz=1", `{"query":["has an invalid percent-encoding"]}`},
		{"table=items&offset=-1&where=%zz", `{"where":["has an invalid percent-encoding"]}`},
		{"table=items&offset=0_0&handle=" + string(h) + "&where=nope", `{"where":["At location 0: unknown reference nope"]}`},
	} {
		w := f.get(t, tc.query)
		require.Equal(t, http.StatusBadRequest, w.Code, tc.query+w.Body.String())
		require.Equal(t, `{"message":"Invalid request","errors":`+tc.errors+`}`, w.Body.String(), tc.query)
		require.Equal(t, "no-store", w.Header().Get("cache-control"))
		require.Equal(t, "no-store", w.Header().Get("surrogate-control"))
		require.Equal(t, "application/json; charset=utf-8", w.Header().Get("content-type"))
		require.Empty(t, electric(w.Header()), tc.query)
	}
	require.Equal(t, created, f.backend.created, "a 400 never makes a shape")
}

func TestToleratedParameters(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	for _, query := range []string{
		"table=items&offset=-1&unknown=1&database_id=x&source_id=y&expired_handle=1-2&cache-buster=q&subset__where_expr={}&subset__order_by_expr=[]",
		"table=items&offset=-1&live=false&live_sse=false&cursor=&handle=&columns=&where=&replica=&log= &experimental_compaction=true",
		"table=pg_class&offset=0_0&table=items&offset=-1",
		"table=Items&offset=-1", "table=public.items&offset=-1", `table="public"."items"&offset=-1`,
		"table=items&offset=-1&params[1]=x&params[a]=y", // without a clause
		"&&table=items&offset=-1&",
		"table=items&offset=-1&subset__where=&subset__limit= ",
		"table=items&offset=-1&replica=default&log=full",
	} {
		w := f.get(t, query)
		require.Equal(t, http.StatusOK, w.Code, query+w.Body.String())
		require.Equal(t, string(h), w.Header().Get("electric-handle"), query)
	}
	for _, query := range []string{
		"table=items&offset=-1&where=title = 'a;b' ", "table=items&offset=-1&columns=id,title,done", "table=items&offset=-1&replica=full",
		"table=items&offset=-1&log=changes_only", "table=items&offset=-1&queryable_columns=id,title",
	} {
		w := f.get(t, query)
		require.Equal(t, http.StatusOK, w.Code, query+w.Body.String())
		require.NotEqual(t, string(h), w.Header().Get("electric-handle"), query)
	}
	a, b := f.get(t, "table=items&offset=-1&where=title = $1&params[1]=x"), f.get(t, "table=items&offset=-1&where=title='x'")
	require.Equal(t, a.Header().Get("electric-handle"), b.Header().Get("electric-handle"))
	a, b = f.get(t, "table=items&offset=-1&columns=title,id,id"), f.get(t, `table=items&offset=-1&columns="id","title"`)
	require.Equal(t, a.Header().Get("electric-handle"), b.Header().Get("electric-handle"))
}

// B191: a NUL or a byte that is not UTF-8 is refused everywhere, so that it never changes the meaning of a request.
func TestUnreadableText(t *testing.T) {
	f := newFront(t, Options{})
	f.shape(t)
	for _, name := range []string{
		"table", "where", "columns", "handle", "offset", "cursor", "replica", "log", "subset__where", "subset__order_by", "params%5B1%5D", "unknown",
	} {
		for _, value := range []string{"a%00b", "%ff", "%c3%28", "%ed%a0%80", "%f5%80%80%80"} {
			w := f.get(t, "table=items&offset=-1&where=title%3D%241&params%5B1%5D=z&"+name+"="+value)
			require.Equal(t, http.StatusBadRequest, w.Code, name+value)
			require.Contains(t, w.Body.String(), "must be valid UTF-8 without NUL characters")
		}
	}
	for _, body := range []string{
		`{"table":"it\u0000ems"}`, `{"params":{"1":"a\u0000b"}}`, `{"params":{"1":"\ud800"}}`, `{"params":{"1":"\ud800\ud800"}}`,
		`{"params":{"1":"\udc00"}}`, `{"params":{"1":"\ud800x"}}`, "{\"table\":\"\xff\"}",
	} {
		w := f.do(t, http.MethodPost, "/v1/shape?table=items&offset=-1&where=title=$1", strings.Replace(body, `{"params"`, `{"subset":null,"params"`, 1))
		require.Equal(t, http.StatusBadRequest, w.Code, body+w.Body.String())
	}
	w := f.do(t, http.MethodPost, "/v1/shape?table=items&offset=-1&where=title=$1", `{"subset":{},"params":{"1":"\ud83d\ude00 \\ud800 \" \\"}}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
}

// B160 and protocol.md §2.4.
func TestPostBodies(t *testing.T) {
	f := newFront(t, Options{})
	h, _ := f.shape(t)
	const plain = "max-age=0, private, must-revalidate"
	for _, tc := range []struct {
		query, body string
		status      int
		contains    string
		cache       string
	}{
		{"table=items&offset=-1", "", 200, item("1"), "no-cache"},
		{"table=items&offset=-1", " \n", 200, item("1"), "no-cache"},
		{"table=items&offset=-1", "{}", 200, item("1"), "no-cache"},
		{"offset=-1", `{"table":"items"}`, 200, item("1"), "no-cache"},
		{"table=nope&offset=0_0", `{"table":"items","offset":"-1"}`, 400, `"handle":["can't be blank`, "no-cache"}, // offset is the subset's
		{"table=nope&offset=-1", `{"table":"items"}`, 200, item("1"), "no-cache"},
		{"table=items&offset=-1&where=title = $1&params[1]=x", `{"subset":null,"params":{"1":"y"}}`, 200, item("1"), "no-cache"},
		{"table=items&offset=-1&where=title = $1", `{"subset":{},"params":{"1":"y"}}`, 200, `"metadata"`, "no-cache"},
		{"table=items&offset=-1", `{"subset":{},"params":{"1":5},"where":"id = $1"}`, 400, `{"params":["is invalid"]}`, "no-cache"},
		{"table=items&offset=-1", `{"subset":{},"params":{"1":null}}`, 400, `{"params":["is invalid"]}`, "no-cache"},
		{"table=items&offset=-1", `{"subset":{},"params":[1]}`, 400, `{"params":["is invalid"]}`, "no-cache"},
		{"table=items&offset=-1", `{"subset":[]}`, 400, `{"subset":["is invalid"]}`, "no-cache"},
		{"table=items&offset=-1", `{"columns":["id"]}`, 400, `{"columns":["is invalid"]}`, "no-cache"},
		{"table=items&offset=-1", `{"live":true}`, 400, "can't be true when offset == -1", "no-cache"},
		{"table=items&offset=-1", `{"live":false}`, 200, item("1"), "no-cache"},
		{"table=items&offset=-1", `{"live":null,"unknown":{"a":1}}`, 200, item("1"), "no-cache"},
		{"table=items&offset=-1&replica=both", `{"replica":null}`, 200, item("1"), "no-cache"},
		{"table=items&offset=-1", "{", 400, `{"error":"Invalid JSON in request body","details":"`, plain},
		{"table=items&offset=-1", "{} {}", 400, `{"error":"Invalid JSON in request body","details":"`, plain},
		{"table=items&offset=-1", "not json", 400, `{"error":"Invalid JSON in request body","details":"`, plain},
		{"table=items&offset=-1", "[1]", 400, `{"error":"Request body must be a JSON object"}`, plain},
		{"table=items&offset=-1", `"x"`, 400, `{"error":"Request body must be a JSON object"}`, plain},
		{"table=items&offset=-1", "null", 400, `{"error":"Request body must be a JSON object"}`, plain},
		{"table=items&offset=-1", strings.Repeat(" ", maxBody+1), 413, `{"error":"Request body too large"}`, plain},
		{"table=items&offset=0_0&handle=" + string(h), "", 200, "up-to-date", "no-cache"},
		{"table=items&offset=0_0&handle=1-1", "", 409, "must-refetch", "no-cache"},
	} {
		w := f.do(t, http.MethodPost, "/v1/shape?"+tc.query, tc.body)
		name := tc.query + " " + tc.body[:min(len(tc.body), 60)] + w.Body.String()
		require.Equal(t, tc.status, w.Code, name)
		require.Contains(t, w.Body.String(), tc.contains, name)
		require.Equal(t, tc.cache, w.Header().Get("cache-control"), name)
		require.Empty(t, w.Header().Get("surrogate-control"), name)
	}
}

func TestManyParameters(t *testing.T) {
	f := newFront(t, Options{})
	var b strings.Builder
	b.WriteString("table=items&offset=-1&where=title = $1")
	for i := range 2000 {
		fmt.Fprintf(&b, "&params[%d]=1", i+1)
	}
	require.Equal(t, http.StatusOK, f.get(t, b.String()).Code)
	w := f.get(t, b.String()+strings.Repeat("&x=1", maxPairs))
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), `"query":["has too many parameters"]`)
}

// A query is answered as HTTP says whatever it holds: no panic, no 500, and always with a body that is JSON.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"table=items&offset=-1", "table=items&offset=0_0&handle=1-2", "table=items&offset=now&where=id=$1&params[1]=x",
		"table[]=a", "params[1][x]=%ff", "%zz", "offset=0_inf&live=1&live_sse&cursor=99999999999999999999999",
		`table="a"."b"&columns="x",y&replica=full`, "subset[params][1]=2", "a[b", "]=[", "params[=1&params]=2&[]=3",
	} {
		f.Add(seed, "")
		f.Add("table=items&offset=-1", seed)
	}
	f.Add("", `{"table":"items","offset":"-1","params":{"1":"\ud800"}}`)
	f.Add("", `{"subset":{"where":"x"},"live":true}`)
	f.Fuzz(func(t *testing.T, query, body string) {
		synctest.Test(t, func(t *testing.T) {
			fr := newFront(t, Options{})
			fr.shape(t)
			r := newRequestTo(t, http.MethodPost, "/v1/shape", body)
			r.URL.RawQuery = query
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				r.Method = method
				w := fr.serve(r)
				switch w.Code {
				case 200, 400, 405, 409, 413:
				default:
					t.Fatalf("%s: status %d: %s", method, w.Code, w.Body)
				}
				if ct := w.Header().Get("content-type"); ct != "text/event-stream" && !jsonValid(w.Body.Bytes()) {
					t.Fatalf("%s: not JSON: %s", method, w.Body)
				}
				for name, values := range w.Header() {
					for _, v := range values {
						if strings.ContainsAny(v, "\r\n\x00") {
							t.Fatalf("%s: header %s: %q", method, name, v)
						}
					}
				}
			}
		})
	})
}

func TestParseQueryAgreesWithURLValues(t *testing.T) {
	for _, query := range []string{"table=a+b&offset=%2D1", "table=%C3%A9&table=x;y&offset=", "handle=a=b&where=x%26y"} {
		q := parseQuery(query)
		want := url.Values{}
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			value, err := url.QueryUnescape(value)
			require.NoError(t, err)
			want.Set(name, value)
		}
		for name := range want {
			require.Equal(t, want.Get(name), q.byName(name).value, strconv.Quote(query))
		}
	}
}
