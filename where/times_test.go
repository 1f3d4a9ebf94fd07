package where_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Fields, truncation and arithmetic of dates and times, over the values of the oracle and over random ones.
func TestTimesAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 7, 60)
	fields := []string{
		"microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century", "millennium",
		"dow", "doy", "isodow", "isoyear", "julian", "epoch", "timezone", "timezone_hour", "timezone_minute", "microsecond", "Seconds", "centuries", "millennia",
		"millisecond", "minutes", "hours", "days", "weeks", "months", "years", "decades", "nonsense",
	}
	sources := []string{"c_date", "c_time", "c_timetz", "c_ts", "c_tstz", "c_iv"}
	var exprs []string
	for _, f := range fields {
		for _, s := range sources {
			exprs = append(exprs, fmt.Sprintf("extract(%q FROM %s)", f, s), fmt.Sprintf("date_part('%s', %s)", f, s), fmt.Sprintf("date_trunc('%s', %s)", f, s))
		}
		exprs = append(exprs, fmt.Sprintf("date_trunc('%s', c_tstz, 'UTC')", f), fmt.Sprintf("date_trunc('%s', -c_iv)", f), fmt.Sprintf("extract(%q FROM -c_iv)", f))
	}
	rng := rand.New(rand.NewPCG(*sampleSeed, 4))
	stamp := func() string {
		return time.Date(1+rng.IntN(4000), 1, 1, 0, 0, 0, rng.IntN(1e6)*1000, time.UTC).Add(time.Duration(rng.Int64N(366*24*3600)) * time.Second).Format("2006-01-02 15:04:05.999999")
	}
	span := func() string {
		return fmt.Sprintf("'%d months %d days %d.%06d seconds'::interval", rng.IntN(400)-200, rng.IntN(200)-100, rng.IntN(400000)-200000, rng.IntN(1e6))
	}
	for range 60 {
		for _, f := range fields[:19] {
			for _, v := range []string{"'" + stamp() + "'::timestamp", "'" + stamp() + " BC'::timestamp", "'" + stamp() + "'::date", span()} {
				exprs = append(exprs, fmt.Sprintf("extract(%s FROM %s)", f, v), fmt.Sprintf("date_part('%s', %s)", f, v), fmt.Sprintf("date_trunc('%s', %s)", f, v))
			}
		}
		a, b := stamp(), stamp()
		factor := fmt.Sprintf("%v", rng.NormFloat64()*10)
		exprs = append(exprs,
			fmt.Sprintf("age('%s'::timestamp, '%s'::timestamp)", a, b), fmt.Sprintf("age('%s'::timestamp, '%s BC'::timestamp)", a, b), fmt.Sprintf("age('%s'::timestamptz, '%s'::timestamptz)", a, a[:8]+"31"),
			span()+" * "+factor, factor+" * "+span(), span()+" / "+factor, span()+fmt.Sprintf(" / %d", 1+rng.IntN(50)), "c_iv * "+factor,
			fmt.Sprintf("justify_interval(%s)", span()), fmt.Sprintf("justify_days(%s)", span()), fmt.Sprintf("justify_hours(%s)", span()),
			fmt.Sprintf("to_timestamp(%v)", rng.NormFloat64()*1e10), fmt.Sprintf("make_interval(%d, %d, %d, %d, %d, %d, %v)", rng.IntN(9), rng.IntN(99), -rng.IntN(9), rng.IntN(99), rng.IntN(99), rng.IntN(99), rng.NormFloat64()*100),
			fmt.Sprintf("make_timestamp(%d, %d, %d, %d, %d, %v)", rng.IntN(3000)-500, 1+rng.IntN(12), 1+rng.IntN(31), rng.IntN(25), rng.IntN(61), rng.Float64()*61),
			fmt.Sprintf("make_date(%d, %d, %d)", rng.IntN(3000)-500, rng.IntN(14), rng.IntN(32)), fmt.Sprintf("make_time(%d, %d, %v)", rng.IntN(25), rng.IntN(61), rng.Float64()*61),
		)
	}
	for _, a := range []string{"c_ts", "c_tstz", "c_date"} {
		for _, b := range []string{"c_ts", "c_tstz", "c_date", "'2024-02-29'", "'1999-12-31 23:00'"} {
			exprs = append(exprs, fmt.Sprintf("age(nullif(nullif(%s, 'infinity'), '-infinity'), nullif(nullif(%s::timestamp, 'infinity'), '-infinity'))", a, b))
		}
	}
	ends := []string{"c_ts", "NULL", "'2024-02-01 00:00'", "interval '1 month'", "c_iv"}
	for _, b := range ends {
		for _, c := range []string{"'1999-12-31'::timestamp", "c_date::timestamp", "NULL"} {
			for _, d := range ends {
				exprs = append(exprs, fmt.Sprintf("(c_ts, %s) OVERLAPS (%s, %s)", b, c, d), fmt.Sprintf("(c_tstz, %s) OVERLAPS (%s, %s)", b, c, d), fmt.Sprintf("(c_date, %s) OVERLAPS (%s, %s)", b, c, d))
			}
		}
	}
	for _, b := range []string{"c_time", "NULL", "'10:00'", "interval '1 hour'", "c_iv"} {
		for _, d := range []string{"c_time", "NULL", "'12:00'", "interval '1 hour'", "c_iv"} {
			exprs = append(exprs, fmt.Sprintf("(c_time, %s) OVERLAPS (time '12:00', %s)", b, d), fmt.Sprintf("(c_timetz, %s) OVERLAPS (c_timetz, %s)", b, d))
		}
	}
	exprs = append(exprs,
		"make_interval()", "make_interval(0, c_int4)", "make_interval(0, 0, 0, c_int4, c_int4, c_int4)", "make_interval(1, 5, 0, c_int4, 0, 0, 1.5)", "make_interval(c_int2)", "make_interval(1)", "make_interval(1, 2)", "make_interval(200000000)", "make_interval(0,0,0,0,0,0,'NaN')", "make_date(0,1,1)", "make_date(-4713,11,24)", "make_date(5874898,1,1)",
		"make_timestamp(294277,1,1,0,0,0)", "make_timestamp(294276,12,31,24,0,0)", "make_timestamp(-4713,11,24,0,0,0)", "make_timestamp(2024,2,29,23,59,60)", "make_time(24,0,0)", "make_time(24,0,1e-9)",
		"to_timestamp(c_float8)", "to_timestamp(c_int8)", "to_timestamp('NaN')", "to_timestamp(c_float4)", "to_timestamp(-210866803200)", "to_timestamp(9224318015999.9999)",
		"c_timetz AT TIME ZONE 'UTC'", "c_timetz AT TIME ZONE interval '-03:30'", "c_timetz AT TIME ZONE c_iv", "c_ts AT TIME ZONE interval '1 hour'", "c_tstz AT TIME ZONE c_iv", "timezone('utc', c_ts)", "timezone('Etc/UTC', c_tstz)",
		"c_timetz + c_iv", "c_timetz - c_iv", "c_iv + c_timetz", "c_date + c_timetz", "c_timetz + c_date", "timestamptz(c_date, c_time)", "timestamptz(c_date, c_timetz)", "isfinite(c_iv)", "isfinite(c_date)",
		"c_iv * c_int2", "c_int4 * c_iv", "c_iv * c_float8", "c_iv * 0.5", "c_iv / 3", "c_iv / 7.5", "c_iv / 'Infinity'", "c_iv / 1e10", "extract(epoch FROM c_ts) * 1000 > 0", "c_iv / (1 + 2)",
	)
	o.checkSome(t, exprs, 8)
	o.report(t)
}
