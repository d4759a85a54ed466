// Package shadow tries a limit without enforcing it: it decides, records, and lets everything pass.
//
//	db, err := postgres.New(pool, nil)
//	...
//	shadowed, err := shadow.New(db)
//	...
//	s, err := observe.New(shadowed, hooks, nil)
//	...
//	lim := brim.New(s, nil)
//
// The wrapped store decides each call and changes its buckets as if the limit were enforced: an
// amount that does not fit stays outside, a penalty blocks the bucket. A [Store] then answers a
// refusal with Accepted set, and leaves RetryAfter as it is. No other State has both, so hooks of
// package observe around the Store find each call that would have been refused:
// Decision.Shadowed reports it, and metrics count it under the outcome "shadowed". To enforce the
// limit, leave the Store out.
//
// # Calls that pass
//
// TryFillup, TryFillupAll, Do, Wait and AbleToAccept pass. Fillup, Drain, Block, State and the
// calls for operators refuse nothing, and are those of the wrapped store. An error of the store
// stays an error. A program that tries a limit should go on after an error, as httplimit.FailOpen
// does, unless the caller's own context has ended.
//
// Hold, Capture and Release answer [errors.ErrUnsupported]: a hold that does not fit reserves
// nothing, so there would be nothing to capture. A Shaper gets the same error: it waits for turns,
// and an amount that does not fit has no turn.
//
// # Beside enforced limits
//
// A Store goes around package refusals and package lease, which answer from the refusals that they
// see, and into package observe. Buckets of a limit that is tried need keys of their own, by
// brim.Options.Prefix for instance, if the store has enforced limits as well: a penalty is stored
// with the bucket.
//
// The hooks count the calls that the limit would have refused if no caller changed its behavior.
// Under an enforced limit, callers that are refused come back later, or leave.
package shadow
