package spendtest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/brimgo/brim/spend"
)

// togetherCases are about requests that are sent together.
func togetherCases() []testCase {
	window := []spend.Rule{spend.Rolling("month", money(1000), 30*days)}
	return []testCase{
		{
			name: "requests that are sent together", why: "each of them has the answer that it would have alone", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				earlier := s.request(100)
				first := s.yes(b.Charge(ctx, earlier))
				other, secret := s.request(700), s.request(1)
				other.Account, secret.Account = "other", strings.Repeat("secret", 100)
				reused := earlier
				reused.Amount = money(101)
				charge := s.request(600)
				requests := []spend.Request{
					charge, s.request(0), other, s.request(300), s.request(1), charge, earlier, reused, secret,
				}
				answers := b.ChargeAll(ctx, requests)
				for i, want := range []struct {
					err      error
					approved bool
					replayed bool
				}{
					{approved: true},
					{err: spend.ErrAmount},
					{approved: true},
					{approved: true},
					{}, // declined, because the requests before have taken the room
					{approved: true, replayed: true},
					{approved: true, replayed: true},
					{err: spend.ErrIDReused},
					{err: spend.ErrRequest},
				} {
					a := answers[i]
					if !errors.Is(a.Err, want.err) || a.Decision.Approved != want.approved || a.Decision.Replayed != want.replayed {
						s.Errorf("request %d: %+v; want %+v", i+1, a, want)
					}
					if a.Err != nil && !reflect.ValueOf(a.Decision).IsZero() {
						s.Errorf("request %d has a decision beside its error: %+v", i+1, a)
					}
				}
				if len(answers) != len(requests) {
					s.Errorf("%d answers to %d requests", len(answers), len(requests))
				}
				if got := answers[6].Decision; !got.At.Equal(first.At) {
					s.Errorf("a retry among others got %+v; want a replay of %+v", got, first)
				}
				s.shows(b, 1000, 0, 0)
				s.sound(b, 4)
				if answers := b.ChargeAll(ctx, nil); len(answers) != 0 {
					s.Errorf("no requests got %+v", answers)
				}
			},
		},
		{
			name: "many requests together", why: "a batch may be larger than one transaction of the ledger", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				var requests []spend.Request
				for range 700 {
					requests = append(requests, s.request(2))
				}
				for i, a := range b.ChargeAll(ctx, requests) {
					if a.Err != nil || a.Decision.Approved != (i < 500) {
						s.Fatalf("request %d of 2 units each: %+v, %v; want 500 approvals", i+1, a.Decision.Approved, a.Err)
					}
				}
				s.shows(b, 1000, 0, 0)
				s.sound(b, 700)
			},
		},
		{
			name: "racing batches", why: "batches of several callers share the room like single requests", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				var approved [2]atomic.Int64
				accounts := []string{"card", "other"}
				s.race(func(racer int) error {
					var requests []spend.Request
					for i := range 20 {
						// Every second caller begins with the other account.
						requests = append(requests, spend.Request{
							ID: fmt.Sprintf("%s/%d/%d", s.Name(), racer, i), Account: accounts[(i+racer)%2], Amount: money(10),
						})
					}
					for i, a := range b.ChargeAll(ctx, requests) {
						if a.Err != nil {
							return a.Err
						}
						if a.Decision.Approved {
							approved[(i+racer)%2].Add(1)
						}
					}
					return nil
				})
				for i, account := range accounts {
					if n := approved[i].Load(); n != 100 {
						s.Errorf("account %s: %d of 160 charges of 10 were approved; want 100", account, n)
					}
				}
				s.shows(b, 1000, 0, 0)
				s.sound(b, 10*racers)
			},
		},
		{
			name: "one sum out of range among others", why: "an error of one decision is no error of its transaction",
			rules: []spend.Rule{spend.Lifetime("ever", money(math.MaxInt64))},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Record(ctx, s.request(math.MaxInt64-1)))
				answers := b.ChargeAll(ctx, []spend.Request{s.request(1), s.request(1)})
				if answers[0].Err != nil || !answers[0].Decision.Approved || answers[1].Err != nil || answers[1].Decision.Approved {
					s.Errorf("got %+v; want an approval and a decline", answers)
				}
				s.shows(b, math.MaxInt64, 0, 0)
			},
		},
	}
}
