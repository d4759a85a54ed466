package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

const (
	never   = store.Never
	maxSkew = store.DefaultMaxSkew
)

// halfUnit is half the distance of 1 to the next double. It is lost beside 1, but not beside
// oddCapacity, whose last bit is odd: halves are rounded to even.
const (
	halfUnit    = 0x1p-53
	oddCapacity = 1 + 6*halfUnit
)

// fractions are variables because the compiler adds constants without rounding.
var fractions = []float64{0.7, 0.1, 0.3}

// fillCases are about fills, refusals, limits, holds and ceilings.
var fillCases = []testCase{
	{
		name: "tiny leaks add up", c: 1 << 52, r: 1.0 / 64,
		why: "if the leak is too small to change the level, the stored time stays, so that no write loses the leak",
		steps: []step{
			try(1 << 51).ok(1 << 51), try(1).after(time.Second).ok(1<<51 + 1), try(1).after(time.Second).ok(1<<51 + 2),
			try(1).after(time.Second).ok(1<<51 + 3), drain(1 << 51).ok(3).took(1 << 51).lagging(), read().is(3 - 3.0/64),
			read().after(time.Second).is(3 - 4.0/64),
		},
	},
	{
		name: "slow leak of a large bucket", c: 1 << 53, r: 1e-12,
		why: "the bucket empties in more than 146 years: nothing may overflow, and the wait is Never",
		steps: []step{
			always(1 << 53).full(1 << 53), try(2).no(1<<53, never), fillup(2).spill(1<<53, 2, never),
			read().after(24 * time.Hour).is(1 << 53),
		},
	},
	{
		name: "fast leak", c: 1 << 53, r: 1 << 53,
		why: "at the largest rate the largest bucket drains in a second; a year later the level is zero, not NaN " +
			"or negative",
		steps: []step{
			try(1 << 53).full(1 << 53), read().after(500 * time.Millisecond).is(1 << 52),
			try(1<<53).no(1<<52, 500*time.Millisecond), read().after(8760 * time.Hour).is(0),
		},
	},
	{
		name: "refusal changes nothing", c: 10, r: 1,
		why: "a flood of refused calls must not cause a flood of writes; time and limit stay as last written",
		steps: []step{
			try(8).ok(8), try(5).after(2*time.Second).no(6, time.Second), hold(5).no(6, time.Second),
			try(5).limit(7, 1).no(6, 4*time.Second),
			read().limit(10, 4).is(6).leaks(1), read().is(6), readLast().limit(10, 1).is(6), read().after(-time.Second).is(7),
		},
	},
	{
		name: "refusal at another rate", c: 10, r: 1,
		why: "it ends the time at the old rate, once; a refusal for ever, a question and a read write nothing",
		steps: []step{
			try(8).ok(8), try(5).limit(10, 2).after(2*time.Second).no(6, 500*time.Millisecond).mends(),
			readLast().limit(10, 2).is(6), hold(6).limit(10, 2).no(6, time.Second),
			read().limit(10, 2).after(time.Second).is(4), try(10.5).limit(10, 4).no(4, never).leaks(2),
			ask(7).limit(10, 4).no(4, 500*time.Millisecond).leaks(2), readLast().limit(10, 2).is(4),
			hold(7).no(4, time.Second).mends(), readLast().limit(10, 1).is(4), try(7).after(time.Second).full(10),
		},
	},
	{
		name: "a capacity of 0", c: 0, r: 1,
		why: "it refuses everything but 0 for ever, as for a tenant that is shut out",
		steps: []step{
			try(0).ok(0), try(1).no(0, never), hold(1).no(0, never), ask(1).no(0, never), rows(),
			fillup(1).spill(0, 1, never), always(1).full(1), try(1).after(time.Minute).no(0, never), drain(1).ok(0),
		},
	},
	{
		name: "an amount never goes in for nothing", c: oddCapacity, r: 0,
		why: "an amount that is lost in the rounding of the level raises it to the next double, or it would go in a " +
			"million times; it fits only if that double does",
		steps: []step{
			always(1).ok(1), try(halfUnit).ok(1 + 2*halfUnit), fillup(halfUnit).ok(1 + 4*halfUnit),
			ask(halfUnit).ok(1 + 4*halfUnit), try(halfUnit).full(oddCapacity), try(halfUnit).no(oddCapacity, never),
			always(1).on("b").ok(1), apply(try(halfUnit).on("b").ok(1 + 2*halfUnit)),
			always(1).on("c").ok(1), ask(halfUnit).on("c").ceiling(1).no(1, never),
			try(halfUnit).on("c").ceiling(1).no(1, never),
			always(1 << 60).on("d").full(1 << 60), always(1).on("d").full(1<<60 + 1<<8),
		},
	},
	{
		name: "more than is held", c: 10, r: 1,
		why: "a capture or release of units that are not held would create room, so it is ErrNotHeld and changes " +
			"nothing",
		steps: []step{
			release(1).fails(store.ErrNotHeld), rows(),
			hold(3).ok(0).held(3), release(3.5).fails(store.ErrNotHeld), capture(4, 1).fails(store.ErrNotHeld),
			read().is(0).held(3), release(3).ok(0), release(1.0 / 64).fails(store.ErrNotHeld),
		},
	},
	{
		name: "holds of fractions", c: 1, r: 0,
		why: "sums of fractions are rounded, and yet accepted holds end by their own amounts, in any order, and leave 0",
		steps: []step{
			hold(fractions[0]).ok(0).held(fractions[0]), hold(fractions[1]).ok(0).held(fractions[0] + fractions[1]),
			release(fractions[0]).ok(0).held(fractions[0] + fractions[1] - fractions[0]), release(fractions[1]).ok(0),
			release(fractions[1]).fails(store.ErrNotHeld), hold(1).full(0).held(1), release(1).ok(0),
			hold(10_000).limit(20_000, 0).ok(0).held(10_000),
			hold(fractions[0]).limit(20_000, 0).ok(0).held(10_000 + fractions[0]),
			release(10_000).limit(20_000, 0).ok(0).held(10_000 + fractions[0] - 10_000),
			release(fractions[0]).ok(0), hold(1).full(0).held(1), capture(1, fractions[2]).ok(fractions[2]),
		},
	},
	{
		name: "a hold that is too small", c: 10, r: 0,
		why: "it could get lost in the rounding that the end of a hold allows for, beside the capacity last written too",
		steps: []step{
			always(1).limit(1<<40, 0).ok(1), hold(3).fails(store.ErrInvalidAmount), hold(4).ok(1).held(4),
			hold(3).ok(1).held(7), release(7).ok(1), always(1).limit(1<<40, 0).ok(2),
			apply(hold(4).on("b"), hold(3)).fails(store.ErrInvalidAmount), rows("a"),
		},
	},
	{
		name: "part of an amount", c: 10, r: 1,
		why: "UpTo puts in the largest whole number that fits, and nothing where the least does not fit: the wait is " +
			"until the least fits, whatever the most",
		steps: []step{
			upTo(1, 4).ok(4).gave(4), upTo(2, 9).full(10).gave(6), upTo(1, 1<<53).no(10, time.Second),
			upTo(3, 5).after(2500*time.Millisecond).no(7.5, 500*time.Millisecond), upTo(2, 5).ok(9.5).gave(2),
			upTo(11, 12).no(9.5, never), hold(1).after(1500 * time.Millisecond).ok(8).held(1), upTo(1, 3).full(9).held(1).gave(1),
			upTo(10, 20).no(9, never).held(1), upTo(1, 4).on("b").ok(4).gave(4), upTo(1, 9).on("b").limit(10, 2).full(10).gave(6),
			upTo(1, 1<<53).limit(1<<53, 1).on("c").full(1 << 53).gave(1 << 53),
		},
	},
	{
		name: "a part that does not fit", c: 10, r: 1,
		why: "a refusal of UpTo ends the time at an old rate and sets a penalty as one of IfFits does, by the least",
		steps: []step{
			try(8).ok(8), upTo(3, 4).limit(10, 2).no(8, 500*time.Millisecond).mends(), readLast().limit(10, 2).is(8),
			upTo(11, 12).no(8, never).leaks(2), readLast().limit(10, 2).is(8),
			upTo(3, 4).limit(10, 2).penalty(time.Minute).no(8, time.Minute).blocked(time.Minute),
			upTo(1, 2).after(time.Second).limit(10, 2).no(6, 59*time.Second).blocked(59 * time.Second),
		},
	},
	{
		name: "ceiling", c: 10, r: 1,
		why: "a ceiling takes the place of the capacity for its own call: the wait is for room under it, and it is not stored",
		steps: []step{
			try(3).ceiling(4).ok(3), try(2).ceiling(4).no(3, time.Second), hold(2).ceiling(4).no(3, time.Second),
			try(5).ceiling(4).no(3, never), readLast().limit(10, 1).is(3), try(1).ceiling(4).ok(4), try(6).full(10),
		},
	},
	{
		name: "a ceiling above the capacity", c: 10, r: 1,
		why: "a caller that books its turn puts units in above the capacity, so that nobody without a ceiling goes before " +
			"it; the State is by the capacity",
		steps: []step{
			try(8).ceiling(25).ok(8), try(12).ceiling(25).full(20), try(1).no(20, 11*time.Second),
			ask(10).ceiling(25).no(20, 5*time.Second), try(10).ceiling(25).no(20, 5*time.Second),
			try(26).ceiling(25).no(20, never), try(10).ceiling(25).after(5 * time.Second).full(25),
			hold(2).ceiling(30).full(25).held(2), fillup(5).ceiling(30).spill(28, 2, 5*time.Second).held(2),
			readLast().limit(10, 1).is(28).held(2), try(11).limit(10, 2).ceiling(40).no(28, 500*time.Millisecond).held(2).mends(),
			refuse(try(11).limit(10, 4).ceiling(38).no(26, 250*time.Millisecond).held(2)).after(time.Second).mends(),
		},
	},
	{
		name: "a ceiling that sinks, with somebody behind", c: 100, r: 1,
		why: "if units could be taken back after somebody queued behind, two callers would get the same turn",
		steps: []step{
			try(14).ok(14), try(6).ok(20), try(1).after(time.Second).ok(20),
			try(-6).ceiling(14).since(5*time.Second).after(4*time.Second).no(16, never),
			drain(1).ok(15).took(1), try(-6).ceiling(14).since(5 * time.Second).ok(9).took(6),
		},
	},
	{
		name: "a ceiling from a time that is not believed", c: 1000, r: 1,
		why: "a clock that was set right can be behind CeilingAt; a ceiling that rose with it would give the same " +
			"place twice",
		steps: []step{
			try(14).ok(14), try(6).ok(20), try(1).ok(21),
			try(-6).ceiling(14).since(-time.Hour).after(-time.Hour).no(21, never),
			drain(1).ok(20).took(1), try(-6).ceiling(14).since(-time.Hour).ok(14).took(6),
		},
	},
}

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
		name: "part of an amount in a transaction", c: 10, r: 1,
		why: "the operations go in together or not at all, and only the least has to fit",
		steps: []step{
			try(7).ok(7), apply(try(2).on("b").ok(2), upTo(1, 5).full(10).gave(3)),
			refuse(upTo(1, 5).on("b").is(2), try(1).no(10, time.Second)),
			refuse(ask(3).on("b").is(2), upTo(2, 5).no(10, 2*time.Second)),
			apply(ask(8).on("b").ok(2), upTo(1, 5).after(0).on("c").ok(5).gave(5)),
			upTo(1, 4).after(2 * time.Second).full(10).gave(2),
		},
	},
	{
		name: "a question writes nothing", c: 10, r: 1,
		why: "an Ask answers as a TryFillup would and leaves the bucket as it is; the state is that of a read",
		steps: []step{
			ask(10).ok(0), ask(11).no(0, never), rows(),
			try(8).ok(8), ask(2).ok(8), ask(3).no(8, time.Second), ask(3).after(time.Second).ok(7),
			ask(3).limit(4, 2).no(7, 6*time.Second).leaks(1), read().is(7), readLast().limit(10, 1).is(7),
			try(3).full(10), ask(0).ok(10), ask(1).no(10, time.Second),
		},
	},
	{
		name: "a question under another rate", c: 10, r: 1,
		why: "a question writes no rate, so its wait and its state are by the rate last written: a caller who comes then " +
			"finds the room, and not sooner or later",
		steps: []step{
			ask(11).limit(10, 4).no(0, never), try(10).full(10), ask(4).limit(10, 4).no(10, 4*time.Second).leaks(1),
			ask(4).limit(10, 0.5).no(10, 4*time.Second).leaks(1), ask(4).limit(10, 0).no(10, 4*time.Second).leaks(1),
			ask(2).limit(10, 4).ceiling(8).no(10, 4*time.Second).leaks(1), try(0).limit(10, 4).ok(10).leaks(1),
			ask(4).limit(10, 4).after(3*time.Second).no(7, time.Second).leaks(1),
			ask(4).limit(10, 4).after(time.Second).ok(6).leaks(1), try(4).limit(10, 4).full(10),
			ask(4).limit(10, 4).no(10, time.Second), ask(4).no(10, time.Second).leaks(4),
			read().after(2500 * time.Millisecond).is(0), ask(11).no(0, never),
		},
	},
	{
		name: "questions in a transaction under another rate", c: 10, r: 1,
		why: "a bucket that a refused transaction only asks about keeps its rate, and so does every bucket of one that " +
			"can never go in; their waits and states are by it",
		steps: []step{
			try(10).full(10), try(6).on("b").ok(6),
			refuse(ask(4).limit(10, 4).no(10, 4*time.Second).leaks(1), try(1).limit(10, 4).on("b").is(6)).mends(),
			refuse(ask(4).no(10, 4*time.Second), ask(8).on("b").no(6, time.Second).leaks(4)),
			refuse(ask(4).limit(10, 4).no(10, 6*time.Second).leaks(1), ask(2).limit(10, 4).no(10, 6*time.Second).leaks(1)),
			refuse(try(5).limit(10, 4).no(10, 5*time.Second).leaks(1), try(11).on("b").no(6, never).leaks(4)),
			refuse(ask(4).limit(10, 4).no(10, 1500*time.Millisecond), try(2).limit(10, 4).no(10, 1500*time.Millisecond)).mends(),
			apply(ask(3).ok(6).leaks(4), try(7).on("b").ok(9)).after(time.Second),
		},
	},
}
