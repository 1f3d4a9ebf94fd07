//go:build !linux

package config

import (
	"syscall"
	"time"
)

// controlUserTimeout does nothing: TCP_USER_TIMEOUT is Linux's.
func controlUserTimeout(time.Duration) func(network, address string, conn syscall.RawConn) error {
	return nil
}
