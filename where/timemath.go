package where

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

		"timetz_pl_interval": func(t, iv value) value { return addClock(t, iv.i) },
		"timetz_mi_interval": func(t, iv value) value { return addClock(t, -iv.i) },
		"interval_pl_timetz(interval, time with time zone)":            func(iv, t value) value { return addClock(t, iv.i) },
		"interval_pl_timestamp(interval, timestamp without time zone)": swap(addInterval),
		"interval_pl_timestamptz(interval, timestamp with time zone)":  swap(addInterval),
		"interval_pl_time(interval, time without time zone)":           func(iv, t value) value { return addClock(t, iv.i) },
	} {
		register(key, &builtin{f2: f})
	}
	register("interval_finite", &builtin{infinite: true, f1: func(v value) value { return boolValue(finiteInterval(v)) }})
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
	register("timetz_zone", &builtin{check: checkZone, f2: func(_, t value) value { return shiftZonetz(t, 0) }})
	register("timetz_izone", &builtin{f2: timetzToZone})
	for _, key := range []string{"timestamp_trunc", "timestamptz_trunc"} {
		register(key, &builtin{check: checkTruncUnit, build: buildTrunc})
	}
	register("timestamptz_trunc_zone", &builtin{build: buildTrunc, check: func(n *node) error {
		if err := checkZoneAt(n, 2); err != nil {
			return err
		}
		return checkTruncUnit(n)
	}})
	register("interval_trunc", &builtin{check: checkIntervalTrunc, build: buildIntervalTrunc})
	register("interval_mul", &builtin{f2: mulInterval})
	register("mul_d_interval", &builtin{f2: swap(mulInterval)})
	register("interval_div", &builtin{check: checkIntervalDivisor, f2: divInterval})
	register("timestamp_age", &builtin{f2: age})
	register("timestamptz_age", &builtin{f2: age})
	registerExtract()
	registerOverlaps()
	registerMake()
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

// addClock adds to a time of day, around the clock; the zone of a timetz stays.
func addClock(t value, us int64) value {
	t.i = (t.i + us%usPerDay) % usPerDay
	if t.i < 0 {
		t.i += usPerDay
	}
	return t
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
