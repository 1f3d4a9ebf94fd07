package shapelog

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestAppendJSONStringEverywhere puts every byte, and characters of several bytes, at every place of texts around the
// width that is looked at in one step, and reads them back.
func TestAppendJSONStringEverywhere(t *testing.T) {
	specials := []string{"é", "€", "😀", "\u2028", "\x80", "\xff", "\xe2\x82"}
	for c := range 256 {
		specials = append(specials, string([]byte{byte(c)}))
	}
	for size := range 20 {
		for at := range size + 1 {
			for _, special := range specials {
				text := strings.Repeat("a", at) + special + strings.Repeat("~", size-at)
				got := AppendJSONString(nil, []byte(text))
				if same := AppendJSONString(nil, text); !bytes.Equal(got, same) {
					t.Fatalf("%q: %s of bytes, %s of a string", text, got, same)
				}
				var back string
				if err := json.Unmarshal(got, &back); err != nil {
					t.Fatalf("%q: %s: %v", text, got, err)
				}
				if want := string([]rune(text)); back != want {
					t.Fatalf("%q came back as %q from %s", text, back, got)
				}
			}
		}
	}
}
