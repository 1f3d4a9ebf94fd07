package logstore

import (
	"container/list"
	"slices"
	"sort"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/shapeserver/shapeserver/shapelog"
)

// newest is the last entries of a log as they go on the wire, for the many who waited for them and all ask at once.
// It is kept only when somebody waits at the commit, and grows with the next commits while it is small. Its bytes do
// not change: a bigger one shares them and writes behind.
type newest struct {
	start mark   // the entries are behind it
	index []mark // of each entry
	bytes []byte // the entries, each with a comma behind it
}

func (n *newest) size() int64 {
	if n == nil {
		return 0
	}
	return int64(cap(n.bytes) + cap(n.index)*32)
}

// find returns the bytes of (from, end], shared and not to be changed, if they are here.
func (n *newest) find(from, end shapelog.Offset) ([]byte, bool) {
	if n == nil || from.Compare(n.start.off) < 0 {
		return nil, false
	}
	i := sort.Search(len(n.index), func(i int) bool { return n.index[i].off.Compare(from) > 0 })
	j := sort.Search(len(n.index), func(j int) bool { return n.index[j].off.Compare(end) >= 0 })
	if i > j || j == len(n.index) || n.index[j].off != end {
		return nil, false
	}
	lo, hi := int64(0), n.index[j].pos-n.start.pos-1
	if i > 0 {
		lo = n.index[i-1].pos - n.start.pos
	}
	return n.bytes[lo:hi], true
}

// freshen returns what newest is to be after the commit of p. writeMu is held, so l.last stands still.
func (l *log) freshen(p *pending) *newest {
	l.mu.Lock()
	old, last := l.newest, l.last
	l.mu.Unlock()
	added := int(p.last.pos - last.pos)
	if p.spilled || added > hotMax {
		return nil
	}
	n := &newest{start: last}
	switch {
	case old != nil && len(old.bytes)+added <= hotMax:
		*n = *old
	case !l.state.Waiters():
		return nil
	}
	n.bytes = slices.Grow(n.bytes, added)
	r := p.batch.Reader()
	for {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return nil // apply will say what is wrong with the batch
		}
		if !ok {
			return n
		}
		if kind != pebble.InternalKeyKindSet || len(key) != offsetKeyLen || key[0] != keyLog || key[logKeyLen-1] != kindEntry {
			continue
		}
		off, pos, json, err := decodeEntry(key, value)
		if err != nil {
			return nil
		}
		n.bytes = append(append(n.bytes, json...), ',')
		n.index = append(n.index, mark{off: off, pos: pos})
	}
}

func (l *log) dropNewest() {
	l.mu.Lock()
	l.newest = nil
	l.mu.Unlock()
}

// hotList bounds the memory of all newest together: the log whose commit is longest ago loses its own first.
type hotList struct {
	max int64

	mu    sync.Mutex
	size  int64
	order list.List // of hotLog, the oldest first
	of    map[*log]*list.Element
}

type hotLog struct {
	log  *log
	size int64
}

// set notes how much a log's newest takes now, and takes it from others when that is too much.
func (h *hotList) set(l *log, size int64) {
	for _, victim := range h.update(l, size) {
		victim.dropNewest()
	}
}

func (h *hotList) update(l *log, size int64) (victims []*log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(l)
	if size == 0 {
		return nil
	}
	if h.of == nil {
		h.of = map[*log]*list.Element{}
	}
	h.of[l] = h.order.PushBack(hotLog{log: l, size: size})
	h.size += size
	for h.size > h.max && h.order.Len() > 1 {
		oldest := h.order.Front().Value.(hotLog).log
		h.removeLocked(oldest)
		victims = append(victims, oldest)
	}
	return victims
}

func (h *hotList) remove(l *log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(l)
}

func (h *hotList) removeLocked(l *log) {
	if e := h.of[l]; e != nil {
		h.size -= e.Value.(hotLog).size
		h.order.Remove(e)
		delete(h.of, l)
	}
}
