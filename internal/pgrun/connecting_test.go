package pgrun

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/store"
)

// front is a server that ends every attempt to connect.
type front struct {
	tls    *tls.Config // nil: it refuses TLS
	says   string      // SQLSTATE of the error at the start of a session, or "" to close the connection
	silent bool        // it does not answer
}

// serve returns the address of a front that runs until the end of t.
func (f front) serve(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.answer(conn)
		}
	}()
	return l.Addr().String()
}

func (f front) answer(conn net.Conn) {
	defer conn.Close()
	if f.silent {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	for {
		backend := pgproto3.NewBackend(conn, conn)
		message, err := backend.ReceiveStartupMessage()
		if err != nil {
			return
		}
		if _, ok := message.(*pgproto3.SSLRequest); !ok {
			if f.says != "" {
				backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: f.says, Message: "no"})
				_ = backend.Flush()
			}
			return
		}
		if f.tls == nil {
			_, _ = conn.Write([]byte("N"))
			continue
		}
		_, _ = conn.Write([]byte("S"))
		conn = tls.Server(conn, f.tls)
	}
}

// certified returns a configuration of TLS with a certificate that nobody has signed.
func certified(t *testing.T, client tls.ClientAuthType) *tls.Config {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, ClientAuth: client}
}

// TestConnecting has each kind of attempt to connect fail. The store is out of reach only if
// somebody did not answer, or said that it passes.
func TestConnecting(t *testing.T) {
	self, demands := certified(t, tls.NoClientCert), certified(t, tls.RequireAnyClientCert)
	const nobody = "127.0.0.1:1"
	for _, c := range []struct {
		name, why string
		hosts     []string
		sslmode   string
		want      error
	}{
		{"nobody listens", "no answer", []string{nobody}, "disable", passes},
		{"no such host", "names come and go with their servers", []string{"nowhere.invalid:5432"}, "disable", passes},
		{"silence", "no answer", []string{front{silent: true}.serve(t)}, "disable", passes},
		{"closed at once", "no answer", []string{front{}.serve(t)}, "disable", passes},
		{"no TLS", "the setup differs from the server's", []string{front{}.serve(t)}, "require", ours},
		{"no TLS where it need not be", "the attempt without TLS counts", []string{front{}.serve(t)}, "prefer", passes},
		{"no TLS, and full", "the attempt without TLS counts", []string{front{says: "53300"}.serve(t)}, "prefer", passes},
		{"no TLS, and a wrong password", "the attempt without TLS counts", []string{front{says: "28P01"}.serve(t)}, "prefer", ours},
		{"a certificate that nobody has signed", "somebody may be in between", []string{front{tls: self}.serve(t)}, "verify-full", ours},
		{"an alert of TLS", "the server demands a certificate", []string{front{tls: demands}.serve(t)}, "require", ours},
		{"full", "the server says so", []string{front{tls: self, says: "53300"}.serve(t)}, "require", passes},
		{"starting", "the server says so", []string{front{says: "57P03"}.serve(t)}, "disable", passes},
		{"not admitted", "pg_hba.conf", []string{front{says: "28000"}.serve(t)}, "disable", ours},
		{"unlisted", "nobody knows", []string{front{says: "XX000"}.serve(t)}, "disable", ours},
		{"one down, one starting", "both pass", []string{nobody, front{says: "57P03"}.serve(t)}, "disable", passes},
		{"one down, one misconfigured", "the answer counts", []string{nobody, front{says: "28000"}.serve(t)}, "disable", ours},
		{"one misconfigured, one down", "the answer counts", []string{front{says: "28000"}.serve(t), nobody}, "disable", ours},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, err := pgxpool.New(t.Context(), fmt.Sprintf("postgres://app:pw@%s/app?sslmode=%s", strings.Join(c.hosts, ","), c.sslmode))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			timeout := 30 * time.Second
			if c.name == "silence" {
				timeout = 100 * time.Millisecond
			}
			r, err := New(pool, "test", Options{Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			err = r.Look(t.Context(), "look", func(context.Context, *pgxpool.Conn) error { return nil })
			if !errors.Is(err, c.want) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%v; want %v: %s", err, c.want, c.why)
			}
		})
	}
}
