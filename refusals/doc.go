// Package refusals remembers what a store has just refused, so that a flood of calls that cannot be let in does not become a
// flood of calls to the store.
//
//	db, err := postgres.New(pool, nil)
//	...
//	s, err := refusals.New(db, nil)
//	...
//	lim := brim.New(s, nil)
//
// Once the store has said that n units do not fit into a bucket for another T, the [Store] refuses n or more from memory,
// without asking, until T has passed since the question was sent, on this machine's monotonic clock. It learns from what
// was accepted as well: a fill that leaves less room than it took says when the next of its size can fit. It only ever
// refuses from memory; whatever is let in, the store has let in.
//
// # How long a refusal is believed
//
// At most Options.Remember, a second by default: so long can room that another process gave back, by draining, releasing or
// deleting, go unnoticed. What is more than the bucket's capacity is refused for as long as the bucket is remembered: no
// change to the bucket can make room for it, and a call with another limit is not refused by what was said of this one.
// A Drain, Capture, Release, Reset or call with another limit that goes through the same Store ends what it remembers of the
// bucket at once, also where a refusal from before is still on its way back. A Prune through it that removed a bucket ends all
// that it remembers.
//
// # States
//
// A State that was answered from memory has Estimate set. RetryAfter counts down. Level is the least that the bucket can
// hold unless somebody has given back units since; At is the least that the store's clock can show.
//
// # What goes to the store
//
// Only calls that a bucket may refuse without a trace are refused from memory: mode IfFits, no penalty ([store.Op].BlockFor
// writes), no sinking ceiling (CeilingAt). Apply, Read and the rest always ask.
//
// Callers of one bucket who come while one of them is asking whether there is room again wait for that answer, if what is
// known says that there is not room for them beside it. Nobody waits for more than three answers.
package refusals
