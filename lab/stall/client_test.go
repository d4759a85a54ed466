//go:build linux

package stall

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// childEnv, in the environment, makes this test binary a client that will be stopped. Its value is
// an order.
const childEnv = "BRIM_STALL_CHILD"

// order tells a child what to do.
type order struct {
	URL     string
	Timeout time.Duration    // StatementTimeout
	Kind    string           // of the subject; empty for a lease
	Call    serverload.Call  // whose first step the child makes, at a line of input
	Key     string           // of the leased bucket
	Defect  bool             // the lease's clock stops with the process
	Warm    *serverload.Call // is made first, so that the server knows the statements
}

func init() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (o order) run() error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, o.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := postgres.New(pool, &postgres.Options{StatementTimeout: o.Timeout})
	if err != nil {
		return err
	}
	defer s.Close()
	if o.Kind == "" {
		return o.spendLease(s)
	}
	subject, err := subjectOf(o.Kind, s, pool, s, "")
	if err != nil {
		return err
	}
	if err := subject.Do(ctx, *o.Warm, 0); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	fmt.Println(serverload.Meaning(subject.Do(ctx, o.Call, 0)))
	return nil
}

// child is a client in a process of its own.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (o order) start(t *testing.T) *child {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // a stopped process ends, too
		_ = c.cmd.Wait()
	})
	if line, err := c.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	return c
}

// stopAt is a proxy that holds up the first answer to a client after arm, and tells about it. The
// client's transaction is then open.
type stopAt struct {
	*wire.Proxy
	armed         atomic.Bool
	there, passes chan struct{}
}

