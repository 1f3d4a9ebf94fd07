package where

import (
	"strings"

	"github.com/shapeserver/shapeserver/changes"
)

// registerTimes adds the arithmetic of dates and times. A timestamptz behaves as a timestamp, since every session is
// in UTC (protocol.md §7.1).
func registerTimes() {
	swap := func(f func(a, b value) value) func(a, b value) value {
		return func(a, b value) value { return f(b, a) }
	}
	for key, f := range map[string]func(a, b value) value{
		"date_pli":                                  func(d, n value) value { return addDays(d, n.i) },
		"integer_pl_date(integer, date)":            func(n, d value) value { return addDays(d, n.i) },
		"date_mii":                                  func(d, n value) value { return addDays(d, -n.i) },
		"date_mi":                                   subtractDates,
		"date_pl_interval":                          func(d, iv value) value { return strict2(addInterval, dateToTimestamp(d), iv) },
		"interval_pl_date(interval, date)":          func(iv, d value) value { return strict2(addInterval, dateToTimestamp(d), iv) },
		"date_mi_interval":                          func(d, iv value) value { return strict2(subInterval, dateToTimestamp(d), iv) },
		"timestamp_pl_interval":                     addInterval,
		"timestamptz_pl_interval":                   addInterval,
		"timestamp_mi_interval":                     subInterval,
		"timestamptz_mi_interval":                   subInterval,
		"time_pl_interval":                          func(t, iv value) value { return addClock(t, iv.i) },
		"time_mi_interval":                          func(t, iv value) value { return addClock(t, -iv.i) },
		"time_mi_time":                              func(a, b value) value { return value{st: isSet, i: a.i - b.i} },
		"datetime_timestamp":                        dateAndTime,
		"timedate_pl(time without time zone, date)": swap(dateAndTime),
		"timestamp_mi":                              subtractTimestamps,
		"interval_pl":                               func(a, b value) value { return addIntervals(a, b, 1) },
		"interval_mi":                               func(a, b value) value { return addIntervals(a, b, -1) },

		"interval_pl_timestamp(interval, timestamp without time zone)": swap(addInterval),
		"interval_pl_timestamptz(interval, timestamp with time zone)":  swap(addInterval),
		"interval_pl_time(interval, time without time zone)":           func(iv, t value) value { return addClock(t, iv.i) },
	} {
		register(key, &builtin{f2: f})
	}
	register("interval_um", &builtin{f1: func(v value) value { return addIntervals(value{st: isSet}, v, -1) }})
	register("interval_justify_hours", &builtin{f1: justifyHours})
	register("interval_justify_days", &builtin{f1: justifyDays})
	register("interval_justify_interval", &builtin{f1: justifyInterval})
	register("date_finite", &builtin{f1: func(v value) value { return boolValue(v.i != dateNegInf && v.i != datePosInf) }})
	register("timestamp_finite", &builtin{f1: func(v value) value { return boolValue(!infinite(v)) }})

	for _, key := range []string{"timestamp_zone", "timestamptz_zone"} {
		register(key, &builtin{check: checkZone, f2: func(_, ts value) value { return ts }})
	}
	register("timestamptz_izone", &builtin{f2: func(zone, ts value) value { return shiftZone(zone, ts, 1) }})
	register("timestamp_izone", &builtin{f2: func(zone, ts value) value { return shiftZone(zone, ts, -1) }})
	for _, key := range []string{"timestamp_trunc", "timestamptz_trunc"} {
		register(key, &builtin{check: checkTruncUnit, build: buildTrunc})
	}
}

func infinite(ts value) bool { return ts.i == tsNegInf || ts.i == tsPosInf }

func addDays(d value, n int64) value {
	if d.i == dateNegInf || d.i == datePosInf {
		return d
	}
	return within(d.i+n, minDay, endDateDay-1)
}

func subtractDates(a, b value) value {
	for _, d := range []value{a, b} {
		if d.i == dateNegInf || d.i == datePosInf {
			return failedValue
		}
	}
	return within(a.i-b.i, -1<<31, 1<<31-1)
}

