// Package spend answers "may this card spend this now?", and stays right after a crash, a retry and a race.
//
// A [Budget] is a currency and some rules: never more than 1,000.00 in any 30 days, 200.00 a day, ten spends an hour. Every
// rule must agree to a spend, in one atomic decision per account:
//
//	cards, err := spend.New(pgledger.New(...), spend.Budget{
//		Name: "cards", Currency: "EUR",
//		Rules: []spend.Rule{
//			spend.Rolling("month", spend.Money{Minor: 1000_00, Currency: "EUR"}, 30*24*time.Hour),
//			spend.Calendar("day", spend.Money{Minor: 200_00, Currency: "EUR"}, spend.Day, berlin),
//		},
//	}, nil)
//	d, err := cards.Charge(ctx, spend.Request{ID: id, Account: "card:7", Amount: spend.Money{Minor: 30_00, Currency: "EUR"}})
//
// [Budgets.Charge] is what most programs need. Card payments use [Budgets.Authorize], which holds an amount, and then
// [Budgets.Capture] or [Budgets.Void]. [Budgets.Record] notes what was spent anyway, and [Budgets.AbleToAccept] only asks.
//
// # Exactly once
//
// Every request has an ID, unique in the ledger. The same ID with the same content returns the first decision again, declines
// included. So after [github.com/brimgo/brim/store.ErrUnknownOutcome], or any doubt, send the same request again.
//
// # Dates
//
// A spend counts from its authorization, and stays at that date when it is captured, refunded or released. A hold that has
// expired is ended by the next decision on its account; no sweeper has to run for a decision to be right. Time is the
// ledger's clock, in microseconds, and runs back for no account.
//
// # Ledgers
//
// Where spends are kept is a [ledger.Ledger]: package memledger keeps them in the process, boltledger in a bbolt file beside
// the buckets, pgledger in PostgreSQL. Every decision is there as entries that never change, and [Budgets.Verify] proves the
// figures that decisions go by against them.
//
// A ledger that cannot answer answers with an error, never with an approval.
//
// The reference for holds that are captured or voided, and for idempotency by ID, is the documentation of TigerBeetle; for
// windows, the spending limits of card issuers' APIs.
package spend
