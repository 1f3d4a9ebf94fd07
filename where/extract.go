package where

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/shapeserver/shapeserver/changes"
)

// part is a field of a date, time or interval: units × 10^-scale as extract gives it, and what date_part computes in
// double precision, which is not always the same number.
type part struct {
	units  int64
	scale  int
	double float64
	num    value // instead of units, where set
}

func whole(n int64) part { return part{units: n, double: float64(n)} }

func (p part) numeric() value {
	switch {
	case p.num.st == isSet:
		return p.num
	case p.scale == 0:
		return bytesValue(strconv.AppendInt(nil, p.units, 10))
	default:
		return decimal{big.NewInt(p.units), p.scale}.value()
	}
}

// fieldNames maps the names of fields that the manual lists, and their other number, to one name each. Postgres takes
// abbreviations as well; what is not here is refused.
var fieldNames = map[string]string{
	"microsecond": "microseconds", "microseconds": "microseconds", "millisecond": "milliseconds", "milliseconds": "milliseconds",
	"second": "second", "seconds": "second", "minute": "minute", "minutes": "minute", "hour": "hour", "hours": "hour", "day": "day", "days": "day",
	"week": "week", "weeks": "week", "month": "month", "months": "month", "quarter": "quarter", "year": "year", "years": "year",
	"decade": "decade", "decades": "decade", "century": "century", "centuries": "century", "millennium": "millennium", "millennia": "millennium",
	"dow": "dow", "doy": "doy", "isodow": "isodow", "isoyear": "isoyear", "julian": "julian", "epoch": "epoch",
	"timezone": "timezone", "timezone_hour": "timezone_hour", "timezone_minute": "timezone_minute",
}

// The fields that each type has.
const (
	clockFields    = " microseconds milliseconds second minute hour "
	zoneFields     = " timezone timezone_hour timezone_minute "
	calendarFields = " day week month quarter year decade century millennium dow doy isodow isoyear julian epoch "
	// The quarter of a negative interval differs between releases.
	intervalFields = clockFields + " day month year decade century millennium epoch "
	// monotonicFields grow with time, so that they are infinite for an infinite time; the others are NULL then.
	monotonicFields = " year decade century millennium isoyear julian epoch "
)

func hasField(set, field string) bool { return strings.Contains(set, " "+field+" ") }

func registerExtract() {
	for _, f := range []struct {
		key, fields string
		get         func(field string) func(value) part
		infinite    func(value) int // 1 and -1 for the infinities
		numeric     bool
	}{
		{"extract_date", calendarFields, dateField, infiniteDate, true},
		{"date_part(text, date)", clockFields + calendarFields, nil, infiniteDate, false},
		{"extract_timestamp", clockFields + calendarFields, timestampField, infiniteTimestamp, true},
		{"timestamp_part", clockFields + calendarFields, timestampField, infiniteTimestamp, false},
		{"extract_timestamptz", clockFields + calendarFields + zoneFields, timestampField, infiniteTimestamp, true},
		{"timestamptz_part", clockFields + calendarFields + zoneFields, timestampField, infiniteTimestamp, false},
		{"extract_time", clockFields + " epoch ", timeField, nil, true},
		{"time_part", clockFields + " epoch ", timeField, nil, false},
		{"extract_timetz", clockFields + zoneFields + " epoch ", timeField, nil, true},
		{"timetz_part", clockFields + zoneFields + " epoch ", timeField, nil, false},
		{"extract_interval", intervalFields, intervalField, nil, true},
		{"interval_part", intervalFields, intervalField, nil, false},
	} {
		register(f.key, &builtin{check: checkField(f.fields), build: func(n *node) eval {
			field := fieldNames[constantWord(n.args[0])]
			arg, get, infinite := compile(n.args[1]), f.get, f.infinite
			if get == nil {
				arg, get, infinite = dateAsTimestamp(arg), timestampField, infiniteTimestamp
			}
			return buildPart(arg, get(field), infinite, hasField(monotonicFields, field), f.numeric)
		}})
	}
}

