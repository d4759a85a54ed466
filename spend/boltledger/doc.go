// Package boltledger keeps spends in a bbolt file, beside the buckets of package bolt: one file,
// one process, and every decision durable before it is answered.
//
//	db, err := bolt.Open("limits.db", nil)
//	...
//	defer db.Close()
//	l, err := boltledger.New(db, nil)
//	...
//	defer l.Close()
//	budgets, err := spend.New(l, nil)
//
// Decisions that are made at the same time become durable together. In a store of bolt.Open they go
// to its journal, with one sync; the ledger keeps them in memory until the store writes them to the
// file, at most about 100 MB. In any other store they share one commit of the file. A process that
// is killed at any moment loses no answered decision. To learn the outcome of an unanswered request,
// send it again with the same ID.
//
// Every value has a checksum of its key and one of its key and content, totals count all values,
// and each account counts its own. A decision that needs a damaged value answers
// [github.com/brimgo/brim/store.ErrCorrupt], and all others go on. Damage that can hide a value
// keeps the file from opening. The command "brim verify --salvage NEW" then carries over the
// accounts that are whole, and withholds the others: they answer ErrCorrupt until the operator
// decides.
package boltledger
