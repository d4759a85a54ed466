package spendload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// Expired compares decisions on an account with expired holds with those on an account without any:
// 2,000 expired holds, or 10^6 with BRIM_TORTURE=1. Of the night's, a decision takes at most twice
// as long as a usual one. The ledger goes by the clock that Expired gives to open.
func Expired(t *testing.T, open func(clock func() time.Time) ledger.Ledger) {
	n := seed.Attempts(2_000, 1_000_000)
	const day = 24 * time.Hour
	var us atomic.Int64
	us.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	l := open(func() time.Time { return time.UnixMicro(us.Load()) })
	limit := euros(int64(2 * n))
	b, err := spend.New(t.Context(), l, spend.Budget{Name: "expired", Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("window", limit, 30*day), spend.Leaky("leaky", limit, 30*day), spend.Lifetime("ever", limit),
		spend.Count("often", int64(2*n), 30*day),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hold := func(id, account string) error {
		d, err := b.Authorize(context.Background(), spend.Request{ID: id, Account: account, Amount: euros(1), TTL: day})
		if err == nil && !d.Approved {
			err = fmt.Errorf("declined: %+v", d)
		}
		return err
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 256 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				us.Add((day / 4).Microseconds() / int64(n))
				if err := hold(fmt.Sprintf("%032x", i), "crowded"); err != nil {
					t.Errorf("hold %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := hold("warm", "usual"); err != nil { // a ledger prepares the statements that end a hold
		t.Fatal(err)
	}
	us.Add(2 * day.Microseconds())
	const rounds = 101
	took := make(map[string][]time.Duration)
	for i := range rounds {
		for _, account := range []string{"usual", "crowded"} {
			us.Add(1000)
			start := time.Now()
			d, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint(account, i), Account: account, Amount: euros(1)})
			if took[account] = append(took[account], time.Since(start)); err != nil || !d.Approved {
				t.Fatalf("%s: %+v, %v", account, d, err)
			}
			for _, u := range d.Remaining {
				if u.Held.Minor != 0 {
					t.Fatalf("%d expired holds: %+v", n, u)
				}
			}
		}
	}
	usual, first, crowded := median(took["usual"][1:]), took["crowded"][0], median(took["crowded"])
	t.Logf("%d expired holds: the first decision took %v, and the median of %d %v; usual are %v", n, first, rounds, crowded, usual)
	if n == 1_000_000 && crowded > 2*usual {
		t.Error("want at most twice as long as usual")
	}
}

func median(list []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}
