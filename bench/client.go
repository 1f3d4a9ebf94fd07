package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// shape follows one shape, throwing its bodies away.
type shape struct {
	base   string
	query  url.Values
	http   *http.Client
	handle string
	offset string
	bytes  int64
	first  time.Duration // from the first request to its first body byte
}

func newShape(base string, query url.Values) *shape {
	return &shape{base: base, query: query, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, DisableCompression: true}}, offset: "-1"}
}

// next makes one request and reports whether it reached the head of the log.
func (s *shape) next(ctx context.Context, live bool) (upToDate bool, err error) {
	q := url.Values{}
	for k, v := range s.query {
		q[k] = v
	}
	q.Set("offset", s.offset)
	if s.handle != "" {
		q.Set("handle", s.handle)
	}
	if live {
		q.Set("live", "true")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/v1/shape?"+q.Encode(), nil)
	if err != nil {
		return false, err
	}
	began := time.Now()
	resp, err := s.http.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // for the message only
		return false, fmt.Errorf("GET %s: %s: %s", req.URL, resp.Status, body)
	}
	var one [1]byte
	if n, err := io.ReadFull(resp.Body, one[:]); err != nil {
		return false, err
	} else if s.bytes == 0 {
		s.first = time.Since(began)
		s.bytes += int64(n)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		return false, err
	}
	s.bytes += n
	s.handle, s.offset = resp.Header.Get("electric-handle"), resp.Header.Get("electric-offset")
	_, upToDate = resp.Header["Electric-Up-To-Date"]
	return upToDate, nil
}

// sync reads the shape up to the head of its log.
func (s *shape) sync(ctx context.Context) error {
	for {
		done, err := s.next(ctx, false)
		if err != nil || done {
			return err
		}
	}
}
