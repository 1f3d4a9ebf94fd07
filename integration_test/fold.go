package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Row is a row of a shape, by column; nil is SQL's NULL.
type Row map[string]*string

// Fold follows one shape and keeps its rows, as a client does, and checks what it is sent on the way: positions that
// ascend, offsets that never go back, no insert of a row that is there, no change of one that is not. It is used by one
// goroutine at a time.
type Fold struct {
	// Tolerate, if set, makes other answers a reason to ask again, as Retry does.
	Tolerate func(code int, body string) bool
	// ChangesOnly says that the log has no first rows (log=changes_only): Rows then holds what is known of the rows that
	// changed, and Deleted the keys whose last operation was a delete.
	ChangesOnly bool
	Deleted     map[string]bool
	// Ledger, if set, is where all clients of a server note the handles that are over, so that none comes back.
	Ledger *HandleLedger
	// Retry makes network errors and 5xx answers a reason to ask again, until the context ends, instead of an error.
	Retry bool
	// OnUpToDate, if set, is called with the rows of every up-to-date; an error is kept as a violation.
	OnUpToDate func(map[string]Row) error
	// Handle and Offset are the position: the next request's parameters.
	Handle, Offset string
	// Cursor is the last electric-cursor.
	Cursor string
	// Refetched counts the must-refetch answers, Requests all answers.
	Refetched, Requests int
	// SeenLSN is global_last_seen_lsn of the last up-to-date.
	SeenLSN uint64
	// Rows are the rows by key, as of the last answer.
	Rows map[string]Row
	// Chunks counts the 200 answers since the last refetch that were not up to date.
	Chunks int

	base       string
	params     url.Values
	client     *http.Client
	violations []string
}

// NewFold follows the shape that params define (table, where, columns, …) on the server at base, from the beginning.
func NewFold(base string, params url.Values) *Fold {
	return &Fold{base: base, params: params, client: http.DefaultClient, Offset: "-1", Rows: map[string]Row{}}
}

// statusError is an answer that a client cannot go on from.
type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d %s", e.code, e.body) }

// maxViolations bounds what is kept: the first few say what went wrong.
const maxViolations = 20

// Err returns the breaches of the protocol seen so far, nil if there were none.
func (f *Fold) Err() error {
	if len(f.violations) == 0 {
		return nil
	}
	return errors.New("protocol violations:\n  " + strings.Join(f.violations, "\n  "))
}

func (f *Fold) violate(format string, args ...any) {
	if len(f.violations) < maxViolations {
		f.violations = append(f.violations, fmt.Sprintf(format, args...))
	}
}

// CatchUp asks, without live, until an answer is up to date.
func (f *Fold) CatchUp(ctx context.Context) error {
	for {
		upToDate, err := f.step(ctx, false)
		if err != nil || upToDate {
			return err
		}
	}
}

// Follow catches up and then long-polls until done says that the rows are as wanted, which it looks at after every
// answer.
func (f *Fold) Follow(ctx context.Context, done func() bool) error {
	live := false
	for {
		upToDate, err := f.step(ctx, live)
		if err != nil {
			return err
		}
		if upToDate && done() {
			return nil
		}
		live = upToDate
	}
}

