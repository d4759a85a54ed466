// Package lease serves a busy bucket of a shared store from memory. Each process takes allotments
// of the bucket's room and decides most calls by itself.
//
//	db, err := postgres.New(pool, nil)
//	...
//	s, err := lease.New(db, nil)
//	...
//	lim := brim.New(s, nil)
//
// A [Store] takes an allotment with one TryFillup of the wrapped store. It accepts the calls that
// follow from the allotment, without asking the store. Any number of processes may lease one
// bucket. In any window of time, all of them together accept at most the units that the bucket
// holds and leaks, even if processes crash, stall or lose allotments. The comment on the type
// allotment in the source proves it. A State that was served from memory has Estimate set.
//
// # The units that leases may waste
//
// The units of an allotment count in the bucket's level as soon as the store has granted them. A
// call can therefore be refused while allotments hold units that nobody uses. A process never
// gives units back: unused units lapse as fast as the bucket leaks, after one second at the
// latest. If a process crashes, its unused units are wasted; they leave the bucket within that
// second, too.
//
// Options.Share limits the waste. The store grants an allotment only if the bucket is then filled
// to at most Share of its capacity, a quarter by default. The unused units of all processes
// together never exceed that share. So a bucket of capacity c under leases refuses a call only if
// a bucket of capacity (1 - Share) * c, filled with the units that were served, would refuse it,
// too.
//
// A process gets no allotment of a bucket that is fuller than Share, is asked rarely, leaks
// slowly or does not leak at all. Each call on such a bucket goes to the store and is exact.
//
// An allotment covers the demand of this process during Options.Ahead, or the units that the
// bucket leaks in that time, whichever is more. It never exceeds the units that the bucket leaks
// in a second, nor a quarter of the share.
//
// # Exceptions to the bound
//
// If another process resets, drains or blocks the bucket, or changes its leak rate, this process
// serves its allotment until it is used up or has lapsed. After such a change, the processes may
// accept, in addition to the bound, the units of the allotments that they held at that moment. The
// same holds for a Fillup that loses units over the capacity, and for units that go in beyond it.
// A reset, a block, another limit and such a fill that go through the same Store end its allotment
// at once. A drain does not end it, and makes room as it does without leases.
//
// A Store measures a time on this machine's monotonic clock and on its wall clock, takes the
// longer result, and adds a thousandth. It reads both clocks because the monotonic clock of some
// systems stops while the machine is suspended. If a machine is suspended and its wall clock is
// set back before its next allotment, the Store counts too little time, by as much as the clock
// was set back. If the store's clock is set forward, the bucket leaks for the step and the
// allotments do not.
//
// # Calls that reach the store
//
// Only TryFillup is served from allotments: mode IfFits, without Hold, Ceiling, Turn or penalty. An
// AbleToAccept about units that an allotment has is answered from it, and takes nothing out. All
// other calls reach the store. Read and Visit show the bucket with the allotments in its
// level.
//
// The calls of a Shaper reach the store, too, so a Shaper on a Store gains nothing from it.
package lease
