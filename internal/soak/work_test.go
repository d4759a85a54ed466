package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim"
)

const (
	callers = 64
	// hotShare is how many calls there are for one of the bucket that everybody wants.
	hotShare = 5
	hotKey   = "hot"
	// holds is how many units a caller keeps reserved, one in each of as many buckets.
	holds = 4
)

// start is where injected clocks begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// work is what callers do to one store.
type work struct {
	plan
	subject *subject
	lim     *brim.Limiter
	callers []*caller
	began   time.Time
	elapsed atomic.Int64 // nanoseconds of injected time
	calls   atomic.Int64
	pruned  atomic.Int64
	hotIn   atomic.Int64 // units
	leased  atomic.Int64 // of those, from memory
	refused atomic.Int64 // calls for the hot bucket, from memory
}

// caller is one of those who call. Its reservations last from round to round.
type caller struct {
	r    *rand.Rand
	held []brim.Bucket
}

func newWork(p plan) *work {
	w := &work{plan: p, began: time.Now()}
	for i := range callers {
		w.callers = append(w.callers, &caller{r: rand.New(rand.NewPCG(60, uint64(i)))})
	}
	return w
}

func (w *work) use(s *subject) { w.subject, w.lim = s, brim.New(s.store, nil) }

// clock is the clock for the store's options: nil for its own.
func (w *work) clock() func() time.Time {
	if w.real {
		return nil
	}
	return func() time.Time { return start.Add(time.Duration(w.elapsed.Load())) }
}

// run has all callers work for a round, and what is empty pruned meanwhile.
func (w *work) run(t *testing.T, round int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	end := time.Now().Add(w.round)
	left := atomic.Int64{}
	left.Store(int64(w.plan.calls))
	more := func() bool {
		if w.real {
			return time.Now().Before(end)
		}
		w.elapsed.Add(int64(w.round) / int64(w.plan.calls))
		return left.Add(-1) >= 0
	}
	var all sync.WaitGroup
	for _, c := range w.callers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil && more(); n++ {
				w.calls.Add(1)
				if err := c.call(ctx, w, round); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Go(func() {
		n, err := w.lim.Prune(ctx)
		w.pruned.Add(n)
		if err == nil && w.subject.tidy != nil && round%5 == 4 {
			err = w.subject.tidy()
		}
		if err != nil {
			cancel(err)
		}
	})
	all.Wait()
	if ctx.Err() != nil {
		t.Fatalf("round %d: %v", round, context.Cause(ctx))
	}
}

// call makes one call of those that a program may make, on a bucket that is in use in this round.
func (c *caller) call(ctx context.Context, w *work, round int) (err error) {
	if c.r.IntN(hotShare) == 0 {
		st, err := w.lim.TryFillup(ctx, w.hot.For(hotKey), 1)
		if st.Accepted {
			w.hotIn.Add(1)
		}
		switch {
		case st.Estimate && st.Accepted:
			w.leased.Add(1)
		case st.Estimate:
			w.refused.Add(1)
		}
		return err
	}
	b, n := c.bucket(w, round), float64(1+c.r.IntN(20))
	switch c.r.IntN(20) {
	case 0:
		_, err = w.lim.State(ctx, b)
	case 1:
		_, err = w.lim.AbleToAccept(ctx, b, n)
	case 2:
		_, err = w.lim.Drain(ctx, b, n)
	case 3, 4:
		_, err = w.lim.Fillup(ctx, b, n)
	case 5:
		err = w.lim.Reset(ctx, b.Key)
	case 6:
		_, err = w.lim.WithPenalty(w.round/4).TryFillup(ctx, b, n)
	case 7:
		_, err = w.lim.TryFillupAll(ctx, brim.Fill{Bucket: b, Amount: n}, brim.Fill{Bucket: c.bucket(w, round), Amount: 1})
	case 8, 9:
		err = c.hold(ctx, w.lim, b)
	case 10:
		if c.r.IntN(50) == 0 {
			for _, err = range w.lim.List(ctx, b.Key[:len(b.Key)-2]) {
				if err != nil {
					break
				}
			}
		}
	default:
		_, err = w.lim.TryFillup(ctx, b, n)
	}
	return err
}

// hold reserves a unit, and ends the oldest reservation where there are enough. Somebody may have reset its bucket since.
func (c *caller) hold(ctx context.Context, lim *brim.Limiter, b brim.Bucket) error {
	st, err := lim.Hold(ctx, b, 1)
	if err != nil {
		return err
	}
	if st.Accepted {
		c.held = append(c.held, b)
	}
	if len(c.held) <= holds {
		return nil
	}
	oldest := c.held[0]
	c.held = append(c.held[:0], c.held[1:]...)
	if c.r.IntN(2) == 0 {
		_, err = lim.Capture(ctx, oldest, 1, 1)
	} else {
		_, err = lim.Release(ctx, oldest, 1)
	}
	if errors.Is(err, brim.ErrNotHeld) {
		return nil
	}
	return err
}

// bucket draws one of those that are in use.
func (c *caller) bucket(w *work, round int) brim.Bucket {
	return w.limit.For(fmt.Sprintf("tenant:%07d", round*w.pace+c.r.IntN(w.keys)))
}

// hotShareOfBound is what the hot bucket let in, as a share of what it may.
func (w *work) hotShareOfBound() float64 {
	elapsed := time.Duration(w.elapsed.Load())
	if w.real {
		elapsed = time.Since(w.began)
	}
	return float64(w.hotIn.Load()) / (w.hot.Capacity + w.hot.LeakRate*elapsed.Seconds())
}

// check looks at what was decided, and that there was something to decide.
func (w *work) check(t *testing.T) {
	t.Helper()
	switch share := w.hotShareOfBound(); {
	case share > 1:
		t.Errorf("the hot bucket let in %.3f of what it holds and leaks", share)
	case share < 0.5:
		t.Errorf("the hot bucket let in %.3f of what it holds and leaks: too little to show that it is bound", share)
	}
	if leased, refused := w.leased.Load(), w.refused.Load(); w.subject.remembers && (leased == 0 || refused == 0) {
		t.Errorf("%d calls were accepted and %d refused from memory; want some of both", leased, refused)
	}
	if want := int64(w.rounds*w.pace) / 4; w.pruned.Load() < want {
		t.Errorf("%d buckets were pruned; want at least %d, or nothing shows that their room is used again", w.pruned.Load(), want)
	}
}