// constantWord is the text of a constant argument that names something, in lower case.
func constantWord(n *node) string { return strings.ToLower(string(n.val.b)) }

func checkField(fields string) func(*node) error {
	return func(n *node) error {
		k := n.args[0]
		if !k.isConst() || k.val.st == isNull {
			return errorAt(k.loc, "%s is supported with a constant field only", n.fn.name)
		}
		if field := fieldNames[constantWord(k)]; field == "" || !hasField(fields, field) {
			return errorAt(max(k.loc, 0), "field %q is not supported for %s of type %s", excerpt(string(k.val.b)), n.fn.name, n.args[1].typ)
		}
		return nil
	}
}

func buildPart(arg eval, get func(value) part, infinite func(value) int, monotonic, numeric bool) eval {
	return func(row changes.Row) value {
		v := arg(row)
		if v.st != isSet {
			return v
		}
		if infinite != nil {
			if sign := infinite(v); sign != 0 {
				switch {
				case !monotonic:
					return nullValue
				case numeric:
					return numericInf(sign)
				default:
					return floatInf(sign)
				}
			}
		}
		p := get(v)
		if numeric {
			return p.numeric()
		}
		return floatValue(p.double)
	}
}

func dateAsTimestamp(arg eval) eval {
	return func(row changes.Row) value {
		v := arg(row)
		if v.st != isSet {
			return v
		}
		return dateToTimestamp(v)
	}
}

func infiniteDate(v value) int {
	switch v.i {
	case dateNegInf:
		return -1
	case datePosInf:
		return 1
	default:
		return 0
	}
}

func infiniteTimestamp(v value) int {
	switch v.i {
	case tsNegInf:
		return -1
	case tsPosInf:
		return 1
	default:
		return 0
	}
}

// clockField takes a field out of µs, which may be negative or more than a day for an interval.
func clockField(field string, us int64) part {
	sec, frac := us/usPerSecond%60, us%usPerSecond
	inMinute := us % usPerMinute
	switch field {
	case "microseconds":
		return whole(inMinute)
	case "milliseconds":
		return part{units: inMinute, scale: 3, double: float64(sec*1000) + float64(frac)/1000}
	case "second":
		return part{units: inMinute, scale: 6, double: float64(sec) + float64(frac)/usPerSecond}
	case "minute":
		return whole(us / usPerMinute % 60)
	default:
		return whole(us / usPerHour)
	}
}

// calendarField takes a field out of a day.
func calendarField(field string, day int64) part {
	y, m, d := civilFromDays(day)
	// Years are astronomical here, 0 is 1 BC; backwards rounds away from 0 as in the AD years.
	backwards := func(n int64) int64 { return -((n - 1 - (y - 1)) / n) }
	switch field {
	case "day":
		return whole(d)
	case "month":
		return whole(m)
	case "quarter":
		return whole((m-1)/3 + 1)
	case "week":
		thursday := day - isoWeekday(day) + 4
		ty, _, _ := civilFromDays(thursday)
		return whole((thursday-daysFromCivil(ty, 1, 1))/7 + 1)
	case "isoyear":
		ty, _, _ := civilFromDays(day - isoWeekday(day) + 4)
		return whole(historicYear(ty))
	case "year":
		return whole(historicYear(y))
	case "decade":
		return whole(floorDiv(y, 10))
	case "century":
		if y > 0 {
			return whole((y + 99) / 100)
		}
		return whole(backwards(100))
	case "millennium":
		if y > 0 {
			return whole((y + 999) / 1000)
		}
		return whole(backwards(1000))
	case "dow":
		return whole(isoWeekday(day) % 7)
	case "isodow":
		return whole(isoWeekday(day))
	case "doy":
		return whole(day - daysFromCivil(y, 1, 1) + 1)
	case "julian":
		return whole(day - minDay)
	default:
		return whole((day - unixEpochDay) * secondsPerDay)
	}
}

