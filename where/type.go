package where

// typ is a type as the checker works with it: Type plus what pg_type says about conversions. Types are compared by
// OID, because a column's Type comes from outside.
type typ struct {
	oid        uint32
	schema     string
	name       string // pg_type.typname; of an array the element's name with "[]"
	kind       TypeKind
	category   byte // pg_type.typcategory
	preferred  bool // pg_type.typispreferred
	collatable bool
	elem       *typ   // of an array
	arrayOID   uint32 // 0 when there is none
	array      *typ   // made on demand by arrayOf for types outside the catalogue
	base       *typ   // of a domain: the type under all domains
	sub        *typ   // of a range: its subtype
	multi      *typ   // of a range of the catalogue: the multirange type over it
	rng        *typ   // of a multirange of the catalogue: the type of its ranges
	labels     map[string]int64
}

// OIDs that the code names; all stand in catalog.tsv as well (src: pg_type.dat of the manual's "System Catalogs").
const (
	oidBool        = 16
	oidBytea       = 17
	oidChar        = 18
	oidXid         = 28
	oidMacaddr8    = 774
	oidMacaddr     = 829
	oidBit         = 1560
	oidVarbit      = 1562
	oidLSN         = 3220
	oidXid8        = 5069
	oidName        = 19
	oidInt8        = 20
	oidInt2        = 21
	oidInt2vector  = 22
	oidInt4        = 23
	oidText        = 25
	oidOid         = 26
	oidOidvector   = 30
	oidJSON        = 114
	oidFloat4      = 700
	oidFloat8      = 701
	oidUnknown     = 705
	oidInet        = 869
	oidCidr        = 650
	oidBpchar      = 1042
	oidVarchar     = 1043
	oidDate        = 1082
	oidTime        = 1083
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidInterval    = 1186
	oidTimetz      = 1266
	oidNumeric     = 1700
	oidRecord      = 2249
	oidAny         = 2276
	oidAnyArray    = 2277
	oidAnyElement  = 2283
	oidAnyNonArray = 2776
	oidUUID        = 2950
	oidAnyEnum     = 3500
	oidJSONB       = 3802
	oidAnyRange    = 3831

	oidAnyMultirange = 4537

	oidAnyCompatible         = 5077
	oidAnyCompatibleArray    = 5078
	oidAnyCompatibleNonArray = 5079

	// firstNormalOID is where the OIDs of what users create begin (FirstNormalObjectId).
	firstNormalOID = 16384
)

func (t *typ) String() string { return t.name }

func (t *typ) is(oid uint32) bool { return t.oid == oid }

// baseType looks through domains.
func (t *typ) baseType() *typ {
	if t.base != nil {
		return t.base
	}
	return t
}

// isArray reports whether t, looking through domains, is a true array.
func (t *typ) isArray() bool { return t.baseType().kind == KindArray }

// known reports whether values of t can be read and written by this package.
func (t *typ) known() bool {
	t = t.baseType()
	switch t.kind {
	case KindEnum:
		return true
	case KindArray:
		// The two vectors are arrays to the catalogue, but have a text of their own.
		return t.elem != nil && t.elem.kind != KindArray && t.elem.known() && !t.is(oidInt2vector) && !t.is(oidOidvector)
	case KindBase:
		_, ok := codecs[t.oid]
		return ok
	case KindRange:
		return t.multi != nil && t.sub.known() // those that users create have an order and a canonical form of their own
	case KindMultirng:
		return t.rng != nil && t.rng.known()
	default:
		return false
	}
}

// typeSet interns the types of one Scope, so that enums and domains keep one identity within a clause.
type typeSet struct {
	cat   *catalog
	byOID map[uint32]*typ
}

func newTypeSet() *typeSet {
	return &typeSet{cat: theCatalog(), byOID: map[uint32]*typ{}}
}

func (s *typeSet) oid(oid uint32) *typ { return s.cat.types[oid] }

// of converts a column's Type. A nil Type is one that nothing is known about.
func (s *typeSet) of(t *Type) *typ {
	if t == nil {
		return &typ{name: "unknown type", kind: KindPseudo, category: 'X'}
	}
	if b, ok := s.cat.types[t.OID]; ok && t.OID < firstNormalOID {
		return b
	}
	if b, ok := s.byOID[t.OID]; ok {
		return b
	}
	n := &typ{oid: t.OID, schema: t.Schema, name: t.Name, kind: t.Kind, category: 'U'}
	s.byOID[t.OID] = n
	switch t.Kind {
	case KindEnum:
		n.category = 'E'
		n.labels = make(map[string]int64, len(t.Labels))
		for i, l := range t.Labels {
			n.labels[l] = int64(i)
		}
	case KindArray:
		n.category = 'A'
		n.elem = s.of(t.Elem)
		n.name = n.elem.name + "[]"
		n.collatable = n.elem.collatable
		n.elem.array = n
	case KindDomain:
		under := s.of(t.Base)
		n.base = under.baseType()
		n.category, n.collatable = n.base.category, n.base.collatable
	case KindComposite:
		n.category = 'C'
	case KindRange, KindMultirng:
		n.category = 'R'
		if t.Kind == KindRange && t.Elem != nil {
			n.sub = s.of(t.Elem)
		}
	case KindPseudo:
		n.category = 'P'
	case KindBase:
	}
	return n
}

// arrayOf returns the array type over elem, nil when there is none.
func (s *typeSet) arrayOf(elem *typ) *typ {
	if elem.array != nil {
		return elem.array
	}
	if elem.arrayOID != 0 {
		return s.cat.types[elem.arrayOID]
	}
	if elem.kind == KindEnum {
		// Every enum has an array type; its OID is not known here, and nothing needs it.
		elem.array = &typ{oid: elem.oid | 1<<31, schema: elem.schema, name: elem.name + "[]", kind: KindArray, category: 'A', elem: elem}
		return elem.array
	}
	return nil
}

// named finds an enum or domain of the scope's columns by name, as a cast may spell it.
func (s *typeSet) named(schema, name string) *typ {
	for _, t := range s.byOID {
		if t.name == name && (schema == "" || schema == t.schema) {
			return t
		}
	}
	return nil
}
