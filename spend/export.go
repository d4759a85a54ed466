package spend

import (
	"context"
	"iter"
)

// ExportOptions adjust [Budgets.Export]. A nil *ExportOptions means all defaults.
type ExportOptions struct {
	// After continues an earlier export with the entries that followed this entry in it. Only its
	// Account, Seq and At are read. The zero Entry begins with the first account.
	After Entry
}

// Export iterates over the entries of all accounts of the main budget: the accounts in the byte
// order of their names, and the entries of each account newest first, as [Budgets.History] lists
// them. [Budgets.ForBudget] exports another budget.
//
// Export reads page by page and holds nothing in the ledger between pages, so it takes the same
// memory however large the ledger is. Entries that an account gets after its first page was read do
// not appear. An error ends the iteration.
func (b *Budgets) Export(ctx context.Context, o *ExportOptions) iter.Seq2[Entry, error] {
	return b.iterate(ctx, "export", func(ctx context.Context) iter.Seq2[Entry, error] { return b.export(ctx, o) })
}

func (b *Budgets) export(ctx context.Context, o *ExportOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// list yields the entries of an account, and reports whether to go on.
		list := func(account string, before Entry) bool {
			for e, err := range b.history(ctx, account, &HistoryOptions{Before: before}) {
				if !yield(e, err) || err != nil {
					return false
				}
			}
			return true
		}
		after := ""
		if o != nil && o.After.Name != "" {
			key, err := b.main.key(o.After.Name)
			if err == nil && o.After.Budget != b.main.Name {
				err = requestErr("After is of budget %.64q and the export of %q", o.After.Budget, b.main.Name)
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if after = key; !list(o.After.Name, o.After) {
				return
			}
		}
		for {
			keys, next, err := b.ledger.Accounts(ctx, b.main.prefix(), after, 0, historyPage)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, key := range keys {
				if !list(accountOf(key).Name, Entry{}) {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}
