package wire

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

// echo is a server that answers every byte with its capital letter, and the end of the data with
// "END".
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 100)
				for {
					n, err := c.Read(buf)
					if err != nil {
						_, _ = io.WriteString(c, "END")
						return
					}
					_, _ = io.WriteString(c, strings.ToUpper(string(buf[:n])))
				}
			}()
		}
	}()
	return "test://" + l.Addr().String() + "/name"
}

// dialed returns a proxy in front of an echo, and a connection through it.
func dialed(t *testing.T, decide Policy) (*Proxy, net.Conn) {
	t.Helper()
	p, err := New(echo(t), decide)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	u, err := url.Parse(p.URL())
	if err != nil || u.Scheme != "test" || u.Path != "/name" {
		t.Fatalf("URL %v, %v", u, err)
	}
	conn, err := net.Dial("tcp", u.Host)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return p, conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFates sends "abc" through a proxy and reads until the connection ends.
func TestFates(t *testing.T) {
	held := make(chan struct{})
	for _, c := range []struct {
		name string
		d    Direction
		fate Fate
		hang bool // the connection stays open, so the client ends it by a timeout
		want string
		err  error
	}{
		{"pass", ToServer, Fate{Pass: 3}, true, "ABC", nil},
		{"lose a part", ToServer, Fate{Pass: 2}, true, "AB", nil},
		{"hold", ToServer, Fate{Pass: 1, Hold: func() { close(held) }}, true, "ABC", nil},
		{"close", ToServer, Fate{End: Close}, false, "", nil},
		{"close the answer", ToClient, Fate{Pass: 2, End: Close}, false, "AB", nil},
		{"reset", ToServer, Fate{End: Reset}, false, "", syscall.ECONNRESET},
		{"half-close", ToServer, Fate{Pass: 2, End: Half}, false, "ABEND", nil},
		{"half-close the answer", ToClient, Fate{Pass: 1, End: Half}, false, "A", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, conn := dialed(t, func(_ *Link, d Direction, piece []byte) Fate {
				if d == c.d && len(piece) == 3 && strings.EqualFold(string(piece), "abc") {
					return c.fate
				}
				return Pass(piece)
			})
			if _, err := io.WriteString(conn, "abc"); err != nil {
				t.Fatal(err)
			}
			if c.fate.Hold != nil {
				<-held
			}
			size := len(c.want)
			if !c.hang {
				size++ // one byte more tells the end of the connection from a hang
			}
			buf := make([]byte, size)
			must(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
			n, err := io.ReadFull(conn, buf)
			got := string(buf[:n])
			switch {
			case errors.Is(c.err, syscall.ECONNRESET) && errors.Is(err, syscall.ECONNRESET) && c.want == "":
			case c.err != nil, got != c.want, c.hang != (err == nil), errors.Is(err, syscall.ECONNRESET):
				t.Errorf("read %q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

// TestRefuse sees that Refuse keeps the open connections.
func TestRefuse(t *testing.T) {
	p, conn := dialed(t, func(_ *Link, _ Direction, piece []byte) Fate { return Pass(piece) })
	say := func() error {
		if _, err := io.WriteString(conn, "x"); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}
	must(t, say())
	must(t, p.Refuse())
	if err := say(); err != nil {
		t.Errorf("an open connection: %v", err)
	}
	if _, err := net.Dial("tcp", conn.RemoteAddr().String()); err == nil {
		t.Error("a further connection was made")
	}
	p.Drop()
	if err := say(); err == nil {
		t.Error("the connection is open after Drop")
	}
}
