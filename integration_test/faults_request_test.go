package integration

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// raw makes a request whose query is sent as it is, with headers as pairs.
func (w *faultWorld) raw(method, query, body string, headers ...string) shapeReply {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, method, w.srv.url+"/v1/shape", strings.NewReader(body))
	require.NoError(w, err)
	req.URL.RawQuery = query
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(w, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(w, err)
	return shapeReply{res.StatusCode, res.Header, string(b), time.Since(began), nil}
}

// post sends a body, such as that of a subset.
func (w *faultWorld) post(query, body string) shapeReply {
	w.Helper()
	return w.raw(http.MethodPost, query, body)
}

// dial opens a connection to the server, which is closed when the test ends and waits for nothing longer than a minute.
func (w *faultWorld) dial() net.Conn {
	w.Helper()
	conn, err := (&net.Dialer{}).DialContext(w.Context(), "tcp", strings.TrimPrefix(w.srv.url, "http://"))
	require.NoError(w, err)
	w.Cleanup(func() { _ = conn.Close() }) // where it is closed already, nothing is lost
	require.NoError(w, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// send writes the bytes of a request, and returns the status of what comes back.
func (w *faultWorld) send(request string) int {
	w.Helper()
	conn := w.dial()
	defer conn.Close()
	_, err := io.WriteString(conn, request)
	if err != nil { // the answer to what is too long may come before its end
		w.Log(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(w, err, "%.120q", request)
	defer res.Body.Close()
	return res.StatusCode
}

// abort asks for an address and goes away after the first bytes of the body.
func abort(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_, _ = io.ReadFull(res.Body, make([]byte, 100)) // what matters is that it stops
	_ = res.Body.Close()
}
