package config

import "net"

// Dialer returns a dialer with the TCP options of the database settings, for pgconn.Config.DialFunc. The time an
// attempt may take is bound by connect_timeout in the URL, not here.
func (c Config) Dialer() *net.Dialer {
	d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true,
		// In a KeepAliveConfig negative means the system's own value, and zero Go's.
		Idle:     orNegative(c.DatabaseTCPKeepaliveIdle),
		Interval: orNegative(c.DatabaseTCPKeepaliveInterval),
		Count:    orNegative(c.DatabaseTCPKeepaliveCount),
	}}
	if c.DatabaseTCPUserTimeout > 0 {
		d.Control = controlUserTimeout(c.DatabaseTCPUserTimeout)
	}
	return d
}

func orNegative[T ~int | ~int64](n T) T {
	if n == 0 {
		return -1
	}
	return n
}
