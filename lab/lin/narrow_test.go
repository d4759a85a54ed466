package lin

import (
	"testing"
	"time"
)

// TestNarrow: the times of decisions narrow their intervals as far as the model allows no other
// order.
func TestNarrow(t *testing.T) {
	at := func(began, over, us int64) *call {
		c := charged(began, over, 5)
		a, _ := c.out.(spendAnswer)
		a.At = time.UnixMicro(us)
		c.out = a
		return c
	}
	mending := func(c *call) *call {
		c.in = spendRequest{Verb: mend, Number: 2}
		return c
	}
	elsewhere := at(4, 6, 20)
	a, _ := elsewhere.out.(spendAnswer)
	a.Remaining = nil
	elsewhere.out = a
	for _, c := range []struct {
		name  string
		calls []*call
		want  [][2]int64
		why   string
	}{
		{"a slow call", []*call{at(1, 9, 10), at(4, 6, 20)}, [][2]int64{{1, 6}, {4, 6}}, "the later decision is over at 6"},
		{"a call that waits", []*call{at(4, 6, 10), at(1, 9, 20)}, [][2]int64{{4, 6}, {4, 9}}, "the earlier decision begins at 4"},
		{"one time", []*call{at(1, 9, 10), at(4, 6, 10)}, [][2]int64{{1, 9}, {4, 6}}, "any order is possible"},
		{"no account in common", []*call{at(1, 9, 10), elsewhere}, [][2]int64{{1, 9}, {4, 6}}, "accounts have their own times"},
		{"as before", []*call{at(1, 9, 10), replayed(at(4, 6, 20))}, [][2]int64{{1, 9}, {4, 6}}, "the time is that of another call"},
		{
			"mended meanwhile",
			[]*call{at(1, 9, 10), at(4, 6, 20), mending(at(5, 7, 10))},
			[][2]int64{{1, 9}, {4, 6}, {5, 7}},
			"the account may have been ahead, and then mended",
		},
		{
			"maybe mended",
			[]*call{at(1, 9, 10), at(4, 6, 20), lost(mending(at(5, 7, 30)))},
			[][2]int64{{1, 9}, {4, 6}, {5, 7}},
			"nobody knows the time of the mending",
		},
		{
			"mended later",
			[]*call{at(1, 9, 10), at(4, 6, 20), mending(at(5, 7, 30))},
			[][2]int64{{1, 6}, {4, 6}, {5, 7}},
			"the mending left a time that is later than that of the slow call",
		},
		{
			"mended before",
			[]*call{mending(at(1, 2, 10)), at(3, 9, 10), at(4, 6, 20)},
			[][2]int64{{1, 2}, {3, 6}, {4, 6}},
			"the mending was over before the later decision began",
		},
		{
			"mended after",
			[]*call{at(2, 4, 10), at(1, 9, 20), mending(at(5, 7, 10))},
			[][2]int64{{2, 4}, {2, 9}, {5, 7}},
			"the mending began when the earlier decision was over",
		},
		{"false times", []*call{at(1, 2, 20), at(3, 4, 10)}, [][2]int64{{1, 2}, {3, 4}}, "the model must find it"},
		{
			"false times of two",
			[]*call{at(1, 3, 30), at(2, 9, 20), at(4, 6, 10)},
			[][2]int64{{2, 3}, {2, 9}, {4, 6}},
			"the call between them has no interval, so the model must find it",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, op := range operations(c.calls) {
				if got := [2]int64{op.Call, op.Return}; got != c.want[i] {
					t.Errorf("call %d is from %d to %d, want %v: %s", i, got[0], got[1], c.want[i], c.why)
				}
			}
		})
	}
}
