package spendtest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/spend"
)

const racers = 16

// race runs call in several goroutines, on a slow clock, and reports their
// errors.
func (s *fixture) race(call func(racer int) error) {
	s.Helper()
	s.clock.slow.Store(true)
	defer s.clock.slow.Store(false)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			<-gate
			if err := call(i); err != nil {
				s.Error(err)
			}
		})
	}
	close(gate)
	wg.Wait()
}

const (
	rounds   = 6
	perRound = 4
)

// raceFor has all racers make the same calls, in several rounds. On the slow clock
// the racers get the ledger's lock in turns, so a racer can stay a turn ahead of
// the others. So they begin with different calls, in each round in another way.
func (s *fixture) raceFor(call func(racer, n int) error) {
	s.Helper()
	for round := range rounds {
		s.race(func(racer int) error {
			for i := range perRound {
				if err := call(racer, round*perRound+(i+racer*round)%perRound); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// sound verifies the card's figures, and wants that many entries.
func (s *fixture) sound(b *spend.Budgets, entries int) {
	s.Helper()
	if err := b.Verify(ctx, "card"); err != nil {
		s.Error(err)
	}
	n := 0
	for _, err := range b.History(ctx, "card", nil) {
		if n++; err != nil {
			s.Fatal(err)
		}
	}
	if n != entries {
		s.Errorf("the account has %d entries; want %d", n, entries)
	}
}

// raceCases are about callers that meet.
func raceCases() []testCase {
	window := []spend.Rule{spend.Rolling("month", money(100), 30*days)}
	return []testCase{
		{
			name: "racing charges", why: "of callers who see the same room only one may have it", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				var approved atomic.Int64
				s.race(func(racer int) error {
					for i := range 10 {
						d, err := b.Charge(ctx, spend.Request{
							ID: fmt.Sprintf("%s/%d/%d", s.Name(), racer, i), Account: "card", Amount: money(1),
						})
						if err != nil {
							return err
						}
						if d.Approved {
							approved.Add(1)
						}
					}
					return nil
				})
				if approved.Load() != 100 {
					s.Errorf("%d of 160 charges of 1 were approved; want 100", approved.Load())
				}
				s.shows(b, 100, 0, 0)
				s.sound(b, 160)
			},
		},
		{
			name: "one ID from many callers", why: "a request has one effect, even if it is sent twice at once", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				const n = rounds * perRound
				var requests []spend.Request
				for range n {
					requests = append(requests, s.request(3))
				}
				var first atomic.Int64
				s.raceFor(func(_, i int) error {
					d, err := b.Charge(ctx, requests[i])
					if err != nil || !d.Approved {
						return fmt.Errorf("a charge: %+v, %w", d, err)
					}
					if !d.Replayed {
						first.Add(1)
					}
					return nil
				})
				if first.Load() != n {
					s.Errorf("%d requests were decided %d times", n, first.Load())
				}
				s.shows(b, 3*n, 0, 100-3*n)
				s.sound(b, n)
			},
		},
		{
			name: "racing captures", why: "a hold is taken once, however many captures meet", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				const n = rounds * perRound
				var holds []spend.Request
				for range n {
					r := s.request(4)
					r.TTL = time.Hour
					s.yes(b.Authorize(ctx, r))
					holds = append(holds, r)
				}
				var taken atomic.Int64
				s.raceFor(func(racer, i int) error {
					_, err := b.Capture(ctx, spend.CaptureRequest{
						ID: fmt.Sprintf("%s/%d/%d", s.Name(), racer, i), HoldID: holds[i].ID, Amount: money(3),
					})
					switch {
					case err == nil:
						taken.Add(3)
					case !errors.Is(err, spend.ErrNotHeld):
						return err
					}
					return nil
				})
				if taken.Load() != 3*n {
					s.Errorf("%d units were captured of %d holds of 4, by captures of 3; want %d", taken.Load(), n, 3*n)
				}
				s.shows(b, 3*n, n, 100-4*n)
				s.sound(b, 2*n)
			},
		},
	}
}
