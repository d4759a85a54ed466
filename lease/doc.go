// Package lease serves a busy bucket of a shared store from memory, a slice at a time.
//
//	db, err := postgres.New(pool, nil)
//	...
//	s, err := lease.New(db, nil)
//	...
//	lim := brim.New(s, nil)
//
// A [Store] takes a slice of a bucket's room with one TryFillup, and lets the calls that follow in from the slice without
// asking anybody. Any number of processes may do so with one bucket. However they crash, stall or lose their slices, all of
// them together never let in more than the bucket holds and leaks, in any window: see the proof at the type slice. What is
// served from memory has Estimate set in its State.
//
// # What it costs
//
// What is in a slice is in the bucket. A call may be refused although the units in slices, waiting or lost, would have made
// room for it. Slices are only taken while they leave the bucket at most Options.Share full, a quarter by default, so all of
// them together never take more than that: whatever the number of processes, a bucket of capacity c under leases lets in
// what one of capacity (1 - Share) * c would. Above that line, and for buckets that are asked rarely, leak slowly or do not
// leak at all, every call goes to the store by itself and is exact.
//
// Slices follow demand: they are as large as what the process is about to need in Options.Ahead, or what the bucket leaks in
// it, if that is more; never more than the bucket leaks in a second, and never more than a quarter of the share. A slice that nobody uses is gone after that second at the
// latest, here and in the bucket. Nothing is ever given back.
//
// # What loosens the bound
//
// A bucket that another process resets, drains or blocks, or whose leak rate it changes, is served from the slices that are
// out until they are used up or have leaked: from then on, by at most those slices more than the bucket admits. Through the
// same Store, all of these end its slice at once, but for a drain, which makes room as it does without leases. A slice counts time by the longer of this machine's monotonic and wall clocks,
// a thousandth fast, because the monotonic clock of some systems stops while the machine is suspended. A machine that
// sleeps, and whose wall clock is set back before it takes its next slice, is not seen to have slept for as long as the clock
// was set back; and where the store's clock is set forward, the bucket leaks for the step, and the slices that are out do not.
//
// # What goes to the store
//
// Only TryFillup is served from slices: mode IfFits, no Hold, no Ceiling, no penalty. Read and List show the bucket with its
// slices in it.
package lease
