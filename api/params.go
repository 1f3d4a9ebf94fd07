package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shapeserver/shapeserver/shape"
)

const (
	// maxBody is the size of the largest body of a POST, in bytes (protocol.md §2.4).
	maxBody = 8_000_000
	// maxPairs bounds the parameters of one request, $n included.
	maxPairs = 20_000
)

// field is one parameter as it came: not yet checked.
type field struct {
	value string
	set   bool // it was there, if only as "name="
	bad   bool // it was there, but not as a plain text
}

// blank reports whether the parameter counts as absent (protocol.md §2.1).
func (f field) blank() bool { return !f.set || !f.bad && strings.TrimSpace(f.value) == "" }

// text returns the value, "" when the parameter counts as absent.
func (f field) text() string {
	if f.blank() {
		return ""
	}
	return f.value
}

// params are the parameters of a request that mean something here, from the query and, over it, the body.
type params struct {
	table, offset, handle, live, liveSSE, experimentalSSE, cursor field
	where, columns, queryable, replica, log, compaction           field
	secret, apiSecret                                             field
	params                                                        map[string]field // $n by what stood for n
	badParams                                                     bool             // params was there, but not as a map
	subset                                                        subsetParams

	// errors are mistakes that make the request unreadable: bad encodings and too many parameters.
	errors shape.FieldErrors
}

func (q *params) reject(name, message string) {
	if q.errors == nil {
		q.errors = make(shape.FieldErrors)
	}
	q.errors[strings.ToValidUTF8(name, "\ufffd")] = []string{message}
}

// byName returns the field of a scalar parameter, nil for a name that means nothing.
func (q *params) byName(name string) *field {
	switch name {
	case "table":
		return &q.table
	case "offset":
		return &q.offset
	case "handle":
		return &q.handle
	case "live":
		return &q.live
	case "live_sse":
		return &q.liveSSE
	case "experimental_live_sse":
		return &q.experimentalSSE
	case "cursor":
		return &q.cursor
	case "where":
		return &q.where
	case "columns":
		return &q.columns
	case "queryable_columns":
		return &q.queryable
	case "replica":
		return &q.replica
	case "log":
		return &q.log
	case "experimental_compaction":
		return &q.compaction
	case "secret":
		return &q.secret
	case "api_secret":
		return &q.apiSecret
	default:
		return nil
	}
}

const unreadable = "must be valid UTF-8 without NUL characters"

// parseQuery reads a raw query. Pairs are parted by "&" alone; a later pair replaces an earlier one of its name.
func parseQuery(raw string) *params {
	q := &params{}
	n := 0
	for len(raw) > 0 {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		if n++; n > maxPairs {
			q.reject("query", "has too many parameters")
			return q
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			q.reject("query", "has an invalid percent-encoding")
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			q.reject(name, "has an invalid percent-encoding")
			continue
		}
		if !readable(name) || !readable(value) {
			q.reject(strings.ReplaceAll(name, "\x00", "\ufffd"), unreadable)
			continue
		}
		q.setPair(name, value)
	}
	return q
}

func readable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// setPair sets one parameter of a query. Brackets nest: params[1]=a sets $1.
func (q *params) setPair(name, value string) {
	base, path, nested := strings.Cut(name, "[")
	if nested {
		path, nested = strings.CutSuffix(path, "]")
	}
	if !nested {
		if f := q.byName(name); f != nil {
			*f = field{value: value, set: true}
		} else if name == "params" {
			q.badParams = strings.TrimSpace(value) != ""
		} else if sub, ok := strings.CutPrefix(name, "subset__"); ok {
			q.subset.set(sub, value)
		}
		return
	}
	deeper := strings.Contains(path, "[")
	switch base {
	case "params":
		if q.params == nil {
			q.params = make(map[string]field)
		}
		key, _, _ := strings.Cut(path, "]")
		q.params[key] = field{value: value, set: true, bad: deeper || path == ""}
	case "subset":
		key, deeper, nested := strings.Cut(path, "][")
		if nested {
			q.subset.setNested(key, deeper, value)
		} else {
			q.subset.set(path, value)
		}
	default:
		if f := q.byName(base); f != nil {
			*f = field{set: true, bad: true}
		} else if sub, ok := strings.CutPrefix(base, "subset__"); ok {
			q.subset.setNested(sub, path, value)
		}
	}
}

