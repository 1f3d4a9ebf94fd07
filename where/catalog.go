package where

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:generate sh -c "psql -XAtqf catalog.sql > catalog.tsv"

//go:embed catalog.tsv
var catalogTSV string

// proc is a function, or the function behind an operator, as pg_proc and pg_operator describe it.
type proc struct {
	name     string
	args     []*typ
	ret      *typ
	variadic *typ // pg_proc.provariadic, nil for none
	defaults int  // how many trailing arguments have a default
	kind     byte // pg_proc.prokind: 'f' function, 'a' aggregate, 'w' window
	retset   bool
	volatile byte // pg_proc.provolatile: 'i' immutable, 's' stable, 'v' volatile
	strict   bool
	key      string // pg_proc.prosrc, or name(args) for what is written in SQL: the key of builtins
}

// cast is a row of pg_cast.
type cast struct {
	context byte // 'i' implicit, 'a' in assignment, 'e' explicit
	method  byte // 'f' function, 'b' binary coercible, 'i' through text
	key     string
}

type castPair struct{ from, to uint32 }

// catalog is Postgres's own, as far as catalog.sql takes it. It is immutable after loading.
type catalog struct {
	types  map[uint32]*typ
	byName map[string]*typ
	ops    map[string][]*proc // prefix operators have one argument
	funcs  map[string][]*proc
	casts  map[castPair]cast
}

var theCatalog = sync.OnceValue(func() *catalog {
	c, err := loadCatalog(catalogTSV)
	if err != nil {
		panic(fmt.Sprintf("where: embedded catalogue: %v", err)) // it is part of the binary: a wrong one is a wrong build
	}
	return c
})

// loadCatalog reads the lines that catalog.sql writes; their first field names their kind.
func loadCatalog(tsv string) (*catalog, error) {
	c := &catalog{
		types: map[uint32]*typ{}, byName: map[string]*typ{}, ops: map[string][]*proc{},
		funcs: map[string][]*proc{}, casts: map[castPair]cast{},
	}
	elems := map[*typ]uint32{}
	for line := range strings.Lines(tsv) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var err error
		switch {
		case f[0] == "t" && len(f) == 10:
			err = c.addType(f, elems)
		case f[0] == "r" && len(f) == 4:
			err = c.addRange(f)
		case f[0] == "c" && len(f) == 7:
			var from, to uint32
			if from, err = parseOID(f[1]); err == nil {
				to, err = parseOID(f[2])
				c.casts[castPair{from, to}] = cast{context: f[3][0], method: f[4][0], key: f[5]}
			}
		case f[0] == "o" && len(f) == 8:
			var p *proc
			if p, err = c.newProc(f[1], f[4], f[2]+" "+f[3], f[6], f[7], f[5]); err == nil {
				c.ops[p.name] = append(c.ops[p.name], p)
			}
		case f[0] == "f" && len(f) == 11:
			err = c.addFunc(f)
		default:
			err = fmt.Errorf("%d fields", len(f))
		}
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
	}
	for t, e := range elems {
		if t.elem = c.types[e]; t.elem == nil {
			t.kind = KindComposite // an array of a catalogue's row type; nothing works with those
			continue
		}
		t.name = t.elem.name + "[]"
	}
	return c, nil
}

func (c *catalog) addType(f []string, elems map[*typ]uint32) error {
	oid, err := parseOID(f[1])
	if err != nil {
		return err
	}
	elem, err := parseOID(f[6])
	if err != nil {
		return err
	}
	array, err := parseOID(f[7])
	if err != nil {
		return err
	}
	t := &typ{
		oid: oid, schema: "pg_catalog", name: f[2], kind: TypeKind(f[3][0]), category: f[4][0], preferred: f[5] == "t",
		arrayOID: array, collatable: f[8] == "t",
	}
	if t.category == 'A' && elem != 0 && f[9] == "t" {
		t.kind = KindArray
		elems[t] = elem
	}
	c.types[oid], c.byName[t.name] = t, t
	return nil
}

// addRange ties a range type to its subtype and to the multirange type over it; types are listed before.
func (c *catalog) addRange(f []string) error {
	var oids [3]uint32
	for i := range oids {
		var err error
		if oids[i], err = parseOID(f[1+i]); err != nil {
			return err
		}
	}
	rng, multi := c.types[oids[0]], c.types[oids[2]]
	rng.sub, rng.multi, multi.rng = c.types[oids[1]], multi, rng
	return nil
}

func (c *catalog) addFunc(f []string) error {
	p, err := c.newProc(f[1], f[2], f[3], f[8], f[9], f[10])
	if err != nil {
		return err
	}
	variadic, err := parseOID(f[4])
	if err != nil {
		return err
	}
	p.variadic = c.types[variadic]
	if p.defaults, err = strconv.Atoi(f[5]); err != nil {
		return err
	}
	p.kind, p.retset = f[6][0], f[7] == "t"
	c.funcs[p.name] = append(c.funcs[p.name], p)
	return nil
}

func (c *catalog) newProc(name, ret, args, volatile, strict, key string) (*proc, error) {
	p := &proc{name: name, kind: 'f', volatile: volatile[0], strict: strict == "t", key: key}
	oid, err := parseOID(ret)
	if err != nil {
		return nil, err
	}
	if p.ret = c.types[oid]; p.ret == nil {
		return nil, fmt.Errorf("result type %d is not listed", oid)
	}
	for a := range strings.FieldsSeq(args) {
		if oid, err = parseOID(a); err != nil {
			return nil, err
		}
		if oid == 0 {
			continue // the absent left operand of a prefix operator
		}
		t := c.types[oid]
		if t == nil {
			return nil, fmt.Errorf("argument type %d is not listed", oid)
		}
		p.args = append(p.args, t)
	}
	return p, nil
}

func parseOID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}
