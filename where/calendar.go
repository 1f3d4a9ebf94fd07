package where

import "math"

// The infinities of the date and time types, and the unit of everything smaller than a day.
const (
	dateNegInf = math.MinInt32
	datePosInf = math.MaxInt32
	tsNegInf   = math.MinInt64
	tsPosInf   = math.MaxInt64

	usPerSecond = 1_000_000
	usPerMinute = 60 * usPerSecond
	usPerHour   = 60 * usPerMinute
	usPerDay    = 24 * usPerHour

	// minDay is 4714-11-24 BC, the first day of every type with a date; the last ones follow (manual, "Date/Time
	// Types", table of ranges). All count from 2000-01-01.
	minDay     = -2451545
	endDateDay = 2145031949 // 5874898-01-01
	endTsDay   = 106751983  // 294277-01-01
)

// daysFromCivil counts days from 2000-01-01 in the proleptic Gregorian calendar; year 0 is 1 BC.
func daysFromCivil(y, m, d int64) int64 {
	if m <= 2 {
		y--
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	mp := (m + 9) % 12
	doy := (153*mp+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 730425
}

// civilFromDays is the inverse of daysFromCivil.
func civilFromDays(n int64) (y, m, d int64) {
	n += 730425
	era := floorDiv(n, 146097)
	doe := n - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func daysInMonth(y, m int64) int64 {
	switch m {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	default:
		return 31
	}
}
