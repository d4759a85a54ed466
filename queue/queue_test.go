package queue_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/queue"
	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// release is an item and the time of its release, counted from the start of the log.
type release struct {
	item int
	at   time.Duration
}

// log records the releases of a queue.
type log struct {
	mu    sync.Mutex
	start time.Time
	got   []release
}

func newLog() *log { return &log{start: time.Now()} }

func (l *log) record(_ context.Context, item int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, release{item, time.Since(l.start)})
}

func (l *log) check(t *testing.T, why string, want ...release) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.got, want) {
		t.Errorf("released %v; want %v\nwhy: %s", l.got, want, why)
	}
}

func open(t *testing.T, l store.Limit, f func(context.Context, int), o *queue.Options[int]) *queue.Queue[int] {
	t.Helper()
	q, err := queue.New(l, f, o)
	must(t, err)
	return q
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const ms = time.Millisecond

func TestReleases(t *testing.T) {
	type put struct {
		item int
		at   time.Duration
		full bool // Put must return ErrFull
	}
	for _, tc := range []struct {
		name, why string
		limit     store.Limit
		cost      func(int) float64
		slow      func(int) time.Duration // the duration of an item's release
		puts      []put
		want      []release
	}{
		{
			name: "spaced", limit: brim.Smooth(10, time.Second),
			why:  "the first item is released at once, the others in order at the leak rate",
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 10 * ms, false}, {4, 250 * ms, false}},
			want: []release{{1, 0}, {2, 100 * ms}, {3, 200 * ms}, {4, 300 * ms}},
		},
		{
			name: "idle", limit: brim.Smooth(10, time.Second),
			why:  "an idle queue saves up no turns for later items",
			puts: []put{{1, 0, false}, {2, time.Second, false}, {3, time.Second, false}},
			want: []release{{1, 0}, {2, time.Second}, {3, 1100 * ms}},
		},
		{
			name: "just idle", limit: brim.Smooth(10, time.Second),
			why:  "an item that comes to an empty queue before the next turn waits for that turn",
			puts: []put{{1, 0, false}, {2, 40 * ms, false}}, want: []release{{1, 0}, {2, 100 * ms}},
		},
		{
			name: "full", limit: brim.Smooth(10, 200*ms),
			why:  "one item is released at once, two wait, and further items are dropped until there is room",
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 0, false}, {4, 0, true}, {5, 99 * ms, true}, {6, 101 * ms, false}},
			want: []release{{1, 0}, {2, 100 * ms}, {3, 200 * ms}, {6, 300 * ms}},
		},
		{
			name: "cost", limit: brim.Smooth(10, 2*time.Second), cost: func(i int) float64 { return float64(i) },
			why:  "the turn of an item lasts as long as its units take to leak",
			puts: []put{{5, 0, false}, {1, 0, false}, {2, 0, false}, {0, 0, false}, {3, 0, false}, {20, 0, true}},
			want: []release{{5, 0}, {1, 500 * ms}, {2, 600 * ms}, {0, 800 * ms}, {3, 800 * ms}},
		},
		{
			name: "a slow release", limit: brim.Smooth(10, time.Second),
			why: "the items behind it are late, and no burst makes up for the delay",
			slow: func(i int) time.Duration {
				if i == 1 {
					return 450 * ms
				}
				return 0
			},
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 0, false}, {4, 0, false}},
			want: []release{{1, 0}, {2, 450 * ms}, {3, 550 * ms}, {4, 650 * ms}},
		},
		{
			name: "releases slower than the rate", limit: brim.Smooth(10, time.Second),
			why:  "they follow each other without a pause",
			slow: func(int) time.Duration { return 150 * ms },
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 0, false}},
			want: []release{{1, 0}, {2, 150 * ms}, {3, 300 * ms}},
		},
		{
			name: "releases that take less than a turn", limit: brim.Smooth(10, time.Second),
			why:  "a turn counts from the start of its release",
			slow: func(int) time.Duration { return 90 * ms },
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 0, false}},
			want: []release{{1, 0}, {2, 100 * ms}, {3, 200 * ms}},
		},
		{
			name: "one late release", limit: brim.Smooth(10, time.Second),
			why: "turns count from their due time, so that delays do not add up",
			slow: func(i int) time.Duration {
				if i == 1 {
					return 130 * ms
				}
				return 0
			},
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 0, false}},
			want: []release{{1, 0}, {2, 130 * ms}, {3, 200 * ms}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog()
				q := open(t, tc.limit, func(ctx context.Context, item int) {
					l.record(ctx, item)
					if tc.slow != nil {
						time.Sleep(tc.slow(item))
					}
				}, &queue.Options[int]{Cost: tc.cost})
				for _, p := range tc.puts {
					time.Sleep(p.at - time.Since(l.start))
					err := q.Put(t.Context(), p.item)
					if errors.Is(err, queue.ErrFull) != p.full || !p.full && err != nil {
						t.Errorf("item %d: %v; want ErrFull: %v\nwhy: %s", p.item, err, p.full, tc.why)
					}
					synctest.Wait()
				}
				if err := q.Close(t.Context()); err != nil {
					t.Error(err)
				}
				l.check(t, tc.why, tc.want...)
			})
		})
	}
}

func TestInvalid(t *testing.T) {
	take := func(context.Context, int) {}
	for name, l := range map[string]store.Limit{
		"no leak": {Capacity: 1}, "no capacity": {LeakRate: 1}, "NaN": {Capacity: math.NaN(), LeakRate: 1},
	} {
		if _, err := queue.New(l, take, nil); !errors.Is(err, store.ErrInvalidLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := queue.New[int](brim.Smooth(1, time.Second), nil, nil); err == nil {
		t.Error("New accepted a nil release")
	}
	cost := 0.0
	q := open(t, brim.Smooth(1, 10*time.Second), take, &queue.Options[int]{
		Block: true, Cost: func(int) float64 { return cost },
	})
	defer q.Abandon()
	for _, cost = range []float64{-1, 11, math.NaN(), math.Inf(1)} {
		if err := q.Put(t.Context(), 1); !errors.Is(err, store.ErrInvalidAmount) {
			t.Errorf("a cost of %v: %v", cost, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Put(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}
