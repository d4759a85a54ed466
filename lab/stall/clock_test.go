package stall

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// move is a piece of a history: time passes, the clock is set, or somebody asks for units.
type move struct {
	passes time.Duration // true time
	rate   float64       // at which the clock runs meanwhile; 1 is right
	step   time.Duration // by which the clock is then set
	amount float64       // of the fill after that
	mode   store.Mode
}

func (m move) String() string {
	return fmt.Sprintf("%v at rate %g, step %v, fill %g in mode %d", m.passes, m.rate, m.step, m.amount, m.mode)
}

// steps of clocks. An hour and a year are beyond MaxSkew, and the minutes within it.
var steps = []time.Duration{
	time.Minute, -time.Minute, 4 * time.Minute, -4 * time.Minute,
	time.Hour, -time.Hour, 365 * 24 * time.Hour, -365 * 24 * time.Hour,
}

// randomMoves returns a history. Every tenth move or so sets the clock, and now and then the clock
// is smeared: for some moves it runs fast or slow by up to a tenth, or, over a minute, stands.
func randomMoves(r *rand.Rand, n int) []move {
	list := make([]move, n)
	rate := 1.0
	for i := range list {
		m := &list[i]
		if r.IntN(15) == 0 {
			rate = []float64{1, 1.1, 0.9, 1.0005, 0.9995, 0}[r.IntN(6)]
		}
		m.rate = rate
		m.passes = time.Duration(r.IntN(2000)) * time.Millisecond
		if r.IntN(10) == 0 {
			m.step = steps[r.IntN(len(steps))]
		}
		m.amount = float64(1 + r.IntN(int(clockLimit.Capacity)))
		if r.IntN(8) == 0 {
			m.mode = store.Clamp
		}
	}
	return list
}

var clockLimit = store.Limit{Capacity: 64, LeakRate: 0.5}

// grants is the most that a bucket may have granted, kept beside the store: the level of a bucket
// without a rim that takes all granted units, and leaks for the time that the clock has shown for
// the first time. Time that the clock shows again after a step back counts only if the step was
// beyond MaxSkew: the bucket does not believe its own time then.
type grants struct {
	level   float64
	highest time.Time
}

// at leaks up to a reading of the clock.
func (g *grants) at(now time.Time) {
	switch ahead := g.highest.Sub(now); {
	case g.highest.IsZero(), ahead > store.DefaultMaxSkew:
		g.highest = now
	case ahead < 0:
		g.level = max(0, g.level-clockLimit.LeakRate*-ahead.Seconds())
		g.highest = now
	}
}

// replay carries out a history on a bucket of s, whose clock is *clock. It returns the first move
// after which more was granted than the bucket allows, or "".
func replay(ctx context.Context, s store.Store, key string, clock *time.Time, list []move) (string, error) {
	*clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var g grants
	for i, m := range list {
		*clock = clock.Add(time.Duration(float64(m.passes)*m.rate) + m.step).Truncate(time.Microsecond)
		g.at(*clock)
		st, err := s.Fill(ctx, store.Op{Bucket: clockLimit.For(key), Amount: m.amount, Mode: m.mode})
		if err != nil {
			return "", err
		}
		if st.Accepted || m.mode == store.Clamp {
			g.level += m.amount - st.Spilled
		}
		if g.level > clockLimit.Capacity*(1+1e-9) {
			return fmt.Sprintf("after move %d, %v are granted of %v", i+1, g.level, clockLimit.Capacity), nil
		}
	}
	return "", nil
}

// opener opens a store with a clock.
type opener struct {
	name string
	open func(t *testing.T, clock func() time.Time) store.Store
}

