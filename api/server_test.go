package api

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

func TestRoutes(t *testing.T) {
	f := newFront(t, Options{})
	for _, tc := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/", 200, ""},
		{"HEAD", "/", 200, ""},
		{"GET", "//", 200, ""},
		{"GET", "/v1/health", 200, `{"status":"active"}`},
		{"HEAD", "/v1/health", 200, ""},
		{"GET", "/v1/health/", 200, `{"status":"active"}`},
		{"GET", "/v1/shape", 400, `{"message":"Invalid request","errors":{"offset":["can't be blank"]}}`},
		{"OPTIONS", "/v1/shape", 204, ""},
		{"PUT", "/v1/shape", 404, "Not found"},
		{"PATCH", "/v1/shape", 404, "Not found"},
		{"TRACE", "/v1/shape", 404, "Not found"},
		{"FOO", "/v1/shape", 404, "Not found"},
		{"POST", "/v1/health", 404, "Not found"},
		{"OPTIONS", "/", 404, "Not found"},
		{"GET", "/v1", 404, "Not found"},
		{"GET", "/v1/shape/x", 404, "Not found"},
		{"GET", "/v2/shape", 404, "Not found"},
		{"GET", "/favicon.ico", 404, "Not found"},
	} {
		w := f.do(t, tc.method, tc.path, "")
		require.Equal(t, tc.status, w.Code, tc.path)
		if tc.method != http.MethodHead {
			require.Equal(t, tc.body, w.Body.String(), tc.path)
		}
		require.Equal(t, "shapeserver/dev", w.Header().Get("electric-server"))
		require.Len(t, w.Header().Get("x-request-id"), 26)
		if tc.status == 404 {
			require.Empty(t, w.Header().Get("content-type"))
			require.Equal(t, "max-age=0, private, must-revalidate", w.Header().Get("cache-control"))
			require.Equal(t, "GET, HEAD", w.Header().Get("access-control-allow-methods"))
		}
	}
}

func TestHealth(t *testing.T) {
	f := newFront(t, Options{Secret: "s3cret"})
	for state, status := range map[Health]int{HealthStarting: 202, HealthWaiting: 202, HealthActive: 200} {
		f.backend.health = state
		w := f.do(t, http.MethodGet, "/v1/health", "")
		require.Equal(t, status, w.Code)
		require.Equal(t, `{"status":"`+string(state)+`"}`, w.Body.String())
		require.Equal(t, "no-cache, no-store, must-revalidate", w.Header().Get("cache-control"))
		require.Equal(t, "application/json; charset=utf-8", w.Header().Get("content-type"))
	}
	f.backend.health, f.backend.full = HealthActive, true // reads go on, so the status stays
	w := f.do(t, http.MethodGet, "/v1/health", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, `{"status":"active","storage":"full"}`, w.Body.String())
}

// B184: whatever routes to the shape endpoint is authenticated, in every form of its path.
func TestEveryFormOfThePathIsAuthenticated(t *testing.T) {
	f := newFront(t, Options{Secret: "s3cret", AllowDelete: true})
	reach := []string{"/v1/shape", "/v1/shape/", "/v1//shape", "//v1/shape", "/v1/%73hape", "/v1/shap%65", "/%76%31/shape", "/v1/shape//"}
	missing := []string{
		"/v1/shape%2f", "/v1%2fshape", "/v1/./shape", "/v1/x/../shape", "/V1/shape", "/v1/SHAPE", "/v1/shape;x=1", "/v1/shape%00",
		`/v1\shape`, "/v1/%2e/shape", "/v1/shape%20", "/v1/shape%3f",
	}
	for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
		for _, path := range reach {
			for _, query := range []string{
				"table=items&offset=-1", "table=items&offset=-1&secret=wrong", "table=items&offset=-1&secret=",
				"table=items&offset=-1&secret=s3cre", "table=items&offset=-1&secret[]=s3cret",
				"table=items&offset=-1&secret=&api_secret=s3cret", "secret=s3cret&secret=x&table=items", "%ZZ=1", "secret=%FF",
			} {
				w := f.do(t, method, path+"?"+query, `{"secret":"s3cret"}`)
				require.Equal(t, http.StatusUnauthorized, w.Code, path+"?"+query)
				if method != http.MethodHead {
					require.Equal(t, `{"message":"Unauthorized - Invalid API secret"}`, w.Body.String())
				}
				require.Equal(t, "max-age=0, private, must-revalidate", w.Header().Get("cache-control"))
			}
			w := f.do(t, method, path+"?table=items&offset=-1&secret=s3cret", "")
			require.Contains(t, []int{200, 202, 404}, w.Code, method+path)
			w = f.do(t, method, path+"?table=items&offset=-1&api_secret=s3cret", "")
			require.Contains(t, []int{200, 202, 404}, w.Code, method+path)
		}
		created := f.backend.created
		for _, path := range missing {
			w := f.do(t, method, path+"?table=items&offset=-1&secret=s3cret", "")
			require.Equal(t, http.StatusNotFound, w.Code, path)
		}
		require.Equal(t, created, f.backend.created)
	}
	require.Equal(t, http.StatusNoContent, f.do(t, http.MethodOptions, "/v1/shape", "").Code)
	require.Equal(t, http.StatusNotFound, f.do(t, http.MethodPut, "/v1/shape", "").Code)
}

