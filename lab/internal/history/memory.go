package history

import (
	"maps"
	"time"

	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// Remembered reports whether a refusal from memory is true, as package local has it, for a store
// with the content of m when its clock shows a time. The store would have refused op, too. The
// level, the held units and the wait of the answer are lower bounds. The other fields are those of
// a refusal, but for the time. m.Slack is the rounding that is allowed.
func Remembered(m storetest.Model, op store.Op, clock time.Time, got store.State) bool {
	if m.Slack > 0 {
		if op.Ceiling == 0 {
			op.Ceiling = op.Capacity
		}
		op.Ceiling -= m.Slack
	}
	refusal := func(at time.Time) (store.State, bool) {
		m := m
		m.Buckets = maps.Clone(m.Buckets)
		res, _ := m.Fill(op, at, nil)
		if len(res.States) == 0 || res.Accepted {
			return store.State{}, false
		}
		return res.States[0], true
	}
	want, refused := refusal(clock)
	if !refused || got.Level > want.Level+m.Slack || got.Held > want.Held+m.Slack || got.RetryAfter <= 0 {
		return false
	}
	want.Level, want.Held, want.RetryAfter, want.At, want.Estimate = got.Level, got.Held, got.RetryAfter, got.At, true
	if want != got {
		return false
	}
	if last := got.RetryAfter - 2*time.Microsecond; last > 0 && got.RetryAfter < store.Never {
		_, refused = refusal(clock.Add(last))
	}
	return refused
}
