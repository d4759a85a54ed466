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

// requestCases are about IDs, and about requests that make no sense.
func requestCases() []testCase {
	window := []spend.Rule{spend.Rolling("month", money(1000), 30*days)}
	return []testCase{
		{
			name: "a retry gets the first answer", why: "whoever does not know whether a request arrived sends it again", rules: window,
			run: func(s *stand, b *spend.Budgets) {
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
				s.advance(40 * days) // by now the declined one would fit
				for i, call := range calls {
					d, err := call()
					want := firsts[i]
					want.Replayed = true
					if err != nil || !reflect.DeepEqual(d, want) {
						s.Errorf("again: %+v, %v; want %+v", d, err, want)
					}
				}
				s.shows(b, 0, 0, 1000)
			},
		},
		{
			name: "an ID is for one request", why: "the same ID with other content is a mistake of the caller's, not a retry", rules: window,
			run: func(s *stand, b *spend.Budgets) {
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
			name: "a failed request leaves its ID free", why: "an error is not a decision: nothing was noted", rules: window,
			run: func(s *stand, b *spend.Budgets) {
				hold := s.request(100)
				s.yes(b.Authorize(ctx, hold))
				id := s.id()
				s.fails(spend.ErrNotHeld)(b.Capture(ctx, spend.CaptureRequest{ID: id, HoldID: hold.ID, Amount: money(101)}))
				d := s.yes(b.Capture(ctx, spend.CaptureRequest{ID: id, HoldID: hold.ID, Amount: money(100)}))
				if d.Replayed {
					s.Error("the failed request was remembered")
				}
			},
		},
		{
			name: "nonsense is refused before it is sent", why: "errors name what is wrong and never the account", rules: window,
			run: func(s *stand, b *spend.Budgets) {
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
					{"unknown budget", func(r *spend.Request) { r.Also = []spend.Account{{Budget: "no such", Name: "x"}} }, spend.ErrRequest},
				} {
					r := base()
					c.change(&r)
					_, err := b.Authorize(ctx, r)
					if !errors.Is(err, c.want) || strings.Contains(fmt.Sprint(err), secret) {
						s.Errorf("%s: %v; want %v without the account", c.name, err, c.want)
					}
				}
				if _, err := b.Remaining(ctx, ""); !errors.Is(err, spend.ErrRequest) {
					s.Errorf("remaining of nobody: %v", err)
				}
				s.fails(spend.ErrCurrency)(func() (spend.Decision, error) {
					hold := s.request(5)
					s.yes(b.Authorize(ctx, hold))
					return b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: spend.Money{Minor: 5, Currency: "USD"}})
				}())
			},
		},
		{
			name: "sums do not overflow", why: "a sum that wraps around would be room that is not there",
			rules: []spend.Rule{spend.Lifetime("ever", money(math.MaxInt64))},
			run: func(s *stand, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(math.MaxInt64)))
				s.no(store.Never, "ever")(b.Charge(ctx, s.request(math.MaxInt64)))
				s.fails(spend.ErrAmount)(b.Record(ctx, s.request(1)))
				s.shows(b, math.MaxInt64, 0, 0)
			},
		},
	}
}

