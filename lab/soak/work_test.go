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
	// hotShare is the share of all calls that goes to each of the two buckets that everybody
	// wants.
	hotShare  = 0.1
	scarceKey = "scarce"
	ampleKey  = "ample"
	// holds is the number of reservations that a caller keeps. Each is one unit in a bucket of its
	// own.
	holds = 4
	// fromAllotments is the least share of the calls on the ample bucket that wrappers serve from
	// allotments.
	fromAllotments = 0.2
)

// work is the load of all callers on one store.
type work struct {
	plan
	subject *subject
	lim     *brim.Limiter
	callers []*caller
	began   time.Time
	calls   atomic.Int64
	pruned  atomic.Int64
	in      atomic.Int64 // units that the scarce bucket admitted
	refused atomic.Int64 // calls on the scarce bucket that were refused from memory
	asked   atomic.Int64 // calls on the ample bucket
	leased  atomic.Int64 // calls on the ample bucket that were accepted from memory
}

// caller is one goroutine in each round. Its reservations last from round to round.
type caller struct {
	r      *rand.Rand
	held   []brim.Bucket
	spends []string // IDs of holds in a ledger
}

func newWork(p plan) *work {
	w := &work{plan: p, began: time.Now()}
	for i := range callers {
		w.callers = append(w.callers, &caller{r: p.seed.Part(i).Rand()})
	}
	return w
}

// use makes the callers work on the subject: on its duty, or else on the buckets of its store.
func (w *work) use(s *subject) {
	if w.subject = s; s.duty == nil {
		w.lim = brim.New(s.store, nil)
		s.duty = &buckets{w}
	}
}

// duty is the work that the callers have to do.
type duty interface {
	// call makes one random call.
	call(ctx context.Context, c *caller, round int) error
	// prune removes data that is no longer needed, and returns the number of its pieces.
	prune(ctx context.Context) (int64, error)
	// check compares the decisions with their bounds, and fails if the load was too low to prove
	// anything.
	check(t *testing.T)
	// story tells how much of the load reached the bounds.
	story() string
	close() error
}

// buckets is the duty of a store: calls of a Limiter.
type buckets struct{ *work }

func (b *buckets) call(ctx context.Context, c *caller, round int) error {
	return c.call(ctx, b.work, round)
}
func (b *buckets) prune(ctx context.Context) (int64, error) { return b.lim.Prune(ctx) }
func (b *buckets) close() error                             { return b.subject.store.Close() }

func (b *buckets) story() string {
	return fmt.Sprintf("the scarce bucket admitted %.3f of its bound; allotments served %d of %d calls",
		b.shareOfBound(), b.leased.Load(), b.asked.Load())
}

// run lets all callers work for a round, and prunes empty buckets meanwhile.
func (w *work) run(t *testing.T, round int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	end := time.Now().Add(w.round)
	var all sync.WaitGroup
	for _, c := range w.callers {
		all.Go(func() {
			for ctx.Err() == nil && time.Now().Before(end) {
				w.calls.Add(1)
				if err := w.subject.duty.call(ctx, c, round); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Go(func() {
		n, err := w.subject.duty.prune(ctx)
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

// call makes one random call: on a bucket that everybody wants, or on a tenant's bucket that is
// in use in this round.
func (c *caller) call(ctx context.Context, w *work, round int) error {
	switch p := c.r.Float64(); {
	case p < hotShare:
		return w.fillScarce(ctx)
	case p < 2*hotShare:
		return w.fillAmple(ctx)
	}
	return c.onTenant(ctx, w, round)
}

func (w *work) fillScarce(ctx context.Context) error {
	st, err := w.lim.TryFillup(ctx, w.scarce.For(scarceKey), 1)
	switch {
	case err != nil:
	case st.Accepted:
		w.in.Add(1)
	case st.Estimate:
		w.refused.Add(1)
	}
	return err
}

func (w *work) fillAmple(ctx context.Context) error {
	w.asked.Add(1)
	st, err := w.lim.TryFillup(ctx, ample.For(ampleKey), 1)
	switch {
	case err != nil:
		return err
	case !st.Accepted:
		return fmt.Errorf("the ample bucket refused one unit: %+v", st)
	case st.Estimate:
		w.leased.Add(1)
	}
	return nil
}

func (c *caller) onTenant(ctx context.Context, w *work, round int) (err error) {
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

// hold reserves a unit, and ends the caller's oldest reservation if it has more than holds of
// them. Another caller may have reset the bucket of that reservation.
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

// bucket draws one of the tenants' buckets that are in use.
func (c *caller) bucket(w *work, round int) brim.Bucket {
	return w.limit.For(fmt.Sprintf("tenant:%07d", round*w.pace+c.r.IntN(w.keys)))
}

// shareOfBound returns the units that the scarce bucket admitted, divided by the most that it may
// admit in the time that has passed.
func (w *work) shareOfBound() float64 { return float64(w.in.Load()) / w.most(w.scarce) }

// most returns the most units that a bucket may admit in the time that has passed.
func (w *work) most(limit brim.Limit) float64 {
	return limit.Capacity + limit.LeakRate*w.passed().Seconds()
}

// passed returns the time since the load began.
func (w *work) passed() time.Duration { return time.Since(w.began) }

func (b *buckets) check(t *testing.T) {
	t.Helper()
	switch share := b.shareOfBound(); {
	case share > 1:
		t.Errorf("the scarce bucket admitted %.3f of the most that it may admit", share)
	case share < 0.5:
		t.Errorf("the scarce bucket admitted %.3f of the most that it may admit; too little to prove the bound", share)
	}
	if b.subject.refuses && b.refused.Load() == 0 {
		t.Error("no call on the scarce bucket was refused from memory")
	}
	if b.subject.leases {
		if asked, leased := b.asked.Load(), b.leased.Load(); float64(leased) < fromAllotments*float64(asked) {
			t.Errorf("allotments served %d of %d calls on the ample bucket; want at least %.0f %%",
				leased, asked, 100*fromAllotments)
		}
	}
	gone := b.pruned.Load()
	if b.subject.expired != nil {
		gone += b.subject.expired(t)
	}
	if want := int64(b.rounds*b.pace) / 4; gone < want {
		t.Errorf("%d buckets were pruned; want at least %d, or nothing proves that their room is used again",
			gone, want)
	}
}
