package outage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/grpclimit"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// threefold is the door of three processes that share a store.
const threefold = "fallback×3"

var doors = []string{"httplimit", "grpclimit", "fallback", threefold}

// ask makes a request about the bucket of a key.
type ask func(ctx context.Context, key int) answer

// policies numbers the policies, so that no two rows share a bucket.
var policies atomic.Int64

// enter opens the door of a row. leave closes it, and waits until no handler runs.
func (r row) enter(t *testing.T, s *gate, crowd *tally) (ask ask, leave func()) {
	t.Helper()
	policy := fmt.Sprintf("row%d", policies.Add(1))
	switch r.Door {
	case "httplimit":
		return r.http(t, brim.New(s, nil), policy, crowd)
	case "grpclimit":
		return r.grpc(t, brim.New(s, nil), policy, crowd)
	}
	return r.fallback(t, s, policy, crowd)
}

// http sends real requests to a server behind httplimit.
func (r row) http(t *testing.T, lim *brim.Limiter, policy string, crowd *tally) (ask, func()) {
	t.Helper()
	limited, err := httplimit.New(lim, httplimit.PerClient(policy, limit), &httplimit.Options{
		OnUnavailable: httplimit.FailOpen, Timeout: r.Deadline, Skip: func(*http.Request) bool { return r.planted },
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { crowd.pass(r.RemoteAddr) }))
	in := network{bufconn.Listen(bufferSize)}
	srv := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(in) }()
	client := &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, host string) (net.Conn, error) { return in.dial(ctx, host) },
		DisableKeepAlives: true, // each request has a connection of its own, which a client who hangs up closes
	}}
	call := func(ctx context.Context, key int) answer {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address(key), nil)
		if err != nil {
			return answer{lost, err}
		}
		response, err := client.Do(request)
		if err != nil {
			return answer{lost, err}
		}
		_ = response.Body.Close() // the status is the answer
		switch response.StatusCode {
		case http.StatusOK:
			return answer{kind: served}
		case http.StatusTooManyRequests:
			return answer{kind: refused}
		case http.StatusServiceUnavailable:
			return answer{kind: failed}
		}
		return answer{lost, errors.New(response.Status)}
	}
	return call, func() {
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

// grpc makes real calls of a server behind grpclimit. The clients of a key share a connection.
func (r row) grpc(t *testing.T, lim *brim.Limiter, policy string, crowd *tally) (ask, func()) {
	t.Helper()
	limited, err := grpclimit.NewServer(lim, grpclimit.PerClient(policy, limit), &grpclimit.ServerOptions{
		OnUnavailable: grpclimit.FailOpen, Timeout: r.Deadline, Skip: func(context.Context, string) bool { return r.planted },
	})
	if err != nil {
		t.Fatal(err)
	}
	in := network{bufconn.Listen(bufferSize)}
	srv := grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.WaitForHandlers(true))
	healthpb.RegisterHealthServer(srv, &health{crowd: crowd})
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(in) }()
	conns, clients := make([]*grpc.ClientConn, r.Keys), make([]healthpb.HealthClient, r.Keys)
	for key := range conns {
		conns[key], err = grpc.NewClient("passthrough:"+address(key), grpc.WithContextDialer(in.dial),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		clients[key] = healthpb.NewHealthClient(conns[key])
	}
	call := func(ctx context.Context, key int) answer {
		_, err := clients[key].Check(ctx, &healthpb.HealthCheckRequest{})
		switch status.Code(err) {
		case codes.OK:
			return answer{kind: served}
		case codes.ResourceExhausted:
			return answer{kind: refused}
		case codes.Unavailable:
			return answer{kind: failed}
		}
		return answer{lost, err}
	}
	return call, func() {
		for _, c := range conns {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// health is a service that counts its calls.
type health struct {
	healthpb.UnimplementedHealthServer
	crowd *tally
}

func (h *health) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	from, _ := peer.FromContext(ctx)
	h.crowd.pass(from.Addr.String())
	return &healthpb.HealthCheckResponse{}, nil
}

// patience is the default of Fallback.
const patience = 100 * time.Millisecond

// fallback has callers with a deadline ask Limiters, each over a Fallback of its own. A caller who
// gets an error because of the deadline lets the work pass, as a program does that fails open.
func (r row) fallback(t *testing.T, s *gate, policy string, crowd *tally) (ask, func()) {
	t.Helper()
	var stores []store.Store
	for range r.processes() {
		f, err := local.Fallback(s, newGate(memory.New(nil), 0), &local.FallbackOptions{Share: 1, Retry: r.Deadline})
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, f)
	}
	lims := make([]*brim.Limiter, len(stores))
	for i, f := range stores {
		lims[i] = brim.New(f, nil)
		if r.planted {
			lims[i] = brim.New(s, nil)
		}
	}
	var turn atomic.Int64
	call := func(ctx context.Context, key int) answer {
		var came atomic.Bool
		ctx, cancel := context.WithTimeout(context.WithValue(ctx, mark{}, &came), r.Deadline)
		defer cancel()
		began := time.Now()
		st, err := lims[int(turn.Add(1))%len(lims)].TryFillup(ctx, limit.For(policy+":"+address(key)), 1)
		unknown := errors.Is(err, store.ErrUnknownOutcome)
		switch {
		case err == nil && st.Accepted:
			crowd.passed[key].Add(1)
			return answer{kind: served}
		case err == nil:
			return answer{kind: refused}
		case errors.Is(ctx.Err(), context.Canceled):
			return answer{lost, err} // no program lets the work of a client pass who has hung up
		case errors.Is(err, context.DeadlineExceeded) && !came.Load():
			return answer{kind: late}
		case errors.Is(err, context.DeadlineExceeded) && (!unknown || time.Since(began) < patience):
			// The caller's own deadline is the cause: a call that Fallback gives up has taken as
			// long as its Patience.
			crowd.passed[key].Add(1)
			crowd.overdue.Add(1)
			return answer{kind: served}
		case unknown, errors.Is(err, store.ErrUnavailable):
			return answer{kind: failed}
		}
		return answer{lost, err}
	}
	return call, func() {
		for _, f := range stores {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// bufferSize is that of a connection, in bytes.
const bufferSize = 4096

// network is a network within the process. A client chooses its address: it sends that first.
type network struct{ *bufconn.Listener }

// address returns the address of the clients of a key.
func address(key int) string {
	return netip.AddrFrom4([4]byte{10, 0, byte(key >> 8), byte(key)}).String()
}

// pass counts a request that has reached the handler.
func (c *tally) pass(from string) {
	b := netip.MustParseAddrPort(from).Addr().As4()
	c.passed[int(b[2])<<8|int(b[3])].Add(1)
}

// dial connects the client of an address, with or without a port.
func (n network) dial(ctx context.Context, from string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	addr, err := netip.ParseAddr(from)
	if err != nil {
		return nil, err
	}
	conn, err := n.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.Write(addr.AsSlice())
	return conn, err
}

// Accept returns the next connection, with the address of its client.
func (n network) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var addr [4]byte
	_, err = io.ReadFull(conn, addr[:])
	return &from{conn, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(addr), 1))}, err
}

// from is the server's end of a connection.
type from struct {
	net.Conn
	addr net.Addr
}

func (f *from) RemoteAddr() net.Addr { return f.addr }
