package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// activeTimeout bounds the wait for the server before the banner is printed anyway.
const activeTimeout = 20 * time.Second

// base is the server's address as a person types it.
func (b *banner) base() string {
	host, port, err := net.SplitHostPort(b.address)
	if err != nil {
		return "http://" + b.address
	}
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// show waits until the server is active and prints what to type next. It returns an error only if that cannot be
// written.
func (b *banner) show(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, activeTimeout)
	defer cancel()
	active := b.awaitActive(wait)
	if ctx.Err() != nil {
		return nil
	}
	var s strings.Builder
	fmt.Fprintf(&s, "\nshapeserver %s at %s", buildVersion(), b.base())
	if b.dev != nil {
		fmt.Fprintf(&s, ", PostgreSQL %s", strings.Fields(b.dev.Version())[0])
	}
	s.WriteByte('\n')
	if !active {
		s.WriteString("\nThe server is not ready yet; its log above says why.\n")
	}
	if b.dev == nil {
		b.external(&s)
	} else {
		b.demo(wait, &s, active)
	}
	folders := []string{b.data}
	if b.dev != nil {
		folders = append(folders, b.dev.Folders()[1:]...)
	}
	fmt.Fprintf(&s, "\nCtrl-C stops; the data stays in %s.\n", strings.Join(folders, " and "))
	_, err := b.out.Write([]byte(s.String()))
	return err
}

// secret is the parameter that requests must carry, if any.
func (b *banner) secret() string {
	if b.cfg.Secret == "" {
		return ""
	}
	return "&secret=YOUR_SECRET"
}

func (b *banner) external(s *strings.Builder) {
	fmt.Fprintf(s, `
It serves the database of DATABASE_URL, in which only the server's own objects are made:
schema shapeserver, publication %s, slot %s.

  Read a table   curl -i '%s/v1/shape?table=YOUR_TABLE&offset=-1%s'
`, b.cfg.PublicationName(), b.cfg.SlotName(), b.base(), b.secret())
}

func (b *banner) demo(ctx context.Context, s *strings.Builder, active bool) {
	shape := b.base() + "/v1/shape?table=items"
	fmt.Fprintf(s, "\n  Read a table   curl -i '%s&offset=-1%s'\n", shape, b.secret())
	if active && b.cfg.Secret == "" {
		if position, ok := b.position(ctx, shape); ok {
			fmt.Fprintf(s, "  Watch it       curl -N '%s&%s&live=true&live_sse=true'\n", shape, position)
		}
	}
	const change = "UPDATE items SET title = 'Hello', updated_at = now() WHERE id = 1"
	if line := b.dev.Psql(change); line != "" {
		fmt.Fprintf(s, "  Change a row   %s\n", line)
	} else {
		fmt.Fprintf(s, "  Change a row   with any client, at %s\n                 %s\n", b.dev.URL(), change)
	}
	fmt.Fprintf(s, `  From an app    npm install @electric-sql/client
                 import { ShapeStream } from '@electric-sql/client'
                 new ShapeStream({ url: '%s/v1/shape', params: { table: 'items' } })
                   .subscribe(messages => console.log(messages))
`, b.base())
	if b.writes {
		s.WriteString("\nA row of the demo table changes every two seconds; --no-writer leaves that out.\n")
	}
}

// awaitActive polls the health of the server until it is active, or ctx ends.
func (b *banner) awaitActive(ctx context.Context) bool {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		if code, _, err := get(ctx, "http://"+dialable(b.address)+"/v1/health"); err == nil && code == http.StatusOK {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-poll.C:
		}
	}
}

// dialable turns the address of a listener into one to connect to.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// position reads the demo shape to its end and returns the parameters with which a client would go on from there, so
// that the printed line shows changes and nothing else.
func (b *banner) position(ctx context.Context, shape string) (string, bool) {
	client := &http.Client{Timeout: healthTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	query := url.Values{"offset": {"-1"}}
	for range 100 { // the demo table has one chunk; a user's own items may have many
		req, err := http.NewRequestWithContext(ctx, http.MethodGet,
			strings.Replace(shape, b.base(), "http://"+dialable(b.address), 1)+"&"+query.Encode(), http.NoBody)
		if err != nil {
			return "", false
		}
		res, err := client.Do(req)
		if err != nil {
			return "", false
		}
		ok := res.StatusCode == http.StatusOK && json.NewDecoder(res.Body).Decode(&[]json.RawMessage{}) == nil
		res.Body.Close()
		if !ok {
			return "", false
		}
		query = url.Values{"handle": {res.Header.Get("electric-handle")}, "offset": {res.Header.Get("electric-offset")}}
		if _, ends := res.Header["Electric-Up-To-Date"]; ends { // its value is empty (protocol.md §4.1)
			return query.Encode(), true
		}
	}
	return "", false
}
