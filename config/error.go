package config

import (
	"fmt"
	"strings"
)

// Problem is one mistake in the settings.
type Problem struct {
	// Setting is the name as the operator wrote it: an environment variable, or a flag with its dashes.
	Setting string
	// Value is what was found, masked if the setting is secret; empty if nothing was.
	Value string
	// Want says what is accepted, or what to do.
	Want string
}

// String returns the problem as one line.
func (p Problem) String() string {
	if p.Value == "" {
		return p.Setting + ": " + p.Want
	}
	return fmt.Sprintf("%s=%s: %s", p.Setting, p.Value, p.Want)
}

// Error reports every mistake found in the settings. The caller prints it and exits: nothing was started.
type Error struct {
	// Problems has at least one element; the order is that of the settings table.
	Problems []Problem
}

// Error returns one line for one problem, and for several a heading and then a line for each.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d settings need attention", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  ")
		b.WriteString(p.String())
	}
	return b.String()
}
