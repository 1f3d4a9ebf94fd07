package where

// nodeKind is what a node of the typed tree does.
type nodeKind uint8

const (
	nodeConst      nodeKind = iota
	nodeColumn              // column
	nodeOp                  // fn over one or two args, written as an operator
	nodeFunc                // fn over args, written as a call
	nodeCast                // args[0] to typ through fn, builtin cast or text; not written when implicit
	nodeAnd                 // two or more args
	nodeOr                  // two or more args
	nodeNot                 // args[0]
	nodeNullTest            // args[0] IS [NOT] NULL
	nodeBoolTest            // args[0] IS [NOT] TRUE, FALSE, UNKNOWN
	nodeDistinct            // args[0] IS [NOT] DISTINCT FROM args[1], equal by fn
	nodeAnyAll              // args[0] fn ANY or ALL (args[1])
	nodeArray               // ARRAY[args]
	nodeCase                // args: when, then, when, then, …, else
	nodeCoalesce            // args
	nodeNullIf              // args[0], args[1], equal by fn
	nodeGreatest            // args
	nodeLeast               // args
	nodeCollate             // args[0] COLLATE coll
	nodeIndex               // args[0][args[1]]…
	nodeSlice               // args[0][lower:upper]…, the bounds that are written in args[1:], see bounded
	nodeRow                 // ROW(args); only below a comparison
	nodeRowCompare          // two rows by < <= > or >=: args are left, right, left, right, …; pairs
)

// testKind is which test a nodeBoolTest makes.
type testKind uint8

const (
	testTrue testKind = iota
	testFalse
	testUnknown
)

// castMethod is how a nodeCast converts.
type castMethod uint8

const (
	castRelabel castMethod = iota // same value under another type
	castFunc                      // a builtin named by key
	castText                      // through the text form
	castArray                     // every element through sub
	castFinite                    // the same interval, failing when it is infinite
)

// node is one node of the typed tree. Nodes are not changed once the checker has returned them, except by fold.
type node struct {
	kind nodeKind
	typ  *typ
	loc  int // byte offset in the client's text, -1 for what the checker added
	args []*node

	val     value  // nodeConst
	literal string // nodeConst: the text to render when it is not a quoted typed literal, such as 10 or true
	text    string // nodeConst of type unknown: what was written or what the parameter holds
	param   int32  // nodeConst of type unknown: n of $n, 0 for a literal

	column int // nodeColumn: position in Scope.Columns

	pairs    []*proc // nodeRowCompare: the operator of each pair
	fn       *proc   // nodeOp, nodeFunc, nodeDistinct, nodeAnyAll, nodeNullIf
	not      bool    // nodeNullTest, nodeBoolTest, nodeDistinct
	all      bool    // nodeAnyAll: ALL
	nested   bool    // nodeArray: the elements are arrays of its own type
	bounded  []bool  // nodeSlice: whether the lower and the upper bound of each dimension are written
	test     testKind
	implicit bool // nodeCast
	method   castMethod
	key      string // nodeCast by castFunc
	sub      *node  // nodeCast by castArray: the cast of one element, whose args are empty
	typmod   int32  // nodeCast: the target's modifier, -1 for none

	coll collation
	free bool // set by fold: there is no column in it, also when it stays as it is written for its collation
	size int  // see measure; 0 while not known
}

// measure returns how many nodes the tree has, counting what is used twice twice.
func (n *node) measure() int {
	if n.size == 0 {
		n.size = 1
		for _, a := range n.args {
			n.size += a.measure()
		}
	}
	return n.size
}

func (n *node) isConst() bool { return n.kind == nodeConst }

// isUnknown reports whether n is a literal or parameter whose type the context has still to give.
func (n *node) isUnknown() bool { return n.kind == nodeConst && n.typ.is(oidUnknown) }

// walk calls f for n and everything below it.
func (n *node) walk(f func(*node)) {
	f(n)
	for _, a := range n.args {
		a.walk(f)
	}
}
