package store

import (
	"testing"
)

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
