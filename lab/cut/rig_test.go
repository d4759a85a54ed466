package cut

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/store"
)

// rig is a store, and perhaps a ledger, behind a proxy, and sound ones that look past the proxy. It
// is for one goroutine.
type rig struct {
	proxy *wire.Proxy

	buckets, soundBuckets buckets
	ledger, soundLedger   *serverload.Ledger // nil if the server has no ledger
	// pruning and soundPruning believe no time that is far ahead, and so prune at once.
	pruning, soundPruning store.Store

	hangUp func()                // closes the connections through the proxy
	clear  func(context.Context) // removes what earlier calls have left, where that makes an exchange longer
	// ended hangs up, and waits until nothing is applied any more.
	ended func(context.Context) error

	calls int // so far

	mu  sync.Mutex
	cut *cut // under way, or nil
}

// buckets is a store, and the subject of its calls.
type buckets interface {
	store.Store
	serverload.Subject
}

// Timeouts. A call whose data is lost ends by one of them, and no other call, also on a slow
// machine.
const (
	statementTimeout = 3 * time.Second
	callTimeout      = 2 * statementTimeout
	maxSkew          = 2 * time.Millisecond
)

// newRig returns a rig without stores, with a proxy to the server of a URL.
func newRig(t *testing.T, url string) *rig {
	t.Helper()
	r := &rig{clear: func(context.Context) {}}
	var err error
	if r.proxy, err = wire.New(url, r.pass); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// next returns the next call of a kind, with places of its own. Keys and IDs have the same length
// in all calls, so that all exchanges of a kind have the same length.
func (r *rig) next(k serverload.Kind) serverload.Call {
	r.calls++
	c := serverload.Call{ID: fmt.Sprintf("%08d", r.calls), Kind: k}
	for i := range serverload.Width(k) {
		c.Places = append(c.Places, serverload.Place{Key: fmt.Sprintf("%08d/%d", r.calls, i)})
	}
	return c
}

// mode is the way in which a connection breaks.
type mode string

const (
	closed    mode = "close"
	reset     mode = "reset"
	half      mode = "half-close" // the receiver finds the end of the data
	partition mode = "partition"  // further data of this direction is lost
	late      mode = "delay"      // further data comes later
)

// cut is a break of a connection.
type cut struct {
	mode mode
	way  wire.Direction
	at   int // bytes of that direction that arrive before; -1 cuts nothing

	counts [2]int     // bytes so far
	done   bool       // the break came
	link   *wire.Link // that is partitioned
}

// pass is the proxy's policy.
func (r *rig) pass(l *wire.Link, d wire.Direction, piece []byte) wire.Fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cut
	if c == nil {
		return wire.Pass(piece)
	}
	before := c.counts[d]
	c.counts[d] += len(piece)
	switch {
	case c.link == l && d == c.way:
		return wire.Fate{} // lost
	case c.done, d != c.way, c.at < 0, c.at > c.counts[d]:
		return wire.Pass(piece)
	}
	c.done = true
	f := wire.Fate{Pass: c.at - before}
	switch c.mode {
	case closed:
		f.End = wire.Close
	case reset:
		f.End = wire.Reset
	case half:
		f.End = wire.Half
	case partition:
		c.link = l
	case late:
		f.Hold = func() { time.Sleep(5 * time.Millisecond) }
	}
	return f
}

// arm has the proxy make a cut, or none.
func (r *rig) arm(c *cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = c
}
