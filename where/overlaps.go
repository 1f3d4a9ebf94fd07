package where

// registerOverlaps adds OVERLAPS for pairs of times, and of a time with a length.
func registerOverlaps() {
	for _, t := range []struct {
		name, key string
		compare   func(a, b value) int
		add       func(t, iv value) value
	}{
		{"time without time zone", "time", compareInt, func(t, iv value) value { return addClock(t, iv.i) }},
		{"timestamp without time zone", "timestamp", compareInt, addInterval},
		{"timestamp with time zone", "", compareInt, addInterval}, // with two times, timestamp's function serves it
		{"", "timetz", compareTimetz, nil},
	} {
		if t.key != "" {
			register("overlaps_"+t.key, &builtin{fn: func(a []value) value { return overlaps(a, t.compare) }})
		}
		if t.add == nil {
			continue
		}
		end := func(a []value, i int) value { return strict2(t.add, a[i], a[i+1]) }
		for _, lengths := range []struct {
			first, second string
			one, two      bool
		}{{"interval", "interval", true, true}, {"interval", t.name, true, false}, {t.name, "interval", false, true}} {
			register("overlaps("+t.name+", "+lengths.first+", "+t.name+", "+lengths.second+")", &builtin{fn: func(a []value) value {
				args := [4]value{a[0], a[1], a[2], a[3]}
				if lengths.one {
					args[1] = end(a, 0)
				}
				if lengths.two {
					args[3] = end(a, 2)
				}
				if args[1].st == isFailed || args[3].st == isFailed {
					return failedValue
				}
				return overlaps(args[:], t.compare)
			}})
		}
	}
}

// overlaps compares two spans, of which each end may be NULL (SQL's definition, with Postgres's reading of NULLs).
func overlaps(a []value, compare func(a, b value) int) value {
	s1, e1, s2, e2 := a[0], a[1], a[2], a[3]
	var ok1, ok2 bool
	if s1, e1, ok1 = span(s1, e1, compare); !ok1 {
		return nullValue
	}
	if s2, e2, ok2 = span(s2, e2, compare); !ok2 {
		return nullValue
	}
	switch c := compare(s1, s2); {
	case c > 0:
		return startsInside(s1, e1, e2, compare)
	case c < 0:
		return startsInside(s2, e2, e1, compare)
	case e1.st == isNull || e2.st == isNull:
		return nullValue
	default:
		return boolValue(true)
	}
}

// span puts the lesser end first, or the one that is there.
func span(start, end value, compare func(a, b value) int) (value, value, bool) {
	switch {
	case start.st == isNull && end.st == isNull:
		return start, end, false
	case start.st == isNull, end.st != isNull && compare(start, end) > 0:
		return end, start, true
	default:
		return start, end, true
	}
}

// startsInside is for a span that begins after another one: whether it does so before the other ends.
func startsInside(start, end, otherEnd value, compare func(a, b value) int) value {
	switch {
	case otherEnd.st == isNull:
		return nullValue
	case compare(start, otherEnd) < 0:
		return boolValue(true)
	case end.st == isNull:
		return nullValue
	default:
		return boolValue(false)
	}
}
