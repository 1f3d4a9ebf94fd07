package where

// TypeKind is the kind of a Type (pg_type.typtype, with arrays told apart).
type TypeKind byte

// The kinds of types.
const (
	KindBase      TypeKind = 'b'
	KindArray     TypeKind = 'a' // a true array: typcategory A with a typelem
	KindEnum      TypeKind = 'e'
	KindDomain    TypeKind = 'd'
	KindComposite TypeKind = 'c'
	KindRange     TypeKind = 'r'
	KindMultirng  TypeKind = 'm'
	KindPseudo    TypeKind = 'p'
)

// Type is a Postgres type as the catalogue describes it. A Type is immutable and may be shared.
type Type struct {
	OID    uint32
	Schema string
	Name   string // pg_type.typname, such as "int4"
	Kind   TypeKind
	Elem   *Type    // of an array: its element type; of a range: its subtype
	Base   *Type    // of a domain: what it is over, itself perhaps a domain
	Labels []string // of an enum: its labels in sort order
	// Attributes are those of a composite type, in order, each as its name and type.
	Attributes []string
	Parts      []*Type // the attributes' types
}

// Collation is how a column's text is ordered. The zero Collation is that of a type without one.
type Collation struct {
	Name          string // "default" resolved to the database's own, such as "C.UTF-8" or "en_US.UTF-8"
	Provider      byte   // pg_collation.collprovider: 'c' libc, 'i' ICU, 'b' builtin; 0 for none
	Deterministic bool   // equal text is equal bytes
	// Ctype is collctype or datctype of a libc collation where it is not Name: it decides what lower() and upper()
	// do, while Name decides the order.
	Ctype string
}

// Column describes one column of a table to the type checker.
type Column struct {
	Name      string
	Type      *Type
	TypeMod   int32 // -1 when there is none
	Collation Collation
}
