package spend_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/decide"
	tally "github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/spendtest"
)

// beginningAt lets decisions count so many entries for a new rule, and others count pages of so
// many, until the test ends.
func beginningAt(t *testing.T, most int) {
	begun, page := tally.MostBegun, decide.CountedPage
	tally.MostBegun, decide.CountedPage = int64(most), most
	t.Cleanup(func() { tally.MostBegun, decide.CountedPage = begun, page })
}

// TestRandomBegin: figures that are counted beside decisions, by pages, are those that a decision
// counts.
func TestRandomBegin(t *testing.T) {
	for _, most := range []int{1, 3} {
		beginningAt(t, most)
		spendtest.Random(t, spendtest.Harness{
			New: func(_ testing.TB, clock func() time.Time) ledger.Ledger {
				return memledger.New(&memledger.Options{Clock: clock})
			},
			Ledgers: 2, PerLedger: 4,
		}, seed.Attempts(160, 400))
	}
}

// longest is a ledger that notes the most entries that one decision has read, and one View.
type longest struct {
	ledger.Ledger
	decision, view *atomic.Int64
}

type counting struct {
	ledger.Snapshot
	n int64
}

func (s *counting) Entries(account string, after ledger.Place, upto int64, limit int) ([]ledger.Entry, ledger.Place, error) {
	list, through, err := s.Snapshot.Entries(account, after, upto, limit)
	s.n += int64(len(list))
	return list, through, err
}

func noted(most *atomic.Int64, job *ledger.Job) *ledger.Job {
	other := *job
	other.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
		s := &counting{Snapshot: snap}
		defer func() {
			for was := most.Load(); was < s.n && !most.CompareAndSwap(was, s.n); was = most.Load() {
			}
		}()
		return job.Run(s)
	}
	return &other
}

func (l longest) Decide(ctx context.Context, job *ledger.Job) error {
	return l.Ledger.Decide(ctx, noted(l.decision, job))
}

func (l longest) View(ctx context.Context, job *ledger.Job) error {
	return l.Ledger.View(ctx, noted(l.view, job))
}

func (l longest) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	var others []*ledger.Job
	for _, job := range jobs {
		others = append(others, noted(l.decision, job))
	}
	return l.Ledger.DecideAll(ctx, others)
}

// TestNewRuleStopsNobody: a rule that is new to an account with many entries, or with some hundred,
// reads them in short jobs beside the decisions, also if many callers come at once and others go
// on, with a deadline that is too short for all of it, and in a transaction of the caller's.
func TestNewRuleStopsNobody(t *testing.T) {
	huge := cents(1 << 40)
	for name, tc := range map[string]struct {
		n int64
		o *spend.SetRulesOptions
	}{
		"at the first decision": {20_000, nil}, "warmed up": {20_000, &spend.SetRulesOptions{WarmUp: true}},
		"of some hundred entries": {300, nil}, "of some hundred entries, warmed up": {300, &spend.SetRulesOptions{WarmUp: true}},
	} {
		n, o := tc.n, tc.o
		l := memledger.New(nil)
		b := budgets(t, l, spend.PerTransaction("one", huge))
		for i := range n {
			charge(t, b, fmt.Sprint(i), 1)
		}
		var decision, view atomic.Int64
		seen := b.With(longest{l, &decision, &view})
		if o != nil { // With counts in the caller's goroutine
			seen = budgets(t, longest{l, &decision, &view}, spend.PerTransaction("one", huge))
		}
		rules := spend.Budget{Name: "cards", Currency: "EUR", Revision: 1, Rules: []spend.Rule{
			spend.PerTransaction("one", huge), spend.Lifetime("ever", huge), spend.Rolling("day", huge, day), spend.Count("often", 1<<30, day).CountsDeclines(),
			spend.Calendar("year", huge, spend.Year, time.UTC).Per("shop"), spend.Leaky("leaky", cents(1<<40), day),
		}}
		if err := seen.SetRules(t.Context(), rules, o); err != nil {
			t.Fatal(err)
		}
		short, leave := context.WithTimeout(t.Context(), time.Microsecond)
		if _, err := seen.Charge(short, spend.Request{ID: "short", Account: "a", Amount: cents(1)}); err == nil && o == nil {
			t.Error("a charge without time was decided")
		}
		leave()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				d, err := seen.Charge(t.Context(), spend.Request{ID: fmt.Sprint("many ", i), Account: "a", Amount: cents(1)})
				if err != nil || !d.Approved {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		wg.Wait()
		list, err := b.Remaining(t.Context(), "a")
		for _, u := range list[1:5] {
			if used := u.Used.Minor; used < n+8 || used > n+9 {
				t.Errorf("%s: rule %s has %d used, %v; want %d", name, u.Rule, used, err, n+8)
			}
		}
		sound(t, b)
		if most := decision.Load(); most > 2*tally.Horizon {
			t.Errorf("%s: a decision has read %d entries, for which others wait", name, most)
		}
		if most := view.Load(); most > int64(2*decide.CountedPage) {
			t.Errorf("%s: a count has read %d entries at once", name, most)
		}
	}
}
