package changes

// Receipt lets a receiver of a delivery tell its sender that it is through with it.
type Receipt interface {
	// Applied says that the delivery's effects are in the shape's log and visible to readers, or that the shape is
	// gone for good. It is called once for each delivery, from any goroutine, and does not block.
	Applied()
}

// Token names one close request between a sender and a receiver. The sender chooses it; no two are alike.
type Token uint64

// Delivery is what collector puts into a consumer's mailbox: the part of a fragment that concerns one shape, or a
// close request. Deliveries of one shape are in commit order (I2).
type Delivery struct {
	Txn     *Txn
	Changes []*Change // in the order of Change.Index; may be empty
	Commit  bool      // nothing more of Txn follows
	Receipt Receipt   // never nil, except in a close request

	// Close, when not zero, asks the receiver to finish what came before, flush, answer with this token and end.
	// Txn, Changes and Receipt are empty then, and the sender sends nothing more until the answer.
	Close Token
}
