package store

import (
	"testing"
	"time"
)

// TestModesWithoutAmount tests the modes that put nothing in.
func TestModesWithoutAmount(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	other := Limit{Capacity: 20, LeakRate: 2}
	full := Record{Level: 8, Held: 1, Time: noon, Limit: limit}
	blocked := func(r Record, until int64) Record { r.BlockedUntil = until; return r }
	ask := func(n float64) Op { return Op{Bucket: limit.For("k"), Amount: n, Mode: Ask} }
	block := func(d time.Duration) Op { return Op{Bucket: limit.For("k"), BlockFor: d, Mode: Block} }
	unblock := Op{Bucket: Bucket{Key: "k"}, Mode: Unblock}
	for _, c := range []struct {
		name, why string
		from      Record
		op        Op
		clock     int64
		want      State // without capacity, leak rate and At
		effect    Effect
		after     Record
	}{
		{
			"ask, fits", "the level is the level as it is, not as it would be", full, ask(3), at(2),
			State{Level: 6, Held: 1, Accepted: true},
			0, full,
		},
		{
			"ask to the capacity", "a question fills nothing, so it is not Full", full, ask(1), at(0),
			State{Level: 8, Held: 1, Accepted: true},
			0, full,
		},
		{
			"ask, does not fit", "the wait is that of a TryFillup", full, ask(3), at(0),
			State{Level: 8, Held: 1, RetryAfter: 2 * time.Second},
			0, full,
		},
		{
			"ask for more than the capacity", "no wait helps", full, ask(11), at(0),
			State{Level: 8, Held: 1, RetryAfter: Never},
			0, full,
		},
		{
			"ask for nothing", "nothing always fits, also into a blocked bucket", blocked(full, at(9)), ask(0), at(0),
			State{Level: 8, Held: 1, Accepted: true, BlockedUntil: toTime(at(9))},
			0, blocked(full, at(9)),
		},
		{
			"ask a blocked bucket", "nothing fits before the end of the block", blocked(full, at(9)), ask(1), at(4),
			State{Level: 4, Held: 1, RetryAfter: 5 * time.Second, BlockedUntil: toTime(at(9))},
			0, blocked(full, at(9)),
		},
		{
			"ask a skewed bucket", "a question does not mend a time", full, ask(3), at(-3600),
			State{Level: 8, Held: 1, RetryAfter: 2 * time.Second},
			0, full,
		},
		{
			"block", "level, held units, time and limit stay", full,
			Op{Bucket: other.For("k"), BlockFor: time.Minute, Mode: Block},
			at(2),
			State{Level: 6, Held: 1, Accepted: true, BlockedUntil: toTime(at(62))},
			Write, blocked(full, at(62)),
		},
		{
			"block an empty bucket", "the block creates the bucket, with the limit of the call",
			NewRecord(noon), block(time.Minute), noon,
			State{Accepted: true, BlockedUntil: toTime(at(60))},
			Write,
			Record{Time: noon, Limit: limit, BlockedUntil: at(60)},
		},
		{
			"prolong a block", "a longer block counts", blocked(full, at(9)), block(time.Minute), noon,
			State{Level: 8, Held: 1, Accepted: true, BlockedUntil: toTime(at(60))},
			Write, blocked(full, at(60)),
		},
		{
			"a shorter block", "a block is never shortened", blocked(full, at(90)), block(time.Minute), noon,
			State{Level: 8, Held: 1, Accepted: true, BlockedUntil: toTime(at(90))},
			0, blocked(full, at(90)),
		},
		{
			"block until empty", "held units do not leak, so the block does not wait for them", full, block(UntilEmpty), at(3),
			State{Level: 5, Held: 1, Accepted: true, BlockedUntil: toTime(at(8))},
			Write, blocked(full, at(8)),
		},
		{
			"block an empty bucket until it is empty", "that is now: nothing to write",
			NewRecord(noon), block(UntilEmpty), noon,
			State{Accepted: true},
			0, NewRecord(noon),
		},
		{
			"block a skewed bucket", "the block begins at the clock, and the time is mended", full, block(time.Minute), at(-3600),
			State{Level: 8, Held: 1, Accepted: true, BlockedUntil: toTime(at(-3540))},
			Write | Skewed,
			Record{Level: 8, Held: 1, Time: at(-3600), Limit: limit, BlockedUntil: at(-3540)},
		},
		{
			"unblock", "only the block changes, and the state is by the limit last written",
			blocked(full, at(60)), unblock, at(2),
			State{Level: 6, Held: 1, Accepted: true},
			Write, full,
		},
		{
			"unblock by a limit", "the state is by that limit, and the stored limit stays",
			blocked(full, at(60)),
			Op{Bucket: other.For("k"), Mode: Unblock},
			at(2),
			State{Level: 6, Held: 1, Accepted: true},
			Write, full,
		},
		{
			"unblock after the end of the block", "the block would begin again if the clock stepped back",
			blocked(full, at(1)), unblock, at(2),
			State{Level: 6, Held: 1, Accepted: true},
			Write, full,
		},
		{
			"unblock a bucket without a block", "there is nothing to write", full, unblock, at(2),
			State{Level: 6, Held: 1, Accepted: true},
			0, full,
		},
		{
			"unblock no bucket", "no bucket appears", NewRecord(noon), unblock, noon,
			State{Accepted: true},
			0, NewRecord(noon),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.from
			got, effect, err := r.Fill(&c.op, c.clock, DefaultMaxSkew)
			if err != nil {
				t.Fatal(err)
			}
			by := c.op.Limit
			if by == (Limit{}) {
				by = c.from.Limit
			}
			now := max(c.clock, c.from.Time)
			if c.from.Time-c.clock > DefaultMaxSkew.Microseconds() {
				now = c.clock
			}
			c.want.Capacity, c.want.LeakRate, c.want.At = by.Capacity, by.LeakRate, toTime(now)
			if got != c.want || effect != c.effect || r != c.after {
				t.Errorf("\n got %+v, %v, %+v\nwant %+v, %v, %+v\nwhy: %s",
					got, effect, r, c.want, c.effect, c.after, c.why)
			}
		})
	}
}

