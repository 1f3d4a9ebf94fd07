// Package storage says what a store of shape logs is; storage/logstore keeps them on disk, and
// storage/storagetest is the suite that every Store passes.
//
// A shape's log is its snapshot (chunks 0, 1, …; virtual offsets 0_0, 0_1, …), then entries with real offsets, cut
// into chunks of a fixed size. Bytes are kept exactly as they go on the wire: the JSON objects of a chunk, joined by
// commas, without the brackets around them.
//
// It owns no goroutine. Invariants: I3, an offset once served always means the same entry, and a closed chunk never
// changes; I5, a removed handle is never found again; I9, no method holds a chunk in memory. Start reading at Store.
package storage
