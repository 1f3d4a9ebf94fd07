package where

import "math"

// builtin is how a function of Postgres is evaluated. Exactly one of order, f1, f2, fn, build and buildTest is set.
type builtin struct {
	needs collNeed
	check func(*node) error // refuses arguments for which the result could not be exact
	// checkFolded is check for what only the values of constant arguments show; not all arguments are constant then.
	checkFolded func(*node) error

	infinite bool // takes infinite intervals; for others the call fails

	order   order                // a comparison operator
	compare func(a, b value) int // of a comparison; nil takes the order of the arguments' type

	f1 func(a value) value      // arguments are set
	f2 func(a, b value) value   // arguments are set
	fn func(args []value) value // of a strict function arguments are set, else they may be NULL
	// build and buildTest compile calls that gain from knowing their arguments.
	build     func(*node) eval
	buildTest func(*node) test
}

// builtins is everything this package can evaluate, by proc.key. What is not here is refused by name.
var builtins = map[string]*builtin{}

func register(key string, b *builtin) {
	if builtins[key] != nil {
		panic("where: builtin " + key + " registered twice") // a mistake in this package's tables
	}
	builtins[key] = b
}

// order is one of the six comparisons, as a mask of the outcomes of a three-way comparison for which it holds.
type order uint8

const (
	orderLT order = 1 << iota
	orderEQ
	orderGT

	orderLE = orderLT | orderEQ
	orderGE = orderGT | orderEQ
	orderNE = orderLT | orderGT
)

// holds takes the result of a three-way comparison: negative, zero or positive.
func (o order) holds(c int) bool {
	switch {
	case c < 0:
		return o&orderLT != 0
	case c > 0:
		return o&orderGT != 0
	default:
		return o&orderEQ != 0
	}
}

var orders = []struct {
	suffix string
	order  order
}{{"eq", orderEQ}, {"ne", orderNE}, {"lt", orderLT}, {"le", orderLE}, {"gt", orderGT}, {"ge", orderGE}}

// comparator is the three-way comparison behind a comparison operator over the arguments of n.
func (b *builtin) comparator(n *node) func(a, b value) int {
	if b.compare != nil {
		return b.compare
	}
	return codecOf(n.args[0].typ).compare
}

func init() {
	// The name of a comparison function in Postgres is made of a prefix, the comparison, and for mixed types a suffix.
	for _, f := range []struct {
		prefix, suffix string
		compare        func(a, b value) int
		text           bool
	}{
		{"bool", "", compareInt, false},
		{"int2", "", compareInt, false},
		{"int4", "", compareInt, false},
		{"int8", "", compareInt, false},
		{"int24", "", compareInt, false},
		{"int42", "", compareInt, false},
		{"int28", "", compareInt, false},
		{"int82", "", compareInt, false},
		{"int48", "", compareInt, false},
		{"int84", "", compareInt, false},
		{"oid", "", compareInt, false},
		{"float4", "", compareFloat, false},
		{"float8", "", compareFloat, false},
		{"float48", "", compareFloat, false},
		{"float84", "", compareFloat, false},
		{"numeric_", "", compareNumeric, false},
		{"bytea", "", compareBytes, false},
		{"uuid_", "", compareBytes, false},
		{"date_", "", compareInt, false},
		{"time_", "", compareInt, false},
		{"timetz_", "", compareTimetz, false},
		{"timestamp_", "", compareInt, false},
		{"interval_", "", compareInterval, false},
		{"date_", "_timestamp", compareDateTimestamp, false},
		{"date_", "_timestamptz", compareDateTimestamp, false},
		{"timestamp_", "_date", compareTimestampDate, false},
		{"timestamptz_", "_date", compareTimestampDate, false},
		{"timestamp_", "_timestamptz", compareInt, false},
		{"timestamptz_", "_timestamp", compareInt, false},
		{"enum_", "", nil, false},
		{"bpchar", "", compareBpchar, true},
		{"name", "", compareBytes, true},
		{"name", "text", compareBytes, true},
	} {
		for _, o := range orders {
			b := &builtin{order: o.order, compare: f.compare}
			if f.text {
				b.needs = needFor(o.order)
			}
			b.buildTest = buildComparison
			register(f.prefix+o.suffix+f.suffix, b)
		}
	}
	for _, o := range orders {
		key := "text_" + o.suffix
		if o.order == orderEQ || o.order == orderNE {
			key = "text" + o.suffix
		}
		register(key, &builtin{needs: needFor(o.order), order: o.order, compare: compareBytes, buildTest: buildComparison})
		register("text"+o.suffix+"name", &builtin{needs: needFor(o.order), order: o.order, compare: compareBytes, buildTest: buildComparison})
		register("array_"+o.suffix, &builtin{needs: needFor(o.order), order: o.order, buildTest: buildArrayComparison, check: comparableElements})
		if o.order != orderEQ && o.order != orderNE {
			register("text_pattern_"+o.suffix, &builtin{order: o.order, compare: compareBytes, buildTest: buildComparison})
		}
	}
	registerCasts()
	registerText()
	registerRegex()
	registerMath()
	registerArrays()
	registerJSON()
	registerInet()
	registerMacaddr()
	registerRanges()
	registerSmallTypes()
}

func needFor(o order) collNeed {
	if o == orderEQ || o == orderNE {
		return needDeterministic
	}
	return needOrder
}

