package lin

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/brimgo/brim/lab/internal/attack"
)

// subject is a backend under attack.
type subject struct {
	name string
	// open returns a world with nothing in it, and a plan for it.
	open  func(r *rand.Rand) (world, plan, error)
	alone *sync.Mutex // held during a history, if its faults hit other tests on its server
	many  int         // histories in a night, if not a thousand
	// abreast is the number of histories at a time, for subjects that mostly wait for a server;
	// or 0 for one.
	abreast int
}

// start returns the world and the plan of a seed.
func (s subject) start(seed attack.Seed) (world, plan, error) { return s.open(seed.Rand()) }

// abreast is the number of histories at a time on one server.
const abreast = 8

// checkTime is the time after which a history is undecided.
const checkTime = 5 * time.Second

// counts adds up what histories were like.
type counts struct {
	histories, undecided, calls, strikes, unknown, estimates int
}

func (n *counts) add(more counts) {
	n.histories += more.histories
	n.undecided += more.undecided
	n.calls += more.calls
	n.strikes += more.strikes
	n.unknown += more.unknown
	n.estimates += more.estimates
}

func (n counts) String() string {
	return fmt.Sprintf("%d histories, %d undecided, %d faults, %d calls, %d of unknown outcome, %d answered from memory",
		n.histories, n.undecided, n.strikes, n.calls, n.unknown, n.estimates)
}

// attack runs one history and checks it. change may change the plan. The finding is nil if the
// model allows the history.
func (s subject) attack(seed attack.Seed, change func(plan) plan) (n counts, f *finding, err error) {
	if s.alone != nil {
		s.alone.Lock()
		defer s.alone.Unlock()
	}
	w, p, err := s.start(seed)
	if err != nil {
		return n, nil, err
	}
	calls, strikes, err := play(w, change(p))
	if err != nil {
		return n, nil, err
	}
	n = counts{histories: 1, calls: len(calls), strikes: strikes, unknown: pending(calls)}
	for _, c := range calls {
		if a, ok := c.out.(storeResponse); ok && len(a.Results) > 0 && a.Results[0].Estimate {
			n.estimates++
		}
	}
	calls = resolved(calls)
	if pending(calls) > mostUnknown { // a check could take hours
		n.undecided++
		return n, nil, nil
	}
	v := check(w.model(), calls, checkTime)
	switch v.CheckResult {
	case porcupine.Illegal:
		return n, &finding{m: w.model(), part: v.part}, nil
	case porcupine.Unknown:
		n.undecided++
	}
	return n, nil, nil
}

// pending returns the number of calls of unknown outcome.
func pending(calls []*call) (n int) {
	for _, c := range calls {
		if c.out == nil {
			n++
		}
	}
	return n
}

func unchanged(p plan) plan { return p }

// result is the end of a run: what the histories were like, and the first error or finding, with
// the seed of its history.
type result struct {
	meter *attack.Meter
	n     counts
	part  attack.Seed
	f     *finding
	err   error
}

// run attacks until the meter's budget is spent, or until a history fails.
func (s subject) run(seed attack.Seed, meter *attack.Meter) result {
	r := result{meter: meter}
	var mu sync.Mutex
	var wg sync.WaitGroup
	abreast := s.abreast
	if !attack.Night() {
		abreast = min(abreast, 2) // which have no time for more
	}
	for range max(1, abreast) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for !meter.Spent() && r.f == nil && r.err == nil {
				part := seed.Part(meter.Done)
				meter.Done++
				mu.Unlock()
				n, f, err := s.attack(part, unchanged)
				mu.Lock()
				r.n.add(n)
				if r.f == nil && r.err == nil && (f != nil || err != nil) {
					r.part, r.f, r.err = part, f, err
				}
			}
		})
	}
	wg.Wait()
	return r
}