// addInterval adds the months to the calendar date, keeping the day within the month, then the days, then the time.
func addInterval(ts, iv value) value { return shift(ts, int64(iv.months()), int64(iv.days()), iv.i) }

func subInterval(ts, iv value) value {
	if iv.i == minInt64 || iv.months() == -1<<31 || iv.days() == -1<<31 {
		return failedValue
	}
	return shift(ts, -int64(iv.months()), -int64(iv.days()), -iv.i)
}

func shift(ts value, months, days, us int64) value {
	if infinite(ts) {
		return ts
	}
	day := floorDiv(ts.i, usPerDay)
	clock := ts.i - day*usPerDay
	if months != 0 {
		y, m, d := civilFromDays(day)
		total := y*monthsPerYear + m - 1 + months
		y = floorDiv(total, monthsPerYear)
		m = total - y*monthsPerYear + 1
		day = daysFromCivil(y, m, min(d, daysInMonth(y, m)))
		if day < minDay || day >= endTsDay {
			return failedValue
		}
	}
	if day += days; day < minDay || day >= endTsDay {
		return failedValue
	}
	out, ok := addInt(day*usPerDay+clock, us)
	if !ok || !validTimestamp(out) {
		return failedValue
	}
	return intValue(out)
}

// addClock adds to a time of day, around the clock.
func addClock(t value, us int64) value {
	out := (t.i + us%usPerDay) % usPerDay
	if out < 0 {
		out += usPerDay
	}
	return intValue(out)
}

func dateAndTime(d, t value) value {
	ts := dateToTimestamp(d)
	if ts.st != isSet || infinite(ts) {
		return ts
	}
	if ts.i += t.i; !validTimestamp(ts.i) {
		return failedValue
	}
	return ts
}

func subtractTimestamps(a, b value) value {
	if infinite(a) || infinite(b) {
		return failedValue
	}
	us, ok := subInt(a.i, b.i)
	if !ok {
		return failedValue
	}
	return justifyHours(value{st: isSet, i: us})
}

func addIntervals(a, b value, sign int64) value {
	bus := b.i
	if sign < 0 {
		if bus == minInt64 {
			return failedValue
		}
		bus = -bus
	}
	us, ok := addInt(a.i, bus)
	if !ok {
		return failedValue
	}
	return interval(int64(a.months())+sign*int64(b.months()), int64(a.days())+sign*int64(b.days()), us)
}

// interval makes an interval of its fields, which fail beyond 32 bits.
func interval(months, days, us int64) value {
	p := intervalParts{months, days, us}
	v, ok := p.value()
	if !ok {
		return failedValue
	}
	return v
}

// justifyHours turns 24 hours into a day, and makes days and time have one sign.
func justifyHours(v value) value {
	days := v.i / usPerDay
	us := v.i - days*usPerDay
	total := int64(v.days()) + days
	if total > 0 && us < 0 {
		us += usPerDay
		total--
	} else if total < 0 && us > 0 {
		us -= usPerDay
		total++
	}
	return interval(int64(v.months()), total, us)
}

// justifyDays turns 30 days into a month, and makes months and days have one sign.
func justifyDays(v value) value {
	months := int64(v.days()) / daysPerMonth
	days := int64(v.days()) - months*daysPerMonth
	total := int64(v.months()) + months
	if total > 0 && days < 0 {
		days += daysPerMonth
		total--
	} else if total < 0 && days > 0 {
		days -= daysPerMonth
		total++
	}
	return interval(total, days, v.i)
}

// justifyInterval does both and gives all three fields one sign.
func justifyInterval(v value) value {
	months, days, us := int64(v.months()), int64(v.days()), v.i
	// Postgres first brings the days down, if that makes the time's carry fit.
	if days > 0 && us > 0 || days < 0 && us < 0 {
		months += days / daysPerMonth
		days %= daysPerMonth
	}
	days += us / usPerDay
	us %= usPerDay
	months += days / daysPerMonth
	days %= daysPerMonth
	if months > 0 && (days < 0 || days == 0 && us < 0) {
		days += daysPerMonth
		months--
	} else if months < 0 && (days > 0 || days == 0 && us > 0) {
		days -= daysPerMonth
		months++
	}
	if days > 0 && us < 0 {
		us += usPerDay
		days--
	} else if days < 0 && us > 0 {
		us -= usPerDay
		days++
	}
	return interval(months, days, us)
}

