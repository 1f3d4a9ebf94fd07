package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/shapeserver/shapeserver/config"
)

// healthTimeout is less than what container engines give a check.
const healthTimeout = 3 * time.Second

// healthcheck asks the server that runs with the same settings. Starting (202) is well: a second server that waits
// for the first to stop must not be killed for it.
func (p program) healthcheck(ctx context.Context, args []string) error {
	cfg, words, done, err := p.load(config.Probe, args, "shapeserver healthcheck [--port 3000] [--listen-host 127.0.0.1]\n")
	if err != nil || done {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	host := cfg.ListenHost
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	url := "http://" + net.JoinHostPort(host, strconv.Itoa(cfg.Port)) + "/v1/health"
	code, body, err := get(ctx, url)
	if err != nil {
		return fmt.Errorf("no answer from %s: %w", url, err)
	}
	if code < 200 || code > 299 {
		return fmt.Errorf("%s answered %d: %s", url, code, body)
	}
	_, err = fmt.Fprintf(p.stdout, "%d %s\n", code, body)
	return err
}

// get returns the status and the first KiB of an answer.
func get(ctx context.Context, url string) (code int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		var netErr *net.OpError
		if errors.As(err, &netErr) {
			return 0, nil, netErr // without the URL, which the caller names
		}
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, 1024))
	return res.StatusCode, body, err
}
