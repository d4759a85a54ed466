package spendtest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// maintenanceCases are about History, Verify and Prune.
func maintenanceCases() []testCase {
	return []testCase{
		{
			name:  "history explains",
			why:   "the ledger lists every decision, newest first, with its changes and the rules that declined it",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
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
					got = append(got, fmt.Sprintf("%d %s %d/%d/%d %v %v", e.Seq, e.Kind,
						e.Amount.Minor, e.Used.Minor, e.Held.Minor, e.Dated.Equal(e.At), e.Refused))
					last = e
				}
				want := []string{
					"4 release 400/0/-400 false []",
					"3 capture 200/200/-200 false []",
					"2 decline 500/0/0 true [month]",
					"1 authorize 600/0/600 true []",
				}
				if !reflect.DeepEqual(got, want) {
					s.Errorf("history is %q; want %q", got, want)
				}
				if last.RequestID != hold.ID || last.SpendID != hold.ID || last.Tags["merchant"] != "m" {
					s.Errorf("the first entry is %+v", last)
				}
				n := 0
				o := &spend.HistoryOptions{Before: spend.Entry{Seq: 3, At: s.clock.now()}, Limit: 1}
				for e, err := range b.History(ctx, "card", o) {
					if n++; err != nil || e.Seq != 2 {
						s.Errorf("the page before entry 3 begins with %+v, %v; want entry 2", e, err)
					}
				}
				if n != 1 {
					s.Errorf("a page of 1 entry has %d", n)
				}
			},
		},
		{
			name: "long histories are paged", why: "no entry may be lost or repeated between two pages",
			rules: []spend.Rule{spend.Rolling("week", money(100_000), 7*days)},
			run: func(s *fixture, b *spend.Budgets) {
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
			name: "pruning changes no answer",
			why:  "Prune removes data that no rule and no ID needs, and ends abandoned holds",
			rules: []spend.Rule{
				spend.Rolling("month", money(1000), 30*days),
				spend.Calendar("year", money(5000), spend.Year, time.UTC),
			},
			run: func(s *fixture, b *spend.Budgets) {
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
						s.Fatalf("Prune: %+v, %v; want %d expired holds and %d IDs", done, err, expired, ids)
					}
				}
				s.shows(b, 600, 300, 4100, "year")
				prune(1, 0)
				s.advance(40 * days) // in June: KeepIDs has passed since the first requests
				prune(0, 2)
				s.shows(b, 600, 300, 4100, "year")
				s.shows(b, 0, 0, 1000, "month")
				s.fails(spend.ErrUnknownSpend)(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: early.ID, Amount: money(1)}))
				d, err := b.Charge(ctx, late)
				if err != nil || !d.Replayed {
					s.Errorf("a retry within KeepIDs: %+v, %v; want a replay", d, err)
				}
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(300)}))
				s.shows(b, 900, 0, 4100, "year")
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
				s.advance(300 * days) // in the next year no rule needs the entries of this one
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
					s.Errorf("%d entries are left; want the single entry of this year", n)
				}
				s.shows(b, 5, 0, 4995, "year")
				if err := b.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "an unused account",
			why:   "it has all of its room, and a question leaves nothing behind",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				s.shows(b, 0, 0, 1000)
				s.yes(b.AbleToAccept(ctx, spend.Request{Account: "card", Amount: money(1000)}))
				s.no(store.Never, "month")(b.AbleToAccept(ctx, spend.Request{Account: "card", Amount: money(1001)}))
				for e, err := range b.History(ctx, "card", nil) {
					s.Errorf("a question has left %+v, %v", e, err)
				}
				if done, err := b.Prune(ctx); err != nil || done != (spend.PruneResult{}) {
					s.Errorf("Prune: %+v, %v; want nothing", done, err)
				}
				s.fails(store.ErrClosed)(func() (spend.Decision, error) {
					_, err := spend.New(nil, spend.Budget{}, nil)
					return spend.Decision{}, err
				}())
			},
		},
	}
}
