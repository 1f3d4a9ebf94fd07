//go:build !failpoint

package failpoint

// Err is called where a step can fail. It returns nil.
func Err(Point) error { return nil }

// Hit is called where a step cannot fail. It does nothing.
func Hit(Point) {}
