// Package sample makes the calls that the tests of otelbrim and prombrim count.
package sample

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// Spends charges, declines, replays and holds money that expires, and fails once, on account
// "card:4711". It cancels a forced hold of another account. Once the clock is too far behind the
// account.
func Spends(t testing.TB, h spend.Hooks) {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	usd := func(micros int64) spend.Money { return spend.Money{Minor: micros, Currency: "USD:6"} }
	b, err := spend.New(t.Context(), memledger.New(&memledger.Options{Clock: func() time.Time { return now }}), spend.Budget{
		Name: "tokens", Currency: "USD:6", Rules: []spend.Rule{spend.Rolling("day", usd(10_000000), 24*time.Hour)},
	}, &spend.Options{Hooks: []spend.Hooks{h}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []spend.Request{
		{ID: "1", Amount: usd(4_500000)},
		{ID: "1", Amount: usd(4_500000)},
		{ID: "2", Amount: usd(6_000000)},
		{ID: "3", Amount: usd(11_000000)},
		{ID: "4", Amount: usd(-1)},
	} {
		r.Account = "card:4711"
		if _, err := b.Authorize(t.Context(), r); err != nil && !errors.Is(err, spend.ErrAmount) {
			t.Fatal(err)
		}
	}
	if _, err := b.Authorize(t.Context(), spend.Request{ID: "5", Account: "card:1", Amount: usd(20_000000), Forced: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(t.Context(), "5", "card:1"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"6", "7"} { // the clock is 59 seconds behind the account, and then 61
		now = now.Add(map[string]time.Duration{"6": -59 * time.Second, "7": -2 * time.Second}[id])
		if _, err := b.Charge(t.Context(), spend.Request{ID: id, Account: "card:4711", Amount: usd(1)}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(30 * 24 * time.Hour)
	if _, err := b.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
}
