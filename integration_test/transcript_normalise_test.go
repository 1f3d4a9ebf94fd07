package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// shownHeaders are the headers that transcripts show, in their order; those for browsers only where a transcript
// shows them at all.
var (
	shownHeaders = []string{
		"electric-handle", "electric-offset", "electric-schema", "electric-snapshot", "electric-cursor",
		"electric-up-to-date", "electric-has-data", "retry-after", "cache-control", "surrogate-control", "etag", "content-type",
	}
	corsHeaders = []string{
		"access-control-allow-origin", "access-control-allow-methods", "access-control-allow-headers",
		"access-control-expose-headers", "access-control-max-age",
	}
)

// normaliser makes answers comparable: handles, LSNs and transaction ids are numbered in the order in which they
// appear (HANDLE1, LSN1, XID1), cursors, marks and clocks are masked, JSON keys and snapshot rows are sorted.
type normaliser struct {
	headers []string
	numbers map[string]string // "HANDLE 123-456" → "HANDLE1"
	count   map[string]int    // kind → how many have a number
}

func newNormaliser(cors bool) *normaliser {
	n := &normaliser{headers: shownHeaders, numbers: map[string]string{}, count: map[string]int{}}
	if cors {
		n.headers = slices.Concat(shownHeaders, corsHeaders)
	}
	return n
}

// number returns the stand-in for a value of a kind, a new one for a value not seen before.
func (n *normaliser) number(kind, value string) string {
	key := kind + " " + value
	if n.numbers[key] == "" {
		n.count[kind]++
		n.numbers[key] = fmt.Sprintf("%s%d", kind, n.count[kind])
	}
	return n.numbers[key]
}

// expectHandle gives a handle that was not seen before the number that the transcript expects, if no other handle has
// it, else one that no transcript expects: so that one answer that differs does not shift the numbers of all that
// follow. It makes no wrong handle right: two handles never share a number, and one handle never has two.
func (n *normaliser) expectHandle(want []string, handle string) {
	key := "HANDLE " + handle
	if handle == "" || n.numbers[key] != "" {
		return
	}
	for _, line := range want {
		name, ok := strings.CutPrefix(line, "< electric-handle: ")
		if ok && !slices.Contains(slices.Collect(maps.Values(n.numbers)), name) {
			n.numbers[key] = name
			return
		}
	}
	n.count["unexpected"]++
	n.numbers[key] = fmt.Sprintf("HANDLE?%d", n.count["unexpected"])
}

// lines returns the answer as a transcript shows it, status first.
func (n *normaliser) lines(r *response) []string {
	lines := []string{fmt.Sprintf("< %d", r.status)}
	for _, name := range n.headers {
		if values, ok := r.header[httpCanonical(name)]; ok {
			lines = append(lines, "< "+name+": "+n.header(name, strings.Join(values, ", ")))
		}
	}
	lines = append(lines, n.body(r.body)...)
	for i, l := range lines {
		lines[i] = unifyText(l)
	}
	sortSnapshotRows(lines)
	return lines
}

func httpCanonical(name string) string {
	parts := strings.Split(name, "-")
	for i, p := range parts {
		parts[i] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "-")
}

func (n *normaliser) header(name, value string) string {
	switch name {
	case "electric-handle":
		return n.number("HANDLE", value)
	case "electric-offset":
		return n.offset(value)
	case "electric-cursor":
		return "CURSOR"
	case "electric-schema":
		return n.json(value)
	case "etag":
		parts := strings.Split(strings.Trim(value, `"`), ":")
		for i := range parts {
			switch {
			case parts[i] == "":
			case i == 0:
				parts[i] = n.number("HANDLE", parts[i])
			case i == 3:
				parts[i] = "CLOCK"
			default:
				parts[i] = n.offset(parts[i])
			}
		}
		return `"` + strings.Join(parts, ":") + `"`
	}
	return value
}

// offset numbers the LSN of an offset; 0 stands for the snapshot and is no LSN.
func (n *normaliser) offset(s string) string {
	tx, op, ok := strings.Cut(s, "_")
	if !ok || tx == "0" {
		return s
	}
	return n.number("LSN", tx) + "_" + op
}

func (n *normaliser) body(body string) []string {
	if body == "" {
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(body), &items); err == nil {
		var lines []string
		for _, item := range items {
			lines = append(lines, "  "+n.json(string(item)))
		}
		return lines
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(body, "\n"), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			line = "data: " + n.json(data)
		} else {
			line = n.json(line)
		}
		lines = append(lines, "  "+line)
	}
	return lines
}

// json returns a JSON text with its keys sorted and its volatile values replaced; other text as it is.
func (n *normaliser) json(s string) string {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // sorts keys
	enc.SetEscapeHTML(false)
	if enc.Encode(n.value("", v)) != nil {
		return s
	}
	// The masks of numbers are written without quotes.
	return bareMasks.ReplaceAllString(strings.TrimRight(b.String(), "\n"), "$1")
}

// bareMasks finds the stand-ins of what were numbers or lists, which value marks by a leading §.
var bareMasks = regexp.MustCompile(`"§([^"]*)"`)

func (n *normaliser) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			// The row's own columns may have any name.
			if k != "value" && k != "old_value" {
				v[k] = n.value(k, v[k])
			}
		}
		return v
	case []any:
		if key == "xip_list" {
			return "§[…]"
		}
		for i := range v {
			v[i] = n.value(strings.TrimSuffix(key, "s"), v[i])
		}
		return v
	case string:
		switch key {
		case "lsn", "global_last_seen_lsn", "database_lsn":
			return n.number("LSN", v)
		case "xmin", "xmax":
			return "XID"
		}
	case json.Number:
		switch key {
		case "txid":
			return "§" + n.number("XID", v.String())
		case "snapshot_mark":
			return "§MARK"
		}
	}
	return v
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// sortSnapshotRows sorts each run of rows without a position: a snapshot has no order.
func sortSnapshotRows(lines []string) {
	// Keys are sorted, so a row with an lsn begins otherwise.
	isRow := func(l string) bool { return strings.HasPrefix(l, `  {"headers":{"operation":"insert"`) }
	for i := 0; i < len(lines); i++ {
		j := i
		for j < len(lines) && isRow(lines[j]) {
			j++
		}
		slices.Sort(lines[i:j])
		i = max(i, j-1)
	}
}

// Booleans are spelled t and true, and host addresses with and without /32, by two paths through Postgres; both
// spellings are right (protocol.md §7).
var (
	boolText = strings.NewReplacer(`":"true"`, `":"t"`, `":"false"`, `":"f"`)
	inetText = regexp.MustCompile(`("ip":"[0-9.]+)/32"`)
)

// unifyText makes one spelling of what may be spelled in two ways.
func unifyText(line string) string {
	return inetText.ReplaceAllString(boolText.Replace(line), `$1"`)
}
