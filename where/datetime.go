package where

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// stamp is a date and time as written, before a type makes a value of it.
type stamp struct {
	inf     int   // -1, 1 for the infinities
	day     int64 // days from 2000-01-01
	us      int64 // µs from midnight, at most a day
	hasTime bool
	hasZone bool
	west    int64 // zone, seconds west of UTC
}

// cursor reads texts from the left without memory.
type cursor struct {
	s   string
	pos int
}

func (c *cursor) peek() byte {
	if c.pos < len(c.s) {
		return c.s[c.pos]
	}
	return 0
}

func (c *cursor) accept(b byte) bool {
	if c.peek() != b || c.pos >= len(c.s) {
		return false
	}
	c.pos++
	return true
}

func (c *cursor) done() bool { return c.pos == len(c.s) }

// number reads between lo and hi decimal digits.
func (c *cursor) number(lo, hi int) (n int64, digits int, ok bool) {
	for digits < hi && c.pos < len(c.s) && c.s[c.pos]-'0' <= 9 {
		n = n*10 + int64(c.s[c.pos]-'0')
		c.pos++
		digits++
	}
	return n, digits, digits >= lo
}

func (c *cursor) spaces() {
	for c.peek() == ' ' {
		c.pos++
	}
}

func (c *cursor) word(w string) bool {
	if len(c.s)-c.pos >= len(w) && strings.EqualFold(c.s[c.pos:c.pos+len(w)], w) {
		c.pos += len(w)
		return true
	}
	return false
}

// clock reads hh:mm[:ss[.fraction]]. Like Postgres it takes 24:00:00 and second 60.
func (c *cursor) clock() (int64, bool) {
	h, _, ok := c.number(1, 2)
	if !ok || !c.accept(':') {
		return 0, false
	}
	m, d, ok := c.number(2, 2)
	if !ok || d != 2 {
		return 0, false
	}
	var s, us int64
	if c.accept(':') {
		if s, _, ok = c.number(2, 2); !ok {
			return 0, false
		}
		if c.accept('.') {
			if us, ok = c.fraction(); !ok {
				return 0, false
			}
		}
	}
	if h > 24 || m > 59 || s > 60 {
		return 0, false
	}
	total := h*usPerHour + m*usPerMinute + s*usPerSecond + us
	return total, total <= usPerDay
}

// fraction reads the digits after a decimal point as µs; more than six are rounded as Postgres rounds them, through a
// double.
func (c *cursor) fraction() (int64, bool) {
	start := c.pos
	n, digits, ok := c.number(1, 6)
	if !ok {
		return 0, false
	}
	if c.peek()-'0' > 9 || c.done() {
		for ; digits < 6; digits++ {
			n *= 10
		}
		return n, true
	}
	if _, _, ok = c.number(1, 40); !ok || c.peek()-'0' <= 9 && !c.done() {
		return 0, false
	}
	f, err := strconv.ParseFloat("0."+c.s[start:c.pos], 64)
	return int64(math.RoundToEven(f * usPerSecond)), err == nil
}

// zone reads Z, UTC, GMT or ±hh[[:]mm[:ss]] as seconds west of UTC. Named zones are not taken: their rules differ
// between releases of the time zone database.
func (c *cursor) zone() (int64, bool) {
	if c.word("utc") || c.word("gmt") || c.word("zulu") || c.word("z") {
		return 0, true
	}
	east := c.accept('+')
	if !east && !c.accept('-') {
		return 0, false
	}
	h, digits, ok := c.number(1, 4)
	if !ok || digits == 3 {
		return 0, false
	}
	var m, s int64
	if digits == 4 {
		h, m = h/100, h%100
	} else if c.accept(':') {
		if m, _, ok = c.number(2, 2); !ok {
			return 0, false
		}
		if c.accept(':') {
			if s, _, ok = c.number(2, 2); !ok {
				return 0, false
			}
		}
	}
	if h > 15 || m > 59 || s > 59 { // MAX_TZDISP_HOUR
		return 0, false
	}
	west := h*3600 + m*60 + s
	if east {
		west = -west
	}
	return west, true
}

