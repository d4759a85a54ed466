// Package refusals answers repeated refusals from memory. So a flood of calls that a bucket
// cannot admit does not reach the store.
//
//	db, err := postgres.New(pool, nil)
//	...
//	s, err := refusals.New(db, nil)
//	...
//	lim := brim.New(s, nil)
//
// When the store answers that n units fit after a wait of T at the earliest, the [Store] refuses
// n units or more by itself until T has passed. It counts T from the moment at which it sent the
// question, on this machine's monotonic clock. It also learns from fills that the store accepted:
// the answer shows the level, and the level tells when the next fill of the same size can fit.
// The Store never accepts from memory: the wrapped store has accepted every unit that goes in.
//
// # Room that a remembered refusal hides
//
// If another process makes room, this process may go on refusing for up to Options.Remember
// after it sent its last question; the default is one second. Another process makes room when it
// drains, captures, releases, unblocks or resets the bucket, or fills it under a limit that
// leaks faster. A store whose clock is set forward makes room, too.
//
// Room made through the same Store is used once the call that makes it has returned. After a
// Drain, Capture, Release, Reset, Block or Unblock, and after a call with another limit, the Store
// forgets the bucket, even if an older refusal is still on its way back from the wrapped store.
// After a Prune that removed a bucket, or failed, the Store forgets all buckets.
//
// Remember does not bound the refusal of an amount above the bucket's capacity. Such a refusal
// hides no room: no change to the bucket makes the amount fit, and the Store decides a call with
// another limit anew.
//
// # States
//
// A State that was answered from memory has Estimate set. RetryAfter counts down. Level is a
// lower bound of the bucket's level, provided that no other process has given units back. At is a
// lower bound of the store's clock.
//
// # Calls that reach the store
//
// A call is refused from memory only if its refusal would leave no trace in the store: its mode
// is IfFits or Ask, it carries no penalty ([store.Op].BlockFor writes a block), and its ceiling
// does not sink (CeilingAt). Its limit must be that of the last answer: the first refusal at
// another leak rate ends the time at the old rate in the store. So AbleToAccept answers no where
// TryFillup would be refused. Apply, Read, Delete, Visit and Prune always reach the store.
//
// While one caller asks the store whether a bucket has room again, other callers of the bucket
// wait for the answer, unless the Store knows that their amounts may fit beside the amount of the
// first caller. A caller waits for at most three answers, and then asks by itself.
package refusals
