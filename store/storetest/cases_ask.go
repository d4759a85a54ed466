package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

var askCases = []testCase{
	{
		name: "a question writes nothing", c: 10, r: 1,
		why: "an Ask answers as a TryFillup would and leaves the bucket as it is; the state is that of a read",
		steps: []step{
			ask(10).ok(0), ask(11).no(0, never), rows(),
			try(8).ok(8), ask(2).ok(8), ask(3).no(8, time.Second), ask(3).after(time.Second).ok(7),
			ask(3).limit(4, 2).no(7, 3*time.Second), read().is(7), readLast().limit(10, 1).is(7),
			try(3).full(10), ask(0).ok(10), ask(1).no(10, time.Second),
		},
	},
	{
		name: "a question about a hold", c: 10, r: 1,
		why: "an Ask can ask for held units and under a ceiling, as the call that would follow it",
		steps: []step{
			hold(4).ok(0).held(4), try(5).ok(5).held(4),
			fill(store.Ask, 0, 1).ok(5).held(4), fill(store.Ask, 0, 2).no(5, time.Second).held(4),
			fill(store.Ask, 1, 1).no(5, time.Second).held(4), fill(store.Ask, 0, 7).no(5, never).held(4),
			ask(1).ceiling(9).no(5, time.Second).held(4), ask(1).ceiling(10).ok(5).held(4),
			read().is(5).held(4),
		},
	},
	{
		name: "a question during a block", c: 10, r: 1,
		why: "nothing but 0 fits before the end of a block, and a question neither sets nor ends one",
		steps: []step{
			try(8).ok(8), try(3).penalty(10*time.Second).no(8, 10*time.Second).blocked(10 * time.Second),
			ask(1).after(4*time.Second).no(4, 6*time.Second).blocked(6 * time.Second),
			ask(0).ok(4).blocked(6 * time.Second), ask(11).no(4, never).blocked(6 * time.Second),
			read().is(4).blocked(6 * time.Second), ask(10).after(6 * time.Second).ok(0),
		},
	},
	{
		name: "a question on a clock that is behind", c: 10, r: 1,
		why: "the answer is that of a TryFillup on any clock, but a question does not mend a time that is not believed",
		steps: []step{
			try(8).ok(8),
			ask(3).after(-time.Minute).no(8, time.Minute+time.Second).ahead(time.Minute),
			try(3).no(8, time.Minute+time.Second).ahead(time.Minute),
			ask(3).after(-time.Hour).no(8, time.Second), ask(2).ok(8),
			read().after(time.Hour + time.Minute).is(8),
		},
	},
	{
		name: "several questions together", c: 10, r: 1,
		why: "a transaction of questions answers as the same transaction of TryFillups would, and writes nothing",
		steps: []step{
			try(2).ok(2), try(8).on("b").ok(8),
			apply(ask(3).ok(2), ask(2).on("b").ok(8), ask(5).ok(2), ask(1).on("c").ok(0)),
			refuse(ask(3).no(2, 0), ask(3).on("b").no(8, time.Second), ask(1).on("c").no(0, 0)),
			refuse(ask(4).no(2, 0), ask(5).no(2, time.Second)), refuse(ask(6).no(2, 0), ask(5).no(2, never)),
			rows("a", "b"), read().is(2), read().on("b").is(8),
		},
	},
}

var operatorCases = []testCase{
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
		name: "block of a bucket that does not exist", c: 10, r: 1,
		why: "the block must hold for the first caller too, so it creates the bucket with the limit of the call",
		steps: []step{
			block(time.Minute).ok(0).blocked(time.Minute), rows("a"),
			readLast().limit(10, 1).is(0).blocked(time.Minute),
			try(1).no(0, time.Minute).blocked(time.Minute), try(1).after(time.Minute).ok(1),
		},
	},
	{
		name: "block twice", c: 10, r: 1,
		why: "the longer block counts, whoever set it",
		steps: []step{
			try(8).ok(8), block(time.Minute).ok(8).blocked(time.Minute), block(time.Second).ok(8).blocked(time.Minute),
			try(3).penalty(time.Second).no(8, time.Minute).blocked(time.Minute),
			try(3).penalty(2*time.Minute).no(8, 2*time.Minute).blocked(2 * time.Minute),
			block(time.Hour).ok(8).blocked(time.Hour),
		},
	},
	{
		name: "block until empty", c: 10, r: 2,
		why: "UntilEmpty blocks until the level has leaked; an empty bucket needs no block and no row",
		steps: []step{
			block(store.UntilEmpty).ok(0), rows(), try(8).ok(8),
			block(store.UntilEmpty).after(time.Second).ok(6).blocked(3 * time.Second),
			try(10).after(3 * time.Second).full(10),
		},
	},
	{
		name: "block on a clock that is behind", c: 10, r: 1,
		why: "a block begins at the bucket's time; a time that is not believed is set to the clock first",
		steps: []step{
			try(8).ok(8),
			block(time.Minute).after(-time.Second).ok(8).ahead(time.Second).blocked(time.Minute),
			block(time.Hour).after(-time.Hour).ok(8).blocked(time.Hour), read().after(time.Second).is(7).blocked(time.Hour - time.Second),
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
	{
		name: "unblock of a bucket without a block", c: 10, r: 1,
		why: "there is nothing to lift: no row appears, and time and limit stay",
		steps: []step{
			unblock().limit(0, 0).ok(0), rows(), try(8).ok(8), unblock().limit(7, 2).after(time.Second).ok(7).same(),
			readLast().limit(10, 1).is(7),
		},
	},
	{
		name: "unblock after the end of the block", c: 10, r: 1,
		why: "a clock that steps back must not bring back a block that an operator has lifted",
		steps: []step{
			block(time.Minute).ok(0).blocked(time.Minute), unblock().after(time.Minute).ok(0),
			try(1).after(-time.Minute).ok(1),
		},
	},
	{
		name: "unblock on a clock that is behind", c: 10, r: 1,
		why: "a call that finds a time that is not believed sets it to the clock",
		steps: []step{
			try(8).ok(8), block(time.Minute).ok(8).blocked(time.Minute), unblock().after(-time.Hour).ok(8),
			read().after(time.Second).is(7),
		},
	},
	{
		name: "blocks in transactions", c: 10, r: 1,
		why: "a block and an end of a block go in with the rest of the transaction or not at all",
		steps: []step{
			try(8).ok(8),
			apply(try(1).ok(9), block(time.Minute).on("b").ok(0).blocked(time.Minute), unblock().on("c").ok(0)),
			rows("a", "b"),
			refuse(try(2).no(9, time.Second), unblock().on("b").no(0, 0).blocked(time.Minute),
				block(time.Minute).on("d").no(0, 0)),
			rows("a", "b"), try(1).on("b").no(0, time.Minute).blocked(time.Minute),
			apply(unblock().on("b").ok(0), try(1).on("b").ok(1)), read().on("b").is(1),
			refuse(block(time.Minute).on("b").no(1, 0), try(1).on("b").no(1, never)), read().on("b").is(1),
		},
	},
}
