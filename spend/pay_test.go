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
	}{
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
			u := &tally{
				name: "r", rule: &c.rule, fingerprint: c.rule.fingerprint(), known: true, edge: c.edge, begun: c.begun,
				countedSeq: c.entries[len(c.entries)-1].Seq, sums: sums{used: c.used, paid: n},
			}
			a := &account{seq: u.countedSeq, tallies: []*tally{u}}
			err := a.verify(c.entries)
			if want := n >= c.least && n <= c.most; (err == nil) != want || err != nil && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: %d units are paid: %v; want that it passes is %t", c.name, n, err, want)
			}
		}
	}
}
