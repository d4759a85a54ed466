// Package otelbrim feeds the events of package observe to OpenTelemetry, as metrics and as spans.
// It is a module of its own, so that OpenTelemetry stays out of the module graphs of other users.
//
// The metrics and their attributes, all with few values:
//
//	brim.decisions         outcome, limit   operations decided; see observe.Decision.Label
//	brim.units             outcome, limit   units that went in, or stayed outside
//	brim.fill.ratio        limit            (level + held) / capacity after each decision
//	brim.retry_after       limit            seconds; waits of refused callers, without endless ones
//	brim.call.duration     method, outcome  seconds of a call; ok, failed, unknown, late, canceled
//	brim.flush.requests    backend, outcome callers that shared a commit; ok, failed
//	brim.retries           backend          attempts of which nothing was applied
//	brim.store.buckets                      buckets in the store, if Options.Buckets is set
//	brim.store.size                         bytes that they take, if the store tells
//	brim.store.buckets.age                  seconds; age of these two
//	brim.findings          severity, subject  findings of the last check, if Options.Findings is set
//
// [NewSpend] has the metrics of package spend:
//
//	brim.spend.decisions      budget, method, outcome  see spend.Decision.Label
//	brim.spend.declines       budget, rule      rules that refused; "" is a frozen account
//	brim.spend.held           budget, currency  money that was held
//	brim.spend.expired        budget, currency  money that expired holds gave back or spent
//	brim.spend.call.duration  method            seconds of a call to Budgets
//	brim.spend.failures       outcome           calls that failed; see spend.Outcome.Label
//	brim.spend.ahead                            calls on an account whose time is ahead of the ledger's clock
//
// Each call to the store is a span "brim.fill", "brim.apply" and so on, with an event for each
// decision; a call to Budgets is a span "brim.spend.charge" and so on. A flush serves many
// callers, so no span shows it.
//
// No key is an attribute: each key would make a time series, and keys may be personal data. The
// attribute limit is a name of Options.Limits, or "other".
package otelbrim
