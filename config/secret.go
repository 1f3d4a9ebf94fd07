package config

import "log/slog"

// masked is what is printed in place of a secret. Its length says nothing about the secret's.
const masked = "********"

// Secret is a string that prints as asterisks, whatever prints it. The empty Secret prints as nothing.
type Secret string

// Reveal returns the secret itself, for comparing it with what a client sent.
func (s Secret) Reveal() string { return string(s) }

// String returns asterisks, or nothing for the empty Secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString does for %#v what String does for %v.
func (s Secret) GoString() string { return s.String() }

// LogValue does for slog what String does for fmt.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText does for encoding/json what String does for fmt.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
