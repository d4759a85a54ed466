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
// Decisions that are made at the same time share one commit. A process that is killed at any
// moment loses no answered decision. To learn the outcome of an unanswered request, send it again
// with the same ID.
package boltledger
