package spendtest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
)

const (
	racers   = 16
	perRound = 4
)

var rounds = seed.Attempts(3, 6)

// race has all racers make the same calls, numbered from 0, in several rounds on a slow clock, and
// reports their errors. On that clock the racers get the ledger's lock in turns, so a racer can
// stay a turn ahead of the others. So they begin with different calls, in each round in another
// way.
func (s *fixture) race(call func(racer, n int) error) {
	s.Helper()
	s.clock.slow.Store(true)
	defer s.clock.slow.Store(false)
	for round := range rounds {
		gate := make(chan struct{})
		var wg sync.WaitGroup
		for racer := range racers {
			wg.Go(func() {
				<-gate
				for i := range perRound {
					if err := call(racer, round*perRound+(i+racer*round)%perRound); err != nil {
						s.Error(err)
						return
					}
				}
			})
		}
		close(gate)
		wg.Wait()
	}
}

// raceCases are about callers that meet, and about requests that are sent together.
func raceCases() []testCase {
	window := []spend.Rule{month(100)}
	n := int64(rounds * perRound)
	return []testCase{
		{
			name: "racing charges", why: "of callers who see the same room only one may have it", rules: window,
			steps: []step{check(func(s *fixture) {
				var approved atomic.Int64
				s.race(func(racer, i int) error {
					d, err := charge(1).as(fmt.Sprintf("%d/%d", racer, i)).in(s).Send(ctx, s.b)
					if d.Approved {
						approved.Add(1)
					}
					return err
				})
				if approved.Load() != 100 {
					s.Errorf("%d of %d charges of 1 were approved; want 100", approved.Load(), n*racers)
				}
			}), shows(100, 0, 0), sound(int(n * racers))},
		},
		{
			name: "one ID from many callers", why: "a request has one effect, even if it is sent twice at once", rules: window,
			steps: []step{check(func(s *fixture) {
				var first atomic.Int64
				s.race(func(_, i int) error {
					d, err := charge(3).as(fmt.Sprintf("same/%d", i)).in(s).Send(ctx, s.b)
					if !d.Replayed {
						first.Add(1)
					}
					if err == nil && !d.Approved {
						err = fmt.Errorf("a charge: %+v", d)
					}
					return err
				})
				if first.Load() != n {
					s.Errorf("%d requests were decided %d times", n, first.Load())
				}
			}), shows(3*n, 0, 100-3*n), sound(int(n))},
		},
		{
			name: "racing captures", why: "a hold is taken once, however many captures meet", rules: window,
			steps: []step{check(func(s *fixture) {
				for i := range n {
					authorize(fmt.Sprint("h", i), 4).do(s)
				}
				var taken atomic.Int64
				s.race(func(racer, i int) error {
					_, err := capture(fmt.Sprint("h", i), 3).as(fmt.Sprintf("%d/%d", racer, i)).in(s).Send(ctx, s.b)
					if errors.Is(err, spend.ErrExceeds) {
						return nil
					}
					taken.Add(3)
					return err
				})
				if taken.Load() != 3*n {
					s.Errorf("%d units were captured of %d holds of 4, by captures of 3; want %d", taken.Load(), n, 3*n)
				}
			}), shows(3*n, n, 100-4*n), sound(int(2 * n))},
		},
		{
			name: "racing batches", why: "batches of several callers share the room like single requests", rules: window,
			steps: []step{check(func(s *fixture) {
				var approved [2]atomic.Int64
				s.race(func(racer, i int) error {
					var requests []spend.Request
					for j := range 4 {
						// Every second caller begins with the other account.
						c := charge(1).to([]string{"card", "other"}[(j+racer)%2]).as(fmt.Sprintf("%d/%d/%d", racer, i, j))
						requests = append(requests, c.in(s).money())
					}
					for j, a := range s.b.ChargeAll(ctx, requests) {
						if a.Err != nil {
							return a.Err
						}
						if a.Decision.Approved {
							approved[(j+racer)%2].Add(1)
						}
					}
					return nil
				})
				if a, b := approved[0].Load(), approved[1].Load(); a != 100 || b != 100 {
					s.Errorf("%d and %d of %d charges of 1 to each account were approved; want 100", a, b, 2*n*racers)
				}
			}), shows(100, 0, 0), sound(int(2 * n * racers))},
		},
		{
			name: "requests that are sent together", why: "each of them has the answer that it would have alone", rules: window,
			steps: []step{charge(10).as("earlier"), check(func(s *fixture) {
				calls := []call{
					charge(60).as("c"), charge(0).fails(spend.ErrAmount), charge(70).to("other"), charge(30),
					charge(1).no(0, "month"), // the requests before have taken the room
					charge(60).as("c").again(), charge(10).as("earlier").again(), charge(11).as("earlier").fails(spend.ErrIDReused),
					charge(1).to(strings.Repeat("secret", 100)).fails(spend.ErrRequest),
				}
				var requests []spend.Request
				for _, c := range calls {
					requests = append(requests, c.in(s).money())
				}
				answers := s.b.ChargeAll(ctx, requests)
				for i, c := range calls {
					a := answers[i]
					if !errors.Is(a.Err, c.want) || a.Decision.Approved != (c.want == nil && c.refused == nil) ||
						a.Decision.Replayed != c.replay || a.Err != nil && !reflect.ValueOf(a.Decision).IsZero() {
						s.Errorf("request %d, %+v: %+v", i+1, c, a)
					}
				}
				if len(answers) != len(calls) || len(s.b.ChargeAll(ctx, nil)) != 0 {
					s.Errorf("%d answers to %d requests, or any to none", len(answers), len(calls))
				}
			}), shows(100, 0, 0), sound(4)},
		},
		{
			name: "holds that are sent together", why: "each of them is the hold that Authorize would open", rules: window,
			steps: []step{freeze("lost"), check(func(s *fixture) {
				calls := []call{
					authorize("a", 60).lasting(time.Hour).spent(), authorize("f", 30).forced().ago(40 * days), authorize("b", 40), authorize("-", -1),
					authorize("f", 30).forced().ago(40 * days),
				}
				var requests []spend.Request
				for _, c := range calls {
					requests = append(requests, c.in(s).money())
				}
				var got []string
				for _, a := range s.b.AuthorizeAll(ctx, requests) {
					got = append(got, fmt.Sprint(a.Decision.Approved, a.Decision.Replayed, a.Decision.Amount.Minor, a.Err))
				}
				want := "[false false 0 <nil>|true false 30 <nil>|false false 0 <nil>|false false 0 spend: invalid amount: -0.01 EUR; it must be positive|true true 30 <nil>]"
				if all := "[" + strings.Join(got, "|") + "]"; all != want {
					s.Errorf("the answers are %s; want %s", all, want)
				}
			}), shows(0, 0, 100), capture("f", 30).last(), gives("f", "captured", 0, 30, 0), sound(5)},
		},
		{
			name: "many requests together", why: "a batch may be larger than one transaction of the ledger", rules: []spend.Rule{month(10)},
			steps: []step{check(func(s *fixture) {
				var requests []spend.Request
				for range 700 {
					requests = append(requests, charge(1).in(s).money())
				}
				for i, a := range s.b.ChargeAll(ctx, requests) {
					if a.Err != nil || a.Decision.Approved != (i < 10) {
						s.Fatalf("request %d of 1 unit each: %+v, %v; want 10 approvals", i+1, a.Decision.Approved, a.Err)
					}
				}
			}), shows(10, 0, 0), sound(700)},
		},
	}
}
