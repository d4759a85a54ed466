package storetest

import "time"

var ceilingCases = []testCase{
	{
		name: "ceiling", c: 10, r: 1,
		why: "a ceiling tightens the capacity for its call alone: the wait is for room under it, and it is not stored",
		steps: []step{
			try(3).ceiling(4).ok(3), try(2).ceiling(4).no(3, time.Second), hold(2).ceiling(4).no(3, time.Second),
			try(5).ceiling(4).no(3, never), readLast().limit(10, 1).is(3), try(1).ceiling(4).ok(4), try(6).full(10),
		},
	},
	{
		name: "a ceiling above the capacity", c: 10, r: 1,
		why:   "a ceiling tightens and never loosens: fits is against min(c, ceiling)",
		steps: []step{try(6).ceiling(100).ok(6), try(6).ceiling(100).no(6, 2*time.Second), try(11).ceiling(100).no(6, never)},
	},
	{
		name: "Fillup under a ceiling", c: 10, r: 1,
		why: "what exceeds the ceiling is lost; a level above it stays",
		steps: []step{
			fillup(8).ceiling(6).spill(6, 2, never), fillup(1).ok(7), fillup(1).ceiling(6).spill(7, 1, 2*time.Second), always(1).ceiling(6).ok(8),
		},
	},
	{
		name: "a ceiling that sinks", c: 100, r: 1,
		why: "who takes back what it put in names the level that it would leave, and when: that ceiling sinks as the bucket leaks",
		steps: []step{
			// 6 went in on top of 14, and 5 seconds later nobody has come behind.
			try(14).ok(14), try(6).ok(20), try(-6).ceiling(14).since(5 * time.Second).after(5 * time.Second).ok(9),
		},
	},
	{
		name: "a ceiling that sinks, with somebody behind", c: 100, r: 1,
		why: "taking back after somebody has queued behind would give two the same turn",
		steps: []step{
			try(14).ok(14), try(6).ok(20), try(1).after(time.Second).ok(20),
			try(-6).ceiling(14).since(5*time.Second).after(4*time.Second).no(16, never),
			drain(1).ok(15), try(-6).ceiling(14).since(5 * time.Second).ok(9),
		},
	},
	{
		name: "a ceiling that sinks below empty", c: 100, r: 1,
		why: "a ceiling below zero is a bucket that has long been empty: nothing fits under it, and nothing panics",
		steps: []step{
			try(4).ok(4), try(1).ceiling(5).since(time.Hour).after(time.Hour).no(0, never), fillup(1).ceiling(5).since(time.Hour).spill(0, 1, never),
		},
	},
	{
		name: "a ceiling of a time that is not believed", c: 1000, r: 1,
		why: "a clock that was set right can be behind CeilingAt: a ceiling that rose by as much would let a place be given twice",
		steps: []step{
			try(14).ok(14), try(6).ok(20), try(1).ok(21),
			try(-6).ceiling(14).since(-time.Hour).after(-time.Hour).no(21, never),
			drain(1).ok(20), try(-6).ceiling(14).since(-time.Hour).ok(14),
		},
	},
	{
		name: "taking out if it fits", c: 10, r: 1,
		why: "a negative amount in mode IfFits stops at empty, and is refused like any other where it would not fit",
		steps: []step{
			try(4).ok(4), try(-1).ok(3), try(-10).ok(0), always(25).full(25), try(-1).no(25, 14*time.Second), try(-15).ok(10),
		},
	},
}
