package spendtest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// requestCases are about IDs, and about requests with mistakes.
func requestCases() []testCase {
	window := []spend.Rule{spend.Rolling("month", money(1000), 30*days)}
	return []testCase{
		{
			name:  "a retry gets the first answer",
			why:   "a caller without an answer sends the request again",
			rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				approved, declined := s.request(600, "a", "1"), s.request(500)
				calls := []func() (spend.Decision, error){
					func() (spend.Decision, error) { return b.Charge(ctx, approved) },
					func() (spend.Decision, error) { return b.Authorize(ctx, declined) },
				}
				var firsts []spend.Decision
				for _, call := range calls {
					d, err := call()
					if err != nil || d.Replayed {
						s.Fatalf("%+v, %v", d, err)
					}
					firsts = append(firsts, d)
				}
				s.advance(40 * days) // by now the declined request would fit
				for i, call := range calls {
					d, err := call()
					want := firsts[i]
					want.Replayed = true
					if err != nil || !reflect.DeepEqual(d, want) {
						s.Errorf("the retry got %+v, %v; want %+v", d, err, want)
					}
				}
				s.shows(b, 0, 0, 1000)
			},
		},
		{
			name:  "an ID belongs to one request",
			why:   "other content under the same ID is a mistake of the caller and no retry",
			rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				r := s.request(100, "merchant", "a")
				s.yes(b.Authorize(ctx, r))
				other := r
				other.Amount = money(101)
				s.fails(spend.ErrIDReused)(b.Authorize(ctx, other))
				other = r
				other.Account = "another card"
				s.fails(spend.ErrIDReused)(b.Authorize(ctx, other))
				other = r
				other.Tags = map[string]string{"merchant": "b"}
				s.fails(spend.ErrIDReused)(b.Authorize(ctx, other))
				other = r
				other.TTL = time.Hour
				s.fails(spend.ErrIDReused)(b.Authorize(ctx, other))
				s.fails(spend.ErrIDReused)(b.Charge(ctx, r))
				s.fails(spend.ErrIDReused)(b.Capture(ctx, spend.CaptureRequest{ID: r.ID, HoldID: r.ID, Amount: money(1)}))
				s.shows(b, 0, 100, 900)
			},
		},
		{
			name:  "a failed request leaves its ID free",
			why:   "an error is no decision, so the ledger keeps nothing",
			rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				hold := s.request(100)
				s.yes(b.Authorize(ctx, hold))
				id := s.id()
				s.fails(spend.ErrNotHeld)(b.Capture(ctx, spend.CaptureRequest{ID: id, HoldID: hold.ID, Amount: money(101)}))
				d := s.yes(b.Capture(ctx, spend.CaptureRequest{ID: id, HoldID: hold.ID, Amount: money(100)}))
				if d.Replayed {
					s.Error("the ledger has kept the failed request")
				}
			},
		},
		{
			name:  "mistakes are refused before the ledger is asked",
			why:   "errors name the mistake and never the account",
			rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				const secret = "4111 1111 1111 1111"
				base := func() spend.Request { r := s.request(1); r.Account = secret; return r }
				for _, c := range []struct {
					name   string
					change func(*spend.Request)
					want   error
				}{
					{"no ID", func(r *spend.Request) { r.ID = "" }, spend.ErrRequest},
					{"long ID", func(r *spend.Request) { r.ID = strings.Repeat("x", 129) }, spend.ErrRequest},
					{"ID that is not UTF-8", func(r *spend.Request) { r.ID = "\xff" }, spend.ErrRequest},
					{"no account", func(r *spend.Request) { r.Account = "" }, spend.ErrRequest},
					{"account with NUL", func(r *spend.Request) { r.Account = secret + "\x00" }, spend.ErrRequest},
					{"account with a line break", func(r *spend.Request) { r.Account = secret + "\n" }, spend.ErrRequest},
					{"long account", func(r *spend.Request) { r.Account = strings.Repeat(secret, 60) }, spend.ErrRequest},
					{"zero", func(r *spend.Request) { r.Amount.Minor = 0 }, spend.ErrAmount},
					{"negative", func(r *spend.Request) { r.Amount.Minor = -1 }, spend.ErrAmount},
					{"another currency", func(r *spend.Request) { r.Amount.Currency = "USD" }, spend.ErrCurrency},
					{"no currency", func(r *spend.Request) { r.Amount.Currency = "" }, spend.ErrCurrency},
					{"negative TTL", func(r *spend.Request) { r.TTL = -1 }, spend.ErrRequest},
					{"empty tag", func(r *spend.Request) { r.Tags = map[string]string{"": "x"} }, spend.ErrRequest},
					{"tag with NUL", func(r *spend.Request) { r.Tags = map[string]string{"x": "\x00"} }, spend.ErrRequest},
					{"unknown budget", func(r *spend.Request) {
						r.Also = []spend.Account{{Budget: "no such", Name: "x"}}
					}, spend.ErrRequest},
				} {
					r := base()
					c.change(&r)
					_, err := b.Authorize(ctx, r)
					if !errors.Is(err, c.want) || strings.Contains(fmt.Sprint(err), secret) {
						s.Errorf("%s: %v; want %v without the account", c.name, err, c.want)
					}
				}
				if _, err := b.Remaining(ctx, ""); !errors.Is(err, spend.ErrRequest) {
					s.Errorf("Remaining of an empty account: %v; want ErrRequest", err)
				}
				hold := s.request(5)
				s.yes(b.Authorize(ctx, hold))
				dollars := spend.Money{Minor: 5, Currency: "USD"}
				s.fails(spend.ErrCurrency)(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: dollars}))
			},
		},
		{
			name:  "sums do not overflow",
			why:   "a sum that wraps around would look like room",
			rules: []spend.Rule{spend.Lifetime("ever", money(math.MaxInt64))},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(math.MaxInt64)))
				s.no(store.Never, "ever")(b.Charge(ctx, s.request(math.MaxInt64)))
				s.fails(spend.ErrAmount)(b.Record(ctx, s.request(1)))
				s.shows(b, math.MaxInt64, 0, 0)
			},
		},
	}
}
