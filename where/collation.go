package where

import "strings"

// strength is how a node came by its collation (manual, "Collation Support", the rules of derivation).
type strength uint8

const (
	collNone     strength = iota // not a collatable type
	collDefault                  // the database's, as a literal has it
	collImplicit                 // a column's
	collExplicit                 // from COLLATE
	collConflict                 // two implicit ones that differ
)

// collation is a node's derived collation. Under collDefault Collation may be zero: the scope did not tell.
type collation struct {
	strength strength
	Collation
}

// merge combines the collations of two inputs of one operator or function.
func (c collation) merge(o collation) (collation, bool) {
	switch {
	case c.strength == collExplicit && o.strength == collExplicit && c.Collation != o.Collation:
		return c, false
	case c.strength == collExplicit || o.strength == collNone:
		return c, true
	case o.strength == collExplicit || c.strength == collNone:
		return o, true
	case c.strength == collConflict || o.strength == collConflict:
		return collation{strength: collConflict}, true
	case c.strength == collImplicit && o.strength == collImplicit && c.Collation != o.Collation:
		return collation{strength: collConflict}, true
	case o.strength > c.strength:
		return o, true
	default:
		return c, true
	}
}

// handsOn is the collation that n gives to what stands around it: none when its own type has none, although coll then
// holds that of its inputs. A column of a user's base type has one that is not known from the type.
func (n *node) handsOn() collation {
	if !n.typ.collatable && n.kind != nodeColumn {
		return collation{}
	}
	return n.coll
}

// ofType is the collation of a value of a collatable type that has no other: C for name, whatever the database's is.
func (c *checker) ofType(t *typ) collation {
	if t = t.baseType(); t.kind == KindArray {
		t = t.elem
	}
	if t.is(oidName) {
		coll, _ := collationNamed("C")
		return collation{collImplicit, coll}
	}
	return collation{collDefault, c.scope.Default}
}

// bytewise reports whether the collation orders UTF-8 text by its bytes. C and POSIX do by definition, C.UTF-8 of
// libc and of the builtin provider by code point, which in UTF-8 is the same.
func (c Collation) bytewise() bool {
	switch strings.ToLower(c.Name) {
	case "c", "posix", "ucs_basic":
		return c.Provider == 'c' || c.Provider == 'b'
	case "c.utf-8", "c.utf8", "pg_c_utf8":
		return c.Provider == 'c' || c.Provider == 'b'
	default:
		return false
	}
}

// casing is how lower() and upper() change letters.
type casing uint8

const (
	casingUnknown casing = iota
	casingASCII          // only a-z and A-Z
	casingSimple         // every letter that has a single-character counterpart in Unicode
)

func (c Collation) casing() casing {
	if !c.Deterministic {
		return casingUnknown
	}
	ctype := c.Ctype
	if ctype == "" {
		ctype = c.Name
	}
	switch strings.ToLower(ctype) {
	case "c", "posix", "ucs_basic":
		if c.Provider == 'c' || c.Provider == 'b' {
			return casingASCII
		}
	case "c.utf-8", "c.utf8", "pg_c_utf8":
		if c.Provider == 'c' || c.Provider == 'b' {
			return casingSimple
		}
	}
	return casingUnknown
}

// name is the collation's name for messages.
func (c Collation) name() string {
	if c.Name == "" {
		return "of the database"
	}
	return `"` + c.Name + `"`
}

// known collations that COLLATE may name. Others would have to be looked up in the catalogue, and could only be used
// for equality.
func collationNamed(name string) (Collation, bool) {
	switch name {
	case "C", "POSIX", "ucs_basic":
		return Collation{Name: name, Provider: 'c', Deterministic: true}, true
	default:
		return Collation{}, false
	}
}
