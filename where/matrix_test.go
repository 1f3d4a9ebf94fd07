package where

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated part of docs/where.md")

const (
	matrixBegin = "<!-- begin: made from where/catalog.tsv and builtins by \"go test ./where -run TestMatrix -update\"; a test compares -->\n"
	matrixEnd   = "<!-- end -->\n"
)

// The matrix in docs/where.md says what the code does.
func TestMatrixIsCurrent(t *testing.T) {
	const path = "../docs/where.md"
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(have), matrixBegin)
	require.True(t, ok, "%s has no line %s", path, matrixBegin)
	old, after, ok := strings.Cut(rest, matrixEnd)
	require.True(t, ok)
	now := matrix()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+matrixBegin+now+matrixEnd+after), 0o644))
		return
	}
	assert.Equal(t, now, old, "run go test ./where -run TestMatrix -update")
}

// family is a group of types of which a user thinks as one; what has no family is in the last.
type family struct {
	title string
	types []string
}

var families = []family{
	{"Booleans", []string{"bool"}},
	{"Integers", []string{"int2", "int4", "int8", "oid"}},
	{"numeric", []string{"numeric"}},
	{"Floating point", []string{"float4", "float8"}},
	{"Text", []string{"text", "varchar", "name"}},
	{"char(n)", []string{"bpchar"}},
	{"bytea", []string{"bytea"}},
	{"uuid", []string{"uuid"}},
	{"Dates", []string{"date"}},
	{"Times of day", []string{"time", "timetz"}},
	{"Timestamps", []string{"timestamp", "timestamptz"}},
	{"interval", []string{"interval"}},
	{"jsonb", []string{"jsonb"}},
	{"json", []string{"json"}},
	{"Enums", []string{"anyenum"}},
	{"Arrays", []string{"anyarray", "anycompatiblearray"}},
	{"Network addresses", []string{"inet", "cidr"}},
	{"MAC addresses", []string{"macaddr", "macaddr8"}},
	{"Ranges", []string{"anyrange", "int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"}},
	{"Multiranges", []string{"anymultirange", "int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"}},
	{"Bit strings", []string{"bit", "varbit"}},
	{"Small types", []string{"pg_lsn", "xid", "xid8", "char"}},
	{"Any type", []string{"any", "anyelement", "anycompatible", "anynonarray", "anycompatiblenonarray", "record"}},
}

func familyOf(t *typ) int {
	return slices.IndexFunc(families, func(f family) bool { return slices.Contains(f.types, t.name) })
}

// cell collects, for one family, what is supported and what is not, each with the signatures or the reasons.
type cell struct {
	supported map[string][]string
	refused   map[string][]string // by reason
}

func (c *cell) add(name, signature, reason string) {
	if c.supported == nil {
		c.supported, c.refused = map[string][]string{}, map[string][]string{}
	}
	if reason == "" {
		c.supported[name] = append(c.supported[name], signature)
	} else {
		c.refused[reason] = append(c.refused[reason], name)
	}
}

