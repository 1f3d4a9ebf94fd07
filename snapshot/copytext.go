package snapshot

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/shapeserver/shapeserver/changes"
)

// copyText splits rows of COPY's text format (manual, COPY, "Text Format"): columns between tabs, \N for NULL, a
// backslash before what would be taken for something else, a newline at the end. It allocates only when a row is
// bigger than every one before.
type copyText struct {
	row     changes.Row // reused; as long as the rows have columns
	scratch []byte      // reused; what columns with escapes become
}

var (
	errColumns = errors.New("row has another number of columns than the query")
	errEscape  = errors.New("row has an escape that COPY TO does not write")
)

// parse splits one line, given without its newline. The row is valid until the next call and refers to line.
func (c *copyText) parse(line []byte) (changes.Row, error) {
	// No unescaped column is longer than its text, so the scratch never moves while a row refers to it.
	if cap(c.scratch) < len(line) {
		c.scratch = make([]byte, 0, 2*len(line))
	}
	c.scratch = c.scratch[:0]
	last := len(c.row) - 1
	for i := range c.row {
		field := line
		tab := bytes.IndexByte(line, '\t')
		switch {
		case tab >= 0 && i < last:
			field, line = line[:tab], line[tab+1:]
		case tab >= 0 || i < last:
			return nil, errColumns
		}
		switch {
		case bytes.IndexByte(field, '\\') < 0:
			c.row[i] = changes.Value{Kind: changes.Text, Bytes: field}
		case len(field) == 2 && field[1] == 'N':
			c.row[i] = changes.Value{Kind: changes.Null}
		default:
			start := len(c.scratch)
			var err error
			if c.scratch, err = appendUnescaped(c.scratch, field); err != nil {
				return nil, fmt.Errorf("column %d: %w", i+1, err)
			}
			c.row[i] = changes.Value{Kind: changes.Text, Bytes: c.scratch[start:len(c.scratch):len(c.scratch)]}
		}
	}
	return c.row, nil
}

// appendUnescaped appends a column's text without its escapes. COPY TO writes \b \f \n \r \t \v and, for any other
// character, the character itself; it never writes digits or x, which COPY FROM would take for a byte's number, and
// \N only alone.
func appendUnescaped(dst, field []byte) ([]byte, error) {
	for {
		i := bytes.IndexByte(field, '\\')
		if i < 0 {
			return append(dst, field...), nil
		}
		dst = append(dst, field[:i]...)
		if i+1 == len(field) {
			return nil, errEscape
		}
		switch e := field[i+1]; e {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'v':
			dst = append(dst, '\v')
		case 'N', 'x', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			return nil, errEscape
		default:
			dst = append(dst, e)
		}
		field = field[i+2:]
	}
}
