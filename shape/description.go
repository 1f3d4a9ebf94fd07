package shape

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/shapeserver/shapeserver/where"
)

// Description is a text that says which columns a definition uses and how their values read: what FitsTable looks at, for a
// server that was not there when the table changed. It is a hash, followed by the labels of the enums among their types, a
// JSON array of arrays, where there are any: labels that came hurt nobody.
func (d *Definition) Description() string {
	var b bytes.Buffer
	var labels [][]string
	var walk func(*where.Type)
	walk = func(t *where.Type) {
		if t == nil {
			fmt.Fprint(&b, "-")
			return
		}
		fmt.Fprintf(&b, "(%d %q", t.OID, t.Attributes)
		if t.Kind == where.KindEnum {
			labels = append(labels, t.Labels)
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
	}
	if !d.Explicit {
		fmt.Fprint(&b, "all")
		for i := range d.Table.Columns {
			fmt.Fprintf(&b, " %q", d.Table.Columns[i].Name)
		}
	}
	sum := sha256.Sum256(b.Bytes())
	text := hex.EncodeToString(sum[:16])
	if len(labels) == 0 {
		return text
	}
	list, err := json.Marshal(labels)
	if err != nil {
		panic(err) // strings are never refused
	}
	return text + string(list)
}

// FitsDescription reports whether the definition's values read as they did when it had the description was, which is "" when
// nobody noted it.
func (d *Definition) FitsDescription(was string) bool {
	if was == "" {
		return true
	}
	hash, list, found := strings.Cut(was, "[")
	nowHash, nowList, _ := strings.Cut(d.Description(), "[")
	if hash != nowHash || !found {
		return hash == nowHash
	}
	var before, now [][]string
	if json.Unmarshal([]byte("["+list), &before) != nil || json.Unmarshal([]byte("["+nowList), &now) != nil || len(before) != len(now) {
		return false
	}
	for i := range before {
		if !contained(before[i], now[i]) {
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