// matrix returns the generated part of docs/where.md.
func matrix() string {
	cat := theCatalog()
	operators, functions, casts := make([]cell, len(families)), make([]cell, len(families)), make([]cell, len(families))
	for name, procs := range cat.ops {
		for _, p := range procs {
			if f := familyOf(p.args[0]); f >= 0 {
				other := "prefix"
				if len(p.args) == 2 {
					other = p.args[1].name
				}
				operators[f].add(code(name), other, refusal(p))
			}
		}
	}
	for name, procs := range cat.funcs {
		for _, p := range procs {
			if len(p.args) == 0 || strings.HasPrefix(name, "pg_") {
				continue
			}
			if f := familyOf(p.args[0]); f >= 0 && !plumbing(p) {
				var args []string
				for _, a := range p.args {
					args = append(args, a.name)
				}
				functions[f].add(code(name), strings.Join(args, ", "), refusal(p))
			}
		}
	}
	for pair, c := range cat.casts {
		from, to := cat.types[pair.from], cat.types[pair.to]
		if from == nil || to == nil || from == to {
			continue
		}
		if f := familyOf(from); f >= 0 {
			reason := ""
			if !from.known() || !to.known() || c.method == 'f' && builtins[c.key] == nil {
				reason = "not evaluated"
			}
			how := map[byte]string{'i': "implicit", 'a': "in assignment and explicit", 'e': "explicit"}[c.context]
			if reason == "" && c.context == 'i' {
				casts[f].add(code(to.name), how, "")
			} else {
				casts[f].add(code(to.name), "", reason)
			}
		}
	}
	var b strings.Builder
	for i, f := range families {
		if operators[i].supported == nil && functions[i].supported == nil {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n", f.title)
		if known := slices.DeleteFunc(slices.Clone(f.types), func(n string) bool {
			t := cat.byName[n]
			return t == nil || t.kind == KindPseudo || strings.HasPrefix(n, "any")
		}); len(known) > 0 {
			fmt.Fprintf(&b, "Types: %s.\n\n", codes(known))
		}
		b.WriteString("| | evaluated | refused |\n|---|---|---|\n")
		for _, row := range []struct {
			title string
			cell  cell
		}{{"operators", operators[i]}, {"functions", functions[i]}, {"casts to", casts[i]}} {
			if len(row.cell.supported)+len(row.cell.refused) > 0 {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", row.title, row.cell.evaluated(f), row.cell.reasons())
			}
		}
		b.WriteByte('\n')
	}
	var bare []string
	for name, procs := range cat.funcs {
		if len(procs) == 1 && len(procs[0].args) == 0 && refusal(procs[0]) == "" {
			bare = append(bare, name+"()")
		}
	}
	slices.Sort(bare)
	fmt.Fprintf(&b, "Functions without arguments: %s; all others depend on the session, the server or the time, and are refused.\n", codes(bare))
	return b.String()
}

// evaluated lists names, with the other operand or the signatures where there are several.
func (c cell) evaluated(f family) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.supported)) {
		with := slices.DeleteFunc(slices.Clone(c.supported[name]), func(s string) bool { return s == "" || s == "implicit" })
		slices.Sort(with)
		with = slices.Compact(with)
		switch {
		case len(with) == 0 && slices.Contains(c.supported[name], "implicit"):
			out = append(out, name+" (implicit)")
		case len(with) == 0, len(with) == 1 && slices.Contains(f.types, with[0]):
			out = append(out, name)
		default:
			out = append(out, name+" ("+strings.Join(with, "; ")+")")
		}
	}
	return strings.Join(out, ", ")
}

func (c cell) reasons() string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(c.refused)) {
		names := slices.DeleteFunc(slices.Clone(c.refused[reason]), func(n string) bool { return c.supported[n] != nil })
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 0 {
			out = append(out, reason+": "+strings.Join(names, ", "))
		}
	}
	return strings.Join(out, "; ")
}

// refusal says why a function is not evaluated, "" when it is.
func refusal(p *proc) string {
	known := builtins[p.key] != nil
	for _, a := range append(slices.Clone(p.args), p.ret) {
		known = known && (a.known() || a.kind == KindPseudo)
	}
	switch {
	case p.kind == 'a':
		return "aggregates"
	case p.kind == 'w':
		return "window functions"
	case p.retset:
		return "gives several rows"
	case known:
		return ""
	case p.volatile == 'v', p.volatile == 's':
		return "depends on the session or the time"
	default:
		return "not evaluated"
	}
}

// plumbing reports whether a function is there for Postgres's own use: of operator classes, types and planners.
func plumbing(p *proc) bool {
	for _, suffix := range []string{"_in", "_out", "_recv", "_send", "_accum", "_inv", "_combine", "_serialize", "_deserialize", "sel", "joinsel", "_cmp", "hash", "hashextended", "_sortsupport", "typmodin", "typmodout", "_support", "_subdiff", "_picksplit", "_larger", "_smaller"} {
		if strings.HasSuffix(p.name, suffix) {
			return true
		}
	}
	for _, a := range append(slices.Clone(p.args), p.ret) {
		if a.name == "internal" || a.name == "cstring" {
			return true
		}
	}
	for _, ops := range theCatalog().ops {
		for _, o := range ops {
			if o.key == p.key && !slices.Contains([]string{"concat", "like", "mod", "abs"}, p.name) {
				return true // written as an operator
			}
		}
	}
	return false
}

func code(s string) string {
	if strings.Contains(s, "|") {
		s = strings.ReplaceAll(s, "|", `\|`)
	}
	return "`" + s + "`"
}

func codes(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = code(n)
	}
	return strings.Join(out, ", ")
}
