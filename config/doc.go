// Package config turns the environment and the command line into one checked Config.
//
// It owns the table of settings (table.go): every name, alias, default, range and explanation stands there once, and
// the help text, docs/configuration.md and the error messages are made from it. It also owns the reading of
// DATABASE_URL, and the masking of secrets. It leaves using the settings to server, and printing to cmd/shapeserver.
//
// It owns no goroutine, and does no I/O but reading the CA certificate it is told of.
//
// Invariants: a flag wins over the environment, the environment over the default; all mistakes are reported at once
// (*Error), each with the name the operator wrote; no printed form of a Config or of an error contains a secret.
// Only cmd and server import it; other packages take an Options struct of their own.
// Start reading at Load, then settings in table.go.
package config
