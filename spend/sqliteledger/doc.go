// Package sqliteledger keeps spends in the application's own SQLite database, beside the buckets of
// package sqlite: one host, any number of processes, and every decision durable before it is
// answered.
//
//	db, err := sqlite.New(ctx, pool, nil)
//	...
//	defer db.Close()
//	l, err := sqliteledger.New(ctx, db, nil)
//	...
//	defer l.Close()
//	budgets, err := spend.New(ctx, l, spend.Budget{...}, nil)
//
// The entries are rows with a column for each of their figures, so an auditor can add them up in
// SQL; the view brim_ledger shows them with names and dates.
//
// Decisions that are made at the same time share one transaction, which has SQLite's write lock
// from its beginning. [Ledger.With] decides in a transaction of the application, which commits it
// with the synchronous setting of its connection. A process that is killed at any moment loses no
// answered decision. To learn the outcome of an unanswered request, send the request again with the
// same ID.
//
// The comment of package sqlite names the things that an application must not do with the file, and
// tells how processes wait for each other.
package sqliteledger