// parseStamp reads yyyy-mm-dd or yyyymmdd, then perhaps a time and a zone, then perhaps BC or AD. Of Postgres's many
// forms it takes those whose meaning depends on no setting and no clock.
func parseStamp(s string) (stamp, bool) {
	var st stamp
	c := cursor{s: s}
	if c.word("infinity") || c.word("+infinity") {
		st.inf = 1
		return st, c.done()
	}
	if c.word("-infinity") {
		st.inf = -1
		return st, c.done()
	}
	if c.word("epoch") {
		st.day = -10957
		st.hasZone = true
		return st, c.done()
	}
	y, digits, ok := c.number(4, 8)
	if !ok {
		return st, false
	}
	var m, d int64
	if c.accept('-') && digits < 8 {
		if m, _, ok = c.number(1, 2); !ok || !c.accept('-') {
			return st, false
		}
		if d, _, ok = c.number(1, 2); !ok {
			return st, false
		}
	} else {
		if digits != 8 || c.pos != 8 {
			return st, false
		}
		y, m, d = y/10000, y/100%100, y%100
	}
	if c.accept('T') || c.accept('t') || c.peek() == ' ' {
		c.spaces()
		if c.peek()-'0' <= 9 && !c.done() {
			if st.us, ok = c.clock(); !ok {
				return st, false
			}
			st.hasTime = true
			c.spaces()
		}
	}
	if b := c.peek(); st.hasTime && (b == '+' || b == '-' || b|0x20 == 'z' || b|0x20 == 'u' || b|0x20 == 'g') {
		if st.west, ok = c.zone(); !ok {
			return st, false
		}
		st.hasZone = true
		c.spaces()
	}
	if c.word("bc") {
		y = 1 - y
	} else {
		c.word("ad")
	}
	if !c.done() || y == 0 && !strings.HasSuffix(strings.ToLower(s), "bc") || m < 1 || m > 12 || d < 1 || d > daysInMonth(y, m) || y > 5_874_897 || y < -4713 {
		return st, false
	}
	st.day = daysFromCivil(y, m, d)
	return st, st.day >= minDay
}

func inputDate(s string) (value, bool) {
	st, ok := parseStamp(trimSpace(s))
	return st.date(ok)
}

func (st stamp) date(ok bool) (value, bool) {
	switch {
	case !ok:
		return value{}, false
	case st.inf < 0:
		return intValue(dateNegInf), true
	case st.inf > 0:
		return intValue(datePosInf), true
	default:
		return intValue(st.day), st.day < endDateDay
	}
}

// timestamp makes a timestamp; west is subtracted from nothing, but added to the local time to get UTC.
func (st stamp) timestamp(west int64, ok bool) (value, bool) {
	switch {
	case !ok:
		return value{}, false
	case st.inf < 0:
		return intValue(tsNegInf), true
	case st.inf > 0:
		return intValue(tsPosInf), true
	case st.day >= endTsDay+1:
		return value{}, false
	}
	us := st.day*usPerDay + st.us + west*usPerSecond
	return intValue(us), validTimestamp(us)
}

func validTimestamp(us int64) bool { return us >= minDay*usPerDay && us < endTsDay*usPerDay }

func inputTimestamp(s string) (value, bool) {
	st, ok := parseStamp(trimSpace(s))
	return st.timestamp(0, ok)
}

// inputTimestamptz takes a text without a zone as UTC, which is every session's TimeZone (protocol.md §7.1).
func inputTimestamptz(s string) (value, bool) {
	st, ok := parseStamp(trimSpace(s))
	return st.timestamp(st.west, ok)
}

func readDate(b []byte) (value, bool) {
	if len(b) == 10 {
		if day, ok := fastDate(b); ok {
			return intValue(day), true
		}
	}
	st, ok := parseStamp(unsafeString(b))
	return st.date(ok)
}

// readTimestamp reads both timestamp types; Postgres writes a zone exactly for the one that has one.
func readTimestamp(b []byte) (value, bool) {
	if us, ok := fastTimestamp(b); ok {
		return intValue(us), true
	}
	st, ok := parseStamp(unsafeString(b))
	return st.timestamp(st.west, ok)
}

func inputTime(s string) (value, bool) { return readTime([]byte(trimSpace(s))) }

func readTime(b []byte) (value, bool) {
	c := cursor{s: unsafeString(b)}
	us, ok := c.clock()
	return intValue(us), ok && c.done()
}

// inputTimetz takes a time without a zone as UTC, like inputTimestamptz.
func inputTimetz(s string) (value, bool) {
	c := cursor{s: trimSpace(s)}
	us, ok := c.clock()
	if !ok {
		return value{}, false
	}
	v := intValue(us)
	c.spaces()
	if !c.done() {
		if v.j, ok = c.zone(); !ok {
			return value{}, false
		}
	}
	return v, c.done()
}

func readTimetz(b []byte) (value, bool) { return inputTimetz(unsafeString(b)) }

// compareTimetz orders by the moment, then by the zone.
func compareTimetz(a, b value) int {
	if c := cmp.Compare(a.i+a.j*usPerSecond, b.i+b.j*usPerSecond); c != 0 {
		return c
	}
	return cmp.Compare(a.j, b.j)
}
