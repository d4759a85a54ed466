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

// release is an item and when it was released, since the beginning.
type release struct {
	item int
	at   time.Duration
}

// log is what a queue has released.
type log struct {
	mu    sync.Mutex
	began time.Time
	got   []release
}

func newLog() *log { return &log{began: time.Now()} }

func (l *log) take(_ context.Context, item int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, release{item, time.Since(l.began)})
}

func (l *log) is(t *testing.T, want ...release) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.got, want) {
		t.Errorf("released %v; want %v", l.got, want)
	}
}

func open(t *testing.T, l store.Limit, f func(context.Context, int), o *queue.Options[int]) *queue.Queue[int] {
	t.Helper()
	q, err := queue.New(l, f, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

const ms = time.Millisecond

func TestReleases(t *testing.T) {
	type put struct {
		item int
		at   time.Duration
		full bool // dropped
	}
	for _, tc := range []struct {
		name, why string
		limit     store.Limit
		cost      func(int) float64
		slow      func(int) time.Duration // how long its release takes
		puts      []put
		want      []release
	}{
		{
			name: "spaced", why: "the first at once, the others at the leak rate, in order", limit: brim.Smooth(10, time.Second),
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 10 * ms, false}, {4, 250 * ms, false}},
			want: []release{{1, 0}, {2, 100 * ms}, {3, 200 * ms}, {4, 300 * ms}},
		},
		{
			name: "idle", why: "an empty queue saves nothing up: what comes later starts anew", limit: brim.Smooth(10, time.Second),
			puts: []put{{1, 0, false}, {2, time.Second, false}, {3, time.Second, false}},
			want: []release{{1, 0}, {2, time.Second}, {3, 1100 * ms}},
		},
		{
			name: "just idle", why: "an item that comes when the queue is empty, but before the next turn, waits for it", limit: brim.Smooth(10, time.Second),
			puts: []put{{1, 0, false}, {2, 40 * ms, false}},
			want: []release{{1, 0}, {2, 100 * ms}},
		},
		{
			name: "full", why: "two wait, one is released at once, and the fourth is dropped until there is room", limit: brim.Smooth(10, 200*ms),
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 0, false}, {4, 0, true}, {5, 99 * ms, true}, {6, 101 * ms, false}},
			want: []release{{1, 0}, {2, 100 * ms}, {3, 200 * ms}, {6, 300 * ms}},
		},
		{
			name: "cost", why: "an item takes as long as its units take to leak", limit: brim.Smooth(10, 2*time.Second), cost: func(i int) float64 { return float64(i) },
			puts: []put{{5, 0, false}, {1, 0, false}, {2, 0, false}, {0, 0, false}, {3, 0, false}, {20, 0, true}},
			want: []release{{5, 0}, {1, 500 * ms}, {2, 600 * ms}, {0, 800 * ms}, {3, 800 * ms}},
		},
		{
			name: "a slow release", why: "those behind it are late, and no burst makes up for that", limit: brim.Smooth(10, time.Second),
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
			name: "releases slower than the rate", why: "they follow each other without a pause", limit: brim.Smooth(10, time.Second),
			slow: func(int) time.Duration { return 150 * ms },
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 0, false}},
			want: []release{{1, 0}, {2, 150 * ms}, {3, 300 * ms}},
		},
		{
			name: "releases that take less than a turn", why: "the turn counts from the release's beginning", limit: brim.Smooth(10, time.Second),
			slow: func(int) time.Duration { return 90 * ms },
			puts: []put{{1, 0, false}, {2, 0, false}, {3, 0, false}},
			want: []release{{1, 0}, {2, 100 * ms}, {3, 200 * ms}},
		},
		{
			name: "one late release", why: "turns are counted from when they should have been, so that lateness does not add up", limit: brim.Smooth(10, time.Second),
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
					l.take(ctx, item)
					if tc.slow != nil {
						time.Sleep(tc.slow(item))
					}
				}, &queue.Options[int]{Cost: tc.cost})
				for _, p := range tc.puts {
					time.Sleep(p.at - time.Since(l.began))
					err := q.Put(t.Context(), p.item)
					if errors.Is(err, queue.ErrFull) != p.full || !p.full && err != nil {
						t.Errorf("item %d: %v; want full: %v", p.item, err, p.full)
					}
					synctest.Wait()
				}
				if err := q.Close(t.Context()); err != nil {
					t.Error(err)
				}
				t.Log(tc.why)
				l.is(t, tc.want...)
			})
		})
	}
}

