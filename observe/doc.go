// Package observe reports the calls of a store to hooks: decisions, waits, durations and errors,
// and the commits and retries of a backend.
//
//	hooks := observe.Log(slog.Default(), nil)
//	db, err := bolt.Open("limits.db", &bolt.Options{Trace: hooks.Trace()})
//	...
//	s, err := observe.New(db, hooks, nil)
//	...
//	lim := brim.New(s, nil)
//
// [Hooks] are plain functions, so they can feed any library for metrics or traces. The modules
// observe/prombrim and observe/otelbrim, beside this package, feed Prometheus and OpenTelemetry;
// see docs/observability.md. [Log] feeds package log/slog. A [BucketCounter] counts the buckets of
// a store.
//
// The store of [New] reports the calls that pass through it, so its place among other wrappers
// matters. Around a store of package local it reports every call; below one it reports only the
// calls that reach the backend. A backend reports its commits and retries through its own
// Options.Trace; see [Hooks.Trace].
//
// # Keys
//
// The key of a bucket may be personal data, and a program may have millions of keys. So hooks do
// not get the key, unless [Options.Key] returns a form of the key for them. [HashKey] makes a
// form that does not reveal the key. Do not use any form of the key as the label of a metric:
// each value of a label creates a time series.
package observe
