//go:build linux

package stall

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// leased is the limit of a bucket that clients lease. An allotment holds some hundred units.
var leased = store.Limit{Capacity: 4000, LeakRate: 1000}

// leaseEnds is the time after which an allotment has expired; see package local.
const leaseEnds = time.Second

// grant is a call that was accepted, with the time before and after it.
type grant struct {
	from, to int64 // nanoseconds since the Unix epoch
	units    float64
}

// spendLease asks for a unit of the bucket every millisecond, from its lease, until the input ends.
// It prints what it was granted.
func (o order) spendLease(s *postgres.Store) error {
	options := &local.LeasesOptions{Share: 0.9, Ahead: 500 * time.Millisecond}
	if o.Defect {
		options.Clock = lazyClock()
	}
	l, err := local.Leases(s, options)
	if err != nil {
		return err
	}
	var done atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		done.Store(true)
	}()
	out := bufio.NewWriter(os.Stdout)
	fmt.Println("ready")
	for !done.Load() {
		from := time.Now().UnixNano()
		st, err := l.Fill(context.Background(), store.Op{Bucket: leased.For(o.Key), Amount: 1})
		switch {
		case err != nil:
			return err
		case st.Accepted:
			fmt.Fprintln(out, from, time.Now().UnixNano(), st.Estimate)
		}
		time.Sleep(time.Millisecond)
	}
	return out.Flush()
}

// lazyClock returns a clock that stops with the process.
func lazyClock() func() time.Time {
	var mu sync.Mutex
	last := time.Now()
	shown := last
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		shown = shown.Add(min(now.Sub(last), 20*time.Millisecond))
		last = now
		return shown
	}
}

// excess returns by how much the grants that lie wholly in some window exceed the bucket's bound
// for the window. It is negative if they keep to it.
func excess(grants []grant) float64 {
	worst := -leased.Capacity
	byEnd := slices.Clone(grants)
	slices.SortFunc(byEnd, func(a, b grant) int { return int(a.to - b.to) })
	for _, first := range grants {
		sum := 0.0
		for _, g := range byEnd {
			if g.from < first.from {
				continue
			}
			sum += g.units
			length := time.Duration(g.to - first.from).Seconds()
			worst = max(worst, sum-leased.Capacity-leased.LeakRate*length)
		}
	}
	return worst
}

// testLeases stops a client that holds an allotment until the allotment has expired. Others fill
// the bucket meanwhile. Then the client goes on.
func testLeases(t *testing.T, r *rig) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("stops", func(t *testing.T) {
		t.Parallel()
		row := attack.Begin(t, "stall", "client with a lease", seed)
		meter := attack.Pick(attack.Budget{Count: 1, Time: time.Hour}, attack.Budget{Count: 20, Time: time.Hour}).Start()
		worst := -leased.Capacity
		fromLease := 0
		for ; !meter.Spent() && !t.Failed(); meter.Done++ {
			part := seed.Part(meter.Done)
			repeat := part.Repeat("stall", "TestStall/lease/stops")
			over, served, err := stopLease(t, r, fmt.Sprint("sound ", meter.Done), part.Rand(), false)
			if err != nil {
				t.Fatalf("%v\nrepeat: %s", err, repeat)
			}
			worst, fromLease = max(worst, over), fromLease+served
			if over > 0 {
				t.Errorf("the processes were granted %v units more than the bucket allows\nrepeat: %s", over, repeat)
			}
		}
		if fromLease == 0 {
			t.Error("no unit came from a lease")
		}
		if worst > 0 {
			row.Found = "minted"
		}
		row.Often = fmt.Sprintf("%d stops", meter.Done)
		t.Logf("%s in %v, %d units came from leases, the worst window has %v units over its bound; seed %d",
			row.Often, meter.Took(), fromLease, worst, seed)
	})
	t.Run("catches", func(t *testing.T) {
		t.Parallel()
		for n := range 10 {
			over, _, err := stopLease(t, r, fmt.Sprint("defect ", n), attack.Seed(1).Part(n).Rand(), true)
			if err != nil {
				t.Fatal(err)
			}
			if over > 0 {
				t.Logf("caught after %d stops: %v units over the bound", n+1, over)
				return
			}
		}
		t.Error("not caught: a lease that does not look at its expiry")
	})
}

// stopLease stops a client with a lease once. It returns the excess, and how many units the client
// took from its lease.
func stopLease(t *testing.T, r *rig, key string, pick *rand.Rand, defect bool) (over float64, fromLease int, err error) {
	t.Helper()
	ch := order{URL: r.server.URL() + "&synchronous_commit=off", Key: key, Defect: defect}.start(t)
	time.Sleep(600*time.Millisecond + time.Duration(pick.IntN(300))*time.Millisecond) // of its work; nothing tells when it has a lease
	if err := ch.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return 0, 0, err
	}
	// The bucket drains meanwhile, so that the units of the allotment do not fill it any more.
	time.Sleep(leaseEnds + leaseEnds/10)
	grants, err := fillFor(t.Context(), r.sound, key, leaseEnds/4)
	if err != nil {
		return 0, 0, err
	}
	if err := ch.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return 0, 0, err
	}
	more, err := fillFor(t.Context(), r.sound, key, leaseEnds/2)
	if err != nil {
		return 0, 0, err
	}
	grants = append(grants, more...)
	if err := ch.in.Close(); err != nil {
		return 0, 0, err
	}
	for {
		g := grant{units: 1}
		var estimate bool
		_, err := fmt.Fscanln(ch.out, &g.from, &g.to, &estimate)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, err
		}
		if estimate {
			fromLease++
		}
		grants = append(grants, g)
	}
	return excess(grants), fromLease, nil
}

// fillFor fills the bucket to the rim again and again for some time.
func fillFor(ctx context.Context, s store.Store, key string, d time.Duration) ([]grant, error) {
	var grants []grant
	for _, units := range []float64{1000, 100, 10} { // fast at first
		for end := time.Now().Add(d); time.Now().Before(end); {
			g := grant{from: time.Now().UnixNano(), units: units}
			st, err := s.Fill(ctx, store.Op{Bucket: leased.For(key), Amount: units})
			if err != nil {
				return nil, err
			}
			if !st.Accepted && units > 10 {
				break
			}
			if st.Accepted {
				g.to = time.Now().UnixNano()
				grants = append(grants, g)
			} else {
				time.Sleep(time.Millisecond)
			}
		}
	}
	return grants, nil
}
