package where

import (
	"strings"

	"github.com/shapeserver/shapeserver/changes"
)

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

func checkIntervalTrunc(n *node) error {
	if err := checkTruncUnit(n); err != nil {
		return err
	}
	if unit := truncUnit(n); truncInterval(unit) == nil {
		return errorAt(n.args[0].loc, "unit %q is not supported for %s of an interval", unit, n.fn.name)
	}
	return nil
}

func buildIntervalTrunc(n *node) eval {
	arg, trunc := compile(n.args[1]), truncInterval(truncUnit(n))
	return func(row changes.Row) value {
		v := arg(row)
		if v.st != isSet {
			return v
		}
		return trunc(v)
	}
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