// mergeBody reads the body of a POST and lays it over the query (protocol.md §2.4).
func (q *params) mergeBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) *failure {
	control := http.NewResponseController(w)
	// Best effort: a writer without deadlines, as tests have, reads without.
	_ = control.SetReadDeadline(time.Now().Add(timeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = control.SetReadDeadline(time.Time{})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &errBodyTooLarge
	case err != nil:
		return &errBodyUnreadable
	case len(bytes.TrimSpace(body)) == 0:
		return nil
	}
	var any json.RawMessage
	if err := checkJSON(body, &any); err != nil {
		f := failure{
			status:     http.StatusBadRequest,
			body:       errorText{Error: "Invalid JSON in request body", Details: err.Error()},
			plainCache: true,
		}
		return &f
	}
	if any[0] != '{' {
		return &errBodyNotObject
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(any, &object); err != nil {
		return &errBodyUnreadable // cannot be: it was valid and an object
	}
	q.setObject(object)
	return nil
}

// checkJSON accepts one JSON value whose strings are all text: encoding/json would replace what is not UTF-8 and lone
// surrogates, and so give the request another meaning.
func checkJSON(body []byte, into *json.RawMessage) error {
	if !utf8.Valid(body) {
		return errors.New("not valid UTF-8")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return err
	}
	*into = bytes.TrimSpace(*into)
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		i++ // the escaped character; the JSON is valid, so there is one
		if body[i] != 'u' {
			continue
		}
		switch unit := escapedUnit(body[i+1:]); {
		case 0xdc00 <= unit && unit < 0xe000:
			return errors.New("lone surrogate at position " + strconv.Itoa(i-1))
		case 0xd800 <= unit && unit < 0xdc00:
			rest := body[i+5:]
			if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
				return errors.New("lone surrogate at position " + strconv.Itoa(i-1))
			}
			if low := escapedUnit(rest[2:]); low < 0xdc00 || low >= 0xe000 {
				return errors.New("lone surrogate at position " + strconv.Itoa(i-1))
			}
			i += 6
		}
		i += 4
	}
	return nil
}

// escapedUnit reads the four hexadecimal digits of a \u escape.
func escapedUnit(digits []byte) uint64 {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 32) // the JSON is valid, so they are digits
	return n
}

func (q *params) setObject(object map[string]json.RawMessage) {
	if raw, explicit := object["subset"]; explicit {
		delete(object, "subset")
		q.setSubsetJSON(raw)
	} else if subset := takeSubset(object); len(subset) > 0 {
		q.setSubsetObject(subset)
	}
	for name, value := range object {
		if name == "params" {
			q.setParamsJSON(value)
		} else if f := q.byName(name); f != nil && f != &q.secret && f != &q.apiSecret {
			*f = q.jsonField(name, value)
		}
	}
}

// setParamsJSON reads {"1":"a","2":"b"}; it replaces single parameters of the query.
func (q *params) setParamsJSON(raw json.RawMessage) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		q.badParams = true
		return
	}
	if q.params == nil {
		q.params = make(map[string]field, len(object))
	}
	for name, value := range object {
		f := q.jsonField("params", value)
		f.bad = f.bad || !f.set // a null is no text
		f.set = true
		q.params[name] = f
	}
	if len(q.params) > maxPairs {
		q.reject("params", "has too many parameters")
	}
}

// jsonField takes a text; a boolean where one is read as such; null for absent.
func (q *params) jsonField(name string, raw json.RawMessage) field {
	raw = bytes.TrimSpace(raw)
	var text string
	switch {
	case string(raw) == "null":
		return field{}
	case json.Unmarshal(raw, &text) == nil:
		if !readable(text) {
			q.reject(name, unreadable)
			return field{}
		}
		return field{value: text, set: true}
	case isBoolean(name) && (string(raw) == "true" || string(raw) == "false"):
		return field{value: string(raw), set: true}
	default:
		return field{set: true, bad: true}
	}
}

func isBoolean(name string) bool {
	switch name {
	case "live", "live_sse", "experimental_live_sse", "experimental_compaction":
		return true
	default:
		return false
	}
}
