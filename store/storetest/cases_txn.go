package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

// txnCases are about transactions and questions.
var txnCases = []testCase{
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
}
