//go:build linux

package stall

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/serverload"
)

// bound are the kinds of calls that end by the store's own timeout. All others run under the
// caller's context alone.
var bound = []serverload.Kind{
	serverload.Try, serverload.Fillup, serverload.Drain, serverload.Capture, serverload.Release, serverload.All,
	serverload.Charge, serverload.Record, serverload.Settle, serverload.Void, serverload.Refund, serverload.Enlarge,
	serverload.Lessen, serverload.Extend, serverload.Both, serverload.Credit, serverload.UpTo, serverload.Limits, serverload.Freeze,
}

func known(s serverload.Subject, among []serverload.Kind) (list []serverload.Kind) {
	for _, k := range s.Kinds() {
		for _, b := range among {
			if k == b {
				list = append(list, k)
			}
		}
	}
	return list
}

func TestStall(t *testing.T) {
	r := newRig(t)
	t.Run("server", func(t *testing.T) { testServers(t, r) })
	t.Run("client", func(t *testing.T) { testClients(t, r) })
	t.Run("lease", func(t *testing.T) { testLeases(t, r) })
}

// testServers stops the server under each store.
func testServers(t *testing.T, r *rig) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"postgres", "spend"} {
		t.Run(kind, func(t *testing.T) { testServer(t, r, seed, kind) })
	}
	t.Run("catches", func(t *testing.T) {
		c := r.newClient(t, "postgres", statementTimeout, serverload.Mistold)
		for n := range 30 {
			f, _, err := stopServer(r, c, attack.Seed(1).Part(n))
			if err != nil {
				t.Fatal(err)
			}
			if f != nil {
				t.Logf("caught after %d stops: %v", n+1, f)
				if f.Verdict != serverload.Minted {
					t.Errorf("found %s, want minted", f.Verdict)
				}
				return
			}
		}
		t.Error("not caught: the server goes on with statements that it got before it was stopped")
	})
}

func testServer(t *testing.T, r *rig, seed attack.Seed, kind string) {
	row := attack.Begin(t, "stall", "server of "+kind, seed)
	c := r.newClient(t, kind, statementTimeout, "")
	meter := attack.Pick(
		attack.Budget{Count: math.MaxInt, Time: time.Second},
		attack.Budget{Count: 50, Time: time.Hour},
	).Start()
	var slowest time.Duration
	for ; !meter.Spent(); meter.Done++ {
		part := seed.Part(meter.Done)
		f, took, err := stopServer(r, c, part)
		slowest = max(slowest, took)
		repeat := part.Repeat("stall", "TestStall/server/"+kind)
		if err != nil {
			t.Fatalf("%v\nrepeat: %s", err, repeat)
		}
		if f != nil {
			row.Found = string(f.Verdict)
			t.Errorf("%v\nrepeat: %s", f, repeat)
			break
		}
	}
	row.Often = fmt.Sprintf("%d stops", meter.Done)
	t.Logf("%s in %v, the slowest answer took %v, found: %s; seed %d", row.Often, meter.Took(), slowest, row.Found, seed)
}

// stopServer stops the server, or one of its processes, under load, until every call that was under
// way has an answer. Then the server goes on.
func stopServer(r *rig, c *client, seed attack.Seed) (f *serverload.Finding, slowest time.Duration, err error) {
	pick := seed.Rand()
	load := serverload.Load{Callers: 16}
	var kinds []serverload.Kind
	if pick.IntN(2) == 0 { // by the deadlines of the callers
		kinds, load.Timeout = c.Kinds(), statementTimeout/2
	} else {
		kinds = known(c, bound)
	}
	list := serverload.Script(pick, kinds, 150, []int{2, 50}[pick.IntN(2)])
	load.Calls = serverload.Scoped(list, fmt.Sprintf("%d/%d/", seed, time.Now().UnixNano()))
	load.At = pick.IntN(100)
	busy := &flights{Subject: c, open: make(map[int]bool)}
	load.Attack = func() error {
		goOn, err := r.stop(pick)
		if err != nil {
			return err
		}
		_, slowest, err = busy.landed()
		return errors.Join(err, goOn())
	}
	res, err := load.Run(r.t.Context(), busy)
	if err != nil {
		return nil, slowest, err
	}
	if err := r.ended(r.t.Context(), c); err != nil {
		return nil, slowest, err
	}
	f, err = serverload.Check(r.t.Context(), c, load.Calls, res)
	return f, slowest, err
}

// stop stops the server, or the process of one connection, and returns the way to have it go on.
func (r *rig) stop(pick *rand.Rand) (goOn func() error, err error) {
	if pick.IntN(3) > 0 {
		return func() error { return r.server.Signal(syscall.SIGCONT) }, r.server.Signal(syscall.SIGSTOP)
	}
	all, err := r.server.Processes()
	if err != nil {
		return nil, err
	}
	var backends []int
	for _, p := range all {
		if strings.Contains(p.Title, "127.0.0.1(") {
			backends = append(backends, p.PID)
		}
	}
	if len(backends) == 0 {
		return nil, errors.New("the server has no connection")
	}
	pid := backends[pick.IntN(len(backends))]
	again := func() error {
		if err := syscall.Kill(pid, syscall.SIGCONT); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
		return nil, err
	}
	return again, nil
}
