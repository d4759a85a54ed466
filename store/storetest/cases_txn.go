package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

var txnCases = []testCase{
	{
		name: "all or none", trap: 14, c: 10, r: 1,
		why: "either every amount goes in or none does; only the bucket that refused has a wait, whatever the order of keys",
		steps: []step{
			try(8).on("b").ok(8),
			refuse(try(5).no(0, 0), try(3).on("b").no(8, time.Second), try(1).on("c").no(0, 0)), rows("b"),
			refuse(try(3).on("b").no(8, time.Second), try(5).no(0, 0)), rows("b"),
			apply(try(2).on("b").full(10), try(5).ok(5), hold(1).on("c").ok(0).held(1)),
			refuse(try(6).no(5, time.Second), try(11).on("c").no(0, never).held(1), drain(5).on("b").no(10, 0)),
			read().is(5), read().on("b").is(10),
		},
	},
	{
		name: "amounts for one key add up", c: 10, r: 1,
		why: "a later operation sees what an earlier one did: each alone fits, together they do not",
		steps: []step{
			apply(try(4).ok(4), try(1).on("b").ok(1), try(2).ok(6)),
			refuse(try(3).no(6, 0), try(2).no(6, time.Second)),
			refuse(try(2).no(6, 0), hold(2).no(6, 0), fillup(3).no(6, 0), try(1).on("b").no(1, 0), try(1).no(6, 4*time.Second)),
			apply(try(2).ok(8), hold(2).full(8).held(2)),
		},
	},
	{
		name: "amounts for one key that never fit", trap: 9, c: 10, r: 1,
		why: "each alone would fit in time, but together they are more than the capacity: a finite wait would be retried for ever",
		steps: []step{
			refuse(try(6).no(0, 0), try(5).no(0, never)),
			try(5).ok(5), refuse(try(4).no(5, 0), try(7).no(5, never)),
		},
	},
	{
		name: "what always goes in, too, waits for the rest", trap: 14, c: 10, r: 1,
		why: "a transaction is refused as a whole: its Fillup, drains and captures do not happen either",
		steps: []step{
			hold(4).ok(0).held(4), try(3).on("b").ok(3),
			refuse(
				capture(4, 1).no(0, 0).held(4), fillup(2).on("b").no(3, 0), drain(1).on("b").no(3, 0), always(2).on("c").no(0, 0),
				try(11).on("d").no(0, never),
			),
			rows("a", "b"),
			apply(capture(4, 1).ok(1), fillup(9).on("b").spill(10, 2, 9*time.Second), drain(1).on("b").ok(9), always(20).on("c").full(20)),
		},
	},
	{
		name: "more than is held, in a transaction", trap: 14, c: 10, r: 1,
		why: "an error is an error of the whole transaction: nothing of it is applied",
		steps: []step{
			hold(2).on("b").ok(0).held(2),
			apply(try(3), release(3).on("b")).fails(store.ErrNotHeld), rows("b"),
			apply(try(3).ok(3), release(1).on("b").ok(0).held(1)),
			apply(hold(1).ok(3).held(1), capture(1, 2).ok(5), hold(2).on("b").ok(0).held(3), release(3).on("b").ok(0)),
		},
	},
	{
		name: "a transaction of nothing", c: 10, r: 1,
		why:   "amounts of 0 are accepted, and write nothing",
		steps: []step{apply(try(0).ok(0), fillup(0).on("b").ok(0)), rows()},
	},
	{
		name: "a transaction and a backward clock", c: 10, r: 1,
		why: "every bucket has its own time: one that was written later than the clock shows does not leak, another does",
		steps: []step{
			try(5).on("b").ok(5), try(5).after(time.Minute).ok(5),
			apply(try(1).ok(6).ahead(58*time.Second), try(1).on("b").ok(4)).after(-58 * time.Second),
		},
	},
}

var deleteCases = []testCase{
	{
		name: "delete", c: 10, r: 1,
		why: "a deleted bucket is as one that never was, and takes no other with it",
		steps: []step{
			hold(4).ok(0).held(4), try(3).ok(3).held(4), try(5).on("b").ok(5), try(1).on("aa").ok(1),
			remove("a"), rows("aa", "b"), read().is(0), readLast().is(0), read().on("b").is(5),
			release(1).fails(store.ErrNotHeld), try(10).full(10), remove("nobody"), rows("a", "aa", "b"),
		},
	},
	{
		name: "a deleted bucket's time", c: 10, r: 1,
		why: "a bucket that is not there has T = clock: the deleted one's time must not come back",
		steps: []step{
			try(10).full(10), remove("a"), read().after(-time.Minute).is(0), try(4).ok(4), read().after(time.Second).is(3),
		},
	},
	{
		name: "a bucket that is not there", c: 10, r: 1,
		why:   "it is empty, with the clock's time; asked for without a limit its capacity is 0; reading creates nothing",
		steps: []step{read().is(0), readLast().is(0), rows()},
	},
}
