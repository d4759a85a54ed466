package spend

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestVerifyPaid: the paid units must follow from the entries, as far as these tell.
func TestVerifyPaid(t *testing.T) {
	window := Rolling("r", Money{1000, "EUR"}, 10*time.Microsecond)
	period := Calendar("r", Money{1000, "EUR"}, Day, time.UTC)
	spent := func(seq, at, n int64) ledger.Entry {
		return ledger.Entry{Seq: seq, At: at, Dated: at, Part: seq, Used: n}
	}
	refund := func(seq, at, dated, part, n int64) ledger.Entry {
		return ledger.Entry{Seq: seq, At: at, Dated: dated, Part: part, Used: -n}
	}
	paid := func(seq, at, n int64) ledger.Entry {
		return ledger.Entry{
			Seq: seq, At: at, Dated: at, Part: seq, Amount: n,
			Credited: []ledger.Credited{{Rule: "r", Amount: n}},
		}
	}
	for _, c := range []struct {
		name        string
		rule        Rule
		entries     []ledger.Entry
		edge, begun int64
		used        int64
		least, most int64 // of the paid units that pass
		uncounted   int64 // number of the last entries that the rule has not counted
	}{
		{
			name: "one unit", rule: window, edge: 0, used: 1, least: 1, most: 1,
			entries: []ledger.Entry{spent(1, 1, 1), paid(2, 2, 1)},
		},
		{
			name: "all has left", rule: window, edge: 2, used: 0, least: 0, most: 0,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40)},
		},
		{
			name: "the only spend left between two credits", rule: window, edge: 12, used: 30, least: 10, most: 10,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40), spent(3, 20, 30), paid(4, 21, 10)},
		},
		{
			name: "an entry that the rule does not match", rule: window.MatchingAtLeast(Money{1, "EUR"}), edge: 0, used: 0, least: 0, most: 0,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40)},
		},
		{
			name: "entries that the rule has not counted", rule: window, edge: 0, used: 100, least: 40, most: 40, uncounted: 2,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40), spent(3, 3, 9), paid(4, 4, 9)},
		},
		{
			name: "a refund at the very time at which its spend leaves", rule: window, edge: 1, used: 50, least: 10, most: 10,
			entries: []ledger.Entry{spent(1, 1, 10), spent(2, 2, 50), paid(3, 3, 20), refund(4, 11, 1, 1, 10)},
		},
		{
			name: "pruned but for the last entry", rule: window, edge: 45, used: 100, least: 0, most: 100,
			entries: []ledger.Entry{spent(2, 50, 100)},
		},
		{
			name: "pruned, and the account then got the rule", rule: window, edge: 50, begun: 7, used: 101, least: 0, most: 0,
			entries: []ledger.Entry{spent(5, 50, 1), spent(6, 55, 100), spent(7, 60, 1)},
		},
		{
			name: "all entries", rule: window, edge: 0, used: 100, least: 40, most: 40,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40)},
		},
		{
			name: "the paid spend has left", rule: window, edge: 1, used: 30, least: 0, most: 0,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40), spent(3, 3, 30)},
		},
		{
			name: "a part of the paid spends has left", rule: window, edge: 1, used: 60, least: 10, most: 10,
			entries: []ledger.Entry{spent(1, 1, 100), spent(2, 2, 60), paid(3, 3, 110)},
		},
		{
			name: "a spend has left and was refunded later", rule: window, edge: 2, used: 60, least: 0, most: 0,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 100), spent(3, 12, 60), refund(4, 12, 1, 1, 100)},
		},
		{
			name: "a paid spend was refunded", rule: window, edge: 0, used: 60, least: 60, most: 60,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 100), spent(3, 3, 60), refund(4, 4, 1, 1, 100)},
		},
		{
			name: "credits from before the account had the rule", rule: window, edge: 0, begun: 2, used: 100, least: 5, most: 5,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40), paid(3, 3, 5)},
		},
		{
			name: "pruned within the window before the last entry", rule: window, edge: 45, used: 100, least: 0, most: 100,
			entries: []ledger.Entry{spent(5, 50, 100), paid(6, 55, 40)},
		},
		{
			name: "pruned, and all has left since", rule: window, edge: 51, used: 30, least: 10, most: 10,
			entries: []ledger.Entry{spent(5, 50, 100), spent(6, 60, 30), paid(7, 61, 10)},
		},
		{
			name: "a period", rule: period, edge: -1, used: 100, least: 0, most: 40,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40)},
		},
		{
			name: "a period with credits from before the account had the rule", rule: period, edge: -1, begun: 2, used: 100, least: 0, most: 5,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 40), paid(3, 3, 5)},
		},
		{
			name: "a period with credits of more than is used", rule: period, edge: -1, used: 30, least: 0, most: 30,
			entries: []ledger.Entry{spent(1, 1, 100), paid(2, 2, 100), refund(3, 3, 1, 1, 70)},
		},
	} {
		for i := range c.entries {
			for j := range c.entries[i].Credited {
				c.entries[i].Credited[j].Counts = c.rule.fingerprint()
			}
		}
		for n := int64(-1); n <= c.used+1; n++ {
			last := c.entries[len(c.entries)-1]
			u := &tally{
				name: "r", rule: &c.rule, fingerprint: c.rule.fingerprint(), known: true, edge: c.edge, begun: c.begun,
				countedSeq: last.Seq - c.uncounted, countedAt: last.At, sums: sums{used: c.used, paid: n},
			}
			a := &account{seq: u.countedSeq + c.uncounted, tallies: []*tally{u}}
			err := a.verify(c.entries)
			if want := n >= c.least && n <= c.most; (err == nil) != want || err != nil && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: %d units are paid: %v; want that it passes is %t", c.name, n, err, want)
			}
		}
	}
}