// step makes one request and applies its answer, and asks again when told to retry.
func (f *Fold) step(ctx context.Context, live bool) (upToDate bool, err error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		upToDate, err = f.request(ctx, live)
		var status *statusError
		final := err == nil || ctx.Err() != nil
		if errors.As(err, &status) && status.code < 500 {
			final = f.Tolerate == nil || !f.Tolerate(status.code, status.body)
		}
		if final || !f.Retry {
			return upToDate, err
		}
		select {
		case <-ctx.Done():
			return false, errors.Join(ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

func (f *Fold) request(ctx context.Context, live bool) (upToDate bool, err error) {
	q := maps.Clone(f.params)
	q.Set("offset", f.Offset)
	if f.Handle != "" {
		q.Set("handle", f.Handle) // with offset=-1 it only keeps caches apart
	}
	if live {
		q.Set("live", "true")
		q.Set("cursor", f.Cursor)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+"/v1/shape?"+q.Encode(), http.NoBody)
	if err != nil {
		return false, fmt.Errorf("make request: %w", err)
	}
	sent := time.Now()
	res, err := f.client.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return false, fmt.Errorf("read body: %w", err)
	}
	f.Requests++
	if f.Ledger != nil {
		if err := f.Ledger.note(f.Handle, f.Offset, res, sent); err != nil {
			f.violate("%v", err)
		}
	}
	switch res.StatusCode {
	case http.StatusOK:
		return f.apply(res.Header, body, live)
	case http.StatusConflict:
		f.refetch(res.Header.Get("electric-handle"), body)
		return false, nil
	}
	return false, &statusError{res.StatusCode, string(body[:min(len(body), 300)])}
}

func (f *Fold) refetch(handle string, body []byte) {
	f.Refetched++
	if handle != "" && handle == f.Handle && f.Offset != "-1" {
		f.violate("must-refetch names the handle %s that it refuses", handle)
	}
	if want := `[{"headers":{"control":"must-refetch"}}]`; string(body) != want {
		f.violate("409 with body %s", body)
	}
	if handle == "" {
		handle = f.Handle + "-next" // a URL of its own, or a cache would lead back to the old first page
	}
	f.Handle, f.Offset, f.Cursor, f.Rows, f.Deleted, f.Chunks = handle, "-1", "", map[string]Row{}, nil, 0
}

// message is one item of a shape's log.
type message struct {
	Key      *string        `json:"key"`
	Value    Row            `json:"value"`
	OldValue Row            `json:"old_value"`
	Headers  messageHeaders `json:"headers"`
}

type messageHeaders struct {
	Operation         string `json:"operation"`
	Control           string `json:"control"`
	LSN               string `json:"lsn"`
	OpPosition        int64  `json:"op_position"`
	Last              bool   `json:"last"`
	GlobalLastSeenLSN string `json:"global_last_seen_lsn"`
}

// apply applies a 200 answer. Nothing of it counts when the body is cut: it is decoded whole first.
func (f *Fold) apply(h http.Header, body []byte, live bool) (upToDate bool, err error) {
	var msgs []message
	if err := json.Unmarshal(body, &msgs); err != nil {
		return false, fmt.Errorf("body is not a JSON array of messages: %w", err)
	}
	start, err := parsePosition(f.Offset)
	if err != nil {
		return false, err
	}
	last := position{tx: -1}
	for i, m := range msgs {
		if m.Headers.LSN != "" && m.Headers.Operation != "" {
			lsn, err := strconv.ParseInt(m.Headers.LSN, 10, 64)
			if err != nil {
				f.violate("lsn %q is not a number", m.Headers.LSN)
			}
			pos := position{lsn, m.Headers.OpPosition}
			if !last.less(pos) {
				f.violate("position %v after %v", pos, last)
			}
			if !start.less(pos) {
				f.violate("%v sent again after offset %s", pos, f.Offset)
			}
			last = pos
		}
		f.applyMessage(m)
		if m.Headers.Control == "up-to-date" {
			upToDate = true
			if i != len(msgs)-1 {
				f.violate("up-to-date is message %d of %d", i+1, len(msgs))
			}
			if f.SeenLSN, err = strconv.ParseUint(m.Headers.GlobalLastSeenLSN, 10, 64); err != nil {
				f.violate("global_last_seen_lsn %q is not a number", m.Headers.GlobalLastSeenLSN)
			}
		}
	}
	f.checkHeaders(h, start, last, live, upToDate)
	if upToDate && f.OnUpToDate != nil {
		if err := f.OnUpToDate(f.Rows); err != nil {
			f.violate("at offset %s: %v", f.Offset, err)
		}
	}
	return upToDate, nil
}

func (f *Fold) applyMessage(m message) {
	if m.Headers.Operation == "" {
		return
	}
	if m.Key == nil {
		f.violate("%s without a key", m.Headers.Operation)
		return
	}
	row, exists := f.Rows[*m.Key]
	switch m.Headers.Operation {
	case "insert":
		if exists {
			f.violate("insert of the existing key %s at %s", *m.Key, m.Headers.LSN)
		}
		f.Rows[*m.Key] = m.Value
		delete(f.Deleted, *m.Key)
	case "update":
		if !exists && f.ChangesOnly && !f.Deleted[*m.Key] {
			row, exists = Row{}, true
			f.Rows[*m.Key] = row
		}
		if !exists {
			f.violate("update of the unknown key %s at %s", *m.Key, m.Headers.LSN)
			row = Row{}
			f.Rows[*m.Key] = row
		}
		maps.Copy(row, m.Value)
	case "delete":
		if f.ChangesOnly {
			exists = !f.Deleted[*m.Key]
			if f.Deleted == nil {
				f.Deleted = map[string]bool{}
			}
			f.Deleted[*m.Key] = true
		}
		if !exists {
			f.violate("delete of the unknown key %s at %s", *m.Key, m.Headers.LSN)
		}
		delete(f.Rows, *m.Key)
	default:
		f.violate("unknown operation %q", m.Headers.Operation)
	}
}

// checkHeaders checks the answer's headers against its body and moves the position.
func (f *Fold) checkHeaders(h http.Header, start, last position, live, upToDate bool) {
	next := h.Get("electric-offset")
	end, err := parsePosition(next)
	if err != nil {
		f.violate("electric-offset: %v", err)
		return
	}
	if end.less(start) {
		f.violate("offset went back from %s to %s", f.Offset, next)
	}
	if end.less(last) {
		f.violate("offset %s is before the last message %v", next, last)
	}
	if !start.less(end) && !upToDate {
		f.violate("no progress at %s, and not up to date", next)
	}
	if _, ok := h["Electric-Up-To-Date"]; ok != upToDate {
		f.violate("header electric-up-to-date is %t where the body says %t", ok, upToDate)
	}
	handle := h.Get("electric-handle")
	if handle == "" {
		f.violate("no electric-handle")
	}
	if f.Offset != "-1" && handle != f.Handle {
		f.violate("asked for handle %s and got %s", f.Handle, handle)
	}
	if live {
		if f.Cursor = h.Get("electric-cursor"); f.Cursor == "" {
			f.violate("no electric-cursor on a live answer")
		}
	} else if h.Get("electric-schema") == "" {
		f.violate("no electric-schema")
	}
	if !upToDate {
		f.Chunks++
	}
	f.Handle, f.Offset = handle, next
}

// position is an offset as a number: the snapshot's last, "0_inf", is after every "0_N".
type position struct{ tx, op int64 }

func (p position) less(q position) bool { return p.tx < q.tx || (p.tx == q.tx && p.op < q.op) }

func parsePosition(s string) (position, error) {
	if s == "-1" {
		return position{-1, 0}, nil
	}
	tx, op, ok := strings.Cut(s, "_")
	t, err1 := strconv.ParseInt(tx, 10, 64)
	o, err2 := strconv.ParseInt(op, 10, 64)
	if op == "inf" {
		o, err2 = math.MaxInt64, nil
	}
	if !ok || err1 != nil || err2 != nil {
		return position{}, fmt.Errorf("offset %q is not -1, N_N or N_inf", s)
	}
	return position{t, o}, nil
}

// Canonical returns the rows as sorted-comparable text, one line a row, of the given columns. Booleans are spelled in
// two ways on the wire, true in snapshots and t in the log; here they are t.
func (f *Fold) Canonical(columns []string) map[string]int {
	lines := make(map[string]int, len(f.Rows))
	for _, row := range f.Rows {
		var b strings.Builder
		for _, c := range columns {
			v, ok := row[c]
			switch {
			case !ok:
				b.WriteString("(absent)")
			case v == nil:
				b.WriteString("NULL")
			case *v == "true":
				b.WriteString(`"t"`)
			case *v == "false":
				b.WriteString(`"f"`)
			default:
				b.WriteString(strconv.Quote(*v))
			}
			b.WriteString(" ")
		}
		lines[b.String()]++
	}
	return lines
}
