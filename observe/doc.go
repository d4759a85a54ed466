// Package observe tells hooks what goes through a store: decisions, waits, latencies and errors, and what a backend does
// behind them.
//
//	hooks := observe.Log(slog.Default(), nil)
//	db, err := bolt.Open("limits.db", &bolt.Options{Trace: hooks.Trace()})
//	...
//	s, err := observe.New(db, hooks, nil)
//	...
//	lim := brim.New(s, nil)
//
// [Hooks] are plain functions, so that any metric or tracing library can be fed from them; docs/observability.md does it with
// OpenTelemetry and with Prometheus. [Log] feeds package slog.
//
// A [Store] sees what passes it, so its place among other wrappers matters: in front of package refusals it sees every
// call, behind it only those that reach the store. What happens inside a backend, batches and retries, comes through the
// backend's own Options.Trace; see [Hooks.Trace].
//
// # Keys
//
// A bucket's key may be personal data, and there may be millions of them. Hooks are not told it, unless [Options.Key] says in
// what form; [HashKey] is one that does not give it away. It must never become a metric's label: each value of a label is a
// time series for ever.
package observe
