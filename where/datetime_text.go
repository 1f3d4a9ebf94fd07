package where

// fastDate reads the ten characters of "yyyy-mm-dd"; ok is false for every other text, valid or not.
func fastDate(b []byte) (day int64, ok bool) {
	if b[4] != '-' || b[7] != '-' {
		return 0, false
	}
	y, ok1 := twoDigits(b[0], b[1])
	y2, ok2 := twoDigits(b[2], b[3])
	m, ok3 := twoDigits(b[5], b[6])
	d, ok4 := twoDigits(b[8], b[9])
	if y = y*100 + y2; !ok1 || !ok2 || !ok3 || !ok4 || y < 1 || m < 1 || m > 12 || d < 1 || d > daysInMonth(y, m) {
		return 0, false
	}
	return daysFromCivil(y, m, d), true
}

func twoDigits(a, b byte) (int64, bool) {
	a, b = a-'0', b-'0'
	return int64(a)*10 + int64(b), a <= 9 && b <= 9
}

// fastTimestamp reads "yyyy-mm-dd hh:mm:ss", perhaps with up to six digits of a fraction and "+00".
func fastTimestamp(b []byte) (us int64, ok bool) {
	if n := len(b); n > 19 && b[n-3] == '+' && b[n-2] == '0' && b[n-1] == '0' {
		b = b[:n-3]
	}
	if len(b) < 19 || b[10] != ' ' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	day, ok1 := fastDate(b)
	h, ok2 := twoDigits(b[11], b[12])
	m, ok3 := twoDigits(b[14], b[15])
	s, ok4 := twoDigits(b[17], b[18])
	if !ok1 || !ok2 || !ok3 || !ok4 || h > 23 || m > 59 || s > 59 {
		return 0, false
	}
	us = day*usPerDay + h*usPerHour + m*usPerMinute + s*usPerSecond
	if len(b) == 19 {
		return us, true
	}
	if b[19] != '.' || len(b) > 26 || len(b) == 20 {
		return 0, false
	}
	unit := int64(usPerSecond)
	for _, c := range b[20:] {
		if c -= '0'; c > 9 {
			return 0, false
		}
		unit /= 10
		us += int64(c) * unit
	}
	return us, true
}
