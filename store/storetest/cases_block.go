package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

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
		name: "end of a block", c: 16, r: 1.0 / 64,
		why: "the bucket is blocked before BlockedUntil, and no longer at that time",
		steps: []step{
			try(16).full(16), try(1).penalty(2*time.Minute).no(16, 2*time.Minute).blocked(2 * time.Minute),
			drain(16).ok(0).took(16).blocked(2 * time.Minute),
			try(1).after(2*time.Minute-time.Microsecond).no(0, time.Microsecond).blocked(time.Microsecond),
			read().after(time.Microsecond).is(0), try(16).full(16),
		},
	},
	{
		name: "the longer wait counts", c: 10, r: 1,
		why: "RetryAfter waits for the end of the block or for the room, whichever is later",
		steps: []step{
			try(8).ok(8), try(9).penalty(2*time.Second).no(8, 7*time.Second).blocked(2 * time.Second),
			try(3).no(8, 2*time.Second).blocked(2 * time.Second), try(10).no(8, 8*time.Second).blocked(2 * time.Second),
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
		name: "a block lets these through", c: 10, r: 1,
		why: "n = 0, drains, releases and captures are never refused, and a Fillup registers an event that has " +
			"happened",
		steps: []step{
			hold(4).ok(0).held(4), try(5).ok(5).held(4),
			try(2).penalty(time.Minute).no(5, time.Minute).held(4).blocked(time.Minute),
			try(0).ok(5).held(4).blocked(time.Minute), drain(1).ok(4).took(1).held(4).blocked(time.Minute),
			release(1).ok(4).held(3).blocked(time.Minute), capture(1, 1).ok(5).held(2).blocked(time.Minute),
			always(1).ok(6).held(2).blocked(time.Minute), fillup(1).no(7, time.Minute).held(2).blocked(time.Minute),
			read().is(7).held(2).blocked(time.Minute), try(1).no(7, time.Minute).held(2).blocked(time.Minute),
		},
	},
	{
		name: "blocked until empty", c: 10, r: 2,
		why: "UntilEmpty blocks the bucket until its level has leaked",
		steps: []step{
			try(8).ok(8), try(5).penalty(store.UntilEmpty).no(8, 4*time.Second).blocked(4 * time.Second),
			try(1).after(3*time.Second).no(2, time.Second).blocked(time.Second), try(10).after(time.Second).full(10),
		},
	},
	{
		name: "a Fillup that spills blocks", c: 10, r: 1,
		why: "any amount that does not fit sets the penalty, a Fillup too; its units still go in",
		steps: []step{
			fillup(8).penalty(time.Minute).ok(8),
			fillup(3).penalty(time.Minute).spill(10, 1, time.Minute).blocked(time.Minute),
			read().after(time.Second).is(9).blocked(59 * time.Second),
		},
	},
	{
		name: "no penalty for what fits", c: 10, r: 1,
		why: "a call with a penalty blocks nothing if its amount goes in",
		steps: []step{
			try(8).penalty(time.Minute).ok(8), always(5).penalty(time.Minute).full(13),
			drain(20).penalty(time.Minute).ok(0).took(13),
			try(0).penalty(time.Minute).ok(0), read().is(0),
		},
	},
	{
		name: "a bucket blocked at first sight", c: 10, r: 1,
		why: "a penalty creates the bucket if need be, and the bucket is listed with the limit of the call",
		steps: []step{
			try(11).penalty(10*time.Second).no(0, never).blocked(10 * time.Second), rows("a"),
			readLast().limit(10, 1).is(0).blocked(10 * time.Second),
			try(1).no(0, 10*time.Second).blocked(10 * time.Second),
			try(1).after(10 * time.Second).ok(1),
		},
	},
	{
		name: "a penalty leaves level, time and limit", c: 10, r: 1,
		why: "a refused call changes only the block",
		steps: []step{
			try(8).ok(8),
			try(5).limit(8, 1).penalty(time.Second).after(2*time.Second).no(6, 3*time.Second).blocked(time.Second),
			readLast().limit(10, 1).is(6).blocked(time.Second), read().limit(10, 4).is(6).blocked(time.Second),
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
		name: "a block behind a skewed clock", c: 10, r: 1,
		why: "if a stored time is not believed and set to the clock, the block keeps the duration that it had left",
		steps: []step{
			try(8).ok(8), try(5).penalty(time.Minute).no(8, time.Minute).blocked(time.Minute),
			read().after(-time.Hour).is(8).blocked(time.Minute), always(1).ok(9).blocked(time.Minute),
			try(10).after(time.Minute).full(10),
		},
	},
	{
		name: "a refused transaction blocks the buckets that refused", c: 10, r: 1,
		why: "only the buckets whose amounts did not fit are blocked",
		steps: []step{
			try(8).ok(8),
			refuse(
				try(1).on("b").penalty(time.Minute).no(0, 0),
				try(3).penalty(time.Minute).no(8, time.Minute).blocked(time.Minute),
			),
			rows("a"), try(1).on("b").ok(1), try(1).no(8, time.Minute).blocked(time.Minute),
		},
	},
}
