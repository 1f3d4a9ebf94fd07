package where

import "math"

// registerMake adds the functions that make dates and times of numbers.
func registerMake() {
	register("make_date", &builtin{fn: func(a []value) value { return makeDate(a[0].i, a[1].i, a[2].i) }})
	register("make_time", &builtin{fn: func(a []value) value { return makeClock(a[0].i, a[1].i, a[2].float()) }})
	register("make_timestamp", &builtin{fn: func(a []value) value {
		day, clock := makeDate(a[0].i, a[1].i, a[2].i), makeClock(a[3].i, a[4].i, a[5].float())
		if day.st != isSet || clock.st != isSet {
			return failedValue
		}
		return dateAndTime(day, clock)
	}})
	register("make_interval", &builtin{fn: makeInterval, check: checkMakeInterval})
	register("float8_timestamptz", &builtin{f1: timestampOfEpoch})
	register("timestamptz(date, time without time zone)", &builtin{f2: dateAndTime})
	register("datetimetz_timestamptz", &builtin{f2: dateAndTimetz})
	register("timetzdate_pl(time with time zone, date)", &builtin{f2: func(t, d value) value { return dateAndTimetz(d, t) }})
}

// makeDate takes negative years for BC.
func makeDate(y, m, d int64) value {
	if y == 0 {
		return failedValue
	}
	if y < 0 {
		y++
	}
	// The bounds keep the day number within 64 bits; the exact ones follow.
	if y < -4713 || y > 5_874_897 || m < 1 || m > monthsPerYear || d < 1 || d > daysInMonth(y, m) {
		return failedValue
	}
	return within(daysFromCivil(y, m, d), minDay, endDateDay-1)
}

// makeClock rounds seconds to µs and takes 24:00:00 for the end of the day.
func makeClock(h, m int64, seconds float64) value {
	us := math.RoundToEven(seconds * usPerSecond)
	if h < 0 || h > 24 || m < 0 || m > 59 || !(us >= 0 && us <= usPerMinute) {
		return failedValue
	}
	total := h*usPerHour + m*usPerMinute + int64(us)
	if total > usPerDay {
		return failedValue
	}
	return intValue(total)
}

// checkMakeInterval wants constants where a sum of columns could overflow, which wraps around before Postgres 17 and is
// an error since.
func checkMakeInterval(n *node) error {
	constant := func(i int) bool { return i >= len(n.args) || n.args[i].isConst() }
	zero := func(i int) bool { return i >= len(n.args) || n.args[i].isConst() && n.args[i].val.i == 0 }
	const years, months, weeks, days, seconds = 0, 1, 2, 3, 6
	if !constant(years) || !constant(weeks) || !constant(seconds) || !zero(years) && !constant(months) || !zero(weeks) && !constant(days) {
		return errorAt(n.loc, "%s with columns for years, weeks or seconds is not supported; write a product such as n * interval '1 year'", n.fn.name)
	}
	return nil
}

// makeInterval takes years, months, weeks, days, hours, minutes and seconds, each 0 where it is left off.
func makeInterval(args []value) value {
	var n [6]int64
	for i := range min(len(args), len(n)) {
		n[i] = args[i].i
	}
	seconds := 0.0
	if len(args) > len(n) {
		seconds = math.RoundToEven(args[len(n)].float() * usPerSecond)
	}
	if !(math.Abs(seconds) < 1<<62) {
		return failedValue
	}
	us := n[4]*usPerHour + n[5]*usPerMinute // 32-bit factors cannot overflow 64 bits
	us, ok := addInt(us, int64(seconds))
	if !ok {
		return failedValue
	}
	return interval(n[0]*monthsPerYear+n[1], n[2]*7+n[3], us)
}

// timestampOfEpoch is to_timestamp: seconds from 1970.
func timestampOfEpoch(v value) value {
	f := v.float()
	switch {
	case math.IsNaN(f):
		return failedValue
	case math.IsInf(f, 1):
		return intValue(tsPosInf)
	case math.IsInf(f, -1):
		return intValue(tsNegInf)
	case f < secondsPerDay*(minDay-unixEpochDay), f >= secondsPerDay*(endTsDay-unixEpochDay):
		return failedValue
	}
	us := math.RoundToEven(float64(f+secondsPerDay*unixEpochDay) * usPerSecond)
	if us >= 1<<63 || !validTimestamp(int64(us)) {
		return failedValue
	}
	return intValue(int64(us))
}

func dateAndTimetz(d, t value) value {
	ts := dateToTimestamp(d)
	if ts.st != isSet || infinite(ts) {
		return ts
	}
	if ts.i += t.i + t.j*usPerSecond; !validTimestamp(ts.i) {
		return failedValue
	}
	return ts
}
