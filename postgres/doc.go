// Package postgres keeps buckets in PostgreSQL, shared by any number of processes.
//
// A decision is one statement and one round trip, computed from the locked row with the
// server's clock: processes whose clocks differ still see one bucket. Calls that are made at
// the same time are combined, so a busy process sends one statement for many of them; a lone
// caller waits for nobody.
//
// The tables come from package migrations, or from "brim migrate up".
//
// # What a decision is worth
//
// An acknowledged fill is as durable as a commit: with synchronous_commit on, the default, it
// survives a crash of the server. With synchronous_commit off, on an UNLOGGED table, or after a
// failover to an asynchronous replica, acknowledged fills can be lost, and more is let through
// than the limit says.
//
// Decisions are made on the primary only. A replica is behind, and reads there do not see the
// fills that they should count.
//
// # Isolation
//
// Decisions are exact at READ COMMITTED, and run at that level whatever the session's default
// is. In a transaction of the caller's own, [Store.With], they run at its level; at REPEATABLE
// READ and above the server may answer with a serialization failure, after which the whole
// transaction must run again.
//
// # Poolers
//
// The store works behind a pooler in transaction mode. pgbouncer from 1.21 on with
// max_prepared_statements above 0 needs nothing else; otherwise set
// default_query_exec_mode=exec in the connection string.
package postgres
