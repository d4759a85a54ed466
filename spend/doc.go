// Package spend decides whether an account may spend an amount of money. The answer stays right
// after a crash, a retry and a race.
//
// A [Budget] is a currency and some rules: at most 1,000.00 in any 30 days,
// 200.00 a day, ten spends an hour. A spend needs the agreement of every rule,
// in one atomic decision over all of its accounts:
//
//	eur := func(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }
//	cards, err := spend.New(ctx, memledger.New(nil), spend.Budget{
//		Name: "cards", Currency: "EUR",
//		Rules: []spend.Rule{
//			spend.Rolling("month", eur(1000_00), 30*24*time.Hour),
//			spend.Calendar("day", eur(200_00), spend.Day, berlin),
//		},
//	}, nil)
//	d, err := cards.Charge(ctx, spend.Request{ID: id, Account: "card:7", Amount: eur(30_00)})
//
// Most programs need [Budgets.Charge] only. Card payments call [Budgets.Authorize], which holds an
// amount, and then [Budgets.Capture] or [Budgets.Void], and [Budgets.Cancel] if the answer came too
// late. [Budgets.Record] notes money that has been spent already, [Budgets.Credit] money that came
// in, and [Budgets.AbleToAccept] asks without spending.
//
// # Rules
//
// The ledger keeps the rules of a budget, in revisions, and every process decides by the newest
// one. [New] stores the rules with which a program starts, if their revision is higher, and
// [Budgets.SetRules] changes them while programs run. [Rule.Shadow] tries a rule on live traffic,
// and [Budgets.Backtest] on the past.
//
// # Exactly once
//
// Every request has an ID that is unique in the ledger. The same ID with the same request
// returns the first decision again, even if it was a decline. After
// [github.com/brimgo/brim/store.ErrUnknownOutcome], or whenever an answer was lost, send the same
// request again.
//
// # Dates
//
// A spend counts from its authorization. A capture, a refund or a release keeps
// that date. An expired hold leaves all figures at that time, so no
// background job has to run. Times are microseconds on the ledger's clock, and
// the time of an account never runs back, but by [Budgets.Mend].
//
// # Ledgers
//
// A [ledger.Ledger] keeps the spends: package memledger in the process,
// boltledger in a bbolt file beside the buckets, sqliteledger in the database of
// the program, and pgledger in PostgreSQL. The ledger keeps every decision as
// entries that never change. [Budgets.Verify] compares the figures behind the
// decisions with these entries.
//
// If a ledger cannot answer, the caller gets an error and never an approval.
//
// # Sources
//
// Holds that are captured or voided, and idempotency by ID, follow the documentation of
// TigerBeetle on two-phase transfers. Windows follow the spending limits in the APIs of the card
// issuers Stripe, Lithic and Marqeta; docs/spend-rules.md compares them.
package spend