const exposedHeaders = "electric-cursor,electric-handle,electric-has-data,electric-offset,electric-schema,electric-up-to-date," +
	"electric-internal-known-error,retry-after"

// B145: a browser can read every answer.
func TestCORS(t *testing.T) {
	f := newFront(t, Options{MaxInitial: 1})
	h, _ := f.shape(t)
	secured := newFront(t, Options{Secret: "x"})
	origin := []string{"Origin", "https://app.example"}
	tag := f.get(t, "table=items&offset=-1").Header().Get("etag")
	for name, w := range map[string]*httptest.ResponseRecorder{
		"200":  f.get(t, "table=items&offset=-1", origin...),
		"304":  f.get(t, "table=items&offset=-1", append(origin, "If-None-Match", tag)...),
		"400":  f.get(t, "table=items", origin...),
		"401":  secured.get(t, "table=items&offset=-1", origin...),
		"404":  f.do(t, "GET", "/nosuch", "", origin...),
		"405":  f.do(t, "DELETE", "/v1/shape?handle="+string(h), "", origin...),
		"409":  f.get(t, "table=items&offset=0_0&handle=nope", origin...),
		"head": f.do(t, "HEAD", "/v1/shape?table=items&offset=-1", "", origin...),
	} {
		require.Equal(t, "*", w.Header().Get("access-control-allow-origin"), name)
		require.Equal(t, exposedHeaders, w.Header().Get("access-control-expose-headers"), name)
		require.Empty(t, w.Header().Get("access-control-allow-credentials"), name)
		if name != "404" {
			require.Equal(t, "GET, POST, HEAD, DELETE, OPTIONS", w.Header().Get("access-control-allow-methods"), name)
		}
	}
}

func TestPreflight(t *testing.T) {
	f := newFront(t, Options{Secret: "x"})
	w := f.do(t, http.MethodOptions, "/v1/shape", "")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, "*", w.Header().Get("access-control-allow-origin"))
	require.Equal(t, "86400", w.Header().Get("access-control-max-age"))
	require.Equal(t, "keep-alive", w.Header().Get("connection"))
	require.NotContains(t, w.Header(), "Cache-Control")
	require.NotContains(t, w.Header(), "Access-Control-Allow-Headers")
	for _, asked := range []string{"if-none-match", "Traceparent", "content-type, x-custom"} {
		w = f.do(t, http.MethodOptions, "/v1/shape", "", "Origin", "http://a.example", "Access-Control-Request-Headers", asked)
		require.Equal(t, "http://a.example", w.Header().Get("access-control-allow-origin"))
		require.Equal(t, asked, w.Header().Get("access-control-allow-headers"))
	}
}

func TestRequestID(t *testing.T) {
	f := newFront(t, Options{Version: "1.2.3"})
	long, fits := strings.Repeat("a", 201), strings.Repeat("b", 20)
	require.Equal(t, fits, f.do(t, "GET", "/", "", "X-Request-Id", fits).Header().Get("x-request-id"))
	for _, other := range []string{"short", long} {
		got := f.do(t, "GET", "/", "", "X-Request-Id", other).Header().Get("x-request-id")
		require.NotEqual(t, other, got)
		require.Len(t, got, 26)
	}
	require.Equal(t, "shapeserver/1.2.3", f.do(t, "GET", "/", "").Header().Get("electric-server"))
}

func TestPanicIsAnAnswer(t *testing.T) {
	var logged bytes.Buffer
	f := newFront(t, Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	f.backend.ready = func(context.Context) error { panic("boom /etc/secret") }
	w := f.get(t, "table=items&offset=-1")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, `{"error":"Internal server error"}`, w.Body.String())
	require.Equal(t, "no-store", w.Header().Get("cache-control"))
	require.Contains(t, logged.String(), "boom")
	require.Contains(t, logged.String(), w.Header().Get("x-request-id"))

	f.backend.ready = nil
	w = f.get(t, "table=items&offset=-1")
	require.Equal(t, http.StatusOK, w.Code, "the permit came back")
}

func TestAccessLogHidesSecrets(t *testing.T) {
	var logged bytes.Buffer
	f := newFront(t, Options{Secret: "hunter2", Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	f.get(t, "table=items&offset=-1&secret=hunter2&api_secret=hunter2&API_Key=hunter2&token=hunter2&%61ccess_token=hunter2&password=hunter2&%zz=hunter2")
	require.Contains(t, logged.String(), "table=items")
	require.NotContains(t, logged.String(), "hunter2")
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	f := newFront(t, Options{Registerer: reg})
	f.get(t, "table=items&offset=-1")
	f.do(t, "BREW", "/v1/shape", "")
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Equal(t, []promlint.Problem(nil), problems)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP shapeserver_http_requests_total Requests answered, by method and status.
# TYPE shapeserver_http_requests_total counter
shapeserver_http_requests_total{method="GET",status="200"} 1
shapeserver_http_requests_total{method="other",status="404"} 1
`), "shapeserver_http_requests_total"))
}
