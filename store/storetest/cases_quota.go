package storetest

import (
	"time"

	"github.com/brimgo/brim/store"
)

// Midnights of three days of UTC, in microseconds since 1970.
const (
	today    = 20_833 * 86_400_000_000
	tomorrow = today + 86_400_000_000
	later    = tomorrow + 86_400_000_000

	noon = today + 43_200_000_000
)

func (s step) today() step    { return s.per(10, today, tomorrow) }
func (s step) tomorrow() step { return s.per(10, tomorrow, later) }

// quotaCases are about quotas of the calendar.
var quotaCases = []testCase{
	{
		name: "a quota within its period", c: 10, r: 1, from: noon,
		why: "nothing leaks before the end of the period, and the wait is the time to the end; no part of a quota is free earlier",
		steps: []step{
			try(4).today().ok(4), try(6).today().after(time.Hour).full(10), try(1).today().after(time.Hour).no(10, 10*time.Hour),
			ask(1).today().no(10, 10*time.Hour), fillup(1).today().spill(10, 1, 10*time.Hour), drain(1).today().ok(9).took(1),
			upTo(1, 5).today().full(10).gave(1), readLast().after(9 * time.Hour).is(10),
		},
	},
	{
		name: "a quota at the end of its period", c: 10, r: 1, from: noon,
		why: "the period ends at its end, to the microsecond, and all is free then, whether anybody calls or not",
		steps: []step{
			try(10).today().full(10), try(1).today().after(12*time.Hour-time.Microsecond).no(10, time.Microsecond),
			readLast().after(time.Microsecond).is(0), try(10).tomorrow().full(10), try(1).tomorrow().no(10, 24*time.Hour),
		},
	},
	{
		name: "more than a quota", c: 10, r: 1, from: noon,
		why: "no end of a period makes room for more than the capacity, or beside held units, which stay held",
		steps: []step{
			try(11).today().no(0, store.Never), try(4).today().ok(4), hold(4).today().ok(4).held(4),
			try(7).today().no(4, store.Never).held(4), try(3).today().no(4, 12*time.Hour).held(4),
			try(7).tomorrow().after(12*time.Hour).no(0, store.Never).held(4).mends(), release(4).tomorrow().ok(0),
			try(7).tomorrow().ok(7),
		},
	},
	{
		name: "a quota in another period", c: 10, r: 1, from: noon,
		why: "the store's clock decides which period it is: an operation in another one changes nothing, nor does its " +
			"transaction, and the caller asks again",
		steps: []step{
			try(5).today().ok(5), try(1).tomorrow().fails(errPeriod), try(0).tomorrow().fails(errPeriod),
			ask(1).tomorrow().fails(errPeriod), always(1).tomorrow().fails(errPeriod),
			apply(try(1).today(), try(1).on("b").tomorrow()).fails(errPeriod), readLast().is(5), rows("a"),
			try(1).today().after(12 * time.Hour).fails(errPeriod), readLast().is(0),
		},
	},
	{
		name: "from a rate to a quota and back", c: 10, r: 1, from: noon,
		why: "past time leaks by the limit last written, whatever its kind, so a change of the kind makes no room",
		steps: []step{
			try(5).ok(5), try(1).today().after(2 * time.Second).ok(4), read().after(time.Hour).is(4).leaks(-tomorrow), try(1).ok(5),
			readLast().after(time.Second).is(4), try(3).today().ok(7), try(4).no(7, time.Second).mends(),
			try(4).after(time.Second).full(10), try(0).today().ok(10).leaks(1), ask(4).today().no(10, 4*time.Second).leaks(1), always(1).today().full(11),
			ask(4).no(11, 11*time.Hour-4*time.Second).leaks(-tomorrow), read().after(11 * time.Hour).is(0), try(1).ok(1),
		},
	},
	{
		name: "a step back across the end of a period", c: 10, r: 1, from: tomorrow + 30_000_000,
		why: "a bucket's time never goes back, so its period does not either, and a new bucket is in the period of the clock",
		steps: []step{
			try(4).tomorrow().ok(4), try(1).tomorrow().after(-time.Minute).ok(5).ahead(time.Minute),
			try(6).tomorrow().no(5, 24*time.Hour+30*time.Second).ahead(time.Minute), try(1).today().fails(errPeriod),
			try(2).on("b").today().ok(2), try(1).on("b").tomorrow().fails(errPeriod),
		},
	},
	{
		name: "two periods in a transaction", c: 10, r: 1, from: tomorrow + 30_000_000,
		why: "after a step back two buckets can be in two periods, and their operations still go in together or not at all",
		steps: []step{
			try(4).tomorrow().ok(4),
			apply(try(1).tomorrow().ok(5).ahead(time.Minute), try(1).on("b").today().ok(1), try(1).on("c").ok(1)).after(-time.Minute),
			refuse(try(6).tomorrow().no(5, 24*time.Hour+30*time.Second).ahead(time.Minute), try(1).on("b").today().is(1), try(1).on("c").is(1)),
			refuse(try(1).tomorrow().is(5).ahead(time.Minute), try(10).on("b").today().no(1, 30*time.Second), try(1).on("c").is(1)),
		},
	},
}
