package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is one setting's place in a Config: how it is read, printed and described.
type value interface {
	// Set reads s, which is never empty. Its error says what is accepted, and never repeats s.
	Set(s string) error
	// String returns the present value in a form that Set takes, masked if it is secret; "" means unset.
	String() string
	// Want describes what Set takes, for the documentation.
	Want() string
}

type textValue struct {
	p *string
	// pattern and want restrict the text; without a pattern everything is taken.
	pattern *regexp.Regexp
	want    string
}

func (v textValue) Set(s string) error {
	if v.pattern != nil && !v.pattern.MatchString(s) {
		return errors.New("want " + v.want)
	}
	*v.p = s
	return nil
}
func (v textValue) String() string { return *v.p }
func (v textValue) Want() string   { return v.want }

type secretValue struct{ p *Secret }

func (v secretValue) Set(s string) error { *v.p = Secret(s); return nil }
func (v secretValue) String() string     { return v.p.String() }
func (v secretValue) Want() string       { return "any text" }

type urlValue struct {
	p *DatabaseURL
	// notes collects what was accepted without being used.
	notes func(string)
}

func (v urlValue) Set(s string) error {
	u, ignored, err := ParseDatabaseURL(s)
	if err != nil {
		return err
	}
	*v.p = u
	if len(ignored) > 0 && v.notes != nil {
		v.notes("URL parameters without a meaning here were ignored: " + strings.Join(ignored, ", "))
	}
	return nil
}
func (v urlValue) String() string { return v.p.String() }
func (v urlValue) Want() string   { return "postgres://user:password@host:port/database?sslmode=…" }

type boolValue struct{ p *bool }

func (v boolValue) Set(s string) error {
	switch strings.ToLower(s) {
	case "true", "t", "1", "yes", "y", "on":
		*v.p = true
	case "false", "f", "0", "no", "n", "off":
		*v.p = false
	default:
		return errors.New("want true or false")
	}
	return nil
}
func (v boolValue) String() string { return strconv.FormatBool(*v.p) }
func (v boolValue) Want() string   { return "true or false" }

// intValue is a whole number from lo to hi.
type intValue struct {
	p      *int
	lo, hi int
	// zero says what 0 means, if that is not simply the number.
	zero string
}

func (v intValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < v.lo || n > v.hi {
		return errors.New("want " + v.Want())
	}
	*v.p = n
	return nil
}
func (v intValue) String() string { return strconv.Itoa(*v.p) }
func (v intValue) Want() string {
	w := fmt.Sprintf("a whole number from %d to %d", v.lo, v.hi)
	if v.zero != "" {
		w += ", 0 " + v.zero
	}
	return w
}

// sizeValue is a number of bytes. Units are powers of 1024, as in Postgres's own settings.
type sizeValue struct {
	p      *int64
	lo, hi int64
}

var sizeForm = regexp.MustCompile(`^(\d+)\s*([kKmMgG]?)([iI]?[bB])?$`)

func (v sizeValue) Set(s string) error {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return errors.New("want " + v.Want())
	}
	shift := map[string]uint{"": 0, "k": 10, "m": 20, "g": 30}[strings.ToLower(m[2])]
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > v.hi>>shift || n<<shift < v.lo {
		return errors.New("want " + v.Want())
	}
	*v.p = n << shift
	return nil
}

func (v sizeValue) String() string { return formatSize(*v.p) }
func (v sizeValue) Want() string {
	return fmt.Sprintf("a size from %s to %s; a bare number is bytes, units are KiB, MiB, GiB", formatSize(v.lo), formatSize(v.hi))
}

func formatSize(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// durationValue is a time span from lo to hi (protocol.md §13).
type durationValue struct {
	p      *time.Duration
	lo, hi time.Duration
	// bare is the unit of a number without one; zero means a millisecond.
	bare time.Duration
	// zero says what 0 means; if set, 0 is accepted whatever lo is.
	zero string
}

var durationForm = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*(ms|msec|s|sec|m|min|)$`)

func (v durationValue) Set(s string) error {
	m := durationForm.FindStringSubmatch(strings.ToLower(s))
	if m == nil {
		return errors.New("want " + v.Want())
	}
	unit := map[string]time.Duration{
		"ms": time.Millisecond, "msec": time.Millisecond, "s": time.Second, "sec": time.Second,
		"m": time.Minute, "min": time.Minute, "": v.bareUnit(),
	}[m[2]]
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n*float64(unit) > float64(v.hi) {
		return errors.New("want " + v.Want())
	}
	d := time.Duration(n * float64(unit))
	if d < v.lo && (d != 0 || v.zero == "") {
		return errors.New("want " + v.Want())
	}
	*v.p = d
	return nil
}

func (v durationValue) bareUnit() time.Duration {
	if v.bare == 0 {
		return time.Millisecond
	}
	return v.bare
}

func (v durationValue) String() string { return formatDuration(*v.p) }
func (v durationValue) Want() string {
	w := fmt.Sprintf("a duration from %s to %s, in ms, s or min; a bare number is %s",
		formatDuration(v.lo), formatDuration(v.hi), map[time.Duration]string{
			time.Millisecond: "milliseconds", time.Second: "seconds",
		}[v.bareUnit()])
	if v.zero != "" {
		w += "; 0 " + v.zero
	}
	return w
}

// formatDuration writes d in the largest unit that Set reads back exactly.
func formatDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "min"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	default:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + "ms"
	}
}

// enumValue is one word out of a list, in lower case in p.
type enumValue struct {
	p       *string
	choices []string
}

func (v enumValue) Set(s string) error {
	s = strings.ToLower(s)
	if !slices.Contains(v.choices, s) {
		return errors.New("want " + v.Want())
	}
	*v.p = s
	return nil
}
func (v enumValue) String() string { return *v.p }
func (v enumValue) Want() string   { return "one of " + strings.Join(v.choices, ", ") }

// levelValue is a log level. The reference's eight levels fold to slog's four.
type levelValue struct{ p *slog.Level }

func (v levelValue) Set(s string) error {
	switch strings.ToLower(s) {
	case "debug":
		*v.p = slog.LevelDebug
	case "info", "notice":
		*v.p = slog.LevelInfo
	case "warn", "warning":
		*v.p = slog.LevelWarn
	case "error", "critical", "alert", "emergency":
		*v.p = slog.LevelError
	default:
		return errors.New("want " + v.Want())
	}
	return nil
}
func (v levelValue) String() string { return strings.ToLower(v.p.String()) }
func (v levelValue) Want() string   { return "one of debug, info, warn, error" }

// limitsValue is the JSON form of RequestLimits. A member left out keeps its present value.
type limitsValue struct{ p *RequestLimits }

func (v limitsValue) Set(s string) error {
	limits := *v.p
	dec := json.NewDecoder(bytes.NewReader([]byte(s)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&limits); err != nil {
		return errors.New("want " + v.Want())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) || limits.Initial < 1 || limits.Existing < 1 {
		return errors.New("want " + v.Want())
	}
	*v.p = limits
	return nil
}

func (v limitsValue) String() string {
	return fmt.Sprintf(`{"initial":%d,"existing":%d}`, v.p.Initial, v.p.Existing)
}

func (v limitsValue) Want() string {
	return `JSON such as {"initial":300,"existing":10000}, both at least 1`
}
