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
			name:  "prune and open holds",
			why:   "a rule that is new to the account counts the entries of a hold and of its end; without the first the second mints",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				s.yes(b.Charge(ctx, s.request(100)))
				s.advance(days)
				hold := s.request(300)
				hold.TTL = 300 * days
				s.yes(b.Authorize(ctx, hold))
				s.advance(days)
				s.yes(b.Charge(ctx, s.request(50)))
				s.advance(100 * days)
				if _, err := b.Prune(ctx); err != nil {
					s.Fatal(err)
				}
				year := s.budget("prune and open holds", spend.Rolling("year", money(1000), 365*days))
				s.shows(year, 50, 300, 650)
				s.yes(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: hold.ID, Amount: money(1)}))
				s.shows(year, 50, 301, 649)
				s.yes(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: hold.ID}))
				s.shows(year, 50, 0, 950)
				s.sound(year, 5)
			},
		},
		{
			name:  "prune and corrections",
			why:   "a rule that begins later counts no refund or capture whose entry is gone; each would make room",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				charged, hold, open := s.request(400), s.request(300), s.request(50)
				hold.TTL, open.TTL = 60*days, 300*days
				s.yes(b.Charge(ctx, charged))
				s.yes(b.Authorize(ctx, hold))
				s.advance(20 * days)
				s.yes(b.Authorize(ctx, open))
				s.advance(days)
				s.yes(b.Increase(ctx, spend.IncreaseRequest{ID: s.id(), HoldID: open.ID, Amount: money(7)}))
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: open.ID, Amount: money(50)}))
				s.advance(29 * days)
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: charged.ID, Amount: money(400)}))
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: hold.ID, Amount: money(100), Final: true}))
				s.advance(70 * days)
				if _, err := b.Prune(ctx); err != nil {
					s.Fatal(err)
				}
				year := s.budget("prune and corrections", spend.Rolling("year", money(1000), 365*days))
				s.shows(year, 50, 7, 943)
				s.no(200*days, "year")(year.Charge(ctx, s.request(944)))
				s.yes(year.Charge(ctx, s.request(943)))
				s.advance(365 * days)
				s.shows(year, 0, 0, 1000)
				if err := year.Verify(ctx, "card"); err != nil {
					s.Error(err)
				}
			},
		},
		{
			name:  "prune and the rules of another process",
			why:   "a process that does not know a rule must not prune the entries that the rule still counts",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				half := s.budget("prune and the rules of another process", spend.Rolling("half", money(1000), 182*days))
				elsewhere := func(n int64) spend.Request {
					r := s.request(n)
					r.Account = "elsewhere"
					return r
				}
				s.yes(half.Charge(ctx, s.request(400)))
				s.yes(b.Charge(ctx, elsewhere(300))) // half has never decided there
				s.advance(60 * days)
				s.yes(half.Charge(ctx, s.request(1)))
				s.advance(60 * days)
				prune := func() {
					s.Helper()
					if _, err := b.Prune(ctx); err != nil {
						s.Fatal(err)
					}
				}
				prune()
				s.shows(half, 401, 0, 599)
				if list, err := half.Remaining(ctx, "elsewhere"); err != nil || list[0].Used.Minor != 300 {
					s.Errorf("elsewhere: %+v, %v; want 300 used", list, err)
				}
				s.advance(31 * days) // half has not decided within KeepIDs
				prune()
				n := 0
				for _, err := range b.History(ctx, "elsewhere", nil) {
					if n++; err != nil {
						s.Fatal(err)
					}
				}
				if n != 0 {
					s.Errorf("%d entries are left elsewhere; no rule in use needs them", n)
				}
			},
		},
		{
			name: "records of the past",
			why:  "usage from elsewhere counts in the windows that hold its date, and where Prune has removed entries it is refused",
			rules: []spend.Rule{
				spend.Rolling("week", money(1000), 7*days), spend.Calendar("day", money(1000), spend.Day, time.UTC),
				spend.Leaky("leaky", money(1000), 1000*time.Second), spend.Count("often", 5, 2*days),
			},
			run: func(s *fixture, b *spend.Budgets) {
				record := func(n int64, back time.Duration) spend.Request {
					r := s.request(n)
					r.Dated = s.clock.now().Add(-back)
					return r
				}
				s.yes(b.Charge(ctx, s.request(1)))
				first := record(100, 3*days)
				s.yes(b.Record(ctx, first))
				s.yes(b.Record(ctx, record(200, 8*days)))
				s.yes(b.Record(ctx, record(40, time.Hour)))
				s.shows(b, 141, 0, 859, "week")
				s.shows(b, 41, 0, 959, "day")
				s.shows(b, 341, 0, 659, "leaky")
				s.shows(b, 2, 0, 3, "often")
				if d := s.yes(b.Record(ctx, first)); !d.Replayed {
					s.Error("the record was sent again and is no replay")
				}
				s.yes(b.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: first.ID, Amount: money(30)}))
				s.shows(b, 111, 0, 889, "week")
				s.advance(4*days - time.Microsecond)
				s.shows(b, 111, 0, 889, "week")
				s.advance(time.Microsecond)
				s.shows(b, 41, 0, 959, "week")
				s.sound(b, 5)
				s.fails(spend.ErrRequest)(b.Record(ctx, record(1, -time.Microsecond)))
				s.advance(100 * days)
				if _, err := b.Prune(ctx); err != nil {
					s.Fatal(err)
				}
				s.fails(spend.ErrRequest)(b.Record(ctx, record(1, 90*days)))
				s.yes(b.Record(ctx, record(1, 90*days-time.Microsecond)))
				old := record(1, 0)
				old.Dated = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)
				s.fails(spend.ErrRequest)(b.Record(ctx, old))
			},
		},
		{
			name:  "many entries of one date",
			why:   "a window that moves must subtract all of them, although a ledger reads them in parts",
			rules: []spend.Rule{spend.Rolling("month", money(10_000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				const n = 300
				s.yes(b.Charge(ctx, s.request(7)))
				s.advance(time.Second)
				for range n {
					s.yes(b.Charge(ctx, s.request(1)))
				}
				s.advance(time.Second)
				s.yes(b.Charge(ctx, s.request(5)))
				s.advance(30*days - 2*time.Second)
				s.shows(b, 5+n, 0, 10_000-5-n)
				s.advance(time.Second)
				s.shows(b, 5, 0, 10_000-5)
				s.yes(b.Charge(ctx, s.request(1)))
				s.shows(b, 6, 0, 10_000-6)
				s.sound(b, n+3)
			},
		},
		{
			name:  "an ended hold does not expire",
			why:   "a void, a final capture and an expiry each remove the hold, and nothing is released twice",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				var holds []spend.Request
				for range 3 {
					r := s.request(100)
					r.TTL = time.Hour
					s.yes(b.Authorize(ctx, r))
					holds = append(holds, r)
				}
				s.yes(b.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: holds[0].ID}))
				s.yes(b.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: holds[1].ID, Amount: money(40), Final: true}))
				s.shows(b, 40, 100, 860)
				s.advance(time.Hour)
				if done, err := b.Prune(ctx); err != nil || done.Expired != 1 {
					s.Errorf("Prune: %+v, %v; want one expired hold", done, err)
				}
				s.advance(time.Hour)
				s.yes(b.Charge(ctx, s.request(1)))
				if done, err := b.Prune(ctx); err != nil || done.Expired != 0 {
					s.Errorf("Prune once more: %+v, %v; want no expired hold", done, err)
				}
				s.shows(b, 41, 0, 959)
				s.sound(b, 8)
			},
		},
		{
			name:  "holds expire one after the other",
			why:   "each decision must find the holds that have expired since the one before",
			rules: []spend.Rule{spend.Rolling("month", money(1000), 30*days)},
			run: func(s *fixture, b *spend.Budgets) {
				for _, hours := range []time.Duration{3, 1, 2, 2} {
					r := s.request(100)
					r.TTL = hours * time.Hour
					s.yes(b.Authorize(ctx, r))
				}
				for i, held := range []int64{400, 300, 100, 0} {
					s.shows(b, int64(i), held, 1000-int64(i)-held)
					s.yes(b.Charge(ctx, s.request(1)))
					s.advance(time.Hour)
				}
				s.sound(b, 12)
			},
		},
		{
			name:  "pruning covers all accounts of one budget",
			why:   "accounts come in pages, and the IDs of another budget may have to live longer",
			rules: []spend.Rule{spend.Rolling("day", money(1000), 1*days)},
			run: func(s *fixture, b *spend.Budgets) {
				const n = 230
				for i := range n {
					r := s.request(1)
					r.Account = fmt.Sprintf("card %03d", i)
					s.yes(b.Authorize(ctx, r))
				}
				other := s.budget(s.budgetName(), spend.Rolling("day", money(1000), 1*days))
				theirs := s.request(1)
				s.yes(other.Charge(ctx, theirs))
				s.advance(8 * days)
				want := spend.PruneResult{Expired: n}
				if done, err := b.Prune(ctx); err != nil || done != want {
					s.Errorf("Prune after all holds have expired: %+v, %v; want %+v", done, err, want)
				}
				s.advance(100 * days)
				want = spend.PruneResult{Requests: n}
				if done, err := b.Prune(ctx); err != nil || done != want {
					s.Errorf("Prune after KeepIDs: %+v, %v; want %+v", done, err, want)
				}
				if d := s.yes(other.Charge(ctx, theirs)); !d.Replayed {
					s.Error("pruning has removed an ID of another budget")
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
