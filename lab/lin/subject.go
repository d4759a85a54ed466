package lin

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/brimgo/brim/lab/internal/harness"
)

// subject is a backend under test.
type subject struct {
	name string
	// open returns a world with nothing in it, and a plan for it.
	open  func(r *rand.Rand) (world, plan, error)
	alone *sync.Mutex // held during a history, if its faults hit other tests on its server
	// abreast is the number of histories at a time, for subjects that mostly wait for a server;
	// or 0 for one.
	abreast int
}

// start returns the world and the plan of a seed.
func (s subject) start(seed harness.Seed) (world, plan, error) { return s.open(seed.Rand()) }

// abreast is the number of histories at a time on one server.
const abreast = 8

// checkTime is the time after which a history is undecided.
const checkTime = 5 * time.Second

// try runs the history of a seed and checks it. The steps, unless they are nil, take the place of
// those of its plan. The finding is nil if the model allows the history, or if the history is
// undecided, because its check takes too long.
func (s subject) try(seed harness.Seed, steps []step) (f *finding, undecided bool, err error) {
	if s.alone != nil {
		s.alone.Lock()
		defer s.alone.Unlock()
	}
	w, p, err := s.start(seed)
	if err != nil {
		return nil, false, err
	}
	if steps != nil {
		p.steps = steps
	}
	calls, err := play(w, p)
	if err != nil {
		return nil, false, err
	}
	calls = resolved(calls)
	if pending(calls) > mostUnknown { // a check could take hours
		return nil, true, nil
	}
	v := check(w.model(), calls, checkTime)
	if v.CheckResult == porcupine.Illegal {
		f = &finding{m: w.model(), part: v.part}
	}
	return f, v.CheckResult == porcupine.Unknown, nil
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

// result is the end of a run, with the first error or finding and the seed of its history.
type result struct {
	undecided int // histories
	part      harness.Seed
	f         *finding
	err       error
}

// run tries histories until the meter's budget is spent, or until a history fails.
func (s subject) run(seed harness.Seed, meter *harness.Meter) (r result) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	abreast := s.abreast
	if !harness.Night() {
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
				f, undecided, err := s.try(part, nil)
				mu.Lock()
				if undecided {
					r.undecided++
				}
				if r.f == nil && r.err == nil && (f != nil || err != nil) {
					r.part, r.f, r.err = part, f, err
				}
			}
		})
	}
	wg.Wait()
	return r
}
