package api

import (
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// coding is how a body is compressed.
type coding uint8

const (
	identity coding = iota
	gzipped
	zstandard
	codings // how many there are
)

// names are the codings in Content-Encoding and Accept-Encoding.
var names = [codings]string{identity: "identity", gzipped: "gzip", zstandard: "zstd"}

const (
	// minCompressed is the size, in bytes, of the smallest body that is worth compressing: what is less fits into one
	// packet anyway.
	minCompressed = 1 << 10
	// maxStreams is how many responses may be compressed while they are sent. An encoder takes about 1.3 MB, and a client
	// that reads slowly holds it; who finds none free gets the body as it is.
	maxStreams = 16
	// zstdWindow keeps an encoder small; decoders of content codings must take up to 8 MiB (RFC 9659).
	zstdWindow = 512 << 10
	// maxAccepted is how many elements of Accept-Encoding are looked at.
	maxAccepted = 32
)

// accepted is what codings a request takes, and the one it gets.
type accepted struct {
	takes [codings]bool
	best  coding
}

// accepted is what a request takes. Event streams are not compressed: their events are small and have to leave at once, and
// an encoder for each of thousands of streams is more than their clients are worth.
func (s *server) accepted(r *http.Request, req *request) accepted {
	if s.opts.NoCompression || req.sse {
		return accepted{takes: [codings]bool{identity: true}}
	}
	return negotiate(r.Header["Accept-Encoding"])
}

// negotiate reads Accept-Encoding (RFC 9110 §12.5.3). Of the codings that the client weighs equally it gets the one that
// is smaller and cheaper to make. When the client takes nothing that there is, it gets the body as it is, rather than an
// error that no client could do anything about.
func negotiate(lines []string) accepted {
	a := accepted{takes: [codings]bool{identity: true}}
	var weight [codings]int // in thousandths
	named := [codings]bool{}
	other := -1 // weight of "*"
	n := 0
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			if n++; n > maxAccepted {
				break
			}
			name, q := splitWeight(element)
			if name == "*" {
				other = q
				continue
			}
			for c := range codings {
				if strings.EqualFold(name, names[c]) || c == gzipped && strings.EqualFold(name, "x-gzip") {
					weight[c], named[c] = q, true
				}
			}
		}
	}
	for c := gzipped; c < codings; c++ {
		if !named[c] {
			weight[c] = max(other, 0)
		}
		if a.takes[c] = weight[c] > 0; a.takes[c] && weight[c] >= weight[a.best] {
			a.best = c
		}
	}
	if named[identity] && weight[identity] > weight[a.best] {
		a.best = identity
	}
	return a
}

// splitWeight splits an element of Accept-Encoding into the coding and its weight in thousandths: 1000 when it has none,
// 0 when it cannot be read.
func splitWeight(element string) (name string, q int) {
	name, rest, ok := strings.Cut(element, ";")
	name = strings.TrimSpace(name)
	if !ok {
		return name, 1000
	}
	key, value, _ := strings.Cut(rest, "=")
	if !strings.EqualFold(strings.TrimSpace(key), "q") {
		return name, 1000
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !(f >= 0) || f > 1 { // what is not a number is not at least 0 either
		return name, 0
	}
	return name, int(f*1000 + 0.5)
}

// encoder is what the two libraries' writers have in common.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(w io.Writer)
}

// encoders lends encoders. What is idle is left to the garbage collector.
type encoders struct {
	idle    [codings]sync.Pool
	wholes  chan struct{} // one element for each body that is compressed in memory
	streams chan struct{} // one element for each response that is compressed while it is sent
}

func newEncoders() *encoders {
	e := &encoders{wholes: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), streams: make(chan struct{}, maxStreams)}
	e.idle[gzipped].New = func() any {
		w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			panic(err) // the level is a constant of the package
		}
		return w
	}
	e.idle[zstandard].New = func() any {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return w
	}
	return e
}

// whole runs use with an encoder that writes to w, which must not block: it waits for its turn, so that there are never
// many encoders.
func (e *encoders) whole(c coding, w io.Writer, use func(io.Writer) error) error {
	e.wholes <- struct{}{}
	defer func() { <-e.wholes }()
	enc := e.get(c, w)
	defer e.put(c, enc)
	if err := use(enc); err != nil {
		return err
	}
	return enc.Close() //nolint:wrapcheck // w does not fail
}

// get lends an encoder that writes to w; put takes it back.
func (e *encoders) get(c coding, w io.Writer) encoder {
	enc := e.idle[c].Get().(encoder) //nolint:forcetypeassert // the pools hold nothing else
	enc.Reset(w)
	return enc
}

func (e *encoders) put(c coding, enc encoder) {
	enc.Reset(nil) // lets go of w
	e.idle[c].Put(enc)
}

// stream lends an encoder for the length of a response, or nil when too many are out.
func (e *encoders) stream(c coding, w io.Writer) encoder {
	select {
	case e.streams <- struct{}{}:
		return e.get(c, w)
	default:
		return nil
	}
}

func (e *encoders) endStream(c coding, enc encoder) {
	e.put(c, enc)
	<-e.streams
}
