package spend_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// BenchmarkBacktest replays entries by the rules that have decided, which flips nothing, and by
// tighter ones, whose flips it compares with those of a plain sum. The cost per entry must stay of
// one magnitude with many accounts, and with large ones.
func BenchmarkBacktest(b *testing.B) {
	for _, size := range []struct{ accounts, each int }{{100, 100}, {10_000, 100}, {10, 10_000}} {
		b.Run(fmt.Sprintf("accounts=%d/each=%d", size.accounts, size.each), func(b *testing.B) {
			backtestOf(b, size.accounts, size.each)
		})
	}
}

func backtestOf(b *testing.B, accounts, each int) {
	const wide, tight = 1000, 600
	rules := func(limit int64) spend.Budget {
		return spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("day", cents(limit), day)}}
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cards, err := spend.New(b.Context(), memledger.New(&memledger.Options{Clock: func() time.Time { return now }}), rules(wide), nil)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	sums := make([]rollingSum, accounts)
	flips := map[int64]int{wide: 0, tight: 0}
	step := 10 * day / 100 / time.Duration(accounts) // ten spends of an account a day
	for i := range each {
		for a := range accounts {
			now = now.Add(step)
			n := 1 + r.Int64N(400)
			d, err := cards.Charge(b.Context(), spend.Request{ID: fmt.Sprint(a, "-", i), Account: fmt.Sprint(a), Amount: cents(n)})
			if err != nil {
				b.Fatal(err)
			}
			if sums[a].add(now, n, tight) != d.Approved {
				flips[tight]++
			}
		}
	}
	for _, limit := range []int64{wide, tight} {
		b.Run(fmt.Sprint("limit=", limit), func(b *testing.B) {
			for b.Loop() {
				got := 0
				err := cards.Backtest(b.Context(), spend.BacktestOptions{Rules: rules(limit), Flip: func(spend.Flip) error { got++; return nil }})
				if err != nil || got != flips[limit] {
					b.Fatalf("%d flips, %v; want %d", got, err, flips[limit])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*accounts*each), "ns/entry")
		})
	}
}

// rollingSum is the sum of a day, spend by spend.
type rollingSum struct {
	at  []time.Time
	n   []int64
	sum int64
}

// add adds a spend if it fits.
func (s *rollingSum) add(at time.Time, n, limit int64) bool {
	for len(s.at) > 0 && !s.at[0].After(at.Add(-day)) {
		s.sum -= s.n[0]
		s.at, s.n = s.at[1:], s.n[1:]
	}
	if s.sum+n > limit {
		return false
	}
	s.at, s.n, s.sum = append(s.at, at), append(s.n, n), s.sum+n
	return true
}
