package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Help returns the table of settings for a terminal, at most 100 columns wide.
func Help() string {
	var b strings.Builder
	section := ""
	for _, s := range settings {
		if s.section != section {
			section = s.section
			fmt.Fprintf(&b, "\n%s\n", section)
		}
		fmt.Fprintf(&b, "  %s, --%s", s.name, s.flag())
		if s.def != "" {
			fmt.Fprintf(&b, " (%s)", s.def)
		}
		b.WriteByte('\n')
		if len(s.aliases) > 0 {
			fmt.Fprintf(&b, "      also %s\n", strings.Join(s.aliases, ", "))
		}
		for _, line := range wrap(s.doc, 92) {
			fmt.Fprintf(&b, "      %s\n", line)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// Markdown returns docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Settings

<!-- Made from the table in config/table.go by "go test ./config -update"; a test compares. -->

A setting is an environment variable or a flag; a flag wins. An empty variable counts as unset. The names of the
reference server are accepted too, so its environment can be kept; two names of one setting with different values are
an error, but for ` + "`DATABASE_URL`" + `, which yields to ` + "`SHAPESERVER_DATABASE_URL`" + `. An unknown name that begins with
` + "`SHAPESERVER_`" + ` is an error. ` + "`shapeserver config`" + ` prints the settings in force and where each came from.

Durations are numbers with a unit, ` + "`ms`, `s` or `min` (also `msec`, `sec`, `m`)" + `. Sizes are numbers of bytes or
have a unit, ` + "`KiB`, `MiB` or `GiB`" + `. Switches are ` + "`true` or `false` (also `1`/`0`, `yes`/`no`, `on`/`off`)" + `.
`)
	section := ""
	for _, s := range settings {
		if s.section != section {
			section = s.section
			fmt.Fprintf(&b, "\n## %s\n", section)
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n", s.name)
		fmt.Fprintf(&b, "%s\n\n", s.doc)
		var c Config
		fmt.Fprintf(&b, "- Takes %s.\n", s.at(&c).Want())
		if s.def != "" {
			fmt.Fprintf(&b, "- Default: `%s`\n", s.def)
		}
		fmt.Fprintf(&b, "- Flag: `--%s`\n", s.flag())
		if len(s.aliases) > 0 {
			fmt.Fprintf(&b, "- Also: `%s`\n", strings.Join(s.aliases, "`, `"))
		}
	}
	b.WriteString("\n## Accepted and ignored\n\nThese names of the reference server have no meaning here. They are mentioned in the log once and change nothing.\n\n")
	for _, name := range slices.Sorted(maps.Keys(accepted)) {
		fmt.Fprintf(&b, "- `%s`: %s\n", name, accepted[name])
	}
	return b.String()
}

// Effective returns the settings in force, one a line, with where each came from; secrets are masked.
func (c Config) Effective() string {
	var b strings.Builder
	for _, s := range settings {
		v, from := s.at(&c).String(), c.from[s.name]
		switch {
		case from == s.name:
			from = "environment"
		case from == "" && v == s.defaultString():
			from = "default"
		case from == "":
			from = "follows from the others"
		}
		if v == "" {
			v = "(not set)"
		}
		fmt.Fprintf(&b, "%-50s %s   # %s\n", s.name, v, from)
	}
	return b.String()
}

func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
