package lin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/windows"
	"github.com/brimgo/brim/store"
)

// leasedLimit is the limit of a bucket that a client leases. An allotment holds some hundred units.
var leasedLimit = store.Limit{Capacity: 4000, LeakRate: 1000}

// leaseEnds is the time after which an allotment has expired; see package local.
const leaseEnds = time.Second

// TestLease stops a client that holds an allotment until the allotment has expired. Others fill the
// bucket meanwhile. Then the client goes on, and all together must not get more than the bucket
// allows.
func TestLease(t *testing.T) {
	seed, err := harness.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	in := newPlace(t, false)
	t.Run("stops", func(t *testing.T) {
		meter := harness.Pick(t, harness.Budget{Count: 1, Time: time.Hour}).Start()
		fromLease := 0
		for ; !meter.Spent() && !t.Failed(); meter.Done++ {
			part := seed.Part(meter.Done)
			share, served, err := stopLease(t.Context(), in(), fmt.Sprint("sound ", meter.Done), part.Rand(), false)
			fromLease += served
			if err != nil || share > 1 {
				t.Errorf("the processes were granted %v of the bound of a window, %v\nrepeat: %s",
					share, err, part.Repeat("lin", "TestLease/stops"))
			}
		}
		if fromLease == 0 {
			t.Error("no unit came from a lease")
		}
		t.Logf("seed %d: %d stops, %d units from leases", seed, meter.Done, fromLease)
	})
	t.Run("catches a lease that does not look at its expiry", func(t *testing.T) {
		for n := range 10 {
			share, _, err := stopLease(t.Context(), in(), fmt.Sprint("defect ", n), harness.Seed(1).Part(n).Rand(), true)
			if err != nil {
				t.Fatal(err)
			}
			if share > 1 {
				t.Logf("caught after %d stops: %v of the bound", n+1, share)
				return
			}
		}
		t.Error("not caught")
	})
}

// stopLease stops a client with a lease once. It returns the largest share of its bound that a
// window has granted, and how many units the client took from its lease.
func stopLease(ctx context.Context, at *place, key string, pick *rand.Rand, lazy bool) (share float64, fromLease int, err error) {
	p, err := child.Start("lin", Setting{
		URL: at.url + "&synchronous_commit=off", Schema: at.schema, Lease: true, Lazy: lazy,
		Buckets: []store.Bucket{leasedLimit.For(key)},
	})
	if err != nil {
		return 0, 0, err
	}
	defer p.Kill()
	sound, err := at.open(at.direct, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = sound.Close() }()
	var done atomic.Bool
	begin, granted := time.Now(), windows.Admitted{}
	client := make(chan struct{})
	go func() { // asks for a unit every millisecond
		defer close(client)
		one := fillOne(0, 1, 0, store.IfFits)
		for ; !done.Load(); time.Sleep(time.Millisecond) {
			before := time.Since(begin)
			a, ok := ask(p, one, 0).(storeResponse)
			if ok && len(a.Results) > 0 && a.Results[0].Accepted {
				granted.Note(before, time.Since(begin), 1)
				if a.Results[0].States[0].Estimate {
					fromLease++
				}
			}
		}
	}()
	time.Sleep(600*time.Millisecond + time.Duration(pick.IntN(300))*time.Millisecond) // of its work; nothing tells when it has a lease
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return 0, 0, err
	}
	// The bucket drains meanwhile, so that the units of the allotment do not fill it any more.
	time.Sleep(leaseEnds + leaseEnds/10)
	others := windows.Admitted{}
	if err := fillFor(ctx, sound, key, leaseEnds/4, begin, others); err != nil {
		return 0, 0, err
	}
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return 0, 0, err
	}
	err = fillFor(ctx, sound, key, leaseEnds/2, begin, others)
	done.Store(true)
	<-client
	if err != nil {
		return 0, 0, err
	}
	granted.Add(others)
	share, err = granted.Within(leasedLimit)
	return share, fromLease, err
}

// fillFor fills the bucket to the rim again and again for some time.
func fillFor(ctx context.Context, s store.Store, key string, d time.Duration, begin time.Time, granted windows.Admitted) error {
	for _, units := range []uint64{1000, 100, 10} { // fast at first
		for end := time.Now().Add(d); time.Now().Before(end); {
			before := time.Since(begin)
			st, err := s.Fill(ctx, store.Op{Bucket: leasedLimit.For(key), Amount: float64(units)})
			switch {
			case err != nil:
				return err
			case st.Accepted:
				granted.Note(before, time.Since(begin), units)
				continue
			}
			if units > 10 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}
