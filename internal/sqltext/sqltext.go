package sqltext

import (
	"strconv"
	"strings"
)

// Ident quotes a name: "My ""Table""" (section 4.1.1 of the Postgres manual, "Identifiers and Key Words").
func Ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Literal quotes a text: 'it”s'. The session must have standard_conforming_strings on, as is the default.
func Literal(text string) string { return `'` + strings.ReplaceAll(text, `'`, `''`) + `'` }

// OIDs renders an oid[] as text, {1,2}, for a parameter that is cast.
func OIDs(oids []uint32) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, oid := range oids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatUint(uint64(oid), 10))
	}
	b.WriteByte('}')
	return b.String()
}
