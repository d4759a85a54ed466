package storetest

import "time"

var ceilingCases = []testCase{
	{
		name: "ceiling", c: 10, r: 1,
		why: "a ceiling lowers the capacity for its own call: the wait is for room under it, and it is not stored",
		steps: []step{
			try(3).ceiling(4).ok(3), try(2).ceiling(4).no(3, time.Second), hold(2).ceiling(4).no(3, time.Second),
			try(5).ceiling(4).no(3, never), readLast().limit(10, 1).is(3), try(1).ceiling(4).ok(4), try(6).full(10),
		},
	},
	{
		name: "a ceiling above the capacity", c: 10, r: 1,
		why: "a ceiling above the capacity changes nothing: the lower of the two decides",
		steps: []step{
			try(6).ceiling(100).ok(6), try(6).ceiling(100).no(6, 2*time.Second), try(11).ceiling(100).no(6, never),
		},
	},
	{
		name: "Fillup under a ceiling", c: 10, r: 1,
		why: "units above the ceiling are lost; a level that was already above it stays",
		steps: []step{
			fillup(8).ceiling(6).spill(6, 2, never), fillup(1).ok(7), fillup(1).ceiling(6).spill(7, 1, 2*time.Second),
			always(1).ceiling(6).ok(8),
		},
	},
	{
		name: "a ceiling that sinks", c: 100, r: 1,
		why: "a caller that takes units back names the level that it found and its time; that ceiling sinks as " +
			"the bucket leaks",
		steps: []step{
			// 6 went in on top of 14, and nobody has put units in since.
			try(14).ok(14), try(6).ok(20), try(-6).ceiling(14).since(5 * time.Second).after(5 * time.Second).ok(9).took(6),
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
		name: "a ceiling that sinks below empty", c: 100, r: 1,
		why: "a ceiling can sink below zero: then nothing fits under it, and nothing panics",
		steps: []step{
			try(4).ok(4), try(1).ceiling(5).since(time.Hour).after(time.Hour).no(0, never),
			fillup(1).ceiling(5).since(time.Hour).spill(0, 1, never),
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
	{
		name: "taking out if it fits", c: 10, r: 1,
		why: "a negative amount in mode IfFits stops at an empty bucket, and is refused if the level that it " +
			"leaves is above the capacity",
		steps: []step{
			try(4).ok(4), try(-1).ok(3).took(1), try(-10).ok(0).took(3), always(25).full(25), try(-1).no(25, 14*time.Second),
			try(-15).ok(10).took(15),
		},
	},
}