// changeCases are about rules that change.
func changeCases() []testCase {
	return []testCase{
		{
			name: "a changed amount resets nothing", why: "what was used stays used", rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *stand, b *spend.Budgets) {
				name := fmt.Sprintf("change-%s", s.id())
				name = strings.ReplaceAll(name, "/", "-")
				name = name[max(0, len(name)-60):]
				before := s.budget(name, spend.Rolling("r", money(1000), 30*days), spend.Leaky("l", money(1024), 1024*time.Second))
				s.yes(before.Charge(ctx, s.request(600)))
				lower := s.budget(name, spend.Rolling("r", money(500), 30*days), spend.Leaky("l", money(512), 1024*time.Second))
				s.shows(lower, 600, 0, -100, "r")
				s.shows(lower, 600, 0, -88, "l")
				higher := s.budget(name, spend.Rolling("r", money(2000), 30*days), spend.Leaky("l", money(2048), 1024*time.Second))
				s.shows(higher, 600, 0, 1400, "r")
				s.shows(higher, 600, 0, 1448, "l")
				_ = b
			},
		},
		{
			name: "a rule that is added counts what is there", why: "otherwise a new limit would begin with a gift; a leaky one does, as documented",
			rules: []spend.Rule{spend.PerTransaction("single", money(1000))},
			run: func(s *stand, _ *spend.Budgets) {
				name := strings.ReplaceAll("added-"+s.id(), "/", "-")
				name = name[max(0, len(name)-60):]
				before := s.budget(name, spend.PerTransaction("single", money(1000)))
				hold := s.request(300, "category", "travel")
				s.yes(before.Authorize(ctx, hold))
				s.advance(2 * days)
				s.yes(before.Charge(ctx, s.request(500)))
				after := s.budget(
					name, spend.Rolling("week", money(1000), 7*days), spend.Rolling("day", money(1000), 1*days),
					spend.Lifetime("travel", money(1000)).Matching("category", "travel"), spend.Count("often", 10, 7*days),
					spend.Calendar("month", money(1000), spend.Month, time.UTC), spend.Leaky("leaky", money(1024), 1024*time.Second),
				)
				s.shows(after, 500, 300, 200, "week")
				s.shows(after, 500, 0, 500, "day")
				s.shows(after, 0, 300, 700, "travel")
				s.shows(after, 2, 0, 8, "often")
				s.shows(after, 500, 300, 200, "month")
				s.shows(after, 0, 0, 1024, "leaky")
				// The capture of a hold from before the bucket neither fills it nor takes what is not held there.
				s.yes(after.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(300)}))
				s.shows(after, 0, 0, 1024, "leaky")
				s.yes(after.Authorize(ctx, s.request(24)))
				s.shows(after, 0, 24, 1000, "leaky")
				s.shows(after, 800, 24, 176, "week")
			},
		},
		{
			name: "two processes with different rules", why: "during a rollout the old one decides without the new rule, which must count that all the same",
			rules: []spend.Rule{spend.PerTransaction("single", money(1000))},
			run: func(s *stand, _ *spend.Budgets) {
				name := strings.ReplaceAll("rollout-"+s.id(), "/", "-")
				name = name[max(0, len(name)-60):]
				single := spend.PerTransaction("single", money(1000))
				older := s.budget(name, single)
				newer := s.budget(name, single, spend.Rolling("week", money(1000), 7*days), spend.Leaky("leaky", money(1024), 1024*time.Second))
				s.yes(newer.Charge(ctx, s.request(100)))
				s.advance(10 * time.Second)
				hold := s.request(200)
				s.yes(older.Authorize(ctx, hold))
				s.advance(10 * time.Second)
				s.yes(older.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(150), Final: true}))
				s.advance(10 * time.Second)
				s.shows(newer, 250, 0, 750, "week")
				s.shows(newer, 220, 0, 1024-220, "leaky") // 100, 20 s later 150 more, 10 s after that; one leaks each second
			},
		},
	}
}

