// Package postgres keeps buckets in PostgreSQL, shared by any number of processes.
//
// Most TryFillups are one statement and one round trip: an UPDATE of the row, if it has room. The
// server decides by its own clock, so processes whose clocks differ see one bucket. Calls that are
// made at the same time are combined: a busy process sends one statement for many of them, and a
// lone caller waits for nobody.
//
// A call whose bucket has no row or no room takes a second round trip, unless such calls are
// frequent: then an INSERT and a SELECT go out together with the UPDATE. Fillups, drains, holds,
// penalties and calls for several buckets are transactions of two round trips.
//
// The tables come from package migrations, or from "brim migrate up". [Store.Ping] tells at the
// start of a program whether a decision would work. The database and the sessions must use UTF8,
// and no session may search a schema before pg_catalog: see docs/postgres.md. The page
// docs/errors.md lists the class of each error of the server.
//
// # Durability
//
// An acknowledged fill is as durable as a commit. With synchronous_commit on, the default, it
// survives a crash of the server. With synchronous_commit off, on an UNLOGGED table, or after a
// failover to an asynchronous replica, acknowledged fills can be lost. The bucket then lets
// more through than its limit says.
//
// Decisions are made on the primary only. A replica is behind, and a read there misses fills
// that it should count.
//
// # Isolation
//
// Decisions are exact at READ COMMITTED, and run at that level whatever the default of the
// session is. In a transaction of the caller, [Store.With] of pgx or [Store.WithSQL] of package
// database/sql, they run at its level. At REPEATABLE READ and above the server may answer with a
// serialization failure; the whole transaction must then run again.
//
// # Poolers
//
// The store works behind a pooler in transaction mode. pgbouncer from 1.21 on with
// max_prepared_statements above 0 needs nothing else. With other poolers, set
// default_query_exec_mode=exec in the connection string.
package postgres