// compareDateTimestamp compares a date with a timestamp, or in UTC with a timestamptz, without overflow.
func compareDateTimestamp(a, b value) int {
	switch {
	case a.i == dateNegInf:
		a.i = tsNegInf
	case a.i == datePosInf:
		a.i = tsPosInf
	case b.i != tsNegInf && b.i != tsPosInf:
		day := floorDiv(b.i, usPerDay)
		if a.i == day && b.i > day*usPerDay {
			return -1
		}
		b.i = day
	}
	return compareInt(a, b)
}

func compareTimestampDate(a, b value) int { return -compareDateTimestamp(b, a) }

// registerCasts adds the functions that pg_cast names, by their proc.key.
func registerCasts() {
	narrow := func(lo, hi int64) func(value) value {
		return func(v value) value {
			if v.i < lo || v.i > hi {
				return failedValue
			}
			return v
		}
	}
	same := func(v value) value { return v }
	toInt := func(lo, hi float64) func(value) value {
		return func(v value) value {
			f := math.RoundToEven(v.float())
			if f >= lo && f < hi {
				return intValue(int64(f))
			}
			return failedValue // also for NaN
		}
	}
	fromInt := func(v value) value { return floatValue(float64(v.i)) }
	fromInt32 := func(v value) value { return floatValue(float64(float32(v.i))) }
	through := func(output func(value) string, input func(string) (value, bool)) func(value) value {
		return func(v value) value {
			out, ok := input(output(v))
			if !ok {
				return failedValue
			}
			return out
		}
	}
	intText := through(outputInt, inputText)
	for key, f := range map[string]func(value) value{
		"i2toi4": same, "int48": same, "int28": same, "oidtoi8": same,
		"i4toi2": narrow(math.MinInt16, math.MaxInt16), "int82": narrow(math.MinInt16, math.MaxInt16),
		"int84": narrow(math.MinInt32, math.MaxInt32), "i8tooid": narrow(0, math.MaxUint32),
		"i2tod": fromInt, "i4tod": fromInt, "i8tod": fromInt,
		"i2tof": fromInt32, "i4tof": fromInt32, "i8tof": fromInt32,
		"ftod": same, "dtof": floatToFloat4,
		"dtoi2": toInt(-1<<15, 1<<15), "dtoi4": toInt(-1<<31, 1<<31), "dtoi8": toInt(-1<<63, 1<<63),
		"ftoi2": toInt(-1<<15, 1<<15), "ftoi4": toInt(-1<<31, 1<<31), "ftoi8": toInt(-1<<63, 1<<63),
		"int2_numeric": intText, "int4_numeric": intText, "int8_numeric": intText,
		"numeric_int2": numericToInt(math.MinInt16, math.MaxInt16), "numeric_int4": numericToInt(math.MinInt32, math.MaxInt32),
		"numeric_int8":   numericToInt(math.MinInt64, math.MaxInt64),
		"numeric_float4": through(outputText, inputFloat(32)), "numeric_float8": through(outputText, inputFloat(64)),
		"float4_numeric": floatToNumeric(6), "float8_numeric": floatToNumeric(15),
		"int4_bool": func(v value) value { return boolValue(v.i != 0) }, "bool_int4": func(v value) value { return intValue(v.i) },
		"booltext":  func(v value) value { return bytesValue([]byte(outputBoolWord(v))) },
		"rtrim1":    func(v value) value { return bytesValue([]byte(trimBlanks(v.b))) },
		"name_text": same,
		"text_name": through(outputText, inputName), "bpchar_name": func(v value) value {
			out, _ := inputName(trimBlanks(v.b))
			return out
		}, "name_bpchar": same,
		"date_timestamp": dateToTimestamp, "date_timestamptz": dateToTimestamp,
		"timestamp_timestamptz": same, "timestamptz_timestamp": same,
		"timestamp_date": timestampToDate, "timestamptz_date": timestampToDate,
		"timestamp_time": timestampToTime, "timestamptz_time": timestampToTime,
		"time_interval":      func(v value) value { return v },
		"interval_time":      intervalToTime,
		"timetz_time":        func(v value) value { return intValue(v.i) },
		"time_timetz":        same,
		"timestamptz_timetz": timestampToTime,
	} {
		register(key, &builtin{f1: f})
	}
}

func outputBoolWord(v value) string {
	if v.i != 0 {
		return "true"
	}
	return "false"
}

func floatToFloat4(v value) value {
	f := v.float()
	out := float64(float32(f))
	if math.IsInf(out, 0) && !math.IsInf(f, 0) || out == 0 && f != 0 {
		return failedValue
	}
	return floatValue(out)
}

func dateToTimestamp(v value) value {
	switch {
	case v.i == dateNegInf:
		return intValue(tsNegInf)
	case v.i == datePosInf:
		return intValue(tsPosInf)
	case v.i >= endTsDay:
		return failedValue
	default:
		return intValue(v.i * usPerDay)
	}
}

func timestampToDate(v value) value {
	switch v.i {
	case tsNegInf:
		return intValue(dateNegInf)
	case tsPosInf:
		return intValue(datePosInf)
	default:
		return intValue(floorDiv(v.i, usPerDay))
	}
}

func timestampToTime(v value) value {
	if v.i == tsNegInf || v.i == tsPosInf {
		return nullValue
	}
	return intValue(v.i - floorDiv(v.i, usPerDay)*usPerDay)
}
