package integration

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// response is an answer, read whole, or the error of a request.
type response struct {
	status int
	header http.Header
	body   string
	took   time.Duration
	err    error
}

var reference = regexp.MustCompile(`\$([a-z]+)\.(offset|handle|cursor|etag)`)

// expand replaces $X.offset and its like by the values of the answer named X.
func (r *runner) expand(t *testing.T, s string) string {
	t.Helper()
	return reference.ReplaceAllStringFunc(s, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		require.Contains(t, r.named, m[1], "%s: no answer has that name", ref)
		header := "electric-" + m[2]
		if m[2] == "etag" {
			header = "etag"
		}
		return r.named[m[1]].header.Get(header)
	})
}

// request makes the request of a step: "PATH?QUERY | Header: value | … <BODY".
func (r *runner) request(t *testing.T, method, target, body string) *http.Request {
	t.Helper()
	target = r.expand(t, target)
	if before, after, ok := strings.Cut(target, " <"); ok && method == http.MethodPost {
		target, body = before, after
	}
	parts := strings.Split(target, " | ")
	path, query, _ := strings.Cut(parts[0], "?")
	req, err := http.NewRequestWithContext(t.Context(), method, r.base+path+"?"+encode(query), strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("content-type", "application/json")
	}
	for _, h := range parts[1:] {
		name, value, ok := strings.Cut(h, ": ")
		require.True(t, ok, "header %q", h)
		req.Header.Set(name, value)
	}
	return req
}

// encode turns a query as it is written in transcripts, unencoded but for %25 and %26, into one for the wire.
func encode(query string) string {
	if query == "" {
		return ""
	}
	var pairs []string
	unescape := strings.NewReplacer("%25", "%", "%26", "&")
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		pairs = append(pairs, url.QueryEscape(unescape.Replace(key))+"="+url.QueryEscape(unescape.Replace(value)))
	}
	return strings.Join(pairs, "&")
}

// do sends the request and reads the answer. An event stream may stay open after it has delivered; it is read up to
// and with its first up-to-date.
func do(req *http.Request) *response {
	ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
	defer cancel()
	if req.Header.Get("Accept-Encoding") == "" {
		req.Header.Set("Accept-Encoding", "identity") // the reference was asked so, and an etag tells the encoding
	}
	began := time.Now()
	res, err := http.DefaultClient.Do(req.WithContext(ctx))
	if err != nil {
		return &response{err: err}
	}
	defer res.Body.Close()
	r := &response{status: res.StatusCode, header: res.Header}
	if strings.HasPrefix(res.Header.Get("content-type"), "text/event-stream") {
		r.body, r.err = readEvents(res.Body)
	} else {
		var body []byte
		body, r.err = io.ReadAll(res.Body)
		r.body = string(body)
	}
	r.took = time.Since(began)
	return r
}

func readEvents(body io.Reader) (string, error) {
	var b strings.Builder
	for r := bufio.NewReader(body); ; {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if errors.Is(err, io.EOF) || strings.Contains(line, `"up-to-date"`) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
	}
}
