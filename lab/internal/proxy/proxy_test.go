package proxy

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// echo starts a server that sends back all that it receives. It returns the bytes that arrived on
// each connection once the connection has ended.
func echo(t *testing.T) (addr string, arrived <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	all := make(chan string, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var got []byte
			buf := make([]byte, 64)
			for {
				n, err := c.Read(buf)
				got = append(got, buf[:n]...)
				if _, failed := c.Write(buf[:n]); err != nil || failed != nil {
					break
				}
			}
			_ = c.Close()
			all <- string(got)
		}
	}()
	return l.Addr().String(), all
}

// TestCut: the cut comes after the ordered byte, in the ordered direction, and only once.
func TestCut(t *testing.T) {
	addr, arrived := echo(t)
	p, err := Start(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	send := func() string {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		n, err := io.ReadFull(c, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			var reset *net.OpError
			if !errors.As(err, &reset) {
				t.Fatal(err)
			}
		}
		return string(buf[:n])
	}
	for _, c := range []struct {
		name           string
		side           Side
		bytes          int
		cut            bool
		arrives, heard string
	}{
		{"amid the request", Requests, 2, true, "he", "he"},
		{"before the request", Requests, 0, true, "", ""},
		{"amid the answer", Answers, 3, true, "hello", "hel"},
		{"before the answer", Answers, 0, true, "hello", ""},
		{"after the end", Requests, 5, false, "hello", "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cut := make(chan bool)
			wait := 30 * time.Second
			if !c.cut {
				wait = 100 * time.Millisecond
			}
			go func() { cut <- p.Cut(c.side, c.bytes, wait) }()
			for ordered := false; !ordered; { // Cut has taken effect
				p.mu.Lock()
				ordered = p.fired != nil
				p.mu.Unlock()
			}
			// An answer to the bytes before the cut may be lost with the connection.
			if heard := send(); heard != c.heard && (c.side == Answers || heard != "") {
				t.Errorf("the client heard %q, want %q", heard, c.heard)
			}
			if got := <-arrived; got != c.arrives {
				t.Errorf("%q arrived, want %q", got, c.arrives)
			}
			if got := <-cut; got != c.cut {
				t.Errorf("Cut reports %v, want %v", got, c.cut)
			}
			if heard := send(); heard != "hello" || <-arrived != "hello" {
				t.Errorf("the next connection heard %q", heard)
			}
		})
	}
}
