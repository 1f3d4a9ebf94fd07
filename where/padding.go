package where

import (
	"bytes"
	"unicode/utf8"
)

// registerPadding adds the functions that fit a text to a length or put another into its place.
func registerPadding() {
	for _, left := range []bool{true, false} {
		key, spaced := "rpad", "rpad(text, integer)"
		if left {
			key, spaced = "lpad", "lpad(text, integer)"
		}
		register(key, &builtin{fn: func(a []value) value { return pad(a[0], a[1].i, a[2].b, left) }})
		register(spaced, &builtin{f2: func(v, n value) value { return pad(v, n.i, []byte{' '}, left) }})
	}
	register("textoverlay", &builtin{fn: func(a []value) value { return overlayText(a[0], a[1], a[2].i, a[3].i) }})
	register("textoverlay_no_len", &builtin{fn: func(a []value) value { return overlayText(a[0], a[1], a[2].i, int64(utf8.RuneCount(a[1].b))) }})
	register("byteaoverlay", &builtin{fn: func(a []value) value { return overlayBytes(a[0], a[1], a[2].i, a[3].i) }})
	register("byteaoverlay_no_len", &builtin{fn: func(a []value) value { return overlayBytes(a[0], a[1], a[2].i, int64(len(a[1].b)/2)) }})
}

// pad cuts a text to n characters, or fills it up to n, on the left or on the right, with as much of fill as is needed.
func pad(v value, n int64, fill []byte, left bool) value {
	n = max(n, 0)
	if n > maxText {
		return failedValue
	}
	have := int64(utf8.RuneCount(v.b))
	if have >= n || len(fill) == 0 {
		return bytesValue(v.b[:charOffset(v.b, n)])
	}
	need := n - have
	width := int64(utf8.RuneCount(fill))
	filling := bytes.Repeat(fill, int(need/width))
	filling = append(filling, fill[:charOffset(fill, need%width)]...)
	if len(filling)+len(v.b) > maxText {
		return failedValue
	}
	if left {
		return bytesValue(append(filling, v.b...))
	}
	return bytesValue(append(bytes.Clone(v.b), filling...))
}

// overlayText puts part into the place of length characters from start, which counts from 1.
func overlayText(v, part value, start, length int64) value {
	if start <= 0 {
		return failedValue
	}
	end := start + length
	if end > 1<<31-1 || end < -1<<31 {
		return failedValue
	}
	head := v.b[:charOffset(v.b, start-1)]
	tail := v.b[charOffset(v.b, max(end, 1)-1):]
	return joined(head, part.b, tail)
}

// overlayBytes is overlayText for bytea, in whose hexadecimal a byte has two digits.
func overlayBytes(v, part value, start, length int64) value {
	if start <= 0 {
		return failedValue
	}
	end := start + length
	if end > 1<<31-1 || end < -1<<31 {
		return failedValue
	}
	at := func(n int64) int { return int(min(max(n, 0)*2, int64(len(v.b)))) }
	return joined(v.b[:at(start-1)], part.b, v.b[at(max(end, 1)-1):])
}

func joined(parts ...[]byte) value {
	out := bytes.Join(parts, nil)
	if len(out) > maxText {
		return failedValue
	}
	return bytesValue(out)
}
