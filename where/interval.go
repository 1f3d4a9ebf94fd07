package where

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	daysPerMonth  = 30 // as Postgres compares and justifies intervals
	monthsPerYear = 12
)

// intervalParts adds up the fields of an interval's text; int64 is wide enough for any one field, add checks the sum.
type intervalParts struct{ months, days, us int64 }

func (p *intervalParts) value() (value, bool) {
	if p.months != int64(int32(p.months)) || p.days != int64(int32(p.days)) {
		return value{}, false
	}
	v := value{st: isSet, i: p.us, j: packDays(int32(p.months), int32(p.days))}
	return v, finiteInterval(v)
}

// The infinite intervals, new in Postgres 17, have the extremes in all fields, and so stand before and behind all
// others. Columns may hold them; they are compared, tested by isfinite and written as text. Literals of them are refused,
// since older releases do, and every other function of them fails.
var (
	intervalPosInf = value{st: isSet, i: math.MaxInt64, j: packDays(math.MaxInt32, math.MaxInt32)}
	intervalNegInf = value{st: isSet, i: math.MinInt64, j: packDays(math.MinInt32, math.MinInt32)}
)

// intervalToTime leaves days and months out.
func intervalToTime(v value) value {
	if !finiteInterval(v) {
		return failedValue
	}
	return intValue(v.i - floorDiv(v.i, usPerDay)*usPerDay)
}

func finiteInterval(v value) bool {
	return (v.i != intervalPosInf.i || v.j != intervalPosInf.j) && (v.i != intervalNegInf.i || v.j != intervalNegInf.j)
}

// intervalUnit is one field: how many months, days and µs one of it is.
type intervalUnit struct{ months, days, us int64 }

var intervalUnits = map[string]intervalUnit{}

func init() {
	for names, u := range map[string]intervalUnit{
		"microsecond microseconds usec usecs us usecond useconds": {us: 1},
		"millisecond milliseconds msec msecs ms msecond mseconds": {us: 1000},
		"second seconds sec secs s":                               {us: usPerSecond},
		"minute minutes min mins m":                               {us: usPerMinute},
		"hour hours hr hrs h":                                     {us: usPerHour},
		"day days d":                                              {days: 1},
		"week weeks w":                                            {days: 7},
		"month months mon mons":                                   {months: 1},
		"year years yr yrs y":                                     {months: monthsPerYear},
		"decade decades dec decs":                                 {months: 10 * monthsPerYear},
		"century centuries cent c":                                {months: 100 * monthsPerYear},
		"millennium millennia mil mils":                           {months: 1000 * monthsPerYear},
	} {
		for n := range strings.FieldsSeq(names) {
			intervalUnits[n] = u
		}
	}
}

// add adds n units and, when frac is given, that decimal fraction (".5") of one. A fraction of a month or year is
// refused, since its meaning has changed between releases; other fractions must come out in whole µs.
func (p *intervalParts) add(neg bool, n int64, frac string, u intervalUnit) bool {
	const limit = math.MaxInt64 / (2 * usPerHour) // keeps every product below within 64 bits
	if n > limit || u.us == usPerHour && n > limit/2 {
		return false
	}
	sign := int64(1)
	if neg {
		sign = -1
	}
	months, days, us := n*u.months, n*u.days, n*u.us
	if frac != "" {
		per := u.us + u.days*usPerDay
		f, err := strconv.ParseInt(frac, 10, 64)
		if err != nil || len(frac) > 6 || u.months != 0 {
			return false
		}
		scale := int64(math.Pow10(len(frac)))
		if f*(per%scale)%scale != 0 { // not a whole number of µs
			return false
		}
		part := per/scale*f + per%scale*f/scale
		if u.days != 0 {
			days += part / usPerDay
			part %= usPerDay
		}
		us += part
	}
	p.months += sign * months
	p.days += sign * days
	sum := p.us + sign*us
	if (sum > p.us) != (sign*us > 0) && us != 0 {
		return false
	}
	p.us = sum
	return p.months == int64(int32(p.months)) && p.days == int64(int32(p.days))
}

// inputInterval reads ISO 8601 with designators, hh:mm[:ss], and quantities with units, in the forms of the manual's
// "Interval Input" that depend on no setting.
func inputInterval(s string) (value, bool) {
	s = trimSpace(s)
	if strings.HasPrefix(s, "P") {
		return readInterval([]byte(s))
	}
	c := cursor{s: s}
	var p intervalParts
	if c.accept('@') {
		c.spaces()
	}
	fields, clocks, ago := 0, 0, false
	seen := map[intervalUnit]bool{} // Postgres refuses a unit given twice
	for !c.done() {
		if fields > 0 && c.word("ago") {
			ago = true
			c.spaces()
			if !c.done() {
				return value{}, false
			}
			break
		}
		neg := c.accept('-')
		if !neg {
			c.accept('+')
		}
		start := c.pos
		n, digits, ok := c.number(1, 15)
		if !ok {
			return value{}, false
		}
		if c.peek() == ':' && digits <= 9 {
			c.pos = start
			us, ok := c.longClock()
			if !ok || clocks > 0 {
				return value{}, false
			}
			if neg {
				us = -us
			}
			p.us += us
			clocks++
			fields++
			c.spaces()
			continue
		}
		frac := ""
		if c.accept('.') {
			at := c.pos
			if _, _, ok := c.number(1, 6); !ok {
				return value{}, false
			}
			frac = c.s[at:c.pos]
		}
		c.spaces()
		at := c.pos
		for b := c.peek() | 0x20; b >= 'a' && b <= 'z'; b = c.peek() | 0x20 {
			c.pos++
		}
		u, ok := intervalUnits[strings.ToLower(c.s[at:c.pos])]
		if !ok || seen[u] || clocks > 0 || !p.add(neg, n, frac, u) {
			return value{}, false
		}
		seen[u] = true
		fields++
		c.spaces()
	}
	if fields == 0 || clocks > 0 && (seen[intervalUnit{us: usPerHour}] || seen[intervalUnit{us: usPerMinute}] || seen[intervalUnit{us: usPerSecond}]) {
		return value{}, false
	}
	if ago {
		p = intervalParts{-p.months, -p.days, -p.us}
	}
	return p.value()
}

