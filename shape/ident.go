package shape

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// IdentifierError reports that a text is no SQL identifier, or no list or path of them. Its message is what the
// protocol puts under the parameter's name (protocol.md §2.3).
type IdentifierError struct{ Message string }

// Error implements error.
func (e *IdentifierError) Error() string { return e.Message }

// maxIdentifier is the length of the longest name Postgres keeps, NAMEDATALEN - 1 (section 4.1.1 of its manual). It
// is counted here in characters, so that a name which Postgres would have cut off is at worst not found.
const maxIdentifier = 63

// unquoted is what an identifier without quotes may look like (section 4.1.1 of the Postgres manual).
var unquoted = regexp.MustCompile(`^[\pL_][\pL\pM_0-9$]*$`)

// ParseRelation reads "table" or "schema.table", where either part may be quoted; the schema is "public" when it is
// not given. The names come back as the catalogue spells them. The error is an *IdentifierError.
func ParseRelation(s string) (schema, name string, err error) {
	parts := splitUnquoted(s, '.')
	if len(parts) > 2 {
		return "", "", &IdentifierError{"Invalid relation identifier, too many delimiters: " + s}
	}
	for i, p := range parts {
		if parts[i], err = parseIdentifier(p); err != nil {
			return "", "", err
		}
	}
	if len(parts) == 1 {
		return "public", parts[0], nil
	}
	return parts[0], parts[1], nil
}

// ParseColumns reads a list of column names with commas between them, in the order given and with duplicates. Blanks
// are not trimmed. The error is an *IdentifierError.
func ParseColumns(s string) ([]string, error) {
	names := splitUnquoted(s, ',')
	for i, n := range names {
		var err error
		if names[i], err = parseIdentifier(n); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// splitUnquoted splits s at every sep that does not stand between double quotes. It returns at least one part.
func splitUnquoted(s string, sep byte) []string {
	var parts []string
	quoted, start := false, 0
	for i := range len(s) {
		switch s[i] {
		case '"':
			quoted = !quoted
		case sep:
			if !quoted {
				parts = append(parts, s[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, s[start:])
}

func parseIdentifier(s string) (string, error) {
	if strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`) {
		return parseQuoted(strings.TrimSuffix(s[1:], `"`))
	}
	switch {
	case s == "":
		return "", errZeroLength
	case !unquoted.MatchString(s):
		return "", &IdentifierError{"Invalid unquoted identifier contains special characters: " + s}
	case utf8.RuneCountInString(s) > maxIdentifier:
		return "", errTooLong
	}
	return foldASCII(s), nil
}

// parseQuoted reads what stands between the outer quotes.
func parseQuoted(inner string) (string, error) {
	if inner == "" {
		return "", errZeroLength
	}
	name := strings.ReplaceAll(inner, `""`, `"`)
	if 2*strings.Count(inner, `""`) != strings.Count(inner, `"`) {
		return "", &IdentifierError{"Invalid identifier with unescaped quote: " + inner}
	}
	if utf8.RuneCountInString(name) > maxIdentifier {
		return "", errTooLong
	}
	return name, nil
}

var (
	errZeroLength = &IdentifierError{"Invalid zero-length delimited identifier"}
	errTooLong    = &IdentifierError{"Identifier is too long (max length is 63)"}
)

// foldASCII lower-cases the letters A to Z only: what Postgres does in a UTF-8 database (downcase_identifier).
func foldASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
