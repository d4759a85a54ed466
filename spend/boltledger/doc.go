// Package boltledger keeps spends in a bbolt file, beside the buckets of package bolt: one file,
// one process, and every decision durable before it is answered.
//
//	db, err := bolt.Open("limits.db", nil)
//	...
//	defer db.Close()
//	l, err := boltledger.New(db, nil)
//	...
//	defer l.Close()
//	budgets, err := spend.New(ctx, l, spend.Budget{...}, nil)
//
// Decisions that are made at the same time become durable together. In a store of bolt.Open they go
// to its journal, with one sync; the changed values are in memory until the next checkpoint but
// one, at most about 100 MB. In any other store they share one commit of the file. [Ledger.In] puts
// decisions into an Update of the store, beside its fills. A process that is killed at any moment
// loses no answered decision. To learn the outcome of an unanswered request, send the request again
// with the same ID.
//
// Package bolt describes the journal, the checksums and the damage that keeps a file from opening.
// The ledger protects its values in the same way. A decision that needs a damaged value answers
// [github.com/brimgo/brim/store.ErrCorrupt], and all others go on. The remedy is the last backup of
// the file, see Store.Backup of package bolt: an account that began anew would spend its money
// twice.
package boltledger
