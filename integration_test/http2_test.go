package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/shapeserver/shapeserver/internal/pgtest"
)

// A hundred live requests wait on one connection of HTTP/2 without TLS, and all of them hear of the change; HTTP/1.1 goes on
// beside it.
func TestHTTP2WithoutTLS(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE items (id int PRIMARY KEY, v text)")
	port := freePort(t)
	metrics := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	srv := startServer(t, db, "SHAPESERVER_HTTP2_CLEARTEXT=true", "SHAPESERVER_PROMETHEUS_PORT="+strconv.Itoa(port)) // and speaks HTTP/1.1 to it
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	var connections atomic.Int64
	transport := &http.Transport{Protocols: &protocols, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		connections.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var folds []*Fold
	for range 100 {
		f := NewFold(srv.url, shape("table", "items"))
		f.client = &http.Client{Transport: transport}
		folds = append(folds, f)
	}
	require.NoError(t, folds[0].CatchUp(ctx))
	dialled := connections.Load()
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range folds {
		group.Go(func() error { return f.Follow(ctx, func() bool { return len(f.Rows) == 1 }) })
	}
	require.Eventually(t, func() bool {
		return gauge(t, metrics, `shapeserver_http_live_requests{kind="long_poll"}`) == len(folds)
	}, time.Minute, 20*time.Millisecond, "all of them wait at once")
	db.Exec(t, "INSERT INTO items VALUES (1, 'a')")
	require.NoError(t, group.Wait())
	for _, f := range folds {
		require.NoError(t, f.Err())
	}
	require.Equal(t, dialled, connections.Load(), "one connection carries all of them")
	require.Equal(t, int64(1), dialled)
}
