package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

// txnCases are about transactions and questions.
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
