package where

import "math"

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

// roundMicro is TSROUND: it takes off what is below a millionth.
func roundMicro(f float64) float64 { return math.RoundToEven(f*usPerSecond) / usPerSecond }

// scaleInterval multiplies each field by a factor and hands what is left of months and days down to days and time.
// scale is the multiplication or division by the factor, as the C code of interval_mul and interval_div has it.
func scaleInterval(iv value, scale func(float64) float64) value {
	m, d := scale(float64(iv.months())), scale(float64(iv.days()))
	if !(m >= math.MinInt32 && m <= math.MaxInt32 && d >= math.MinInt32 && d <= math.MaxInt32) { // NaN as well
		return failedValue
	}
	months, days := math.Trunc(m), math.Trunc(d)
	restDays := roundMicro((m - months) * daysPerMonth)
	seconds := roundMicro((d - days + restDays - math.Trunc(restDays)) * secondsPerDay)
	if math.Abs(seconds) >= secondsPerDay {
		carry := math.Trunc(seconds / secondsPerDay)
		days += carry
		seconds -= carry * secondsPerDay
	}
	us := math.RoundToEven(float64(scale(float64(iv.i))) + float64(seconds*usPerSecond))
	if !(us >= math.MinInt64 && us < -math.MinInt64) {
		return failedValue
	}
	return interval(int64(months), int64(days+math.Trunc(restDays)), int64(us))
}

func mulInterval(iv, factor value) value {
	f := factor.float()
	return scaleInterval(iv, func(x float64) float64 { return x * f })
}

func divInterval(iv, divisor value) value {
	f := divisor.float()
	if f == 0 {
		return failedValue
	}
	return scaleInterval(iv, func(x float64) float64 { return x / f })
}

// checkIntervalDivisor takes constants that cannot make a quotient overflow: before Postgres 17 that, or NaN, gives
// nonsense without an error.
func checkIntervalDivisor(n *node) error {
	f, err := fold(n.args[1])
	if err != nil {
		return err
	}
	if !f.isConst() || f.val.st != isSet || !(math.Abs(f.val.float()) >= 1) {
		return errorAt(n.args[1].loc, "an interval is divided by a constant of at least 1 only; multiply it instead")
	}
	return nil
}

// truncInterval serves date_trunc of an interval; nil for a unit that it has not.
func truncInterval(unit string) func(value) value {
	if us := truncUnits[unit]; us == usPerDay {
		return func(v value) value { return interval(int64(v.months()), int64(v.days()), 0) }
	} else if us != 0 {
		return func(v value) value { return interval(int64(v.months()), int64(v.days()), v.i/us*us) }
	}
	months := truncYears[unit] * monthsPerYear
	switch unit {
	case "month", "months", "mon":
		months = 1
	case "quarter":
		months = monthsPerYear / 4
	}
	if months == 0 {
		return nil // weeks, of which months have no whole number
	}
	return func(v value) value { return interval(int64(v.months())/months*months, 0, 0) }
}