// TestDecideAsks compares transactions that ask with the same transactions that fill.
func TestDecideAsks(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	op := func(key string, n float64) Op { return Op{Bucket: limit.For(key), Amount: n} }
	for _, c := range []struct {
		name string
		txn  Txn
	}{
		{"all fit", Txn{op("a", 3), op("b", 2)}},
		{"one does not", Txn{op("a", 3), op("b", 3), op("c", 1)}},
		{"amounts of one key add up", Txn{op("a", 4), op("b", 1), op("a", 5)}},
		{"never", Txn{op("a", 6), op("a", 5)}},
		{"a hold", Txn{{Bucket: limit.For("a"), Hold: 4}, op("a", 5)}},
		{"nothing", Txn{op("b", 0)}},
	} {
		for _, clock := range []int64{noon, at(1.5), at(-3600)} {
			records := func() map[string]*Record {
				return map[string]*Record{
					"a": {Level: 2, Time: noon, Limit: limit},
					"b": {Level: 8, Time: noon, Limit: limit},
				}
			}
			asks := make(Txn, len(c.txn))
			for i := range c.txn {
				asks[i] = c.txn[i]
				asks[i].Mode = Ask
			}
			kept, untouched := records(), records()
			asked, written := decide(t, kept, asks, clock)
			filled, _ := decide(t, records(), c.txn, clock)
			if asked.Accepted != filled.Accepted || asked.Err != nil || len(written) != 0 {
				t.Errorf("%s: %+v, writes %v; want accepted = %v and no write", c.name, asked, written, filled.Accepted)
			}
			for i := range c.txn {
				got, want := asked.States[i], filled.States[i]
				if got.Accepted != want.Accepted || got.RetryAfter != want.RetryAfter || got.At != want.At {
					t.Errorf("%s: operation %d asks %+v, fills %+v", c.name, i, got, want)
				}
				key := c.txn[i].Key
				before := untouched[key]
				if before == nil {
					fresh := NewRecord(clock)
					before = &fresh
				}
				if now := before.State(limit, clock, DefaultMaxSkew); got.Level != now.Level || got.Held != now.Held || got.Full {
					t.Errorf("%s: operation %d reports %+v; want the bucket as it is, %+v", c.name, i, got, now)
				}
				if *kept[key] != *before {
					t.Errorf("%s: a question changed %s from %+v to %+v", c.name, key, *before, *kept[key])
				}
			}
		}
	}
}

// TestDecideUnblocks tests transactions that end a block and fill.
func TestDecideUnblocks(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	unblock := Op{Bucket: Bucket{Key: "a"}, Mode: Unblock}
	fill := Op{Bucket: limit.For("a"), Amount: 1}
	for _, c := range []struct {
		name     string
		txn      Txn
		accepted bool
		until    int64
	}{
		{"unblock and fill", Txn{unblock, fill}, true, 0},
		{"fill and unblock", Txn{fill, unblock}, false, at(60)},
		{"unblock, and a fill that does not fit", Txn{unblock, {Bucket: limit.For("a"), Amount: 11}}, false, at(60)},
		{"block and fill", Txn{{Bucket: limit.For("a"), BlockFor: time.Hour, Mode: Block}, fill}, false, at(60)},
		{"block", Txn{{Bucket: limit.For("a"), BlockFor: time.Hour, Mode: Block}}, true, at(3600)},
	} {
		kept := map[string]*Record{"a": {Level: 2, Time: noon, Limit: limit, BlockedUntil: at(60)}}
		res, written := decide(t, kept, c.txn, noon)
		if res.Accepted != c.accepted || res.Err != nil || kept["a"].BlockedUntil != c.until || written["a"] != c.accepted {
			t.Errorf("%s: %+v, record %+v, writes %v; want accepted = %v, blocked until %d",
				c.name, res, kept["a"], written, c.accepted, c.until)
		}
	}
}
