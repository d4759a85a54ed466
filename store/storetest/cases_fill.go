package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

const never = store.Never

// halfUnit is half the distance of 1 to the next double. It is lost beside 1, but not beside
// oddCapacity, whose last bit is odd: halves are rounded to even.
const (
	halfUnit    = 0x1p-53
	oddCapacity = 1 + 6*halfUnit
)

var fillCases = []testCase{
	{
		name: "idle bucket leaks before the fill", c: 100, r: 10,
		why: "a leak subtracted after the fill clamps the sum to zero and loses the fill",
		steps: []step{
			try(5).ok(5), fillup(20).after(3 * time.Second).ok(20),
			try(20).after(7 * time.Second).ok(20), always(20).after(7 * time.Second).ok(20),
		},
	},
	{
		name: "exactly full is accepted", c: 10, r: 1,
		why: "an amount fits if it fills the bucket exactly, and the call that does so is Full",
		steps: []step{
			try(9).ok(9), try(1).full(10), try(1.0/64).no(10, 15625*time.Microsecond),
			read().is(10), fillup(1.0 / 64).after(15625 * time.Microsecond).full(10),
		},
	},
	{
		name: "nearly full is not full", c: 1000, r: 0,
		why: "Full needs the exact capacity, not a level close to it",
		steps: []step{
			try(1000 - 1.0/1024).ok(1000 - 1.0/1024), fillup(1.0 / 2048).ok(1000 - 1.0/2048),
			always(1.0 / 2048).full(1000),
		},
	},
	{
		name: "full for an instant only", c: 10, r: 1,
		why: "only the call that filled the bucket is Full; a read, a refusal or n = 0 that finds it full is not",
		steps: []step{
			fillup(10).full(10), read().is(10), try(1).no(10, time.Second), hold(1).no(10, time.Second), try(0).ok(10),
			fillup(0).ok(10), always(0).ok(10), fillup(1).spill(10, 1, time.Second), always(1).full(11),
			drain(1).ok(10).took(1),
		},
	},
	{
		name: "zero writes nothing", c: 10, r: 1,
		why: "n = 0 always fits, even above the capacity; it creates no row and stores neither time nor limit",
		steps: []step{
			try(0).ok(0), fillup(0).ok(0), always(0).ok(0), rows(),
			always(25).full(25), try(0).limit(5, 4).after(time.Second).ok(24), readLast().limit(10, 1).is(24),
			read().limit(10, 4).is(24),
		},
	},
	{
		name: "Fillup spills", c: 10, r: 1,
		why: "a Fillup that does not fit fills the bucket and reports the lost units; its wait is for the same " +
			"amount again",
		steps: []step{
			fillup(7).ok(7), fillup(5).spill(10, 2, 5*time.Second),
			fillup(4).after(2*time.Second).spill(10, 2, 4*time.Second), fillup(25).spill(10, 25, never),
			read().after(20 * time.Second).is(0), fillup(25).spill(10, 15, never),
		},
	},
	{
		name: "Fillup never lowers", c: 10, r: 1,
		why: "a Fillup leaves a level that is already above the capacity",
		steps: []step{
			always(25).full(25), fillup(1).spill(25, 1, 16*time.Second),
			fillup(3).limit(5, 1).after(time.Second).spill(24, 3, 22*time.Second),
		},
	},
	{
		name: "Always goes above the capacity", c: 10, r: 1,
		why: "mode Always registers units even above the capacity, and they have to leak",
		steps: []step{
			always(25).full(25), try(1).no(25, 16*time.Second), always(1).full(26),
			try(1).after(17 * time.Second).full(10),
		},
	},
	{
		name: "drain stops at empty", c: 10, r: 1,
		why: "a drain stops at zero: a level below zero would be extra capacity",
		steps: []step{
			try(2).ok(2), drain(3).ok(0).took(2), try(10).full(10), drain(4).after(time.Second).ok(5).took(4),
			fill(store.IfFits, -7, 0).ok(0).took(5), drain(1).ok(0),
		},
	},
	{
		name: "drain of an empty bucket", c: 10, r: 1,
		why: "a drain of an empty bucket is accepted, writes nothing and creates no row",
		steps: []step{
			drain(3).ok(0), rows(),
			try(2).ok(2), drain(1).limit(7, 8).after(2 * time.Second).ok(0).same(), readLast().limit(10, 1).is(0),
		},
	},
	{
		name: "integer leaks", c: 100, r: 0.5,
		why: "if each call rounded the leak to whole units, a bucket in frequent use would never leak",
		steps: times(40, func(i int) step {
			if i == 0 {
				return always(50).ok(50)
			}
			return always(1.0 / 16).after(250 * time.Millisecond).ok(50 - float64(i)/16)
		}),
	},
	{
		name: "tiny leaks add up", c: 1 << 52, r: 1.0 / 64,
		why: "if the leak is too small to change the level, the stored time stays, so that no write loses the leak",
		steps: append(times(16, func(i int) step {
			if i == 0 {
				return try(1 << 51).ok(1 << 51)
			}
			return try(1).after(time.Second).ok(1<<51 + float64(i))
		}), drain(1<<51).ok(15).took(1<<51).lagging(), read().is(15-15.0/64), read().after(time.Second).is(15-16.0/64)),
	},
	{
		name: "slow leak of a large bucket", c: 1 << 53, r: 1e-12,
		why: "the bucket empties in more than 292 years: nothing may overflow, and the wait is Never",
		steps: []step{
			always(1 << 53).full(1 << 53), try(2).no(1<<53, never), fillup(2).spill(1<<53, 2, never),
			read().after(24 * time.Hour).is(1 << 53), prune(), rows("a"),
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
		name: "keys are separate", c: 10, r: 0,
		why: "an update that ignores its key overwrites every bucket",
		steps: []step{
			try(9).ok(9), try(3).on("b").ok(3), try(5).on("ab").ok(5), read().is(9), read().on("b").is(3),
			drain(9).ok(0).took(9), read().on("b").is(3), read().on("ab").is(5), read().on("A").is(0),
		},
	},
}

var refusalCases = []testCase{
	{
		name: "amount above the capacity", c: 10, r: 1,
		why: "a finite wait for an amount that can never fit makes the client retry for ever",
		steps: []step{
			try(10.5).no(0, never), hold(11).no(0, never), rows(),
			try(4).ok(4), try(10.5).no(4, never), hold(6).full(4).held(6),
			try(5).after(time.Minute).no(0, never).held(6),
			fillup(5).spill(4, 1, never).held(6),
		},
	},
	{
		name: "no leak, no wait", c: 10, r: 0,
		why: "a bucket that does not leak never makes room by itself",
		steps: []step{
			try(8).ok(8), try(3).no(8, never), try(3).after(1000*time.Hour).no(8, never), drain(1).ok(7).took(1),
			try(3).full(10),
		},
	},
	{
		name: "wait for room, not for the window", c: 10, r: 1,
		why: "RetryAfter is the smallest wait after which the same amount fits",
		steps: []step{
			try(9).ok(9), try(2).no(9, time.Second), try(10).no(9, 9*time.Second), hold(3).no(9, 2*time.Second),
		},
	},
	{
		name: "refusal changes nothing", c: 10, r: 1,
		why: "a flood of refused calls must not cause a flood of writes; time and limit stay as last written",
		steps: []step{
			try(8).ok(8), try(5).after(2*time.Second).no(6, time.Second), hold(5).no(6, time.Second),
			try(5).limit(7, 1).no(6, 4*time.Second),
			read().limit(10, 4).is(6), read().is(6), readLast().limit(10, 1).is(6), read().after(-time.Second).is(7),
		},
	},
	{
		name: "refusal at another rate", c: 10, r: 1,
		why: "it ends the time at the old rate, once; a refusal for ever, a question and a read write nothing",
		steps: []step{
			try(8).ok(8), try(5).limit(10, 2).after(2*time.Second).no(6, 500*time.Millisecond).mends(),
			readLast().limit(10, 2).is(6), hold(6).limit(10, 2).no(6, time.Second),
			read().limit(10, 2).after(time.Second).is(4), try(10.5).limit(10, 4).no(4, never),
			ask(7).limit(10, 4).no(4, 250*time.Millisecond), readLast().limit(10, 2).is(4),
			hold(7).no(4, time.Second).mends(), readLast().limit(10, 1).is(4), try(7).after(time.Second).full(10),
		},
	},
	{
		name: "refused together at another rate", c: 10, r: 1,
		why: "every bucket that the transaction would fill ends the time at its old rate, unless one of them can never " +
			"take its amounts",
		steps: []step{
			try(8).ok(8), try(5).on("b").ok(5),
			refuse(try(6).limit(10, 2).no(6, time.Second), try(1).on("b").limit(10, 2).no(3, 0),
				ask(1).on("c").no(0, 0)).after(2 * time.Second).mends(),
			readLast().limit(10, 2).is(6), readLast().on("b").limit(10, 2).is(3), rows("a", "b"),
			refuse(try(6).limit(10, 4).no(6, 500*time.Millisecond), try(11).on("b").limit(10, 4).no(3, never)),
			refuse(try(4).limit(10, 4).no(6, 0), try(7).limit(10, 4).no(6, never)), readLast().limit(10, 2).is(6),
			refuse(ask(6).no(6, 2*time.Second), try(1).on("b").no(3, 0)).mends(),
			readLast().limit(10, 2).is(6), readLast().on("b").limit(10, 1).is(3),
		},
	},
	{
		name: "refusal creates no row", c: 10, r: 1,
		why: "refused calls with unused keys would otherwise fill the store",
		steps: []step{
			try(11).no(0, never), hold(11).no(0, never), try(2).ceiling(1).no(0, never), rows(),
			release(1).fails(store.ErrNotHeld),
			capture(1, 0.5).fails(store.ErrNotHeld), rows(),
		},
	},
}

var limitCases = []testCase{
	{
		name: "capacity lowered below the level", c: 10, r: 1,
		why: "the level is not lowered with the capacity: accepted units have to leak",
		steps: []step{
			try(8).ok(8), try(1).limit(4, 1).no(8, 5*time.Second), read().limit(4, 1).is(8),
			always(1).limit(4, 1).full(9),
			try(1).limit(4, 1).after(6 * time.Second).full(4), try(6).full(10),
		},
	},
	{
		name: "changed leak rate", c: 10, r: 1,
		why: "past time leaks at the rate last written; the leak rate of a call holds from the call on",
		steps: []step{
			try(8).ok(8), read().limit(10, 2).after(2 * time.Second).is(6), read().is(6), read().limit(10, 0).is(6),
			try(1).limit(10, 2).ok(7), readLast().after(time.Second).is(5), read().is(5),
			always(1).limit(10, 0).after(time.Second).ok(4), drain(1).after(time.Second).ok(3).took(1),
			fillup(8).limit(10, 4).after(time.Second).full(10), try(1).limit(10, 0).after(time.Second).ok(7),
		},
	},
	{
		name: "the limit last written", c: 10, r: 1,
		why: "a read without a limit uses the limit of the last call that wrote",
		steps: []step{
			try(8).ok(8), try(1).limit(20, 2).ok(9), try(2).limit(10, 2).no(9, 500*time.Millisecond),
			hold(21).limit(20, 4).no(9, never),
			readLast().limit(20, 2).after(time.Second).is(7),
		},
	},
	{
		name: "a leak rate that was 0", c: 10, r: 0,
		why: "a write moves the time even without a leak; otherwise a later rate would apply to time before the write",
		steps: []step{
			try(4).ok(4), try(1).after(time.Second).ok(5), read().limit(10, 1).after(time.Second).is(5),
			try(1).limit(10, 1).ok(6), read().after(time.Second).is(5),
		},
	},
	{
		name: "operations without a limit", c: 10, r: 1,
		why: "what ends a hold or takes units out may have no limit: the limit last written decides and stays, and " +
			"a bucket that does not exist holds nothing",
		steps: []step{
			hold(4).ok(0).held(4), release(1).limit(0, 0).ok(0).held(3), capture(3, 2).limit(0, 0).ok(2),
			drain(1).limit(0, 0).ok(1).took(1), capture(0, 5).limit(0, 0).ok(6), readLast().limit(10, 1).after(time.Second).is(5),
			drain(9).limit(0, 0).ok(0).took(5), drain(1).limit(0, 0).ok(0).same(), release(1).limit(0, 0).fails(store.ErrNotHeld),
			drain(5).on("b").limit(0, 0).ok(0), release(1).on("b").limit(0, 0).fails(store.ErrNotHeld),
			capture(1, 1).on("b").limit(0, 0).fails(store.ErrNotHeld), capture(0, 1).on("b").limit(0, 0).fails(store.ErrNotHeld),
			rows("a"), hold(2).ok(0).held(2), apply(release(1).limit(0, 0).ok(0).held(1), try(3).on("b").ok(3)),
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
			always(1).on("c").ok(1), ask(halfUnit).on("c").ceiling(1).no(1, never), try(halfUnit).on("c").ceiling(1).no(1, never),
			always(1 << 60).on("d").full(1 << 60), always(1).on("d").full(1<<60 + 1<<8),
		},
	},
}

// times returns the n steps f(0) to f(n-1).
func times(n int, f func(i int) step) []step {
	steps := make([]step, n)
	for i := range steps {
		steps[i] = f(i)
	}
	return steps
}
