package where

import (
	"strings"
	"unicode/utf8"
)

// checkSimilar takes the patterns of SIMILAR TO that every minor release rewrites in the same way: brackets hold plain
// characters, perhaps after "^".
func checkSimilar(n *node) error {
	pattern, err := constantArg(n, 0, "pattern")
	if err != nil {
		return err
	}
	escape := `\`
	if len(n.args) > 1 {
		k, err := constantArg(n, 1, "escape character")
		if err != nil {
			return err
		}
		if escape = string(k.val.b); utf8.RuneCountInString(escape) > 1 {
			return errorAt(max(k.loc, 0), "invalid escape string: it must be empty or one character")
		}
	}
	loc := max(pattern.loc, 0)
	in := false // brackets
	for s := string(pattern.val.b); s != ""; {
		_, size := utf8.DecodeRuneInString(s)
		c, rest := s[:size], s[size:]
		switch {
		case in && c == "]":
			in = false
		case in && (c == "[" || c == `\` || c == escape):
			return errorAt(loc, "a SIMILAR TO pattern with %s in brackets is not supported", c)
		case in:
		case c == escape:
			if rest == "" || rest[0] == '"' {
				return errorAt(loc, "a SIMILAR TO pattern with a separator, or with an escape character at its end, is not supported")
			}
			_, size = utf8.DecodeRuneInString(rest)
			rest = rest[size:]
		case c == "[":
			in = true
			rest = strings.TrimPrefix(rest, "^")
			if strings.HasPrefix(rest, "]") {
				return errorAt(loc, "a SIMILAR TO pattern with ] in brackets is not supported")
			}
		}
		s = rest
	}
	return nil
}

// similarToRegex writes a SIMILAR TO pattern as a regular expression, as similar_to_escape does.
func similarToRegex(pattern, escape value) value {
	if utf8.RuneCount(escape.b) > 1 {
		return failedValue
	}
	out := append(make([]byte, 0, 2*len(pattern.b)+8), "^(?:"...)
	in, escaped := false, false
	for s := pattern.b; len(s) > 0; {
		c := s[:runeLen(s)]
		s = s[len(c):]
		switch {
		case escaped:
			out = append(append(out, '\\'), c...)
			escaped = false
		case string(c) == string(escape.b):
			escaped = true
		case in:
			if c[0] == '\\' {
				out = append(out, '\\')
			}
			out = append(out, c...)
			in = c[0] != ']'
		default:
			switch c[0] {
			case '%':
				out = append(out, ".*"...)
			case '_':
				out = append(out, '.')
			case '(':
				out = append(out, "(?:"...)
			case '\\', '.', '^', '$':
				out = append(out, '\\', c[0])
			default:
				in = c[0] == '['
				out = append(out, c...)
			}
		}
	}
	return bytesValue(append(out, ")$"...))
}
