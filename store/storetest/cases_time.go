package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

// timeCases are about clocks that step back, and about the ends of time.
var timeCases = []testCase{
	{
		name: "clock a little behind", c: 10, r: 1,
		why: "within MaxSkew a backward clock neither leaks nor raises anything, and the wait includes the way " +
			"back to the stored time",
		steps: []step{
			try(5).ok(5), read().after(-time.Minute).is(5).ahead(time.Minute), try(1).ok(6).ahead(time.Minute),
			try(6).no(6, time.Minute+2*time.Second).ahead(time.Minute), read().after(time.Minute).is(6),
			read().after(time.Second).is(5),
		},
	},
	{
		name: "clock behind by microseconds", c: 100, r: 15625,
		why: "a bucket's time must not go back at all: each call that sets it back lets the same microseconds leak again",
		steps: []step{
			always(90).ok(90), always(1).after(-time.Microsecond).ok(91).ahead(time.Microsecond),
			always(1).after(-63 * time.Microsecond).ok(92).ahead(64 * time.Microsecond),
			hold(1).after(-448 * time.Microsecond).ok(92).held(1).ahead(512 * time.Microsecond),
			drain(1).after(-487 * time.Microsecond).ok(91).took(1).held(1).ahead(999 * time.Microsecond),
			apply(always(1).ok(92).held(1).ahead(999 * time.Microsecond)),
			read().after(999 * time.Microsecond).is(92).held(1), read().after(64 * time.Microsecond).is(91).held(1),
		},
	},
	{
		name: "clock behind by more than MaxSkew", c: 10, r: 1,
		why: "a time that is not believed is set to the clock and the level stays: no room is created, and the " +
			"bucket is not frozen for hours",
		steps: []step{
			try(5).ok(5), read().after(-maxSkew - time.Microsecond).is(5), try(1).ok(6),
			read().after(time.Second).is(5),
			hold(2).ok(5).held(2), drain(1).after(-time.Hour).ok(4).took(1).held(2),
			read().after(2 * time.Second).is(2).held(2),
			release(2).after(-time.Hour).ok(4),
		},
	},
	{
		name: "a read does not mend a skewed time", c: 10, r: 1.0 / 64,
		why: "reads and n = 0 write nothing: they answer as if the stored time were the clock, and leave it",
		steps: []step{
			try(5).ok(5), read().after(-6 * time.Minute).is(5), try(0).ok(5),
			read().after(2 * time.Minute).is(5).ahead(4 * time.Minute),
		},
	},
	{
		name: "a refusal mends a skewed time", c: 10, r: 1.0 / 64,
		why: "the first call that finds a time that is not believed mends it, even if the call is refused; else " +
			"it would stay for ever",
		steps: []step{
			try(5).ok(5), try(5.5).after(-6*time.Minute).no(5, 32*time.Second).mends(),
			read().after(2 * time.Minute).is(5 - 120.0/64),
			refuse(try(9).no(5, 256*time.Second)).after(-10 * time.Minute).mends(),
			read().after(time.Minute).is(5 - 60.0/64), readLast().limit(10, 1.0/64).is(5 - 60.0/64),
		},
	},
	{
		name: "before 1970", c: 10, r: 1, from: (-10 * time.Second).Microseconds(),
		why: "a time before 1970 is a time like any other; a block that ends in microsecond 0 ends in the next, " +
			"because 0 stands for no block",
		steps: []step{
			try(8).ok(8), try(5).penalty(4*time.Second).no(8, 4*time.Second).blocked(4 * time.Second),
			try(9).after(2*time.Second).no(6, 5*time.Second).blocked(2 * time.Second),
			block(8 * time.Second).ok(6).blocked(8*time.Second + 1e3), try(7).no(6, 8*time.Second+1e3).blocked(8*time.Second + 1e3),
			try(1).after(8*time.Second).no(0, 1e3).blocked(1e3), try(1).after(time.Microsecond).ok(1),
			try(3).after(-2 * time.Second).ok(4).ahead(2 * time.Second), read().after(3 * time.Second).is(3),
		},
	},
	{
		name: "the end of time", c: 10, r: 1, from: store.MaxTime - (10 * time.Second).Microseconds(),
		why: "a wait or a block that would end after MaxTime is for ever",
		steps: []step{
			try(8).ok(8), try(10).no(8, 8*time.Second), fillup(10).after(5*time.Second).spill(10, 3, never),
			try(3).no(10, 3*time.Second), try(5).no(10, never),
			try(1).penalty(5*time.Second).no(10, never).blocked(5 * time.Second),
			read().after(4 * time.Second).is(6).blocked(time.Second), unblock().ok(6), try(4).full(10),
		},
	},
}
