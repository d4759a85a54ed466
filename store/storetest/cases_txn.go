package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

var txnCases = []testCase{
	{
		name: "all or none", c: 10, r: 1,
		why: "either every amount goes in or none does, and only the bucket that refused has a wait, in any order " +
			"of the keys",
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
		why: "a later operation finds the bucket as an earlier one left it: each amount fits alone, their sum does not",
		steps: []step{
			apply(try(4).ok(4), try(1).on("b").ok(1), try(2).ok(6)),
			refuse(try(3).no(6, 0), try(2).no(6, time.Second)),
			refuse(
				try(2).no(6, 0), hold(2).no(6, 0), fillup(3).no(6, 0), try(1).on("b").no(1, 0),
				try(1).no(6, 4*time.Second),
			),
			apply(try(2).ok(8), hold(2).full(8).held(2)),
		},
	},
	{
		name: "a question beside fills", c: 10, r: 1,
		why: "the amount that is only asked must fit together with the others, and does not go in",
		steps: []step{
			apply(try(4).ok(4), ask(5).on("b").ok(0)), rows("a"),
			refuse(try(4).no(4, 0), ask(11).on("b").no(0, never)), refuse(ask(1).on("b").no(0, 0), try(8).no(4, 2*time.Second)),
			refuse(try(4).no(4, 0), ask(3).no(4, time.Second)), refuse(ask(3).no(4, 0), try(4).no(4, time.Second)),
			rows("a"), apply(ask(2).ok(8), try(4).ok(8)), apply(try(1).ok(9), ask(1).ok(9)), read().is(9), rows("a"),
			refuse(ask(2).no(9, time.Second), hold(1).on("b").no(0, 0)), rows("a"),
		},
	},
	{
		name: "amounts for one key that never fit", c: 10, r: 1,
		why: "each amount would fit in time, but their sum exceeds the capacity; a finite wait would make the " +
			"client retry for ever",
		steps: []step{
			refuse(try(6).no(0, 0), try(5).no(0, never)),
			try(5).ok(5), refuse(try(4).no(5, 0), try(7).no(5, never)),
		},
	},
	{
		name: "operations that are never refused wait for the others", c: 10, r: 1,
		why: "a transaction is refused as a whole, with its Fillups, drains and captures",
		steps: []step{
			hold(4).ok(0).held(4), try(3).on("b").ok(3),
			refuse(
				capture(4, 1).no(0, 0).held(4), fillup(2).on("b").no(3, 0), drain(1).on("b").no(3, 0),
				always(2).on("c").no(0, 0),
				try(11).on("d").no(0, never),
			),
			rows("a", "b"),
			apply(
				capture(4, 1).ok(1), fillup(9).on("b").spill(10, 2, 9*time.Second), drain(1).on("b").ok(9).took(1),
				always(20).on("c").full(20),
			),
		},
	},
	{
		name: "more than is held in a transaction", c: 10, r: 1,
		why: "an error fails the whole transaction: nothing of it is applied",
		steps: []step{
			hold(2).on("b").ok(0).held(2),
			apply(try(3), release(3).on("b")).fails(store.ErrNotHeld), rows("b"),
			apply(try(3).ok(3), release(1).on("b").ok(0).held(1)),
			apply(hold(1).ok(3).held(1), capture(1, 2).ok(5), hold(2).on("b").ok(0).held(3), release(3).on("b").ok(0)),
		},
	},
	{
		name: "a transaction of zeros", c: 10, r: 1,
		why:   "amounts of 0 are accepted and write nothing",
		steps: []step{apply(try(0).ok(0), fillup(0).on("b").ok(0)), rows()},
	},
	{
		name: "a transaction and a backward clock", c: 10, r: 1,
		why: "every bucket has its own time: a bucket written later than the clock does not leak, another bucket does",
		steps: []step{
			try(5).on("b").ok(5), try(5).after(time.Minute).ok(5),
			apply(try(1).ok(6).ahead(58*time.Second), try(1).on("b").ok(4)).after(-58 * time.Second),
		},
	},
}

var deleteCases = []testCase{
	{
		name: "delete", c: 10, r: 1,
		why: "a deleted bucket is like one that never existed, and Delete removes no other bucket",
		steps: []step{
			hold(4).ok(0).held(4), try(3).ok(3).held(4), try(5).on("b").ok(5), try(1).on("aa").ok(1),
			remove("a"), rows("aa", "b"), read().is(0), readLast().is(0), read().on("b").is(5),
			release(1).fails(store.ErrNotHeld), try(10).full(10), remove("nobody"), rows("a", "aa", "b"),
		},
	},
	{
		name: "a deleted bucket's time", c: 10, r: 1,
		why: "a bucket that does not exist has the clock's time; the time of the deleted bucket must not come back",
		steps: []step{
			try(10).full(10), remove("a"), read().after(-time.Minute).is(0), try(4).ok(4),
			read().after(time.Second).is(3),
		},
	},
	{
		name: "a bucket that does not exist", c: 10, r: 1,
		why: "a bucket that does not exist is empty, at the clock's time; without a limit its Capacity is 0; " +
			"reads create no row",
		steps: []step{read().is(0), readLast().is(0), rows()},
	},
}
