package cached

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace looks every second at a reading that takes two seconds: one in 42 seconds begins.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(func(context.Context) (time.Time, error) {
			began := time.Now()
			time.Sleep(2 * time.Second)
			return began, nil
		}, nil, time.Now)
		defer v.Close()
		var began []time.Time
		for range 100 {
			r, err := v.Latest(t.Context())
			if err != nil || r.Err != nil || r.Took != 2*time.Second || !r.At.Equal(r.Value) {
				t.Fatalf("%+v, %v", r, err)
			}
			if len(began) == 0 || !r.At.Equal(began[len(began)-1]) {
				began = append(began, r.At)
			}
			time.Sleep(time.Second)
		}
		if len(began) != 3 {
			t.Errorf("%d readings in 100 s, want 3", len(began))
		}
		for i := 1; i < len(began); i++ {
			if pause := began[i].Sub(began[i-1]); pause < 42*time.Second || pause > 43*time.Second {
				t.Errorf("reading %d began %v after the one before, want 42 s", i, pause)
			}
		}
	})
}

// TestShared has many look at once: they share the first reading, and nobody waits for later ones.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings := 0
		v := New(func(context.Context) (int, error) {
			time.Sleep(time.Second)
			readings++
			return readings, nil
		}, nil, time.Now)
		defer v.Close()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if r, err := v.Latest(t.Context()); err != nil || r.Value != 1 {
					t.Errorf("%+v, %v; want the first reading", r, err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		asked := time.Now()
		if r, err := v.Latest(t.Context()); err != nil || r.Value != 1 || time.Since(asked) != 0 {
			t.Errorf("%+v, %v after %v; want the old reading at once", r, err, time.Since(asked))
		}
		time.Sleep(2 * time.Second)
		if r, err := v.Latest(t.Context()); err != nil || r.Value != 2 {
			t.Errorf("%+v, %v; want the second reading", r, err)
		}
	})
}

// TestEnds ends a look, and a reading, while the first reading runs.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, nil, time.Now)
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := v.Latest(limited); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of the context", err)
		}
		v.Close()
		if r, err := v.Latest(t.Context()); err != nil || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("%+v, %v; want the reading that Close ended", r, err)
		}
		closed := New(func(context.Context) (int, error) { return 0, nil }, nil, time.Now)
		closed.Close()
		if r, err := closed.Latest(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("closed before the first look: %+v, %v", r, err)
		}
	})
}

// TestClockSetBack reads again at once if the clock was set back before the last reading.
func TestClockSetBack(t *testing.T) {
	var now atomic.Int64
	now.Store(1_000_000)
	readings := make(chan int64)
	v := New(func(context.Context) (int64, error) { readings <- now.Load(); return 0, nil },
		nil, func() time.Time { return time.Unix(now.Load(), 0) })
	defer v.Close()
	go func() { <-readings }()
	if _, err := v.Latest(t.Context()); err != nil {
		t.Fatal(err)
	}
	now.Add(-3600)
	if _, err := v.Latest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at := <-readings; at != 996_400 {
		t.Errorf("the second reading began at %d, want 996400", at)
	}
}

// TestDoubt has a reading that is doubted begin early, and not at once.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for took, want := range map[time.Duration]time.Duration{time.Millisecond: time.Second, time.Second: 5 * time.Second} {
			readings := 0
			v := New(func(context.Context) (int, error) { time.Sleep(took); readings++; return readings, nil },
				func(Reading[int]) time.Duration { return time.Hour }, time.Now)
			first, err := v.Latest(t.Context())
			for range 100 {
				v.Doubt()
				if r, _ := v.Next(t.Context()); r.Value == 2 {
					if after := r.At.Sub(first.At); after < want || after > want+200*time.Millisecond {
						t.Errorf("the second reading began after %v, want %v", after, want)
					}
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if err != nil || readings != 2 {
				t.Errorf("%d readings, %v; want a second one", readings, err)
			}
			time.Sleep(time.Minute)
			if r, err := v.Next(t.Context()); r.Value != 2 || err != nil {
				t.Errorf("%+v, %v; the doubt has not ended", r, err)
			}
			v.Close()
		}
	})
}
