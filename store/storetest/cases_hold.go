package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

// fractions are variables because the compiler adds constants without rounding.
var fractions = []float64{0.7, 0.1, 0.3}

var holdCases = []testCase{
	{
		name: "held units do not leak", c: 10, r: 1,
		why: "a hold reserves room until it is captured or released, however long that takes",
		steps: []step{
			hold(6).ok(0).held(6), read().after(time.Hour).is(0).held(6), try(5).no(0, never).held(6),
			try(4).full(4).held(6),
			read().after(time.Second).is(3).held(6), try(2).no(3, time.Second).held(6), hold(1).full(3).held(7),
		},
	},
	{
		name: "a hold must fit", c: 10, r: 1,
		why: "held units need room like units that leak, and are held wholly or not at all",
		steps: []step{
			try(5).ok(5), hold(5.5).no(5, 500*time.Millisecond), hold(5).full(5).held(5),
			hold(1).no(5, time.Second).held(5),
		},
	},
	{
		name: "capture", c: 10, r: 1,
		why: "a capture ends the hold and puts the used units in, in one step; it is never refused, never Full, " +
			"and may exceed the capacity",
		steps: []step{
			hold(6).ok(0).held(6), capture(4, 3).ok(3).held(2), capture(2, 20).ok(23), read().after(time.Second).is(22),
			hold(1).no(22, 13*time.Second),
		},
	},
	{
		name: "capture of the whole hold", c: 10, r: 1,
		why:   "the changes of level and held units add up to 0, but that is no call with n = 0: it must be written",
		steps: []step{hold(6).ok(0).held(6), capture(6, 6).ok(6), read().after(time.Second).is(5)},
	},
	{
		name: "capture of 0 used units", c: 10, r: 1,
		why:   "a capture of 0 used units is a release",
		steps: []step{hold(10).full(0).held(10), capture(10, 0).ok(0), try(10).full(10)},
	},
	{
		name: "release gives room back", c: 10, r: 1,
		why: "released room is free at once, and a release is never Full",
		steps: []step{
			hold(10).full(0).held(10), try(1).no(0, never).held(10), release(4).ok(0).held(6), try(4).full(4).held(6),
			release(6).ok(4), try(6).full(10),
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
			hold(10_000).limit(20_000, 0).ok(0).held(10_000), hold(fractions[2]).limit(20_000, 0).ok(0).held(10_000 + fractions[2]),
			release(10_000).limit(20_000, 0).ok(0).held(10_000 + fractions[2] - 10_000),
			release(fractions[2]).ok(0), hold(1).full(0).held(1), capture(1, fractions[2]).ok(fractions[2]),
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
		name: "Fillup beside a hold", c: 10, r: 1,
		why: "a Fillup fills the bucket up to the capacity less the held units",
		steps: []step{
			hold(6).ok(0).held(6), fillup(3).ok(3).held(6), fillup(3).spill(4, 2, 3*time.Second).held(6),
			fillup(4).limit(5, 1).after(time.Second).spill(3, 4, never).held(6),
		},
	},
	{
		name: "a hold and a fill in one operation", c: 10, r: 1,
		why: "amount and hold of one operation must fit together",
		steps: []step{
			fill(store.IfFits, 4, 6).full(4).held(6),
			fill(store.IfFits, 1, 1).after(time.Second).no(3, time.Second).held(6),
			fill(store.Always, 3, 2).full(6).held(8), fill(store.Always, -6, 1).ok(0).took(6).held(9),
		},
	},
	{
		name: "a release in a bucket that leaks", c: 10, r: 1,
		why: "every write stores the level after the leak until now, a release too",
		steps: []step{
			try(4).ok(4), hold(2).after(time.Second).ok(3).held(2), release(1).after(time.Second).ok(2).held(1),
			read().after(time.Second).is(1).held(1), release(1).after(time.Minute).ok(0), try(10).full(10),
		},
	},
}