const (
	secondsPerDay = usPerDay / usPerSecond
	unixEpochDay  = -10957 // 1970-01-01
)

// isoWeekday is 1 on Mondays and 7 on Sundays; 2000-01-01, day 0, was a Saturday.
func isoWeekday(day int64) int64 { return day + 5 - floorDiv(day+5, 7)*7 + 1 }

// historicYear has no year 0.
func historicYear(y int64) int64 {
	if y <= 0 {
		y--
	}
	return y
}

func dateField(field string) func(value) part {
	return func(v value) part { return calendarField(field, v.i) }
}

// timestampField also serves timestamptz, whose zone is UTC (protocol.md §7.1).
func timestampField(field string) func(value) part {
	return func(v value) part {
		day := floorDiv(v.i, usPerDay)
		us := v.i - day*usPerDay
		switch {
		case field == "epoch":
			return epochOf(v.i)
		case field == "julian":
			p := calendarField(field, day)
			p.num = addNumeric(p.numeric(), divDecimal(decimal{big.NewInt(us), 0}, decimal{big.NewInt(usPerDay), 0}))
			p.double += (float64(us/usPerSecond) + float64(us%usPerSecond)/usPerSecond) / secondsPerDay
			return p
		case hasField(clockFields, field):
			return clockField(field, us)
		case hasField(zoneFields, field):
			return whole(0)
		default:
			return calendarField(field, day)
		}
	}
}

// epochOf counts seconds from 1970; the last µs of a timestamp do not fit 64 bits as a difference.
func epochOf(ts int64) part {
	const epoch = unixEpochDay * usPerDay
	if us, ok := subInt(ts, epoch); ok {
		return part{units: us, scale: 6, double: float64(us) / usPerSecond}
	}
	sum := new(big.Int).Sub(big.NewInt(ts), big.NewInt(epoch))
	return part{num: decimal{sum, 6}.value(), double: (float64(ts) - epoch) / usPerSecond}
}

// timeField serves time and timetz, whose zone is kept in seconds west.
func timeField(field string) func(value) part {
	return func(v value) part {
		switch field {
		case "epoch":
			return part{units: v.i + v.j*usPerSecond, scale: 6, double: float64(v.i)/usPerSecond + float64(v.j)}
		case "timezone":
			return whole(-v.j)
		case "timezone_minute":
			return whole(-v.j / 60 % 60)
		case "timezone_hour":
			return whole(-v.j / 3600)
		default:
			return clockField(field, v.i)
		}
	}
}

// intervalField counts a year as 365.25 days and a month as 30 for the epoch, as Postgres does.
func intervalField(field string) func(value) part {
	return func(v value) part {
		years, months := int64(v.months())/monthsPerYear, int64(v.months())%monthsPerYear
		switch field {
		case "day":
			return whole(int64(v.days()))
		case "month":
			return whole(months)
		case "year":
			return whole(years)
		case "decade":
			return whole(years / 10)
		case "century":
			return whole(years / 100)
		case "millennium":
			return whole(years / 1000)
		case "epoch":
			days4 := years*1461 + months*4*daysPerMonth + 4*int64(v.days())
			secs := days4 * (secondsPerDay / 4)
			us := new(big.Int).Mul(big.NewInt(secs), big.NewInt(usPerSecond))
			// Each addend is a whole number below 2^53 but the first, so that only the sums round.
			double := float64(v.i) / usPerSecond
			double += float64(years * 1461 * (secondsPerDay / 4))
			double += float64(months * daysPerMonth * secondsPerDay)
			double += float64(int64(v.days()) * secondsPerDay)
			return part{num: decimal{us.Add(us, big.NewInt(v.i)), 6}.value(), double: double}
		default:
			return clockField(field, v.i)
		}
	}
}

func floatInf(sign int) value {
	if sign < 0 {
		return floatNegInf
	}
	return floatPosInf
}
