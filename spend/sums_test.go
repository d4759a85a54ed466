package spend

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestSumsOutOfRange: where figures are so large that a correction of a spend does not fit, the
// correction fails instead of passing over the figures.
func TestSumsOutOfRange(t *testing.T) {
	const now = 1000
	for _, c := range []struct {
		name       string
		used, held int64
		call       func(*attempt) error
	}{
		{"a capture of all", math.MaxInt64, 5, func(a *attempt) error {
			a.act = &action{id: "c", amount: 5}
			return a.capture()
		}},
		{"a capture of more than all", math.MaxInt64 - 5, 5, func(a *attempt) error {
			a.act = &action{id: "c", amount: 6, force: true}
			return a.capture()
		}},
		{"the end of a capture", 0, math.MinInt64 + 3, func(a *attempt) error {
			a.act = &action{id: "c", amount: 1, final: true}
			return a.capture()
		}},
		{"a void", 0, math.MinInt64, func(a *attempt) error {
			a.act = &action{id: "v"}
			return a.void()
		}},
		{"a refund", math.MinInt64, 0, func(a *attempt) error {
			a.act = &action{id: "r", amount: 1}
			return a.refund()
		}},
	} {
		rule := Lifetime("ever", Money{100, "EUR"})
		acc := &account{
			key: "cards/a", time: now, seq: 9, budget: &checkedBudget{Budget: Budget{Currency: "EUR"}},
			tallies: []*tally{{rule: &rule, name: rule.name, known: true, countedSeq: 9, edge: minTime, sums: sums{used: c.used, held: c.held}}},
		}
		sp := &spend{
			id: "s", accounts: []string{acc.key}, expires: now + 1, total: 7,
			parts: []part{{dates: []int64{1}, seqs: []int64{1}, held: 5, taken: 2}},
		}
		err := c.call(&attempt{now: now, accounts: []*account{acc}, spend: sp})
		if !errors.Is(err, ErrAmount) {
			t.Errorf("%s: %v; want ErrAmount", c.name, err)
		}
	}
}

// TestDamagedAnswers: an answer that names an account or a rule beyond those that there are is
// damaged.
func TestDamagedAnswers(t *testing.T) {
	usage := Usage{Account: Account{Budget: "cards", Name: "a"}, Rule: "r", Limit: Money{1, "EUR"}}
	whole := Decision{Remaining: []Usage{usage}, Declines: []Decline{{Usage: usage}}, At: time.UnixMicro(1).UTC()}
	keys := []string{"cards/a"}
	answer := encodeAnswer(&whole, keys)
	if d, err := decodeAnswer(&ledger.Request{Accounts: keys, Answer: answer}); err != nil || len(d.Declines) != 1 {
		t.Fatalf("the answer as it was: %+v, %v", d, err)
	}
	beyond := slices.Clone(answer)
	beyond[len(beyond)-6] = 2 // the rule of the last decline is now 1, and the rest still 0
	share := whole
	share.Crossed = []Crossing{{usage, 80}}
	shareBeyond := encodeAnswer(&share, keys)
	shareBeyond[len(shareBeyond)-3] = 2 // the rule of the share
	shareBefore := slices.Clone(shareBeyond)
	shareBefore[len(shareBefore)-3] = 1 // which is -1
	for name, r := range map[string]ledger.Request{
		"an account before the first": {Accounts: keys, Answer: encodeAnswer(&whole, []string{"cards/b"})},
		"an account after the last":   {Accounts: keys, Answer: encodeAnswer(&whole, []string{"cards/b", "cards/a"})},
		"a rule after the last":       {Accounts: keys, Answer: beyond},
		"a share of such a rule":      {Accounts: keys, Answer: shareBeyond},
		"a share before the first":    {Accounts: keys, Answer: shareBefore},
	} {
		if d, err := decodeAnswer(&r); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %+v, %v; want ErrCorrupt", name, d, err)
		}
	}
}

// TestVerifyValues: the figures of each value of a tag must be those of its entries.
func TestVerifyValues(t *testing.T) {
	rule := Lifetime("each", Money{100, "EUR"}).Per("merchant")
	entries := []ledger.Entry{
		{Seq: 1, At: 1, Dated: 1, Part: 1, Used: 5, Tags: map[string]string{"merchant": "m1"}},
		{Seq: 2, At: 2, Dated: 2, Part: 2, Held: 7, Expires: 9},
	}
	for _, c := range []struct {
		name   string
		values []valueSums
		same   bool
	}{
		{"the sums of the entries", []valueSums{{"", sums{held: 7, open: []open{{at: 9, held: 7}}}}, {"m1", sums{used: 5}}}, true},
		{"another amount", []valueSums{{"", sums{held: 7, open: []open{{at: 9, held: 7}}}}, {"m1", sums{used: 6}}}, false},
		{"another value", []valueSums{{"", sums{held: 7, open: []open{{at: 9, held: 7}}}}, {"m2", sums{used: 5}}}, false},
		{"a value too few", []valueSums{{"m1", sums{used: 5}}}, false},
	} {
		u := &tally{rule: &rule, name: rule.name, known: true, countedSeq: 2, edge: minTime, values: c.values}
		a := &account{seq: 2, tallies: []*tally{u}}
		if err := a.verify(entries); (err == nil) != c.same || err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestVerifyQuiet: a time that a rule takes to be without entries must have none, even if the sums
// have them.
func TestVerifyQuiet(t *testing.T) {
	window := Rolling("window", Money{100, "EUR"}, 10*time.Microsecond)
	entries := []ledger.Entry{{Seq: 1, At: 5, Dated: 5, Part: 1, Used: 3}}
	for quiet, want := range map[int64]error{0: nil, 4: nil, 5: store.ErrCorrupt, 9: store.ErrCorrupt} {
		u := &tally{rule: &window, name: window.name, known: true, countedSeq: 1, quiet: quiet, sums: sums{used: 3}}
		a := &account{seq: 1, tallies: []*tally{u}}
		if err := a.verify(entries); !errors.Is(err, want) {
			t.Errorf("without entries up to %d, and one of 5: %v; want %v", quiet, err, want)
		}
	}
}
