package where

import "github.com/shapeserver/shapeserver/changes"

// compileRowNullTest is IS [NOT] NULL of a column of a composite type: it holds when all fields are, or all are not,
// NULL; a value that is NULL itself has only such fields (manual, "Comparison Functions and Operators").
func compileRowNullTest(column int, not bool) test {
	return func(row changes.Row) Tri {
		text, out := columnText(row, column)
		switch out {
		case Unknown:
			return triOf(!not)
		case True:
			null, set := countFields(text)
			if not {
				return triOf(null == 0)
			}
			return triOf(set == 0)
		default:
			return Failed
		}
	}
}

// countFields counts in a composite's text the fields that are NULL, for which nothing is written, and the others
// (manual, "Composite Type Input and Output Syntax"). A type without fields counts as one with a field that is NULL.
func countFields(text []byte) (null, set int) {
	start := 1
	for i, quoted := 1, false; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ')'):
			if i == start {
				null++
			} else {
				set++
			}
			start = i + 1
		}
	}
	return null, set
}
