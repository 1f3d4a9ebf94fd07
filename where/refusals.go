package where

// refusals says why a function or operator of Postgres is not evaluated, and how else to write it, by proc.key.
// Messages end with it.
var refusals = map[string]string{}

func init() {
	const clib = "the last digit of its result depends on the C library of the database server"
	for _, key := range []string{"dexp", "dlog1", "dlog10", "dcbrt"} {
		refusals[key] = clib
	}
	for _, key := range []string{"numeric_power"} {
		refusals[key] = "the digits it rounds to differ between releases of Postgres; write a product, such as n * n"
	}
	for _, key := range []string{"numeric_exp", "numeric_ln", "numeric_log", "log(numeric)"} {
		refusals[key] = "the digits it rounds to differ between releases of Postgres"
	}
	for _, key := range []string{"timestamp_bin", "timestamptz_bin"} {
		refusals[key] = "minor releases of Postgres differ for times before the origin; use date_trunc, or arithmetic on extract(epoch FROM …)"
	}
	for _, key := range []string{"age(timestamp without time zone)", "age(timestamp with time zone)"} {
		refusals[key] = "it depends on the current date; give it two arguments"
	}
	for _, key := range []string{"textregexsubstr", "textregexreplace_noopt", "textregexreplace", "textregexreplace_extended", "textregexreplace_extended_no_flags", "textregexreplace_extended_no_occurrence", "regexp_match_no_flags", "regexp_match", "regexp_substr_no_start", "regexp_instr_no_start", "regexp_count_no_start", "regexp_like"} {
		refusals[key] = "whether a regular expression matches is known here, not where, nor with flags; use ~ or ~*"
	}
	for _, key := range []string{"width_bucket_float8", "width_bucket_numeric"} {
		refusals[key] = "its rounding differs between releases of Postgres; write a CASE"
	}
}
