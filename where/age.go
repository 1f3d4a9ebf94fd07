package where

// age is the difference of two timestamps in years, months, days and time of the calendar (timestamp_age). The days of
// a month that is not full are counted in the month of the earlier of the two.
func age(a, b value) value {
	if infinite(a) || infinite(b) {
		return failedValue // releases differ: an infinite interval since 17, before that a large one
	}
	sign := int64(1)
	if a.i < b.i {
		a, b, sign = b, a, -1
	}
	aDay, bDay := floorDiv(a.i, usPerDay), floorDiv(b.i, usPerDay)
	us := a.i - aDay*usPerDay - (b.i - bDay*usPerDay)
	ay, am, ad := civilFromDays(aDay)
	by, bm, bd := civilFromDays(bDay)
	months, days := (ay-by)*monthsPerYear+am-bm, ad-bd
	if us < 0 {
		us += usPerDay
		days--
	}
	for days < 0 {
		days += daysInMonth(by, bm)
		months--
	}
	return interval(sign*months, sign*days, sign*us)
}
