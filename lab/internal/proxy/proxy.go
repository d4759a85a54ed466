// Package proxy passes TCP connections on to a server, and cuts them at a chosen byte.
package proxy

import (
	"net"
	"sync"
	"time"
)

// Side is a direction of bytes.
type Side int

// The directions.
const (
	Requests Side = iota // from clients to the server
	Answers              // from the server to clients
)

// Proxy is a listener that passes connections on. Any number of goroutines may use it.
type Proxy struct {
	listener net.Listener
	server   string // the address
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[*link]bool
	side   Side          // of the next cut
	left   int           // bytes that still pass before it
	fired  chan struct{} // closed by the cut; nil if none is ordered
}

// link is one connection through the proxy.
type link struct{ client, server net.Conn }

func (l *link) close() { _, _ = l.client.Close(), l.server.Close() }

// Start returns a proxy on a free port of this machine, for the server at an address.
func Start(server string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, server: server, open: make(map[*link]bool)}
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close cuts all connections and waits until the proxy's goroutines have ended.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for l := range p.open {
		l.close()
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}

// Cut has the proxy cut the connection that carries the byte after the next n bytes of a side. It
// waits for the cut, and takes the order back after a time without it. It reports whether a
// connection was cut.
func (p *Proxy) Cut(side Side, n int, wait time.Duration) bool {
	fired := make(chan struct{})
	p.mu.Lock()
	p.side, p.left, p.fired = side, n, fired
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-fired:
		return true
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fired == fired {
		p.fired = nil
		return false
	}
	return true
}

// pass returns the number of n bytes that pass, and whether the connection is cut after them.
func (p *Proxy) pass(side Side, n int) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fired == nil || side != p.side {
		return n, false
	}
	if n <= p.left {
		p.left -= n
		return n, false
	}
	close(p.fired)
	p.fired = nil
	return p.left, true
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.open[l] = true
		if p.closed {
			l.close()
		}
		p.mu.Unlock()
		p.running.Go(func() { p.carry(l, Requests, client, server) })
		p.running.Go(func() { p.carry(l, Answers, server, client) })
	}
}

// carry passes bytes of one side on until the connection ends.
func (p *Proxy) carry(l *link, side Side, from, to net.Conn) {
	defer func() {
		l.close()
		p.mu.Lock()
		delete(p.open, l)
		p.mu.Unlock()
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		n, cut := p.pass(side, n)
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil || cut {
			return
		}
	}
}
