// Package local has wrappers around a store that answer some calls from the memory of the process.
//
//	db, err := postgres.New(pool, nil)
//	...
//	s, err := local.Refusals(db, nil) // or local.Leases, or both
//	...
//	lim := brim.New(s, nil)
//
// [Refusals] answers repeated refusals, so that a flood of calls which a bucket cannot admit does
// not reach the store. [Leases] takes units of a busy bucket in advance and accepts calls from
// them. [Fallback] lets a second store decide by a share of each limit while the first fails. A
// State that was not decided by the wrapped store has Estimate set. The stores that all three
// return are safe for concurrent use, and their Close closes the wrapped store.
//
// # Refusals
//
// Each answer of the store shows the level of a bucket, and so the time at which n units can fit at
// the earliest. Until then the wrapper refuses n units or more by itself. It counts from the moment
// at which it sent the question, on this machine's monotonic clock. It never accepts from memory:
// the wrapped store has accepted every unit that goes in. RetryAfter counts down. Level is a lower
// bound of the bucket's level, provided that no other process has given units back, and At is a
// lower bound of the store's clock.
//
// If another process makes room, this process may go on refusing for up to
// [RefusalsOptions].Remember after it sent its last question; the default is one second. Another
// process makes room when it drains, captures, releases, unblocks or resets the bucket, or fills it
// under a limit that leaks faster. A store whose clock is set forward makes room, too. Room made
// through the same wrapper is used once the call that makes it has returned, even if an older
// refusal is still on its way back from the store. The refusal of an amount above the bucket's
// capacity hides no room, so it is remembered without a bound.
//
// A call is refused from memory only if its refusal would leave no trace in the store: its mode is
// IfFits or Ask, and its ceiling does not sink (CeilingAt). A call with a penalty
// ([store.Op].BlockFor) must also find the bucket blocked, because otherwise its refusal sets a
// block. Its limit must be that of the last answer, and its rate that of the answer's State: the
// first refusal at another leak rate ends the time at the old rate in the store. So AbleToAccept
// answers no where TryFillup would be refused. All other calls reach the store.
//
// The answer to an AbleToAccept is remembered for AbleToAccept alone. A Block through the wrapper
// is learned from its answer. An accepted AbleToAccept, TryFillupAll of several buckets and
// [store.Store].Read teach nothing.
//
// While one caller asks the store whether a bucket has room again, other callers of the bucket wait
// for the answer, unless the wrapper knows that their amounts may fit beside the amount of the
// first caller. A caller waits for at most three answers, and then asks by itself.
//
// # Leases
//
// A lease takes an allotment of units with one TryFillup of the wrapped store, and accepts the
// calls that follow from the allotment. Any number of processes may lease one bucket. In any window
// of time, all of them together accept at most the units that the bucket holds and leaks, even if
// processes crash, stall or lose allotments. The comment on the type allotment in the source proves
// it.
//
// Only TryFillup is served from allotments: mode IfFits, without Hold, Ceiling, Turn or penalty. An
// AbleToAccept about units that an allotment has is answered from it, and takes nothing out. All
// other calls reach the store. Read and Visit show the bucket with the allotments in its level. A
// Shaper gains nothing from leases, because its calls reach the store. Limiter.Wait takes units
// that an allotment has, and books in the store if it has none.
//
// The units of an allotment count in the bucket's level as soon as the store has granted them. A
// call can therefore be refused while allotments hold units that nobody uses. A process never gives
// units back: unused units lapse as fast as the bucket leaks, after one second at the latest, also
// if the process crashes. [LeasesOptions].Share limits the waste. The store grants an allotment
// only if the bucket is then filled to at most Share of its capacity, a quarter by default. So a
// bucket of capacity c under leases refuses a call only if a bucket of capacity (1 - Share) * c,
// filled with the units that were served, would refuse it, too.
//
// A process gets no allotment of a bucket that is fuller than Share, is asked rarely, leaks slowly
// or does not leak at all. Each call on such a bucket goes to the store and is exact. An allotment
// covers the demand of this process during [LeasesOptions].Ahead, or the units that the bucket
// leaks in that time, whichever is more. It never exceeds the units that the bucket leaks in a
// second, nor a quarter of the share.
//
// # Exceptions to the bound of leases
//
// If another process resets, drains or blocks the bucket, or changes its leak rate, this process
// serves its allotment until it is used up or has lapsed. After such a change, the processes may
// accept, in addition to the bound, the units of the allotments that they held at that moment. The
// same holds for a Fillup that loses units over the capacity, and for units that go in beyond it. A
// reset, a block, another limit and such a fill that go through the same wrapper end its allotment
// at once. A drain does not end it, and makes room as it does without leases.
//
// A lease measures a time on this machine's monotonic clock and on its wall clock, takes the longer
// result, and adds a thousandth. It reads both because the monotonic clock of some systems stops
// while the machine is suspended. If a machine is suspended and its wall clock is set back before
// its next allotment, the lease counts too little time, by as much as the clock was set back. If
// the store's clock is set forward, the bucket leaks for the step and the allotments do not.
package local
