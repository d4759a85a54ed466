package store

import (
	"errors"
	"testing"
	"time"
)

// decide runs Decide on records by key. It returns the result and the keys of the records to
// write.
func decide(t *testing.T, kept map[string]*Record, txn Txn, clock int64) (Result, map[string]bool) {
	t.Helper()
	recs := make([]*Record, len(txn))
	for i, op := range txn {
		if kept[op.Key] == nil {
			r := NewRecord(clock)
			kept[op.Key] = &r
		}
		recs[i] = kept[op.Key]
	}
	res, effects := Decide(txn, recs, clock, DefaultMaxSkew)
	if len(effects) != len(txn) {
		t.Fatalf("%d effects for %d operations", len(effects), len(txn))
	}
	written := make(map[string]bool)
	for i, e := range effects {
		if e&Write != 0 {
			written[txn[i].Key] = true
		}
	}
	return res, written
}

func TestDecide(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	try := func(key string, n float64) Op { return Op{Bucket: limit.For(key), Amount: n} }
	release := func(key string, n float64) Op { return Op{Bucket: limit.For(key), Hold: -n, Mode: Always} }
	drain := func(key string, n float64) Op { return Op{Bucket: limit.For(key), Amount: -n, Mode: Always} }
	fillup := func(key string, n float64) Op { return Op{Bucket: limit.For(key), Amount: n, Mode: Clamp} }
	penalty := func(op Op, d time.Duration) Op { op.BlockFor = d; return op }
	cases := []struct {
		name, why string
		txn       Txn
		accepted  bool
		err       error
		retry     []time.Duration
		written   string             // keys of the records to write, one letter each
		levels    map[string]float64 // afterwards; a has 2 before, b has 8, c does not exist
	}{
		{
			"no operations", "no operation refuses", Txn{}, true, nil, nil, "", nil,
		},
		{
			"all fit", "all operations go in",
			Txn{try("a", 3), try("b", 2), try("c", 1)},
			true, nil,
			[]time.Duration{0, 0, 0},
			"abc",
			map[string]float64{"a": 5, "b": 10, "c": 1},
		},
		{
			"one does not fit", "no operation goes in, and only the refused one has a wait",
			Txn{try("a", 3), try("b", 3), try("c", 1)},
			false, nil,
			[]time.Duration{0, time.Second, 0},
			"",
			map[string]float64{"a": 2, "b": 8, "c": 0},
		},
		{
			"a later operation sees an earlier one", "amounts for one key add up",
			Txn{try("a", 3), try("a", 5)},
			true, nil,
			[]time.Duration{0, 0},
			"a",
			map[string]float64{"a": 10},
		},
		{
			"together too much for now", "the wait is until both operations fit",
			Txn{try("a", 4), try("a", 5)},
			false, nil,
			[]time.Duration{0, time.Second},
			"",
			map[string]float64{"a": 2},
		},
		{
			"together more than the capacity", "after a wait for one operation alone, both together would still not fit",
			Txn{try("a", 6), try("a", 5)},
			false, nil,
			[]time.Duration{0, Never},
			"",
			map[string]float64{"a": 2},
		},
		{
			"a drain first", "the drain makes room, but not below an empty bucket",
			Txn{drain("b", 100), try("b", 9), try("b", 2)},
			false, nil,
			[]time.Duration{0, 0, Never},
			"",
			map[string]float64{"b": 8},
		},
		{
			"a Fillup first", "the wait is until the Fillup goes in wholly and leaves room for the rest",
			Txn{fillup("b", 4), try("b", 3)},
			false, nil,
			[]time.Duration{0, 5 * time.Second},
			"",
			map[string]float64{"b": 8},
		},
		{
			"two refused on one key", "both operations have the same wait",
			Txn{try("b", 4), try("b", 5), try("a", 9)},
			false, nil,
			[]time.Duration{7 * time.Second, 7 * time.Second, time.Second},
			"",
			map[string]float64{"b": 8},
		},
		{
			"an error", "an error undoes the operations before it",
			Txn{try("a", 3), release("b", 1)},
			false, ErrNotHeld, nil, "",
			map[string]float64{"a": 2, "b": 8},
		},
		{
			"penalties", "a penalty blocks only the buckets that refused",
			Txn{penalty(try("a", 3), time.Minute), penalty(try("b", 3), time.Minute)},
			false, nil,
			[]time.Duration{0, time.Minute},
			"b",
			map[string]float64{"a": 2, "b": 8},
		},
		{
			"a penalty until empty after a drain",
			"the block lasts until the stored level has leaked, not the level after the refused drain",
			Txn{drain("b", 4), penalty(try("b", 7), UntilEmpty)},
			false, nil,
			[]time.Duration{0, 8 * time.Second},
			"b",
			map[string]float64{"b": 8},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			kept := map[string]*Record{
				"a": {Level: 2, Time: noon, Limit: limit},
				"b": {Level: 8, Time: noon, Limit: limit},
			}
			res, written := decide(t, kept, c.txn, noon)
			if res.Accepted != c.accepted || !errors.Is(res.Err, c.err) {
				t.Fatalf("%+v, want accepted = %v, err %v\nwhy: %s", res, c.accepted, c.err, c.why)
			}
			for i, want := range c.retry {
				if got := res.States[i]; got.RetryAfter != want || got.Accepted != c.accepted {
					t.Errorf("operation %d: %+v, want RetryAfter %v, accepted = %v\nwhy: %s",
						i, got, want, c.accepted, c.why)
				}
			}
			for _, key := range []string{"a", "b", "c"} {
				want := false
				for _, w := range c.written {
					want = want || string(w) == key
				}
				if written[key] != want {
					t.Errorf("write %s = %v, want %v\nwhy: %s", key, written[key], want, c.why)
				}
			}
			for key, want := range c.levels {
				if got := kept[key].Level; got != want {
					t.Errorf("level of %s is %v, want %v\nwhy: %s", key, got, want, c.why)
				}
			}
		})
	}
}

func TestDecideMendsTimes(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	kept := map[string]*Record{
		"a": {Level: 2, Time: noon, Limit: limit},
		"b": {Level: 8, Time: noon, Limit: limit},
		"c": {Level: 3, Time: noon, Limit: limit},
	}
	txn := Txn{{Bucket: limit.For("a"), Amount: 1}, {Bucket: limit.For("b"), Amount: 3}, {Bucket: limit.For("c")}}
	res, written := decide(t, kept, txn, at(-3600))
	if res.Accepted || !written["a"] || !written["b"] || written["c"] {
		t.Errorf("%+v, writes %v; want a refusal that sets the times of a and b to the clock, and not the time of c, whose amount is 0",
			res, written)
	}
	if kept["a"].Time != at(-3600) || kept["b"].Time != at(-3600) || kept["c"].Time != noon || kept["a"].Level != 2 {
		t.Errorf("records after the refusal: %+v, %+v, %+v", kept["a"], kept["b"], kept["c"])
	}
}
