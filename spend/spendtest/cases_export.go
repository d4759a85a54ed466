package spendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// exportCases are about ledgers as a whole, and about usage from elsewhere.
func exportCases() []testCase {
	window := []spend.Rule{spend.Rolling("month", money(100_000), 30*days)}
	// exported returns the account and number of each entry.
	exported := func(s *fixture, b *spend.Budgets, o *spend.ExportOptions) (list []string, entries []spend.Entry) {
		s.Helper()
		for e, err := range b.Export(ctx, o) {
			if err != nil {
				s.Fatal(err)
			}
			list, entries = append(list, fmt.Sprint(e.Name, " ", e.Seq)), append(entries, e)
		}
		return list, entries
	}
	charge := func(s *fixture, b *spend.Budgets, account string, n int64) {
		s.Helper()
		r := s.request(n)
		r.Account = account
		s.yes(b.Charge(ctx, r))
	}
	return []testCase{
		{
			name: "an export has every entry once", rules: window,
			why: "accounts are in byte order, entries newest first, and an export that stopped goes on after any entry",
			run: func(s *fixture, b *spend.Budgets) {
				other := s.budget(s.budgetName(), window...)
				charge(s, other, "b", 1)
				for _, account := range []string{"b", "B", "a/b", "a", "b", "\u00e9", "b"} {
					s.advance(time.Second)
					charge(s, b, account, 1)
				}
				want := []string{"B 1", "a 1", "a/b 1", "b 3", "b 2", "b 1", "\u00e9 1"}
				list, entries := exported(s, b, nil)
				if !slices.Equal(list, want) {
					s.Fatalf("the export is %q; want %q", list, want)
				}
				for i := range entries {
					if rest, _ := exported(s, b, &spend.ExportOptions{After: entries[i]}); !slices.Equal(rest, want[i+1:]) {
						s.Errorf("after %q the export goes on with %q; want %q", want[i], rest, want[i+1:])
					}
				}
				for _, o := range []*spend.ExportOptions{nil, {After: entries[3]}} {
					for _, err := range b.Export(ctx, o) {
						if err != nil {
							s.Error(err)
						}
						break // the iterator must bear it
					}
				}
				for e, err := range other.Export(ctx, &spend.ExportOptions{After: entries[0]}) {
					if !errors.Is(err, spend.ErrRequest) {
						s.Errorf("an export after an entry of another budget: %+v, %v; want ErrRequest", e, err)
					}
				}
			},
		},
		{
			name: "an export of many accounts", why: "no account may be lost or repeated between two pages", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				var requests []spend.Request
				for i := range 450 {
					r := s.request(1)
					r.Account = fmt.Sprintf("%04d", i)
					requests = append(requests, r)
				}
				for _, a := range b.ChargeAll(ctx, requests) {
					if a.Err != nil {
						s.Fatal(a.Err)
					}
				}
				list, _ := exported(s, b, nil)
				for i := range max(len(list), len(requests)) {
					if i >= len(list) || i >= len(requests) || list[i] != requests[i].Account+" 1" {
						s.Fatalf("%d entries of 450, and entry %d differs", len(list), i)
					}
				}
			},
		},
		{
			name: "a table of one's own", rules: window,
			why: "an import that stopped is run again from its first row, and counts nothing twice",
			run: func(s *fixture, b *spend.Budgets) {
				s.advance(100 * days)
				type row struct {
					key     int
					account string
					amount  int64
					at      time.Time
				}
				var table []row
				inWindow := map[string]int64{}
				for i := range 60 {
					r := row{i, []string{"card", "other"}[i%2], int64(10 + i), s.clock.now().Add(-time.Duration(i*i) * time.Hour)}
					if i*i < 30*24 {
						inWindow[r.account] += r.amount
					}
					table = append(table, r)
				}
				bring := func(rows []row) {
					s.Helper()
					for _, r := range rows {
						s.yes(b.Record(ctx, spend.Request{
							ID: fmt.Sprint(s.Name(), "/import:", r.key), Account: r.account, Amount: money(r.amount), Dated: r.at,
						}))
					}
				}
				bring(table[:35])
				bring(table)
				for account, used := range inWindow {
					list, err := b.Remaining(ctx, account)
					if err != nil || list[0].Used.Minor != used {
						s.Errorf("account %s: %+v, %v; want %d used", account, list, err, used)
					}
					if err := b.Verify(ctx, account); err != nil {
						s.Error(err)
					}
				}
				list, entries := exported(s, b, nil)
				if len(list) != len(table) {
					s.Errorf("%d entries of %d rows", len(list), len(table))
				}
				slices.SortFunc(entries, func(x, y spend.Entry) int { return y.Dated.Compare(x.Dated) })
				for i, e := range entries {
					if r := table[i]; e.Used != money(r.amount) || !e.Dated.Equal(r.at) || e.Name != r.account || e.Kind != "record" {
						s.Fatalf("row %+v became the entry %+v", r, e)
					}
				}
				changed := table[0]
				changed.amount++
				s.fails(spend.ErrIDReused)(b.Record(ctx, spend.Request{
					ID: fmt.Sprint(s.Name(), "/import:", changed.key), Account: changed.account, Amount: money(changed.amount), Dated: changed.at,
				}))
			},
		},
		{
			name: "an export ends with an error", why: "a list that stops early must not look whole", rules: window,
			run: func(s *fixture, b *spend.Budgets) {
				charge(s, b, "a", 1)
				charge(s, b, "b", 1)
				ended, cancel := context.WithCancel(ctx)
				defer cancel()
				n := 0
				for e, err := range b.Export(ended, nil) {
					switch n++; {
					case n == 1 && (err != nil || e.Name != "a"):
						s.Errorf("the first entry is %+v, %v", e, err)
					case n == 2 && (!errors.Is(err, context.Canceled) || e.Seq != 0), n > 2:
						s.Errorf("after the end of the context: %+v, %v", e, err)
					}
					cancel()
				}
				if n != 2 {
					s.Errorf("the export yielded %d times; want an entry and an error", n)
				}
				if err := s.l.Close(); err != nil {
					s.Fatal(err)
				}
				for _, err := range b.Export(ctx, nil) {
					if !errors.Is(err, store.ErrClosed) {
						s.Errorf("an export of a closed ledger: %v; want ErrClosed", err)
					}
				}
			},
		},
	}
}

// exported compares the sum of all entries of each account with the model.
func (s *sequence) exported() error {
	sums := make(map[string]int64)
	for e, err := range s.budgets.Export(context.Background(), nil) {
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if at := e.At.UnixMicro(); at <= s.model.gone[e.Name] {
			return fmt.Errorf("export: entry %d of account %s is left; Prune must have removed it", e.Seq, e.Name)
		} else if at > s.model.pruned[e.Name] {
			sums[e.Name] += e.Used.Minor
		}
	}
	for _, account := range s.accounts {
		used := int64(0)
		for _, v := range s.model.moves {
			if v.account == account && v.at > s.model.pruned[account] {
				used += v.used
			}
		}
		if sums[account] != used {
			return fmt.Errorf("export: the entries of account %s that Prune keeps amount to %d; want %d", account, sums[account], used)
		}
	}
	return nil
}
