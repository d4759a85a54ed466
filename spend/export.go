package spend

import (
	"context"
	"iter"
	"math"
)

// Export iterates over the entries of all accounts of the main budget: the accounts in the byte
// order of their names, and the entries of each account newest first, as [Budgets.History] lists
// them. After the zero Entry, it begins with the first account. After an entry of an earlier
// export, of which only Account, Seq and At are read, it goes on with those that followed.
// [Budgets.ForBudget] exports another budget.
//
// Export reads page by page and holds nothing in the ledger between pages, so it takes the same
// memory however large the ledger is. Entries that an account gets after its first page was read do
// not appear. An error ends the iteration.
func (b *Budgets) Export(ctx context.Context, after Entry) iter.Seq2[Entry, error] {
	return iterate(ctx, b, "export", func(ctx context.Context) iter.Seq2[Entry, error] { return b.export(ctx, after) })
}

func (b *Budgets) export(ctx context.Context, after Entry) iter.Seq2[Entry, error] {
	first := "" // the account of after, if there is one
	if after.Name != "" {
		key, err := b.key(after.Name)
		if err == nil && after.Budget != b.main.Name {
			err = requestErr("the entry is of budget %.64q and the export of %q", after.Budget, b.main.Name)
		}
		if err != nil {
			return failed[Entry](err)
		}
		first = key
	}
	return func(yield func(Entry, error) bool) {
		for key, err := range b.keys(ctx, first) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for e, err := range b.entries(ctx, key, after, math.MaxInt) {
				if !yield(e, err) || err != nil {
					return
				}
			}
			after = Entry{}
		}
	}
}

// keys iterates over first, if it is not empty, and over the accounts of the main budget after it.
func (b *Budgets) keys(ctx context.Context, first string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if first != "" && !yield(first, nil) {
			return
		}
		for after, more := first, true; more; more = after != "" {
			keys, next, err := b.decider.Ledger.Accounts(ctx, b.main.Prefix(), after, 0, historyPage)
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range keys {
				if !yield(key, nil) {
					return
				}
			}
			after = next
		}
	}
}