// longClock reads hh:mm[:ss[.fraction]] with any number of hours.
func (c *cursor) longClock() (int64, bool) {
	h, _, _ := c.number(1, 9)
	c.accept(':')
	m, _, ok := c.number(2, 2)
	if !ok || m > 59 {
		return 0, false
	}
	us := h*usPerHour + m*usPerMinute
	if c.accept(':') {
		s, _, ok := c.number(2, 2)
		if !ok || s > 59 {
			return 0, false
		}
		us += s * usPerSecond
		if c.accept('.') {
			f, ok := c.fraction()
			if !ok {
				return 0, false
			}
			us += f
		}
	}
	return us, true
}

// readInterval reads IntervalStyle iso_8601, "P1Y2M3DT4H5M6.5S" with a sign on each field, infinity and -infinity.
func readInterval(b []byte) (value, bool) {
	switch string(b) {
	case "infinity":
		return intervalPosInf, true
	case "-infinity":
		return intervalNegInf, true
	}
	c := cursor{s: unsafeString(b)}
	if !c.accept('P') || c.done() {
		return value{}, false
	}
	var p intervalParts
	inTime := false
	for !c.done() {
		if !inTime && c.accept('T') {
			inTime = true
			if c.done() {
				return value{}, false
			}
		}
		neg := c.accept('-')
		n, _, ok := c.number(1, 15)
		if !ok {
			return value{}, false
		}
		frac := ""
		if c.accept('.') {
			at := c.pos
			if _, _, ok := c.number(1, 6); !ok {
				return value{}, false
			}
			frac = c.s[at:c.pos]
		}
		var u intervalUnit
		switch letter := c.peek(); {
		case letter == 'Y' && !inTime:
			u.months = monthsPerYear
		case letter == 'M' && !inTime:
			u.months = 1
		case letter == 'W' && !inTime:
			u.days = 7
		case letter == 'D' && !inTime:
			u.days = 1
		case letter == 'H' && inTime:
			u.us = usPerHour
		case letter == 'M' && inTime:
			u.us = usPerMinute
		case letter == 'S' && inTime:
			u.us = usPerSecond
		default:
			return value{}, false
		}
		c.pos++
		if frac != "" && u.us != usPerSecond || !p.add(neg, n, frac, u) {
			return value{}, false
		}
	}
	return p.value()
}

// outputInterval writes what readInterval reads.
func outputInterval(v value) string {
	if !finiteInterval(v) {
		if v.i < 0 {
			return "-infinity"
		}
		return "infinity"
	}
	b := []byte{'P'}
	field := func(n int64, unit byte) {
		if n != 0 {
			b = append(strconv.AppendInt(b, n, 10), unit)
		}
	}
	field(int64(v.months())/monthsPerYear, 'Y')
	field(int64(v.months())%monthsPerYear, 'M')
	field(int64(v.days()), 'D')
	if v.i != 0 {
		b = append(b, 'T')
		field(v.i/usPerHour, 'H')
		field(v.i/usPerMinute%60, 'M')
		if s := v.i % usPerMinute; s != 0 {
			sign := ""
			if s < 0 {
				sign, s = "-", -s
			}
			b = fmt.Appendf(b, "%s%d", sign, s/usPerSecond)
			if f := s % usPerSecond; f != 0 {
				b = append(b, strings.TrimRight(fmt.Sprintf(".%06d", f), "0")...)
			}
			b = append(b, 'S')
		}
	}
	if len(b) == 1 {
		return "PT0S"
	}
	return string(b)
}

// compareInterval takes a month for 30 days and a day for 24 hours, as interval_cmp does; the sum needs more than 64
// bits, so that days and µs are compared one after the other.
func compareInterval(a, b value) int {
	ad, au := a.span()
	bd, bu := b.span()
	if c := cmp.Compare(ad, bd); c != 0 {
		return c
	}
	return cmp.Compare(au, bu)
}

// span returns an interval as whole days and the µs beyond them, 0 to a day.
func (v value) span() (days, us int64) {
	d := floorDiv(v.i, usPerDay)
	return int64(v.months())*daysPerMonth + int64(v.days()) + d, v.i - d*usPerDay
}