var openers = []opener{
	{"memory", func(t *testing.T, clock func() time.Time) store.Store {
		s, err := memory.New(&memory.Options{Clock: clock})
		return opened(t, s, err)
	}},
	{"bolt", func(t *testing.T, clock func() time.Time) store.Store {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{Clock: clock})
		return opened(t, s, err)
	}},
	{"postgres", func(t *testing.T, clock func() time.Time) store.Store {
		schema := pgtest.Schema(t)
		pool, err := pgxpool.New(t.Context(), pgtest.URL(t)+"&synchronous_commit=off") // nothing crashes here
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
			t.Fatal(err)
		}
		s, err := postgres.New(pool, &postgres.Options{Schema: schema, Clock: clock})
		return opened(t, s, err)
	}},
}

func opened(t *testing.T, s store.Store, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestClocks steps and smears the clock of each store.
func TestClocks(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range openers {
		t.Run(o.name, func(t *testing.T) {
			row := attack.Begin(t, "stall", "clock of "+o.name, seed)
			var clock time.Time
			s := o.open(t, func() time.Time { return clock })
			meter := attack.Pick(
				attack.Budget{Count: 200, Time: time.Second},
				attack.Budget{Count: 20_000, Time: time.Minute},
			).Start()
			for ; !meter.Spent(); meter.Done++ {
				part := seed.Part(meter.Done)
				list := randomMoves(part.Rand(), 100)
				bad, err := replay(t.Context(), s, fmt.Sprint("key ", meter.Done), &clock, list)
				if err != nil {
					t.Fatalf("%v\nrepeat: %s", err, part.Repeat("stall", "TestClocks/"+o.name))
				}
				if bad != "" {
					row.Found = "minted"
					list, bad = shortest(t, s, &clock, list)
					t.Errorf("%s\nrepeat: %s\n%s", bad, part.Repeat("stall", "TestClocks/"+o.name), lines(list))
					break
				}
			}
			row.Often = fmt.Sprintf("%d histories of 100 moves", meter.Done)
			t.Logf("%s in %v, found: %s; seed %d", row.Often, meter.Took(), row.Found, seed)
		})
	}
}

// shortest returns the shortest part of a history that mints, with what it does.
func shortest(t *testing.T, s store.Store, clock *time.Time, list []move) (short []move, bad string) {
	t.Helper()
	n := 0
	short = attack.Shrink(list, 500, func(part []move) bool {
		n++
		text, err := replay(t.Context(), s, fmt.Sprint("shrink ", n), clock, part)
		if err != nil {
			t.Fatal(err)
		}
		if text != "" {
			bad = text
		}
		return text != ""
	})
	return short, bad
}

func lines(list []move) string {
	text := make([]string, len(list))
	for i, m := range list {
		text[i] = m.String()
	}
	return strings.Join(text, "\n")
}

// TestClocksCatch steps the clocks of defective stores. Each defect must be caught, by a short
// history.
func TestClocksCatch(t *testing.T) {
	for _, c := range []struct {
		name, why string
		open      func(clock func() time.Time) (store.Store, error)
	}{
		{
			"time that steps back", "the bucket believes no time ahead of the clock, and leaks twice for the time between",
			func(clock func() time.Time) (store.Store, error) {
				return memory.New(&memory.Options{Clock: clock, MaxSkew: time.Microsecond})
			},
		},
		{
			"a clock that runs fast", "a second of the clock leaks for more than a second",
			func(clock func() time.Time) (store.Store, error) {
				return memory.New(&memory.Options{Clock: func() time.Time {
					now := clock()
					return now.Add(now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) / 50)
				}})
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var clock time.Time
			s, err := c.open(func() time.Time { return clock })
			opened(t, s, err)
			for n := range 100 {
				list := randomMoves(attack.Seed(1).Part(n).Rand(), 100)
				bad, err := replay(t.Context(), s, fmt.Sprint("key ", n), &clock, list)
				if err != nil {
					t.Fatal(err)
				}
				if bad == "" {
					continue
				}
				short, bad := shortest(t, s, &clock, list)
				t.Logf("caught after %d histories: %s\n%s", n+1, bad, lines(short))
				if len(short) > 20 {
					t.Errorf("the history has %d moves, want 20 at most", len(short))
				}
				return
			}
			t.Errorf("not caught: %s", c.why)
		})
	}
}
