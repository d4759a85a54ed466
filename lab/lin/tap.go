package lin

import (
	"context"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/wire"
)

// mode is the way in which a connection breaks.
type mode string

// The modes.
const (
	closes mode = "close"
	resets mode = "reset"
	halves mode = "half-close" // the receiver finds the end of the data
	loses  mode = "partition"  // further data of this direction is lost
	delays mode = "delay"      // further data comes later
)

// breaks are the modes after which both sides soon know that the connection is broken.
var breaks = [...]mode{closes, resets, halves}

// cut is a break of a connection.
type cut struct {
	mode mode
	way  wire.Direction
	at   int // bytes of that direction that arrive before; -1 cuts nothing

	counts [2]int // bytes so far, of all connections
	done   bool   // the break came
	link   *wire.Link
}

// delay is the longest time for which a slow tap holds up an answer.
const delay = 4 * time.Millisecond

// tap is a proxy that breaks connections to a server.
type tap struct {
	*wire.Proxy
	// slow has answers come late, so that there is time for a fault between a commit and its
	// answer. Answers that are under way are lost while the server is down.
	slow bool
	down *atomic.Bool

	mu   sync.Mutex
	cut  *cut
	held chan struct{} // see hold
	pass chan struct{}
}

// newTap returns a tap to the server of a URL.
func newTap(server string, slow bool, down *atomic.Bool) (*tap, error) {
	t := &tap{slow: slow, down: down}
	var err error
	t.Proxy, err = wire.New(server, t.decide)
	return t, err
}

// addr returns the address that clients connect to.
func (t *tap) addr() string {
	u, _ := url.Parse(t.URL()) // the proxy has made it
	return u.Host
}

// arm orders a cut, or takes the order back.
func (t *tap) arm(c *cut) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut = c
}

// cutSoon breaks the connection that carries one of the next bytes of a direction, if there are
// so many bytes soon.
func (t *tap) cutSoon(r *rand.Rand, way wire.Direction, bytes int, soon time.Duration) {
	c := &cut{mode: breaks[r.IntN(len(breaks))], way: way, at: r.IntN(bytes)}
	t.arm(c)
	for end := time.Now().Add(soon); time.Now().Before(end) && !t.came(c); {
		time.Sleep(soon / 20)
	}
	t.arm(nil)
}

func (t *tap) came(c *cut) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.done
}

// hold holds up the next answer until pass is closed. held is closed when the answer has come.
func (t *tap) hold() (held <-chan struct{}, pass chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held, t.pass = make(chan struct{}), make(chan struct{})
	return t.held, t.pass
}

// decide is the policy of the proxy.
func (t *tap) decide(l *wire.Link, d wire.Direction, piece []byte) wire.Fate {
	if t.slow && d == wire.ToClient {
		time.Sleep(rand.N(delay)) // not by the seed, since the system's scheduler decides as much
		if t.down.Load() {
			return wire.Fate{End: wire.Close}
		}
	}
	t.mu.Lock()
	if t.held != nil && d == wire.ToClient {
		close(t.held)
		t.held = nil
		pass := t.pass
		t.mu.Unlock()
		<-pass
		return wire.Pass(piece)
	}
	defer t.mu.Unlock()
	if t.cut == nil {
		return wire.Pass(piece)
	}
	return t.cut.fate(l, d, piece)
}

func (c *cut) fate(l *wire.Link, d wire.Direction, piece []byte) wire.Fate {
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
	case closes:
		f.End = wire.Close
	case resets:
		f.End = wire.Reset
	case halves:
		f.End = wire.Half
	case loses:
		c.link = l
	case delays:
		f.Hold = func() { time.Sleep(5 * time.Millisecond) }
	}
	return f
}

// dialed are the connections that a client has made.
type dialed struct {
	addr func() string // the server's address at the time of a dial; nil takes the client's

	mu    sync.Mutex
	conns []net.Conn
}

// dial is the dialer of a client.
func (d *dialed) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.addr != nil {
		addr = d.addr()
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	return c, nil
}

// hangUp closes all connections. The client notices when it next needs one.
func (d *dialed) hangUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close() // the client may have closed it
	}
	d.conns = nil
}
