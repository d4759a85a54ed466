package decide

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
)

// TestDigest: every field of a request changes its digest, so that an ID cannot be used again for
// another request. A ledger keeps the digest, so it never changes.
func TestDigest(t *testing.T) {
	first := func() *Action {
		return &Action{
			Kind: "k", SpendID: "s", Keys: []string{"a", "b"}, Amount: 5, Currency: "EUR",
			Tags: map[string]string{"t": "v", "u": "w"},
		}
	}
	seen := map[string]string{}
	for _, c := range []struct {
		name   string
		change func(*Action)
	}{
		{"nothing", func(*Action) {}},
		{"the kind", func(a *Action) { a.Kind = "l" }},
		{"the spend", func(a *Action) { a.SpendID = "r" }},
		{"text moved from the kind to the spend", func(a *Action) { a.Kind, a.SpendID = "", "ks" }},
		{"the amount", func(a *Action) { a.Amount = 6 }},
		{"the currency", func(a *Action) { a.Currency = "USD" }},
		{"a date", func(a *Action) { a.Backdated = true }},
		{"another date", func(a *Action) { a.Backdated, a.Dated = true, 2 }},
		{"the least amount", func(a *Action) { a.Least = 1 }},
		{"another least amount", func(a *Action) { a.Least = 2 }},
		{"final", func(a *Action) { a.Final = true }},
		{"force", func(a *Action) { a.Force = true }},
		{"the number of accounts", func(a *Action) { a.Keys = a.Keys[:1] }},
		{"a new name", func(a *Action) { a.To = "c" }},
		{"another new name", func(a *Action) { a.To = "d" }},
		{"an account that becomes a tag", func(a *Action) { a.Keys, a.Tags = []string{"a"}, map[string]string{"b": "t", "v": "u"} }},
		{"a tag", func(a *Action) { a.Tags = map[string]string{"t": "v", "x": "w"} }},
		{"a value", func(a *Action) { a.Tags = map[string]string{"t": "v", "u": "x"} }},
		{"text moved from a tag to its value", func(a *Action) { a.Tags = map[string]string{"t": "v", "": "uw"} }},
	} {
		act := first()
		c.change(act)
		digest := string(act.Digest())
		if other, ok := seen[digest]; ok {
			t.Errorf("a change of %s has the digest of a change of %s", c.name, other)
		}
		if seen[digest] = c.name; len(digest) != 16 {
			t.Errorf("the digest has %d bytes, want 16", len(digest))
		}
	}
	if got := hex.EncodeToString(first().Digest()); got != "4cf6ca8f04db3d18b203bf13cfa46f0a" {
		t.Errorf("the digest is %s; a stored one can no longer be compared", got)
	}
	credit := Action{Kind: figures.KindCredit, Keys: []string{"cards/a", "cards/b"}, Amount: 1, Currency: "EUR"}
	if got := hex.EncodeToString(credit.Digest()); got != "c66880cdf1416ff9efcd11ddc55ead42" {
		t.Errorf("the digest of a credit is %s; a stored one can no longer be compared", got)
	}
	act := first()
	act.ID, act.Keys = "another", []string{"a", "c"}
	if seen[string(act.Digest())] != "nothing" {
		t.Error("the ID or the key of an account, which may move, changes the digest")
	}
}

// TestLimitText: the text of a limit is a part of the digest of its request.
func TestLimitText(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC)
	for _, c := range []struct {
		limit Limit
		want  string
	}{
		{Limit{Default: true}, "default"},
		{Limit{Amount: money.Money{Minor: 500, Currency: "EUR"}}, "5.00 EUR"},
		{Limit{Amount: money.Money{Minor: 5}}, "5"},
		{Limit{Amount: money.Money{Minor: 500, Currency: "EUR"}, Until: at}, "5.00 EUR until 2026-03-01T12:00:00.000001Z"},
		{Limit{Amount: money.Money{Minor: 500, Currency: "EUR"}, If: &money.Money{Minor: 5, Currency: "EUR"}}, "5.00 EUR if 0.05 EUR"},
		{Limit{Default: true, If: &money.Money{Minor: 5}}, "default if 5"},
		{Limit{Amount: money.Money{Minor: 5}, Until: at}, "5 until 2026-03-01T12:00:00.000001Z"},
	} {
		if got := c.limit.Text(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.limit, got, c.want)
		}
	}
}