func newStopAt(t *testing.T, server string) *stopAt {
	t.Helper()
	s := &stopAt{there: make(chan struct{}), passes: make(chan struct{})}
	var err error
	s.Proxy, err = wire.New(server, func(_ *wire.Link, d wire.Direction, piece []byte) wire.Fate {
		if d == wire.ToClient && s.armed.CompareAndSwap(true, false) {
			close(s.there)
			<-s.passes
		}
		return wire.Pass(piece)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Ends of a stop.
const (
	continued = "continued" // goes on before the server has ended its transaction
	killed    = "killed"    // before the server has ended its transaction
	ended     = "ended"     // goes on after the server has ended its transaction
)

// testClients stops a client while its transaction holds rows locked. The rows stay locked until
// the client goes on or dies, or the server ends the transaction after the client's
// StatementTimeout. The others must get true answers in time.
func testClients(t *testing.T, r *rig) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind  string
		stuck serverload.Kind // of the client that is stopped
		calls []serverload.Kind
	}{
		{"postgres", serverload.All, []serverload.Kind{serverload.Try, serverload.Fillup, serverload.Release, serverload.All, serverload.With}},
		{"spend", serverload.Both, []serverload.Kind{serverload.Charge, serverload.Settle, serverload.Both}},
	} {
		for _, end := range []string{continued, killed, ended} {
			t.Run(c.kind+"/"+end, func(t *testing.T) {
				row := attack.Begin(t, "stall", "client of "+c.kind+", "+end, seed)
				defer func() { // also after t.Fatal
					if t.Failed() {
						t.Logf("repeat: %s", seed.Repeat("stall", "TestStall/client/"+c.kind+"/"+end))
					}
				}()
				n := attack.Pick(attack.Budget{Count: 1}, attack.Budget{Count: 20}).Count
				row.Often = fmt.Sprintf("%d stops", n)
				for i := range n {
					part := 0
					for calls := range slices.Chunk(c.calls, 3) { // the digits of a bucket hold so many, twice
						stopClient(t, r, fmt.Sprintf("%s %s %d.%d/", c.kind, end, i, part), c.kind, c.stuck, calls, end)
						part++
					}
				}
			})
		}
	}
}

func stopClient(t *testing.T, r *rig, scope, kind string, stuck serverload.Kind, kinds []serverload.Kind, end string) {
	ctx, timeout := t.Context(), longer
	if end == ended {
		timeout = shorter
	}
	proxy := newStopAt(t, r.server.URL())
	places := func(digit int) []serverload.Place {
		return []serverload.Place{{Key: scope + "a", Digit: digit}, {Key: scope + "b", Digit: digit}}
	}
	first := serverload.Call{ID: scope + "first", Kind: stuck, Places: places(1)}
	if err := r.newClient(t, kind, 0, "").Do(ctx, first, 0); err != nil { // a row that is missing is not locked
		t.Fatal(err)
	}
	o := order{
		URL: proxy.URL(), Timeout: timeout, Kind: kind,
		Call: serverload.Call{ID: scope + "stuck", Kind: stuck, Places: places(0)},
		// About others: on accounts that it remembers, a ledger decides while it holds no rows.
		Warm: &serverload.Call{ID: scope + "warm", Kind: stuck, Places: []serverload.Place{{Key: scope + "d"}, {Key: scope + "e"}}},
	}
	ch := o.start(t)
	proxy.armed.Store(true)
	if _, err := io.WriteString(ch.in, "go\n"); err != nil {
		t.Fatal(err)
	}
	<-proxy.there // the server has locked the rows
	if err := ch.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	close(proxy.passes)

	all, res := others(t, r, scope, kind, kinds, places, end == ended)
	free := serverload.Call{ID: scope + "free", Kind: kinds[0], Places: []serverload.Place{{Key: scope + "c"}}}
	if err := r.newClient(t, kind, 0, "").Do(ctx, free, 0); err != nil {
		t.Errorf("%v, which nobody holds: %v", free, err)
	}

	told := serverload.Unknown // of the client that is killed
	if end == killed {
		if err := ch.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = ch.cmd.Wait() // the error says that it was killed
		proxy.Drop()      // as the client's system does
	} else {
		if err := ch.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscanln(ch.out, &told); err != nil {
			t.Fatal(err)
		}
	}
	span := serverload.Span{}
	span.Note(0, told)
	sound := r.newClient(t, kind, 0, "")
	res.Spans = append(res.Spans, span)
	f, err := serverload.Check(ctx, sound, append(all, o.Call), res)
	if f != nil || err != nil {
		t.Errorf("%v, %v", f, err)
	}
	after := serverload.Call{ID: scope + "after", Kind: stuck, Places: places(len(all) + 2)}
	if err := sound.Do(ctx, after, 0); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// others makes calls to the rows that the stopped client holds. Each must get an answer in time.
// None may be a success, unless the server ends the client's transaction meanwhile: then calls
// with time to spare must succeed.
func others(
	t *testing.T, r *rig, scope, kind string, kinds []serverload.Kind, places func(int) []serverload.Place, freed bool,
) ([]serverload.Call, *serverload.Result) {
	t.Helper()
	ample, tight := r.newClient(t, kind, 8*statementTimeout, ""), r.newClient(t, kind, statementTimeout, "")
	var all []serverload.Call
	for _, k := range slices.Concat(kinds, kinds) {
		n := len(all)
		all = append(all, serverload.Call{ID: fmt.Sprintf("%s%d", scope, n), Kind: k, Places: places(n + 2)[:serverload.Width(k)]})
	}
	res := &serverload.Result{Spans: make([]serverload.Span, len(all))}
	var wg sync.WaitGroup
	for i, call := range all {
		c := ample
		if i >= len(kinds) {
			c = tight
		}
		wg.Go(func() {
			limited := t.Context()
			if c == tight {
				var cancel context.CancelFunc
				limited, cancel = context.WithTimeout(limited, 3*statementTimeout)
				defer cancel()
			}
			began := time.Now()
			err := c.Do(limited, call, 0)
			told := serverload.Meaning(err)
			res.Spans[i].Note(0, told)
			switch took := time.Since(began); {
			case told == serverload.Wrong, took > patience:
				t.Errorf("%v: %v after %v", call, err, took)
			case freed && c == ample && told != serverload.Applied:
				t.Errorf("%v: %v after %v, although the server has freed the rows", call, err, took)
			case !freed && told == serverload.Applied:
				t.Errorf("%v: applied after %v, while another holds the rows", call, took)
			case !freed && c == ample && !errors.Is(err, store.ErrUnavailable):
				t.Errorf("%v: %v, although nothing was applied and the server has answered", call, err)
			}
		})
	}
	wg.Wait()
	for _, c := range []*client{ample, tight} {
		if err := r.ended(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	return all, res
}
