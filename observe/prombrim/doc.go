// Package prombrim feeds the events of package observe to Prometheus. It is a module of its own, so
// that the libraries of Prometheus stay out of the module graphs of other users.
//
// The metrics and their labels, all with few values:
//
//	brim_decisions_total         outcome, limit   operations decided; see observe.Decision.Label
//	brim_units_total             outcome, limit   units that went in, or stayed outside
//	brim_fill_ratio              limit            (level + held) / capacity after each decision
//	brim_retry_after_seconds     limit            waits of refused callers, without endless ones
//	brim_call_duration_seconds   method, outcome  calls to the store; ok, failed, unknown, late, canceled
//	brim_flush_requests          backend, outcome callers that shared a commit; ok, failed
//	brim_retries_total           backend          attempts of which nothing was applied
//	brim_store_buckets                            buckets in the store, if Options.Buckets is set
//	brim_store_size_bytes                         bytes that they take, if the store tells
//	brim_store_buckets_age_seconds                age of these two
//	brim_findings                severity, subject  findings of the last check, if Options.Findings is set
//
// [NewSpend] has the metrics of package spend:
//
//	brim_spend_decisions_total        budget, method, outcome  see spend.Decision.Label
//	brim_spend_declines_total         budget, rule      rules that refused; "" is a frozen account
//	brim_spend_held_total             budget, currency  money that was held
//	brim_spend_expired_total          budget, currency  money that expired holds gave back or spent
//	brim_spend_call_duration_seconds  method            calls to Budgets
//	brim_spend_failures_total         outcome           calls that failed; see spend.Outcome.Label
//	brim_spend_ahead_total                              calls on an account whose time is ahead of the ledger's clock
//
// No key is a label: each key would make a time series, and keys may be personal data. The label
// limit is a name of Options.Limits, or "other".
package prombrim
