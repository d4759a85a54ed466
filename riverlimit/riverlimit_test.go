package riverlimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// TestWork gives the middleware jobs of one bucket and looks at the fate of the last.
func TestWork(t *testing.T) {
	const snoozed, cancelled, worked = "snoozed", "cancelled", "worked"
	for _, c := range []struct {
		why     string
		limit   brim.Limit
		cost    float64
		jobs    int
		options *Options
		want    string
		least   time.Duration // of a snooze, or of the work's beginning
		most    time.Duration
	}{
		{"a job that fits is worked", brim.Limit{Capacity: 2, LeakRate: 1}, 1, 2, nil, worked, 0, 0},
		{"a job that costs nothing is not limited", brim.Limit{Capacity: 2, LeakRate: 1}, 0, 9, nil, worked, 0, 0},
		{"a job without room is snoozed until it fits, and up to a quarter longer", brim.Limit{Capacity: 2, LeakRate: 0.5}, 2, 2, nil, snoozed, 4 * time.Second, 5 * time.Second},
		{"jitter as wanted", brim.Limit{Capacity: 2, LeakRate: 0.5}, 2, 2, &Options{Jitter: time.Minute}, snoozed, 4 * time.Second, 64 * time.Second},
		{"no jitter", brim.Limit{Capacity: 2, LeakRate: 0.5}, 2, 2, &Options{Jitter: -1}, snoozed, 4 * time.Second, 4 * time.Second},
		{"no wait helps a job above the capacity", brim.Limit{Capacity: 2, LeakRate: 1}, 3, 1, nil, cancelled, 0, 0},
		{"nor one of a full bucket that never leaks", brim.Limit{Capacity: 2}, 1, 3, nil, cancelled, 0, 0},
		{"a job waits for its turn", brim.Limit{Capacity: 2, LeakRate: 0.5}, 2, 2, &Options{Wait: 5 * time.Second}, worked, 4 * time.Second, 4500 * time.Millisecond},
		{"a turn beyond Wait is not waited for", brim.Limit{Capacity: 2, LeakRate: 0.5}, 2, 2, &Options{Wait: 3 * time.Second, Jitter: -1}, snoozed, 4 * time.Second, 4 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(nil)
			defer s.Close()
			m := New(brim.New(s, nil), func(job *rivertype.JobRow) (brim.Bucket, float64) { return c.limit.For(job.Kind), c.cost }, c.options)
			var did string
			var after time.Duration
			for range c.jobs {
				began := time.Now()
				did = ""
				err := m.Work(t.Context(), &rivertype.JobRow{Kind: "letter"}, func(context.Context) error {
					did, after = worked, time.Since(began)
					return nil
				})
				if snooze, ok := errors.AsType[*rivertype.JobSnoozeError](err); ok {
					did, after = snoozed, snooze.Duration
				} else if _, ok := errors.AsType[*rivertype.JobCancelError](err); ok {
					did, after = cancelled, 0
				} else if err != nil {
					t.Fatalf("%s: %v", c.why, err)
				}
			}
			if did != c.want || after < c.least || after > c.most {
				t.Errorf("%s: the last job is %s after %v; want %s after %v to %v", c.why, did, after, c.want, c.least, c.most)
			}
		})
	}
}

// TestFreed: a job that somebody's Unblock or Release would let through is kept.
func TestFreed(t *testing.T) {
	full := brim.Limit{Capacity: 2, LeakRate: 1}.For("river:kind:letter")
	for _, c := range []struct {
		why  string
		shut func(context.Context, *brim.Limiter) error
	}{
		{"a block for ever", func(ctx context.Context, l *brim.Limiter) error {
			_, err := l.Block(ctx, full.Key, brim.Never)
			return err
		}},
		{"units that do not leak while they are held", func(ctx context.Context, l *brim.Limiter) error {
			_, err := l.Hold(ctx, full, 2)
			return err
		}},
	} {
		s := memory.New(nil)
		l := brim.New(s, nil)
		if err := c.shut(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		err := New(l, PerKind(full.Limit), &Options{Jitter: -1}).Work(t.Context(), &rivertype.JobRow{Kind: "letter"}, func(context.Context) error { return nil })
		if snooze, ok := errors.AsType[*rivertype.JobSnoozeError](err); !ok || snooze.Duration != freed {
			t.Errorf("%s: %v; want a snooze for %v", c.why, err, freed)
		}
		_ = s.Close()
	}
}

// slow is a store whose answers come too late.
type slow struct {
	store.Store
	class error
}

func (s slow) Fill(ctx context.Context, _ store.Op) (brim.State, error) {
	<-ctx.Done()
	return brim.State{}, errors.Join(s.class, ctx.Err())
}

// TestLate: a job that has waited in vain is snoozed, so that no attempt counts. One whose store
// has failed, or may have taken its units, is not.
func TestLate(t *testing.T) {
	for _, class := range []error{nil, brim.ErrUnavailable, brim.ErrUnknownOutcome} {
		synctest.Test(t, func(t *testing.T) {
			m := New(brim.New(slow{memory.New(nil), class}, nil), PerKind(brim.Over(1, time.Hour)), &Options{Wait: time.Minute, Jitter: -1})
			err := m.Work(t.Context(), &rivertype.JobRow{Kind: "letter"}, func(context.Context) error { return nil })
			snooze, ok := errors.AsType[*rivertype.JobSnoozeError](err)
			if ok != (class == nil) || ok && snooze.Duration != time.Minute {
				t.Errorf("a store that answers %v: %v; want a snooze for a minute: %v", class, err, class == nil)
			}
		})
	}
}

// TestNoAnswer sees that no job is worked while the store cannot decide.
func TestNoAnswer(t *testing.T) {
	for name, o := range map[string]*Options{"at once": nil, "with patience": {Wait: time.Minute}} {
		m := New(brim.New(nil, nil), PerKind(brim.Over(1, time.Hour)), o)
		err := m.Work(t.Context(), &rivertype.JobRow{Kind: "letter"}, func(context.Context) error {
			t.Errorf("%s: the job is worked", name)
			return nil
		})
		if !errors.Is(err, brim.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}

// TestPolicies sees which jobs share a bucket.
func TestPolicies(t *testing.T) {
	limit := brim.Over(10, time.Hour)
	job := &rivertype.JobRow{Kind: "letter", Queue: "mail"}
	for key, policy := range map[string]Policy{"river:kind:letter": PerKind(limit), "river:queue:mail": PerQueue(limit)} {
		if bucket, cost := policy(job); bucket != limit.For(key) || cost != 1 {
			t.Errorf("%+v costs %v; want the key %s, and 1", bucket, cost, key)
		}
	}
}
