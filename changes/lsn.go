package changes

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a position in the write-ahead log, in bytes from its beginning. LSNs of commit records grow in commit
// order; LSNs of the changes inside a transaction do not (section 9.2 of the Postgres manual, "pg_lsn type").
type LSN uint64

// String returns Postgres's notation, two hexadecimal halves: "16/B374D848".
func (l LSN) String() string {
	return fmt.Sprintf("%X/%X", uint64(l)>>32, uint32(l))
}

// Decimal returns the notation of the wire protocol, a decimal number.
func (l LSN) Decimal() string { return strconv.FormatUint(uint64(l), 10) }

// ParseLSN reads Postgres's notation. It refuses anything else, also a decimal number.
func ParseLSN(s string) (LSN, error) {
	hi, lo, ok := strings.Cut(s, "/")
	if !ok {
		return 0, fmt.Errorf("LSN %q: want two hexadecimal numbers with a slash between", s)
	}
	h, err := strconv.ParseUint(hi, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("LSN %q: %w", s, err)
	}
	l, err := strconv.ParseUint(lo, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("LSN %q: %w", s, err)
	}
	return LSN(h<<32 | l), nil
}
