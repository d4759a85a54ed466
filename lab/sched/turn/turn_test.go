package turn_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/lab/sched/turn"
)

// play runs main in a bubble. Goroutines that main leaves behind end the bubble with a panic.
func play(t *testing.T, p turn.Plan, main func()) (s *turn.Schedule, err error) {
	t.Helper()
	defer func() { _ = recover() }()
	synctest.Test(t, func(*testing.T) { s, err = turn.Play(synctest.Wait, p, main) })
	return s, err
}

func randomPlan(seed uint64) turn.Plan {
	return turn.Plan{Rand: rand.New(rand.NewPCG(seed, 0)), Often: 500}
}

// TestSchedules: every order of two goroutines' steps occurs, and none in which a step lies under
// the other's mutex.
func TestSchedules(t *testing.T) {
	seen := make(map[string]bool)
	for seed := range uint64(500) {
		var order []string
		_, err := play(t, randomPlan(seed), func() {
			var mu sync.Mutex
			for _, name := range []string{"a", "b"} {
				turn.Go(name, func() {
					turn.Lock("lock", &mu)
					order = append(order, name)
					turn.Point("under the mutex")
					order = append(order, name)
					turn.Unlock("unlock", &mu)
					order = append(order, name)
				})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		seen[strings.Join(order, "")] = true
	}
	for _, want := range []string{"aaabbb", "bbbaaa", "aabbab", "aabbba", "bbaaba", "bbaaab"} {
		if !seen[want] {
			t.Errorf("no schedule ran in the order %s", want)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("a schedule let a goroutine go on under the other's mutex: %v", seen)
	}
}

// TestSelectRepeats: a timer and a context end at one instant. Go takes either; the plan decides.
func TestSelectRepeats(t *testing.T) {
	counts := make(map[int]int)
	for seed := range uint64(200) {
		var chosen [2]int
		for run := range chosen {
			_, err := play(t, randomPlan(seed), func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				timer := time.NewTimer(time.Millisecond)
				defer timer.Stop()
				chosen[run] = turn.Select("select", turn.Case(timer.C), turn.Case(ctx.Done()))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if chosen[0] != chosen[1] {
			t.Fatalf("seed %d took case %d, then %d", seed, chosen[0], chosen[1])
		}
		counts[chosen[0]]++
	}
	if counts[0] == 0 || counts[1] == 0 {
		t.Errorf("the cases were taken %v times", counts)
	}
}

// TestFails: a schedule that goes wrong ends with an error.
func TestFails(t *testing.T) {
	never := func() { turn.Recv("never", make(chan int)) }
	for _, c := range []struct {
		name, want string
		main       func()
	}{
		{"waits for ever", "g0 (main) at never", never},
		{"panics", "panicked: oh no", func() { panic("oh no") }},
		{"does not end", "does not end", func() {
			for {
				turn.Point("again")
			}
		}},
		{"blocks under a mutex", "never blocks under a mutex", func() {
			var mu sync.Mutex
			turn.Lock("lock", &mu)
			never()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := play(t, randomPlan(1), c.main); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want one with %q", err, c.want)
			}
		})
	}
}

// TestWaits: goroutines that wait for a mutex, a Once or a condition go on when they can.
func TestWaits(t *testing.T) {
	for seed := range uint64(100) {
		var order []int
		calls := 0
		_, err := play(t, randomPlan(seed), func() {
			var long turn.Mutex
			var once turn.Once
			var mu sync.Mutex
			cond := sync.Cond{L: &mu}
			ready := 0
			for i := range 3 {
				turn.Go("goroutine", func() {
					once.Do("once", func() { turn.Point("in the Once"); calls++ })
					long.Lock("lock")
					order = append(order, i)
					turn.Point("under a long mutex")
					order = append(order, i)
					long.Unlock("unlock")
					turn.Lock("lock", &mu)
					ready++
					turn.Broadcast(&cond)
					for ready < 3 {
						turn.CondWait("wait", &cond)
					}
					turn.Unlock("unlock", &mu)
				})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if calls != 1 || len(order) != 6 {
			t.Fatalf("%d calls and %v", calls, order)
		}
		for pair := range slices.Chunk(order, 2) {
			if pair[0] != pair[1] {
				t.Fatalf("two goroutines held the mutex: %v", order)
			}
		}
	}
}
