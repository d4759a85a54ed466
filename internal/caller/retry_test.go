package caller

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/store"
)

func TestRetryWait(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name, why string
		retry     Retry
		deadline  time.Duration // 0 for none
		n         int
		after     time.Duration
		spread    time.Duration // the greatest random time; -1 for no retry
	}{
		{"first", "a second undoes the rounding of Retry-After", Retry{5, time.Minute}, 0, 0, 3 * s, s},
		{"at once", "a server may ask for no wait", Retry{5, time.Minute}, 0, 0, 0, s},
		{"third", "the bound doubles", Retry{5, time.Minute}, 0, 2, 3 * s, 4 * s},
		{"last", "n counts from 0", Retry{5, time.Minute}, 0, 4, 3 * s, 16 * s},
		{"too many", "all retries were used", Retry{5, time.Minute}, 0, 5, 3 * s, -1},
		{"none", "a negative number of retries means none", Retry{-1, time.Minute}, 0, 0, 3 * s, -1},
		{"bounded", "the bound is at most Longest", Retry{99, time.Minute}, 0, 98, 3 * s, time.Minute},
		{"the longest", "Longest bounds the time that is demanded, not the random one", Retry{5, time.Minute}, 0, 0, time.Minute, s},
		{"too long", "nobody waits longer than Longest", Retry{5, time.Minute}, 0, 0, time.Minute + 1, -1},
		{"short", "the bound is at most Longest", Retry{5, s / 10}, 0, 3, s / 20, s / 10},
		{"deadline", "half of the time left is for the call itself", Retry{5, time.Minute}, 5 * s, 4, 3 * s, s},
		{"at the deadline", "no time is left for the call", Retry{5, time.Minute}, 3 * s, 0, 3 * s, -1},
		{"long past deadline", "the time until then is the least Duration", Retry{5, time.Minute}, math.MinInt64, 0, 3 * s, -1},
		{"never", "Never is no time", Retry{5, math.MaxInt64}, 0, 0, store.Never, -1},
		{"longer than never", "the difference of two dates can be the largest Duration", Retry{5, math.MaxInt64}, 0, 0, math.MaxInt64, -1},
		{"nearly never", "the sum does not overflow", Retry{math.MaxInt, math.MaxInt64}, 0, 1 << 40, store.Never - 1, s << 32},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.deadline != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, time.Now().Add(c.deadline))
				defer cancel()
			}
			least, most := time.Duration(math.MaxInt64), time.Duration(-1)
			for range 1000 {
				wait, ok := c.retry.Wait(ctx, c.n, c.after)
				if !ok {
					break
				}
				least, most = min(least, wait), max(most, wait)
			}
			switch {
			case c.spread < 0:
				if most >= 0 {
					t.Errorf("%s: waits for up to %v; want no retry\nwhy: %s", c.name, most, c.why)
				}
			case least < c.after, most > c.after+c.spread, least > c.after+c.spread/10, most < c.after+c.spread/10*9:
				t.Errorf("%s: waits from %v to %v; want about %v to %v\nwhy: %s", c.name, least, most, c.after, c.after+c.spread, c.why)
			}
		})
	}
}
