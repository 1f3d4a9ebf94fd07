package replication

import (
	"bytes"
	"encoding/binary"
)

// cursor reads a message's fields in network byte order. The first failure sticks: later reads give zeros, so that a
// message is checked once, at its end.
type cursor struct {
	msg     []byte
	pos     int
	problem string // "" while all is well; pos is then where it went wrong
}

func (c *cursor) fail(problem string) {
	if c.problem == "" {
		c.problem = problem
	}
}

// take returns the next n bytes, with no capacity beyond them.
func (c *cursor) take(n int) []byte {
	if c.problem != "" || n < 0 || n > len(c.msg)-c.pos {
		c.fail("message ends too early")
		return nil
	}
	b := c.msg[c.pos : c.pos+n : c.pos+n]
	c.pos += n
	return b
}

func (c *cursor) u8() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// text reads a string that a zero byte ends, and copies it.
func (c *cursor) text() string {
	if c.problem != "" {
		return ""
	}
	n := bytes.IndexByte(c.msg[c.pos:], 0)
	if n < 0 {
		c.fail("string without an end")
		return ""
	}
	s := string(c.msg[c.pos : c.pos+n])
	c.pos += n + 1
	return s
}

// end checks that the message was read to its end and makes the error of the first failure.
func (c *cursor) end() error {
	if c.problem == "" && c.pos != len(c.msg) {
		c.fail("bytes after the message's end")
	}
	if c.problem == "" {
		return nil
	}
	var kind byte
	if len(c.msg) > 0 {
		kind = c.msg[0]
	}
	return &DecodeError{Type: kind, Size: len(c.msg), Pos: c.pos, Problem: c.problem}
}
