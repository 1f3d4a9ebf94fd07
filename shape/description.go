package shape

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/shapeserver/shapeserver/where"
)

// description is what Definition.Description gives, as JSON.
type description struct {
	Hash    string     `json:"hash"`             // of what must not change
	Labels  [][]string `json:"labels,omitempty"` // of the enums among the types; labels that came hurt nobody
	Files   string     `json:"files,omitempty"`  // as Table.Files
	Written []string   `json:"written,omitempty"`
}

// Description is a text that says which columns a definition uses and how their values read: what FitsTable looks at, for a
// server that was not there when the table changed.
func (d *Definition) Description() string {
	text, err := json.Marshal(d.describe())
	if err != nil {
		panic(err) // strings are never refused
	}
	return string(text)
}

func (d *Definition) describe() (out description) {
	var b bytes.Buffer
	var walk func(*where.Type)
	walk = func(t *where.Type) {
		if t == nil {
			fmt.Fprint(&b, "-")
			return
		}
		fmt.Fprintf(&b, "(%d %q", t.OID, t.Attributes)
		if t.Kind == where.KindEnum {
			out.Labels = append(out.Labels, t.Labels)
		}
		for _, part := range t.Parts {
			walk(part)
		}
		walk(t.Elem)
		walk(t.Base)
		fmt.Fprint(&b, ")")
	}
	for _, p := range d.used() {
		c := &d.Table.Columns[p]
		fmt.Fprintf(&b, "%q %d %d %+v", c.Name, c.Number, c.TypeMod, c.Collation)
		walk(c.Type)
		out.Written = append(out.Written, c.Written)
	}
	if !d.Explicit {
		fmt.Fprint(&b, "all")
		for i := range d.Table.Columns {
			fmt.Fprintf(&b, " %q", d.Table.Columns[i].Name)
		}
	}
	sum := sha256.Sum256(b.Bytes())
	out.Hash, out.Files = hex.EncodeToString(sum[:16]), d.Table.Files
	return out
}

// FitsDescription reports whether the definition's values read as they did when it had the description was, which is "" when
// nobody noted it.
func (d *Definition) FitsDescription(was string) bool {
	if was == "" {
		return true
	}
	var before description
	now := d.describe()
	if json.Unmarshal([]byte(was), &before) != nil || before.Hash != now.Hash || len(before.Labels) != len(now.Labels) {
		return false
	}
	if before.Files != now.Files && !slices.EqualFunc(before.Written, now.Written, func(a, b string) bool { return !rewritten(a, b) }) {
		return false
	}
	for i := range before.Labels {
		if !contained(before.Labels[i], now.Labels[i]) {
			return false
		}
	}
	return true
}

// contained reports whether all labels of before are in now, in the same order.
func contained(before, now []string) bool {
	next := 0
	for _, label := range now {
		if next < len(before) && before[next] == label {
			next++
		}
	}
	return next == len(before)
}
