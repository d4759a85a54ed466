// Package wire puts a proxy between a program and its server, for tests of connections that break.
//
// A [Proxy] asks its [Policy] about each piece of data that passes, in either direction. The
// policy may let a part of the piece pass, hold it up, lose it, and end the connection in the
// ways in which networks do.
package wire

import (
	"errors"
	"net"
	"net/url"
	"sync"
)

// Direction is the way of a piece of data.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

func (d Direction) String() string { return [...]string{"to the server", "to the client"}[d] }

// End is the way in which a connection ends.
type End int

// The ends.
const (
	Open  End = iota // the connection does not end
	Close            // both sides find the connection closed
	Reset            // both sides get a reset
	Half             // the receiver finds the end of the data; the other direction goes on
)

func (e End) String() string { return [...]string{"open", "close", "reset", "half-close"}[e] }

// Fate is the treatment of a piece of data.
type Fate struct {
	Pass int    // the bytes of the piece that arrive; the rest is lost
	Hold func() // if set, it is called after Pass bytes have arrived, and then the rest arrives, too
	End  End    // of the connection, after that
}

// Policy decides about a piece of data. It is called in the order of the pieces of one direction of
// one connection, and otherwise by any number of goroutines at once. A policy may change the bytes
// of the piece: the changed bytes arrive.
type Policy func(l *Link, d Direction, piece []byte) Fate

// Pass is the fate of a piece that arrives as it is.
func Pass(piece []byte) Fate { return Fate{Pass: len(piece)} }

// Proxy passes TCP connections on to one server.
type Proxy struct {
	listener net.Listener
	server   url.URL
	policy   Policy
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	links  map[*Link]struct{}
}

// New returns a proxy to the server of a URL. The URL names a host and a port.
func New(server string, policy Policy) (*Proxy, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, server: *u, policy: policy, links: make(map[*Link]struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// URL returns the server's URL with the proxy in the place of the server.
func (p *Proxy) URL() string {
	u := p.server
	u.Host = p.listener.Addr().String()
	return u.String()
}

// Refuse refuses further connections. Those that are open stay.
func (p *Proxy) Refuse() error { return p.listener.Close() }

// Drop closes all connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end(Close)
	}
}

// Close closes all connections and the proxy.
func (p *Proxy) Close() error {
	err := p.Refuse()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Drop()
	p.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // Refuse has closed the listener before
	}
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server.Host)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &Link{proxy: p}
	l.ends[ToServer], l.ends[ToClient] = server.(*net.TCPConn), client.(*net.TCPConn) // Dial and Listen say tcp
	p.mu.Lock()
	if p.closed {
		l.end(Close)
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.pass(ToServer) })
	both.Go(func() { l.pass(ToClient) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// Link is a connection through the proxy.
type Link struct {
	proxy *Proxy
	ends  [2]*net.TCPConn // each is the end to which that direction leads
}

// end ends both directions. The errors say that a side has gone already.
func (l *Link) end(how End) {
	if how == Reset { // of both, before the first that is closed has the other direction close the second
		for _, c := range l.ends {
			_ = c.SetLinger(0)
		}
	}
	for _, c := range l.ends {
		_ = c.Close()
	}
}

// pass passes the data of one direction on until a side or the policy ends the connection.
func (l *Link) pass(d Direction) {
	from, to := l.ends[1-d], l.ends[d]
	buf := make([]byte, 1<<16)
	lost := false // nothing arrives any more, and the other direction goes on
	for {
		n, err := from.Read(buf)
		if err != nil {
			l.end(Close)
			return
		}
		if lost {
			continue
		}
		piece := buf[:n]
		f := l.proxy.policy(l, d, piece)
		_, err = to.Write(piece[:f.Pass])
		if f.Hold != nil && err == nil {
			f.Hold()
			_, err = to.Write(piece[f.Pass:])
		}
		switch {
		case err != nil:
			l.end(Close)
			return
		case f.End == Half:
			_ = to.CloseWrite() // an error means that the side has gone
			lost = true
		case f.End != Open:
			l.end(f.End)
			return
		}
	}
}
