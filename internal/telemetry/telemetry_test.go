package telemetry

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLoggerFormsAndLevels(t *testing.T) {
	var text, js strings.Builder
	for _, log := range []*slog.Logger{NewLogger(&text, slog.LevelInfo, "text"), NewLogger(&js, slog.LevelInfo, "json")} {
		log.Debug("hidden")
		log.Info("shape created", "handle", "h1")
	}
	assert.Contains(t, text.String(), `msg="shape created" handle=h1`)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(js.String()), &line), "one line, so the debug record is not there")
	assert.Equal(t, "h1", line["handle"])
	assert.NotContains(t, text.String(), "hidden")
}

func TestRegistryIsLintedAndServed(t *testing.T) {
	r := NewRegistry("v1.2.3")
	problems, err := testutil.GatherAndLint(r, Prefix+"build_info")
	require.NoError(t, err)
	assert.Empty(t, problems)
	NewRegistry("v1.2.3") // a second one is no conflict

	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		Handler(r).ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	body := get(http.MethodGet, "/metrics").Body.String()
	for _, name := range []string{`shapeserver_build_info{version="v1.2.3"} 1`, "go_goroutines ", "process_start_time_seconds "} {
		assert.Contains(t, body, "\n"+name)
	}
	for _, w := range []*httptest.ResponseRecorder{get(http.MethodGet, "/"), get(http.MethodPost, "/metrics"), get(http.MethodGet, "/metrics/x")} {
		assert.Equal(t, http.StatusNotFound, w.Code)
		assert.Equal(t, "Not found", w.Body.String())
	}
}

func TestOneBrokenCollectorDoesNotHideTheOthers(t *testing.T) {
	r := NewRegistry("v1")
	r.MustRegister(broken{})
	w := httptest.NewRecorder()
	Handler(r).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "shapeserver_build_info")
}

type broken struct{}

var brokenDesc = prometheus.NewDesc("shapeserver_broken", "Broken.", nil, nil)

func (broken) Describe(ch chan<- *prometheus.Desc) { ch <- brokenDesc }
func (broken) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(brokenDesc, errors.New("broken"))
}
