package observe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// sizeless is a store that does not tell its size.
type sizeless struct{ store.Store }

func (sizeless) Size(context.Context) (int64, error) { return 0, errors.ErrUnsupported }

// listed is a store whose listing ends with an error.
type listed struct {
	store.Store
	err error
}

func (l listed) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return errors.Join(l.Store.Visit(ctx, prefix, f), l.err)
}

func TestBucketCounter(t *testing.T) {
	m := memory.New(nil)
	defer m.Close()
	lim := brim.New(m, nil)
	for _, key := range []string{"a", "b", "c"} {
		if _, err := lim.TryFillup(t.Context(), brim.Limit{Capacity: 2}.For(key), 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		store store.Store
		sized bool
		err   error
	}{
		{name: "memory", store: m, sized: true},
		{name: "a store without a size", store: sizeless{m}},
		{name: "damaged buckets", store: listed{m, store.ErrCorrupt}, sized: true},
		{name: "a store that is away", store: listed{m, store.ErrUnavailable}, err: store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			counter := observe.NewBucketCounter(c.store)
			defer counter.Close()
			n, err := counter.Count(t.Context())
			if !errors.Is(err, c.err) || err == nil && (n.Buckets != 3 || (n.Bytes > 0) != c.sized || (n.Bytes == -1) == c.sized) {
				t.Errorf("%+v, %v; want 3 buckets, a size %v, error %v", n, err, c.sized, c.err)
			}
			if age := time.Since(n.At); age < 0 || age > time.Minute {
				t.Errorf("counted at %v", n.At)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for want, d := range map[string]observe.Decision{
		"accepted": {Accepted: true, State: store.State{At: now, BlockedUntil: now.Add(time.Hour)}},
		"shadowed": {Shadowed: true, State: store.State{At: now, RetryAfter: time.Second}},
		"refused":  {State: store.State{At: now, RetryAfter: time.Second}},
		"never":    {State: store.State{At: now, RetryAfter: store.Never}},
		"blocked":  {State: store.State{At: now, RetryAfter: store.Never, BlockedUntil: now.Add(time.Hour)}},
		"spilled":  {State: store.State{At: now, RetryAfter: time.Second, Spilled: 1}},
	} {
		if got := d.Label(); got != want {
			t.Errorf("%+v: %s, want %s", d, got, want)
		}
	}
	for want, err := range map[string]error{
		"ok": &store.PeriodError{}, "failed": store.ErrUnavailable, "canceled": context.Canceled, "late": context.DeadlineExceeded,
		"unknown": errors.Join(store.ErrUnknownOutcome, context.Canceled),
	} {
		if got := (observe.Outcome{Err: err}).Label(); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