// checkZone takes UTC only: rules of other zones differ between releases of the time zone database.
func checkZone(n *node) error {
	zone := n.args[0]
	if !zone.isConst() || zone.val.st == isNull {
		return errorAt(zone.loc, "AT TIME ZONE is supported with a constant zone only")
	}
	switch strings.ToLower(string(zone.val.b)) {
	case "utc", "gmt", "etc/utc", "zulu", "z", "etc/gmt", "uct", "universal":
		return nil
	default:
		return errorAt(zone.loc, "time zone %q is not supported; UTC and an interval such as interval '2 hours' are", zone.val.b)
	}
}

// shiftZone moves by a zone that is given as an interval east of UTC.
func shiftZone(zone, ts value, sign int64) value {
	if infinite(ts) {
		return ts // whatever the zone
	}
	if zone.j != 0 {
		return failedValue
	}
	us, ok := addInt(ts.i, sign*(zone.i/usPerSecond*usPerSecond))
	if !ok || !validTimestamp(us) {
		return failedValue
	}
	return intValue(us)
}

// truncUnits are the units of date_trunc that take a constant number of µs.
var truncUnits = map[string]int64{
	"microseconds": 1, "microsecond": 1, "milliseconds": 1000, "millisecond": 1000, "second": usPerSecond, "seconds": usPerSecond,
	"minute": usPerMinute, "minutes": usPerMinute, "hour": usPerHour, "hours": usPerHour, "day": usPerDay, "days": usPerDay,
}

// truncYears are those that take a number of years.
var truncYears = map[string]int64{
	"year": 1, "years": 1, "decade": 10, "decades": 10, "century": 100, "centuries": 100, "millennium": 1000, "millennia": 1000,
}

func truncUnit(n *node) string { return strings.ToLower(string(n.args[0].val.b)) }

func checkTruncUnit(n *node) error {
	if u := n.args[0]; !u.isConst() || u.val.st == isNull {
		return errorAt(u.loc, "%s is supported with a constant unit only", n.fn.name)
	}
	unit := truncUnit(n)
	switch {
	case truncUnits[unit] != 0, truncYears[unit] != 0:
	case unit == "week", unit == "weeks", unit == "month", unit == "months", unit == "mon", unit == "quarter":
	default:
		return errorAt(n.args[0].loc, "unit %q is not supported for %s", unit, n.fn.name)
	}
	return nil
}

func buildTrunc(n *node) eval {
	arg, unit := compile(n.args[1]), truncUnit(n)
	trunc := truncDay(unit)
	if us := truncUnits[unit]; us != 0 {
		trunc = func(ts int64) int64 { return floorDiv(ts, us) * us }
	}
	return func(row changes.Row) value {
		v := arg(row)
		if v.st != isSet || infinite(v) {
			return v
		}
		if v.i = trunc(v.i); !validTimestamp(v.i) {
			return failedValue
		}
		return v
	}
}

// truncDay truncates to units of the calendar.
func truncDay(unit string) func(ts int64) int64 {
	years := truncYears[unit]
	return func(ts int64) int64 {
		day := floorDiv(ts, usPerDay)
		y, m, _ := civilFromDays(day)
		switch {
		case strings.HasPrefix(unit, "week"):
			// 2000-01-01, day 0, was a Saturday; weeks begin on Monday.
			day -= ((day+5)%7 + 7) % 7
			return day * usPerDay
		case strings.HasPrefix(unit, "mon"):
		case unit == "quarter":
			m -= (m - 1) % 3
		case years <= 10:
			m, y = 1, floorDiv(y, years)*years
		default:
			// Centuries and millennia begin with year 1, 101, …, and there is no year 0: before 1 AD they are
			// counted backwards from 1 BC, which is y = 0 here.
			m, y = 1, floorDiv(y-1, years)*years+1
		}
		return daysFromCivil(y, m, 1) * usPerDay
	}
}
