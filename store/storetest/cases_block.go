package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

// forever is the time from start to the end of time.
const forever = time.Duration(store.MaxTime-start) * time.Microsecond

// blockCases are about penalties, and about blocks by operators.
var blockCases = []testCase{
	{
		name: "penalty", c: 10, r: 1,
		why: "an amount that does not fit blocks the bucket: nothing fits before the end of the block, and the " +
			"wait is at least the rest of it",
		steps: []step{
			try(8).ok(8), try(5).penalty(10*time.Second).no(8, 10*time.Second).blocked(10 * time.Second),
			read().after(4 * time.Second).is(4).blocked(6 * time.Second),
			try(1).no(4, 6*time.Second).blocked(6 * time.Second),
			hold(1).no(4, 6*time.Second).blocked(6 * time.Second), try(11).no(4, never).blocked(6 * time.Second),
		},
	},
	{
		name: "a penalty is not prolonged", c: 10, r: 1,
		why: "who keeps trying stays out for the penalty and not for ever; a block by hand may prolong it and " +
			"never shortens it",
		steps: []step{
			try(8).ok(8), try(3).penalty(20*time.Second).no(8, 20*time.Second).blocked(20 * time.Second),
			try(3).penalty(time.Second).still().no(8, 20*time.Second).blocked(20 * time.Second),
			try(1).penalty(30*time.Second).still().after(time.Second).no(7, 19*time.Second).blocked(19 * time.Second),
			refuse(try(4).penalty(30*time.Second).still().no(7, 19*time.Second).blocked(19 * time.Second)),
			fillup(1).penalty(30*time.Second).no(8, 19*time.Second).blocked(19 * time.Second),
			block(time.Second).ok(8).blocked(19 * time.Second), block(time.Minute).ok(8).blocked(time.Minute),
			try(2).penalty(time.Hour).after(time.Minute).ok(2),
		},
	},
	{
		name: "a refusal under a block writes nothing", c: 100, r: 1,
		why: "a call while a block lasts does not end the time at the old rate, so that a flood of such calls writes " +
			"nothing; its wait is by the rate last written",
		steps: []step{
			try(80).ok(80), block(10 * time.Second).ok(80).blocked(10 * time.Second),
			try(60).limit(100, 20).no(80, 40*time.Second).blocked(10 * time.Second).leaks(1),
			refuse(try(60).limit(100, 20).no(80, 40*time.Second).blocked(10 * time.Second).leaks(1)),
			ask(60).limit(100, 20).no(80, 40*time.Second).blocked(10 * time.Second).leaks(1),
			readLast().limit(100, 1).is(80).blocked(10 * time.Second),
			try(60).limit(100, 20).after(10*time.Second).no(70, 1500*time.Millisecond).mends(),
			readLast().limit(100, 20).is(70),
		},
	},
	{
		name: "a block needs no limit", c: 10, r: 1,
		why: "an operator who stops a caller need not know the caller's limit",
		steps: []step{
			block(10*time.Second).limit(0, 0).ok(0).blocked(10 * time.Second), rows("a"),
			try(1).no(0, 10*time.Second).blocked(10 * time.Second),
			try(8).after(10 * time.Second).ok(8), readLast().limit(10, 1).is(8),
			block(time.Second).limit(0, 0).ok(8).blocked(time.Second), readLast().limit(10, 1).is(8).blocked(time.Second),
		},
	},
	{
		name: "a block until empty", c: 10, r: 1, from: start,
		why: "past time leaks at the rate last written, so the bucket is empty by that rate",
		steps: []step{
			try(8).ok(8), block(store.UntilEmpty).limit(10, 4).ok(8).blocked(8 * time.Second).leaks(1),
			try(10).after(8 * time.Second).full(10), always(1).limit(10, 0).full(11),
			block(store.UntilEmpty).ok(11).blocked(forever - 8*time.Second).leaks(0),
			try(1).no(11, never).blocked(forever - 8*time.Second).leaks(0),
		},
	},
	{
		name: "a block for ever", c: 10, r: 1, from: start,
		why:   "a block of Never, which is half of the largest duration, does not end in the year 2172",
		steps: []step{block(never).ok(0).blocked(forever), try(1).no(0, never).blocked(forever), unblock().ok(0), try(1).ok(1)},
	},
	{
		name: "Delete lifts a block", c: 10, r: 1,
		why: "after an operator's reset the caller must be let in again",
		steps: []step{
			try(11).penalty(time.Hour).no(0, never).blocked(time.Hour), remove("a"), rows(), try(10).full(10),
		},
	},
	{
		name: "block", c: 10, r: 1,
		why: "a block by an operator keeps everybody out until its end, and leaves level, held units, time and limit",
		steps: []step{
			try(8).ok(8), hold(1).ok(8).held(1),
			block(10*time.Second).limit(7, 2).after(2 * time.Second).ok(6).held(1).blocked(10 * time.Second).leaks(1),
			readLast().limit(10, 1).is(6).held(1).blocked(10 * time.Second),
			read().after(-time.Second).is(7).held(1).blocked(11 * time.Second),
			try(1).after(time.Second).no(6, 10*time.Second).held(1).blocked(10 * time.Second),
			fillup(1).no(7, 10*time.Second).held(1).blocked(10 * time.Second),
			release(1).ok(7).blocked(10 * time.Second),
			try(10).after(10 * time.Second).full(10),
		},
	},
	{
		name: "unblock", c: 10, r: 1,
		why: "an operator lets a caller in again without giving back the units that are in the bucket",
		steps: []step{
			try(8).ok(8), hold(1).ok(8).held(1), block(time.Hour).ok(8).held(1).blocked(time.Hour),
			unblock().after(2 * time.Second).ok(6).held(1), readLast().limit(10, 1).is(6).held(1), try(3).ok(9).held(1).full(9),
			try(1).penalty(time.Hour).no(9, time.Hour).held(1).blocked(time.Hour),
			unblock().limit(20, 2).ok(9).held(1).leaks(1), try(1).after(time.Second).full(9).held(1),
		},
	},
}
