package storetest

import "time"

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
		name: "a block is never shortened", c: 10, r: 1,
		why: "a later penalty can prolong a block but never shorten it",
		steps: []step{
			try(8).ok(8), try(3).penalty(20*time.Second).no(8, 20*time.Second).blocked(20 * time.Second),
			try(3).penalty(time.Second).no(8, 20*time.Second).blocked(20 * time.Second),
			try(1).penalty(30*time.Second).after(time.Second).no(7, 30*time.Second).blocked(30 * time.Second),
		},
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
			block(10*time.Second).limit(7, 2).after(2 * time.Second).ok(6).held(1).blocked(10 * time.Second),
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
			unblock().limit(20, 2).ok(9).held(1), try(1).after(time.Second).full(9).held(1),
		},
	},
}
