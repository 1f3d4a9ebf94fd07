package api

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/shapeserver/shapeserver/shape"
)

// definitionKey is a digest of a definition's text as the client wrote it. It is a cryptographic one, because equal
// keys are taken for equal definitions, and a definition decides what a client may see.
type definitionKey [sha256.Size]byte

// keyOf digests the parts of a request that make its definition, each with its length before it.
func keyOf(req *request) definitionKey {
	buf := make([]byte, 0, 512)
	add := func(s string) {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	add(req.table)
	add(req.where)
	add(req.columns)
	add(req.queryable)
	add(string(req.replica))
	add(string(req.log))
	if req.where != "" {
		for _, name := range slices.Sorted(maps.Keys(req.params)) {
			add(name)
			add(req.params[name])
		}
	}
	return sha256.Sum256(buf)
}

// knownShape is what a text of a definition was proven to name. It is immutable.
type knownShape struct {
	handle shape.Handle
	schema string       // value of electric-schema
	table  *shape.Table // what it was proven on
}

// knownDefinitions remembers texts of definitions that have been checked, so that most requests need neither the
// parser nor the catalogue. It holds at most about its limit: there are two halves, and when the young one is full it
// becomes the old one, whose entries move back as they are used and are dropped otherwise.
type knownDefinitions struct {
	half int

	mu         sync.Mutex
	young, old map[definitionKey]*knownShape
}

func newKnownDefinitions(limit int) *knownDefinitions {
	return &knownDefinitions{half: max(1, limit/2), young: make(map[definitionKey]*knownShape)}
}

// get returns what is known of a definition, or nil.
func (k *knownDefinitions) get(key definitionKey) *knownShape {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.young[key]; ok {
		return v
	}
	v, ok := k.old[key]
	if ok {
		delete(k.old, key)
		k.putLocked(key, v)
	}
	return v
}

// put records a definition; handles that have gone since are replaced in time, or pushed out.
func (k *knownDefinitions) put(key definitionKey, v *knownShape) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.old, key)
	k.putLocked(key, v)
}

func (k *knownDefinitions) putLocked(key definitionKey, v *knownShape) {
	if len(k.young) >= k.half {
		k.old, k.young = k.young, make(map[definitionKey]*knownShape)
	}
	k.young[key] = v
}