// maintenanceCases are about history, proof and pruning.
func maintenanceCases() []testCase {
	return []testCase{
		{
			name: "history explains", why: "every decision is in the ledger, newest first, with what it changed and who declined it",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *stand, b *spend.Budgets) {
				hold := s.request(600, "merchant", "m")
				s.yes(b.Authorize(ctx, hold))
				s.advance(time.Second)
				declined := s.request(500)
				s.no(7*days-time.Second, "month")(b.Charge(ctx, declined))
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(200), Final: true}))
				var got []string
				var last spend.Entry
				for e, err := range b.History(ctx, "card", nil) {
					if err != nil {
						s.Fatal(err)
					}
					got = append(got, fmt.Sprintf("%d %s %d/%d/%d %v %v", e.Seq, e.Kind, e.Amount.Minor, e.Used.Minor, e.Held.Minor, e.Dated.Equal(e.At), e.Refused))
					last = e
				}
				want := []string{"4 release 400/0/-400 false []", "3 capture 200/200/-200 false []", "2 decline 500/0/0 true [month]", "1 authorize 600/0/600 true []"}
				if !reflect.DeepEqual(got, want) {
					s.Errorf("history is %q; want %q", got, want)
				}
				if last.RequestID != hold.ID || last.SpendID != hold.ID || last.Tags["merchant"] != "m" {
					s.Errorf("the first entry is %+v", last)
				}
				n := 0
				for e, err := range b.History(ctx, "card", &spend.HistoryOptions{Before: spend.Entry{Seq: 3, At: s.clock.now()}, Limit: 1}) {
					if n++; err != nil || e.Seq != 2 {
						s.Errorf("the page after 3 begins with %+v, %v", e, err)
					}
				}
				if n != 1 {
					s.Errorf("a page of 1 has %d", n)
				}
			},
		},
		{
			name: "long histories are paged", why: "a page ends in the middle of nothing", rules: []spend.Rule{spend.Rolling("week", money(100_000), 7*days)},
			run: func(s *stand, b *spend.Budgets) {
				const n = 450
				for range n {
					s.advance(time.Minute)
					s.yes(b.Charge(ctx, s.request(1)))
				}
				next := int64(n)
				for e, err := range b.History(ctx, "card", nil) {
					if err != nil || e.Seq != next {
						s.Fatalf("entry %d is %+v, %v", next, e, err)
					}
					next--
				}
				if next != 0 {
					s.Errorf("%d entries are missing", next)
				}
				s.shows(b, n, 0, 100_000-n)
				s.advance(7*days - time.Minute*100)
				s.shows(b, 100, 0, 100_000-100)
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
				s.advance(7 * days)
				s.yes(b.Charge(ctx, s.request(1)))
				s.shows(b, 1, 0, 99_999)
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name: "pruning changes no answer", why: "only what no rule and no ID needs is forgotten, and abandoned holds end",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days), spend.Calendar("year", money(5000), spend.Year, time.UTC)},
			run: func(s *stand, b *spend.Budgets) {
				early, hold := s.request(400), s.request(300)
				hold.TTL = 200 * days
				s.yes(b.Charge(ctx, early))
				s.yes(b.Authorize(ctx, hold))
				abandoned := s.request(1)
				abandoned.Account = "abandoned"
				s.yes(b.Authorize(ctx, abandoned))
				s.advance(60 * days)
				late := s.request(200)
				s.yes(b.Charge(ctx, late))
				prune := func(expired, ids int64) {
					s.Helper()
					done, err := b.Prune(ctx)
					if err != nil || done.Expired != expired || done.Requests != ids {
						s.Fatalf("pruned %+v, %v; want %d expired and %d IDs", done, err, expired, ids)
					}
				}
				s.shows(b, 600, 300, 4100, "year")
				prune(1, 0)
				s.advance(40 * days) // in June: KeepIDs is over for what came first
				prune(0, 2)
				s.shows(b, 600, 300, 4100, "year")
				s.shows(b, 0, 0, 1000, "month")
				s.fails(spend.ErrUnknownSpend)(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: early.ID, Amount: money(1)}))
				d, err := b.Charge(ctx, late)
				if err != nil || !d.Replayed {
					s.Errorf("an ID that is kept: %+v, %v", d, err)
				}
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(300)}))
				s.shows(b, 900, 0, 4100, "year")
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
				s.advance(300 * days) // in another year nothing of that is needed
				s.yes(b.Charge(ctx, s.request(5)))
				s.advance(100 * days)
				if _, err := b.Prune(ctx); err != nil {
					s.Fatal(err)
				}
				n := 0
				for _, err := range b.History(ctx, "card", nil) {
					if n++; err != nil {
						s.Fatal(err)
					}
				}
				if n != 1 {
					s.Errorf("%d entries are left; want the one of this year", n)
				}
				s.shows(b, 5, 0, 4995, "year")
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name: "nobody asked", why: "an account that was never used has all of its room, and asking leaves nothing behind",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *stand, b *spend.Budgets) {
				s.shows(b, 0, 0, 1000)
				s.yes(b.AbleToAccept(ctx, spend.Request{Account: "card", Amount: money(1000)}))
				s.no(store.Never, "month")(b.AbleToAccept(ctx, spend.Request{Account: "card", Amount: money(1001)}))
				for e, err := range b.History(ctx, "card", nil) {
					s.Errorf("asking left %+v, %v", e, err)
				}
				if done, err := b.Prune(ctx); err != nil || done != (spend.PruneResult{}) {
					s.Errorf("pruned %+v, %v", done, err)
				}
				s.fails(store.ErrClosed)(func() (spend.Decision, error) {
					_, err := spend.New(nil, spend.Budget{}, nil)
					return spend.Decision{}, err
				}())
			},
		},
	}
}