// Puts that wait get their room in the order in which they asked for it; one that gives up leaves no trace.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		q := open(t, brim.Smooth(10, 300*ms), l.take, &queue.Options[int]{Block: true, Cost: func(i int) float64 {
			if i == 5 {
				return 3
			}
			return 1
		}})
		for i := range 4 {
			if err := q.Put(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // item 0 is released at once
		}
		var wg sync.WaitGroup
		put := func(ctx context.Context, item int, want error, after time.Duration) {
			wg.Go(func() {
				began := time.Now()
				if err := q.Put(ctx, item); !errors.Is(err, want) || time.Since(began) != after {
					t.Errorf("item %d: %v after %v; want %v after %v", item, err, time.Since(began), want, after)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		put(t.Context(), 4, nil, 100*ms)
		put(ctx, 5, context.DeadlineExceeded, 50*ms)
		put(t.Context(), 6, nil, 200*ms)
		put(t.Context(), 7, nil, 300*ms)
		if n := q.Len(); n != 3 {
			t.Errorf("%d items wait; want 3", n)
		}
		wg.Wait()
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
		l.is(t, release{0, 0}, release{1, 100 * ms}, release{2, 200 * ms}, release{3, 300 * ms}, release{4, 400 * ms}, release{6, 500 * ms}, release{7, 600 * ms})
	})
}

// A large item in front that gives up lets in the small ones behind it, although nothing was released.
func TestBlockedInFrontGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog()
		q := open(t, store.Limit{Capacity: 10, LeakRate: 1}, l.take, &queue.Options[int]{Block: true, Cost: func(i int) float64 { return float64(i) }})
		for _, item := range []int{10, 6} {
			if err := q.Put(t.Context(), item); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := q.Put(ctx, 5); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := q.Put(t.Context(), 4); err != nil || time.Since(l.began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(l.began))
			}
		})
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		if left := q.Abandon(); !slices.Equal(left, []int{6, 4}) {
			t.Errorf("left %v", left)
		}
	})
}

func TestClose(t *testing.T) {
	for _, tc := range []struct {
		name    string
		patient time.Duration // of Close; 0 for ever
		abandon bool
		want    int // released
		left    []int
		took    time.Duration
	}{
		{name: "drained", want: 5, left: []int{}, took: 400 * ms},
		{name: "drained in time", patient: time.Second, want: 5, left: []int{}, took: 400 * ms},
		{name: "out of time", patient: 250 * ms, want: 3, left: []int{3, 4}, took: 250 * ms},
		{name: "abandoned", abandon: true, want: 1, left: []int{1, 2, 3, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog()
				q := open(t, brim.Smooth(10, 400*ms), l.take, &queue.Options[int]{Block: true})
				for i := range 5 {
					if err := q.Put(t.Context(), i); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				var blocked sync.WaitGroup
				blocked.Go(func() {
					if err := q.Put(t.Context(), 5); !errors.Is(err, queue.ErrClosed) {
						t.Errorf("a Put that waited for room: %v", err)
					}
				})
				synctest.Wait()
				var left []int
				if tc.abandon {
					left = q.Abandon()
				} else {
					ctx := t.Context()
					if tc.patient > 0 {
						var cancel func()
						ctx, cancel = context.WithTimeout(ctx, tc.patient)
						defer cancel()
					}
					err := q.Close(ctx)
					if (err != nil) != (len(tc.left) > 0) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Close: %v", err)
					}
				}
				if took := time.Since(l.began); took != tc.took || len(l.got) != tc.want {
					t.Errorf("%d released after %v; want %d, %v", len(l.got), took, tc.want, tc.took)
				}
				if !tc.abandon {
					left = q.Abandon()
				}
				if !slices.Equal(left, tc.left) || len(q.Abandon()) != 0 || q.Len() != 0 {
					t.Errorf("left %v; want %v, once", left, tc.left)
				}
				blocked.Wait()
				if err := q.Put(t.Context(), 6); !errors.Is(err, queue.ErrClosed) {
					t.Errorf("Put after the end: %v", err)
				}
				if err := q.Close(t.Context()); err != nil {
					t.Errorf("closing again: %v", err)
				}
			})
		})
	}
}

// A release that is under way when the queue is abandoned learns of it, and is waited for.
func TestAbandonEndsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		q := open(t, brim.Smooth(10, time.Second), func(ctx context.Context, _ int) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
		}, nil)
		if err := q.Put(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if left := q.Abandon(); len(left) != 0 || !ended {
			t.Errorf("left %v, release ended: %v", left, ended)
		}
	})
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
		t.Error("a queue without a release was made")
	}
	cost := 0.0
	q := open(t, brim.Smooth(1, 10*time.Second), take, &queue.Options[int]{Cost: func(int) float64 { return cost }, Block: true})
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

// Many goroutines, for the race detector: nothing is lost, and each goroutine's items come in its order.
func TestConcurrent(t *testing.T) {
	const workers, each = 8, 50
	last := make([]int, workers)
	n := 0
	q := open(t, store.Limit{Capacity: 3, LeakRate: 1e6}, func(_ context.Context, item int) {
		if w, i := item/each, item%each; last[w] > i {
			t.Errorf("item %d of goroutine %d came after %d", i, w, last[w])
		} else {
			last[w] = i
		}
		n++
	}, &queue.Options[int]{Block: true})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				if err := q.Put(t.Context(), w*each+i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := q.Close(t.Context()); err != nil || n != workers*each {
		t.Errorf("%d released, %v; want %d", n, err, workers*each)
	}
}
