package where

import (
	"fmt"
	"strings"
)

func appendDate(b []byte, day int64) (out []byte, bc bool) {
	y, m, d := civilFromDays(day)
	if bc = y <= 0; bc {
		y = 1 - y
	}
	return fmt.Appendf(b, "%04d-%02d-%02d", y, m, d), bc
}

func appendClock(b []byte, us int64) []byte {
	b = fmt.Appendf(b, "%02d:%02d:%02d", us/usPerHour, us/usPerMinute%60, us/usPerSecond%60)
	if f := us % usPerSecond; f != 0 {
		b = append(b, strings.TrimRight(fmt.Sprintf(".%06d", f), "0")...)
	}
	return b
}

func appendZone(b []byte, west int64) []byte {
	sign := byte('-')
	if west <= 0 {
		sign, west = '+', -west
	}
	b = fmt.Appendf(append(b, sign), "%02d", west/3600)
	if west%3600 != 0 {
		b = fmt.Appendf(b, ":%02d", west/60%60)
	}
	if west%60 != 0 {
		b = fmt.Appendf(b, ":%02d", west%60)
	}
	return b
}

func outputDate(v value) string {
	switch v.i {
	case dateNegInf:
		return "-infinity"
	case datePosInf:
		return "infinity"
	}
	b, bc := appendDate(nil, v.i)
	if bc {
		b = append(b, " BC"...)
	}
	return string(b)
}

func outputTime(v value) string { return string(appendClock(nil, v.i)) }

func outputTimetz(v value) string { return string(appendZone(appendClock(nil, v.i), v.j)) }

func outputTimestamp(v value) string { return formatTimestamp(v.i, "") }

func outputTimestamptz(v value) string { return formatTimestamp(v.i, "+00") }

func formatTimestamp(us int64, zone string) string {
	switch us {
	case tsNegInf:
		return "-infinity"
	case tsPosInf:
		return "infinity"
	}
	day := floorDiv(us, usPerDay)
	b, bc := appendDate(nil, day)
	b = append(appendClock(append(b, ' '), us-day*usPerDay), zone...)
	if bc {
		b = append(b, " BC"...)
	}
	return string(b)
}
