// Package storetest says whether a backend keeps the contract of package store.
//
// A backend's own test calls [Run] with a function that opens an empty store:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, openReal, &storetest.Options{OpenAt: openAt, Reopen: reopen})
//	}
//
// What a store answers is checked three times over: against vectors, scripts whose every number is exact; against cases,
// each with the reason of the rule that it guards; and against a model in exact rational arithmetic that random operations
// drive. Then come races, cancelled contexts, restarts, skewed clocks, pruning, listing, odd keys and closing. Nothing in the
// suite sleeps for time to pass: it moves the clock that it injects through [Options.OpenAt].
//
// Some failures name a trap by its number. Those are defects that were seen in other limiters:
//
//	 1 a fill decided from an earlier read, so that racing callers overfill
//	 2 an error when two callers use a key for the first time at once
//	 3 the leak subtracted after the fill, so that idle time is charged
//	 4 a timestamp taken before the lock, so that units leak twice
//	 5 acceptance inferred from a change of the level
//	 6 fullness inferred from nearly equal levels
//	 7 one key's fill reaching another key
//	 8 pruning by last use, or anything else that makes pruning change an answer
//	 9 a finite wait for what can never fit
//	10 a backward clock that mints room
//	11 a wait of a whole window instead of the wait for room
//	12 a leak rounded to whole units at each touch
//	13 refusals that write
//	14 several fills undone one by one instead of decided at once
//	15 several fills in the caller's order, so that callers deadlock
//	16 a cancelled call that leaves a lock behind
//	17 a call reported as not applied that was applied
//	19 a panic, or an open door, where the store cannot answer
//	21 a caller that waited for a lock mistaken for a skewed clock
//	23 leaks too small for the level's last bit lost at each write
//	26 one bad or cancelled request that fails its neighbours
package storetest
