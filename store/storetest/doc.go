// Package storetest tests whether a backend keeps the contract of package store.
//
// The backend's own test calls [Run] with a function that opens an empty store:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, openReal, &storetest.Options{OpenAt: openAt, Reopen: reopen})
//	}
//
// The suite checks the answers of a store in three ways: against vectors, which are scripts
// whose every number is exact; against cases, each with the reason of the rule that it guards;
// and against a model in exact arithmetic, on random operations. Further parts test races,
// cancelled contexts, restarts, skewed clocks, pruning, listing, odd keys and closing. No part
// sleeps until time has passed: the suite moves the clock that it passes to [Options.OpenAt]. One
// such clock is slow, so that callers queue up for the lock of a store that reads it there.
//
// The failure of a case prints its reason. The suite finds these defects, among others, which
// other limiters have had:
//
//   - a fill decided from an earlier read, so that racing callers overfill the bucket
//   - a lock that is released between the decision and the write, or between the search for a
//     bucket and its insertion
//   - an error if two callers use a key for the first time at once
//   - the leak subtracted after the fill, so that an idle bucket loses the fill
//   - a timestamp taken before the lock, so that the same interval leaks twice
//   - acceptance inferred from a change of the level, and fullness from nearly equal levels
//   - a fill of one key that changes another
//   - pruning by last use, or any pruning that changes an answer
//   - a finite wait for an amount that can never fit, or a wait for a whole window instead of
//     the wait for room
//   - a clock that steps back and creates room, be it by a microsecond
//   - buckets that a store removes by itself as soon as they are empty, without MaxSkew
//   - a leak rounded to whole units at each call, or lost because it is smaller than the last
//     bit of the level
//   - refusals that write
//   - several fills that are undone one by one instead of decided at once, or that deadlock
//     because callers name keys in different orders
//   - a cancelled call that leaves a lock behind, or is reported as not applied although it was
//   - a panic, or an accepted call, if the store cannot answer
//   - a caller that waited for a lock, mistaken for a skewed clock
//   - an invalid or cancelled request that fails its neighbours
//
// [Model] is the model of the random operations. A harness with calls of its own can use it, and
// so judges by every rule that the suite knows. Whoever adds a rule of a bucket adds it to the
// model, as its documentation tells, to the operations that random.go draws, and as a case with
// its reason.
package storetest
